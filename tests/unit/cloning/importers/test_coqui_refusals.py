"""Checkpoints that must not be brought, and what is said of them. Group P of the hard inputs."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coqui_samples import COQUI, copied, edit_json, edit_tensors, read
from torch import Tensor

from cloning.errors import BundleError


def refused(folder: Path, code: str, *words: str, **more: Any) -> str:
    with pytest.raises(BundleError) as caught:
        read(folder, **more)
    assert caught.value.code == code, caught.value.message
    for word in words:
        assert word in caught.value.message
    return caught.value.message


class Malicious:
    """Leaves a trace where it is executed."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (Path.touch, (self.trace,))


def test_pickle_with_code_is_refused_and_never_run(tmp_path) -> None:
    folder, trace = copied(tmp_path, "single"), tmp_path / "trace"
    torch.save(
        {"model": {"text_encoder.emb.weight": torch.ones(2)}, "extra": Malicious(trace)}, folder / "model_file.pth"
    )
    refused(folder, "bundle_corrupt", "model_file.pth", "only tensors and plain containers")
    assert not trace.exists()


def test_plain_pickle_with_code_is_refused_and_never_run(tmp_path) -> None:
    folder, trace = copied(tmp_path, "single"), tmp_path / "trace"
    (folder / "model_file.pth").write_bytes(pickle.dumps({"model": Malicious(trace)}, protocol=2))
    refused(folder, "bundle_corrupt", "model_file.pth")
    assert not trace.exists()


def test_objects_among_the_tensors_are_refused(tmp_path) -> None:
    folder = copied(tmp_path, "single")
    edit_tensors(folder, lambda table: table.update({"step": 7}))
    refused(folder, "bundle_corrupt", "step is a int")


def test_single_speaker_weights_under_a_multi_speaker_config(tmp_path) -> None:
    folder = copied(tmp_path, "yourtts")

    def drop(table: dict[str, Tensor]) -> None:
        for name in [name for name in table if "cond" in name]:
            del table[name]

    edit_tensors(folder, drop)
    refused(folder, "bundle_mismatch", "missing", "cond_layer.weight", "duration_predictor.cond.weight")


def test_multi_speaker_weights_under_a_single_speaker_config(tmp_path) -> None:
    folder = copied(tmp_path, "multi")
    edit_json(folder / "config.json", lambda data: data["model_args"].update(use_d_vector_file=False))
    edit_json(folder / "config.json", lambda data: data.update(use_d_vector_file=False))
    refused(folder, "bundle_mismatch", "unknown", "cond")


def table_of_speakers(folder: Path, n_rows: int = 3) -> None:
    """The multi-speaker voice as if it had learned a table of speakers."""

    def add(table: dict[str, Tensor]) -> None:
        table["emb_g.weight"] = torch.randn(n_rows, 12, generator=torch.Generator().manual_seed(1))

    def name(data: dict[str, Any]) -> None:
        data["model_args"] |= {"use_d_vector_file": False, "use_speaker_embedding": True, "speakers_file": "x"}
        data["use_d_vector_file"] = False

    edit_tensors(folder, add)
    edit_json(folder / "config.json", name)
    (folder / "speakers.json").write_text('{"ada": 0, "bob": 1, "eve": 2}')


def test_a_table_of_speakers_asks_for_one_and_gives_its_voice(tmp_path) -> None:
    folder = copied(tmp_path, "multi")
    table_of_speakers(folder)
    refused(folder, "bundle_mismatch", "table of 3 speakers", "--speaker", "ada, bob, eve")
    refused(folder, "bundle_mismatch", "ada, bob, eve", speaker="mallory")
    ada, bob = (read(folder, d_vector=256, speaker=name) for name in ("ada", "bob"))
    assert ada.config.speaker.width == 1
    name = "flow.couplings.0.wavenet.condition"
    assert not ada.weights[f"{name}.weight"].any()
    row = torch.load(folder / "model_file.pth", weights_only=True)["model"]
    stem = "flow.flows.0.enc.cond_layer"
    v, g = (row[f"{stem}.parametrizations.weight.original{i}"] for i in (1, 0))
    bias = row[f"{stem}.bias"] + torch._weight_norm(v, g, 0)[:, :, 0] @ row["emb_g.weight"][0]
    torch.testing.assert_close(ada.weights[f"{name}.bias"], bias)
    assert not torch.allclose(ada.weights[f"{name}.bias"], bob.weights[f"{name}.bias"])


def test_other_count_of_speakers(tmp_path) -> None:
    folder = copied(tmp_path, "multi")
    table_of_speakers(folder, n_rows=4)
    refused(folder, "bundle_mismatch", "3 speakers are named", "4 rows", speaker="ada")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda data: data["audio"].update(hop_length=32), ("multiply to 16", "is 32")),
        (lambda data: data["audio"].update(fft_size=128), ("makes 65 bins", "takes 33")),
        (lambda data: data["audio"].update(sample_rate="fast"), ("audio.sample_rate", "'fast'")),
        (lambda data: data["characters"].update(punctuations="!?"), ("table has 56 symbols", "embeds 65")),
        (lambda data: data["model_args"].update(hidden_channels=10), ("(65, 8)", "(65, 10)")),
        (lambda data: data["model_args"].update(d_vector_dim=256), ("has a d-vector of 512 numbers", "asks for 256")),
        (lambda data: data["model_args"].update(num_layers_text_encoder=3), ("missing", "attn_layers.2.conv_q")),
        (lambda data: data["model_args"].update(num_layers_text_encoder=1), ("unknown", "attn_layers.1.conv_k")),
        (lambda data: data.update(model="xtts"), ("'xtts'",)),
        (lambda data: data.pop("audio"), ("audio", "missing")),
        (lambda data: data.update(text_cleaner="klingon_cleaners"), ("text_cleaner", "klingon")),
        (lambda data: data["model_args"].update(encoder_sample_rate=22050), ("encoder_sample_rate",)),
    ],
)  # fmt: skip
def test_configs_at_odds_with_the_tensors(tmp_path, edit, words) -> None:
    folder = copied(tmp_path, "yourtts")
    edit_json(folder / "config.json", edit)
    refused(folder, "bundle_mismatch", *words)


def test_encoder_of_another_width(tmp_path) -> None:
    refused(COQUI / "yourtts", "bundle_mismatch", "d-vectors of 512", "makes 256", d_vector=256)


@pytest.mark.parametrize("name", ["config.json", "language_ids.json", "speakers.json", "model_file.pth"])
def test_missing_files_are_named(tmp_path, name: str) -> None:
    folder = copied(tmp_path, "yourtts")
    (folder / name).unlink()
    refused(folder, "bundle_missing", "speakers" if name == "speakers.json" else name)


def test_empty_folder(tmp_path) -> None:
    refused(tmp_path, "bundle_missing", "config.json", d_vector=512)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cut short or damaged"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
        (b"<!DOCTYPE html><html>404</html>", "web page"),
        (b"", "empty"),
    ],
    ids=["cut", "lfs", "html", "empty"],
)
def test_files_that_are_something_else(tmp_path, content: bytes | None, words: str) -> None:
    folder = copied(tmp_path, "yourtts")
    path = folder / "model_file.pth"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 9 // 10] if content is None else content)
    refused(folder, "bundle_corrupt", "model_file.pth", words)


def test_half_of_a_weight_norm(tmp_path) -> None:
    folder = copied(tmp_path, "yourtts")
    name = "flow.flows.0.enc.cond_layer.parametrizations.weight.original0"
    edit_tensors(folder, lambda table: table.pop(name))
    refused(folder, "bundle_mismatch", name)


def test_values_that_are_not_finite(tmp_path) -> None:
    folder = copied(tmp_path, "yourtts")
    edit_tensors(folder, lambda table: table["emb_l.weight"].fill_(float("nan")))
    refused(folder, "bundle_corrupt", "emb_l.weight", "not finite")


def test_speakers_in_a_pickle_are_read_and_checked(tmp_path) -> None:
    folder = copied(tmp_path, "multi")
    (folder / "speakers.json").unlink()
    torch.save({"clip.wav": {"name": "ada", "embedding": [0.0] * 12}}, folder / "speakers.pth")
    assert read(folder).config.speaker.d_vector == 12
    torch.save({"clip.wav": {"name": "ada", "embedding": [0.0] * 9}}, folder / "speakers.pth")
    refused(folder, "bundle_mismatch", "speakers.pth", "9 numbers", "asks for 12")


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("model_args", "hidden_channels"), ("model_args", "num_layers_flow"), ("model_args", "num_heads_text_encoder"),
        ("model_args", "dropout_p_duration_predictor"), ("model_args", "resblock_dilation_sizes_decoder"),
        ("model_args", "upsample_rates_decoder"), ("model_args", "d_vector_dim"), ("audio", "hop_length"),
        ("characters", "vocab_dict"), ("characters", "punctuations"), (None, "audio"), (None, "model_args"),
    ],
)  # fmt: skip
def test_fields_of_any_kind_are_read_or_refused(tmp_path, section: str | None, field: str) -> None:
    folder = copied(tmp_path, "yourtts")
    whole = (folder / "config.json").read_text()
    for value in (None, "x", -1, 1.5, [], {}, True, 10**9, [[None]], [{"a": 1}]):
        edit_json(folder / "config.json", lambda data, v=value: (data[section] if section else data).update({field: v}))
        try:
            read(folder)
        except BundleError as refusal:
            assert refusal.message
        (folder / "config.json").write_text(whole)


def test_changed_bytes_are_refused_or_harmless(tmp_path) -> None:
    folder, random = copied(tmp_path, "single"), np.random.default_rng(0)
    path = folder / "model_file.pth"
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    for n_changed in (1, 20, 2000) * 8:
        changed = whole.copy()
        changed[random.integers(0, len(whole), n_changed)] = random.integers(0, 256, n_changed)
        path.write_bytes(changed.tobytes())
        try:
            read(folder)
        except BundleError as refusal:
            assert refusal.code in ("bundle_corrupt", "bundle_mismatch")


@pytest.mark.parametrize("entry", [5, None, {"embedding": 5}, {"embedding": None}, {"embedding": "x"}, []])
def test_speakers_without_a_vector(tmp_path, entry: object) -> None:
    folder = copied(tmp_path, "multi")
    edit_json(folder / "speakers.json", lambda data: data.update({"odd.wav": entry}))
    refused(folder, "bundle_mismatch", "odd.wav", "0 numbers")
