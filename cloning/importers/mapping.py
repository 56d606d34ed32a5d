"""Tensors of a foreign network, taken by name and shape; what does not fit is gathered and refused at once."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from cloning.errors import BundleError

_NAMED = 8
# How weight normalisation is spelt: magnitude and direction, before and since torch 2.0.
_NORMED = ((".weight_g", ".weight_v"), (".parametrizations.weight.original0", ".parametrizations.weight.original1"))


def fold_weight_norm(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same table with each normed weight as one tensor, whichever names its two parts have.

    Raises: BundleError `bundle_mismatch` where one of the parts is missing.
    Source: Salimans and Kingma 2016, "Weight Normalization", equation 2, for each output channel.
    """
    folded = dict(tensors)
    for magnitude, direction in _NORMED:
        for name in [name for name in tensors if name.endswith((magnitude, direction))]:
            stem = name.removesuffix(magnitude).removesuffix(direction)
            g, v = folded.pop(stem + magnitude, None), folded.pop(stem + direction, None)
            if g is None and v is None:
                continue  # both went with the other half
            if g is None or v is None:
                missing = magnitude if g is None else direction
                raise BundleError("bundle_mismatch", f"missing tensor {stem}{missing}: its other half is there")
            norm = v.float().flatten(1).norm(dim=1).view(-1, *[1] * (v.ndim - 1))
            folded[f"{stem}.weight"] = v.float() * (g.float() / norm.clamp(min=torch.finfo(torch.float32).tiny))
    return folded


class Tensors:
    """A table that notes what was taken, what was missing and what had another shape."""

    def __init__(self, table: Mapping[str, Tensor]) -> None:
        self._table = fold_weight_norm(table)
        self._taken: set[str] = set()
        self._missing: list[str] = []
        self._misshapen: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; of none, ()."""
        return tuple(self._table[name].shape) if name in self._table else ()

    def names(self, prefix: str) -> Iterator[str]:
        return (name for name in self._table if name.startswith(prefix))

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A tensor in the shape that is asked for, which may differ in axes of size 1 only.

        What is missing or misshapen is noted for `close`; zeros stand for it until then.
        """
        self._taken.add(name)
        found = self._table.get(name)
        if found is None:
            self._missing.append(name)
            return torch.zeros(shape)
        if _squeezed(tuple(found.shape)) != _squeezed(shape):
            self._misshapen.append(f"{name} has shape {tuple(found.shape)}, config.json asks for {shape}")
            return torch.zeros(shape)
        return found.float().reshape(shape)

    def leave(self, *prefixes: str) -> int:
        """Tensors that speaking does not need; how many there are."""
        left = [name for name in self._table if name.startswith(prefixes)]
        self._taken.update(left)
        return len(left)

    def close(self) -> None:
        """Raises: BundleError `bundle_mismatch`, naming what is missing, misshapen or unknown."""
        unknown = sorted(self._table.keys() - self._taken)
        faults = [
            f"{len(found)} {words}: {_listed(found)}"
            for found, words in (
                (self._missing, "missing"), (self._misshapen, "of another shape"), (unknown, "unknown"),
            )
            if found
        ]  # fmt: skip
        if faults:
            raise BundleError("bundle_mismatch", f"the checkpoint's tensors do not fit: {'; '.join(faults)}")


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
