"""Curves and sounds of a run for TensorBoard, where its writer is installed (extra `train`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from torch import Tensor


class Board(Protocol):
    """Where a run shows itself."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point on each curve."""

    def sound(self, step: int, name: str, samples: Tensor, sample_rate: int) -> None:
        """Something to listen to. Shapes: samples float32 (n,) in [-1, 1]."""

    def close(self) -> None:
        """Everything is on the disk when this returns."""


class NoBoard:
    """Shows nothing; the log file has the same figures."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Nothing."""

    def sound(self, step: int, name: str, samples: Tensor, sample_rate: int) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class TensorBoard:
    """Event files that `tensorboard --logdir FOLDER` reads."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point on each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def sound(self, step: int, name: str, samples: Tensor, sample_rate: int) -> None:
        """Something to listen to."""
        self._writer.add_audio(name, samples, step, sample_rate)

    def close(self) -> None:
        """Writes what is still in memory."""
        self._writer.close()


def open_board(folder: Path) -> Board:
    """TensorBoard's writer if it is installed."""
    try:
        return TensorBoard(folder)
    except ModuleNotFoundError:
        return NoBoard()
