"""Devices by their names, on machines with so many of them."""

import pytest
import torch

from cloning.engines.choice import device_of
from cloning.errors import EngineError


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_devices")
def test_a_device_has_a_number_also_where_none_was_named() -> None:
    # torch bounds the memory of numbered devices only.
    assert device_of("cuda") == torch.device("cuda", 0)
    assert device_of("cuda:1") == torch.device("cuda", 1)
    assert device_of("cpu") == torch.device("cpu")


@pytest.mark.usefixtures("two_devices")
def test_a_number_that_no_device_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(EngineError, match="no device 'cuda:7'; this machine has cuda:0, cuda:1") as caught:
        device_of("cuda:7")
    assert caught.value.code == "engine_unavailable"


def test_without_cuda_the_cpu_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match="no CUDA device was found for 'cuda:1'; use `cpu`"):
        device_of("cuda:1")
