"""The packed corpus in device memory, and the order in which training walks through it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from torch import Tensor

from cloning.layers.convolutions import sequence_mask
from cloning.training.errors import CorpusError
from cloning.training.prepare import read_index, vectors_path


@dataclass(frozen=True, slots=True)
class Shape:
    """One fixed batch shape: utterances of up to `n_frames` and `n_symbols`, `batch` at a time."""

    n_frames: int
    n_symbols: int
    batch: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded utterances.

    Shapes: audio float32 (B, T * hop); token_ids, durations int64 (B, T_text); n_frames, n_symbols, speakers,
        recordings int64 (B,); aligned bool (B,), whether `durations` are the corpus's own; x_mask float32
        (B, 1, T_text), z_mask float32 (B, 1, T); d_vectors float32 (B, d), each utterance's own.
    """

    audio: Tensor
    token_ids: Tensor
    durations: Tensor
    n_frames: Tensor
    n_symbols: Tensor
    speakers: Tensor
    recordings: Tensor
    aligned: Tensor
    x_mask: Tensor
    z_mask: Tensor
    d_vectors: Tensor


class PackedCorpus:
    """Everything that training reads, on one device; a batch is gathered there without a copy from the host.

    `sources` says of each row which of the folders it came from.
    """

    def __init__(self, folders: Sequence[Path], hop_length: int, device: torch.device) -> None:
        self.hop_length = hop_length
        self.speakers: list[str] = []
        tables, vectors, sources = [], [], []
        tensors: dict[str, list[Tensor]] = {"audio": [], "ids": [], "durations": []}
        n_audio = n_ids = 0
        for source, n_speakers, path in self._parts(folders):
            part = load_file(path)
            table = part["table"].copy()
            table[:, 0] += n_audio
            table[:, 2] += n_ids
            table[:, 4] += n_speakers
            sources.append(np.full(len(table), source))
            n_audio, n_ids = n_audio + len(part["audio"]), n_ids + len(part["ids"])
            tables.append(table)
            vectors.append(load_file(vectors_path(path))["vectors"])
            for name, pieces in tensors.items():
                pieces.append(torch.from_numpy(part[name]).to(device))
        self.audio, self.ids, self.durations = (torch.cat(tensors[n]) for n in ("audio", "ids", "durations"))
        self.host_table: NDArray[np.int64] = np.concatenate(tables)
        self.sources: NDArray[np.int64] = np.concatenate(sources)
        self.table = torch.from_numpy(self.host_table).to(device)
        self.vectors = torch.from_numpy(np.concatenate([v for v in vectors if len(v)])).to(device)
        sums = torch.zeros(len(self.speakers), self.vectors.shape[1], device=device)
        self.speaker_vectors = torch.nn.functional.normalize(sums.index_add_(0, self.table[:, 4], self.vectors), dim=1)

    def _parts(self, folders: Sequence[Path]) -> Iterator[tuple[int, int, Path]]:
        """Of each part, which folder it is of, how many speakers there were before that, and its path."""
        for source, folder in enumerate(folders):
            index, n_speakers = read_index(folder), len(self.speakers)
            self.speakers += cast(list[str], index["speakers"])
            for name in cast(list[str], index["parts"]):
                yield source, n_speakers, folder / name

    def __len__(self) -> int:
        return len(self.host_table)

    def batch(self, rows: Tensor, shape: Shape) -> Batch:
        """The utterances of the given rows. Shapes: rows int64 (B,)."""
        row = self.table[rows]
        audio = self._gather(self.audio, row[:, 0], row[:, 1] * self.hop_length, shape.n_frames * self.hop_length)
        return Batch(
            audio=audio.float() / 32768,
            token_ids=self._gather(self.ids, row[:, 2], row[:, 3], shape.n_symbols).long(),
            durations=self._gather(self.durations, row[:, 2], row[:, 3], shape.n_symbols).long(),
            n_frames=row[:, 1],
            n_symbols=row[:, 3],
            speakers=row[:, 4],
            recordings=row[:, 5],
            aligned=row[:, 6].bool(),
            x_mask=sequence_mask(row[:, 3], shape.n_symbols),
            z_mask=sequence_mask(row[:, 1], shape.n_frames),
            d_vectors=self.vectors[rows],
        )

    @staticmethod
    def _gather(source: Tensor, start: Tensor, length: Tensor, width: int) -> Tensor:
        at = torch.arange(width, device=start.device)
        return source[(start[:, None] + at).clamp(max=len(source) - 1)] * (at[None] < length[:, None])


@dataclass(frozen=True, slots=True)
class Draw:
    """One step's work: which shape, which rows, and for each row another utterance of its speaker."""

    shape: int
    rows: NDArray[np.int64]
    companions: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each utterance is met.

    `aligned_share` is the share of those that come with their own alignment; `own_share`, where it is given, the
    share of the first of several corpora.
    """

    balance: float = 0.5
    aligned_share: float = 0.35
    own_share: float | None = None

    def kinds(self, corpus: PackedCorpus) -> Iterator[tuple[NDArray[np.bool_], float]]:
        """Kinds of utterances, and the share of each. Shapes: bool (n,) of all utterances."""
        aligned, own = corpus.host_table[:, 6] == 1, corpus.sources == 0
        others = np.ones_like(own)
        if self.own_share is not None:
            yield own, self.own_share
            others = ~own
        rest = 1.0 - (self.own_share or 0.0)
        yield others & aligned, rest * self.aligned_share
        yield others & ~aligned, rest * (1 - self.aligned_share)


class Sampler:
    """What each step learns from: a function of the step alone, so that a stopped run goes on as if it had not been.

    All ranks walk through the same shapes, each with rows of its own. A speaker with n utterances is met
    n ** (1 - balance) times as often as one with a single utterance, so that the many who said little are heard.
    """

    def __init__(self, corpus: PackedCorpus, shapes: tuple[Shape, ...], seed: int, rank: int, mix: Mix) -> None:
        self.shapes, self.seed, self.rank = shapes, seed, rank
        self.speaker_of: NDArray[np.int64] = corpus.host_table[:, 4]
        self.by_speaker = [np.flatnonzero(self.speaker_of == s) for s in range(len(corpus.speakers))]
        weight = np.array([len(self.by_speaker[s]) for s in self.speaker_of], np.float64) ** -mix.balance
        for of_kind, share in mix.kinds(corpus):
            weight[of_kind] *= share / max(weight[of_kind].sum(), 1e-12)
        place = placement(corpus.host_table, shapes)
        self.members = [np.flatnonzero(place == i) for i in range(len(shapes))]
        self.sums = [np.cumsum(weight[m]) for m in self.members]
        chance = np.array([s[-1] / shape.batch if len(s) else 0.0 for s, shape in zip(self.sums, shapes, strict=True)])
        if not chance.sum():
            longest = shapes[-1]
            raise CorpusError(
                "nothing_to_learn",
                f"none of {len(place)} utterances fits {longest.n_frames} frames and {longest.n_symbols} symbols",
            )
        self.chance = chance / chance.sum()

    def draw(self, step: int) -> Draw:
        """The work of one step."""
        common, own = np.random.default_rng((self.seed, step)), np.random.default_rng((self.seed, step, self.rank + 1))
        i = int(common.choice(len(self.shapes), p=self.chance))
        at = np.searchsorted(self.sums[i], own.random(self.shapes[i].batch) * self.sums[i][-1], side="right")
        rows = self.members[i][at.clip(max=len(self.members[i]) - 1)]
        companions = np.array([own.choice(self.by_speaker[s]) for s in self.speaker_of[rows]])
        return Draw(i, rows, companions)


def placement(table: NDArray[np.int64], shapes: tuple[Shape, ...]) -> NDArray[np.int64]:
    """The first shape that each row fits, -1 where none does. Shapes: table int64 (n, 7) -> int64 (n,)."""
    place = np.full(len(table), -1)
    for i in range(len(shapes) - 1, -1, -1):
        place[(table[:, 1] <= shapes[i].n_frames) & (table[:, 3] <= shapes[i].n_symbols)] = i
    return place
