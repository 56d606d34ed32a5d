"""Training checkpoints hold NumPy numbers beside their tensors; those are read, other NumPy things are not."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from cloning.errors import BundleError
from cloning.importers.checkpoint import read_pickle, read_tensors


@pytest.mark.parametrize("number", [np.float64(1.5), np.float32(2.5), np.int64(3), np.bool_(True)])
def test_numpy_numbers_do_not_keep_a_checkpoint_out(tmp_path: Path, number: np.generic) -> None:
    path = tmp_path / "model_file.pth"
    torch.save({"model": {"w": torch.ones(2)}, "model_loss": number, "step": 7}, path)
    assert torch.equal(read_tensors(path)["w"], torch.ones(2))
    assert read_pickle(path)["model_loss"] == number


def test_the_name_that_numpy_1_wrote_is_read_too(tmp_path: Path) -> None:
    path, old = tmp_path / "model_file.pth", tmp_path / "old.pth"
    torch.save({"model": {"w": torch.ones(2)}, "model_loss": np.float64(1.5)}, path)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert read_pickle(old)["model_loss"] == 1.5


@pytest.mark.parametrize("thing", [np.array([1.0, 2.0]), np.array(["a"], dtype=object), np.datetime64("2026-01-01")])
def test_other_numpy_things_are_refused(tmp_path: Path, thing: object) -> None:
    path = tmp_path / "model_file.pth"
    torch.save({"model": {"w": torch.ones(2)}, "extra": thing}, path)
    with pytest.raises(BundleError) as caught:
        read_tensors(path)
    assert caught.value.code == "bundle_corrupt"
