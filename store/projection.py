"""Vectors on a plane, for people to look at. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from store.types import FloatArray

_N_AXES = 2


@dataclass(frozen=True, slots=True)
class Projection:
    """Shapes: points float64 (n, 2). `explained` is each axis' share of how the vectors differ."""

    points: NDArray[np.float64]
    explained: tuple[float, float]


def project(vectors: FloatArray) -> Projection:
    """The vectors on their two principal axes: of all planes the one on which they lie farthest apart.

    The same vectors give the same picture, turned the same way. Shapes: vectors float32 (n, d).
    """
    points = np.zeros((len(vectors), _N_AXES))
    if len(vectors) < _N_AXES:
        return Projection(points, (0.0, 0.0))
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    spread, axes = np.linalg.eigh(centred.T @ centred)
    first = axes[:, ::-1][:, :_N_AXES]
    points[:, : first.shape[1]] = centred @ _turned(first)
    total = float(np.square(centred).sum())
    shares = [float(value) / total if total > 0 else 0.0 for value in spread[::-1][:_N_AXES]]
    largest, second = (min(max(share, 0.0), 1.0) for share in (*shares, 0.0)[:_N_AXES])
    return Projection(points, (largest, second))


def _turned(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The axes with their greatest component positive: an eigenvector's sign is nobody's choice."""
    greatest = np.abs(axes).argmax(axis=0)
    return np.asarray(axes * np.where(axes[greatest, np.arange(axes.shape[1])] < 0, -1.0, 1.0))
