"""The run: which step comes next, at which rate, for how long; graphs, reports and stops."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed import broadcast, get_rank

from cloning.training.config import Schedule
from cloning.training.data import Draw, Sampler
from cloning.training.errors import TrainingStopped
from cloning.training.learner import LOSSES, Learner

# One bad batch in a hundred is a rare utterance; more is a run that is falling apart.
MOST_SKIPPED = 0.1


@dataclass(slots=True)
class Progress:
    """How far a voice has come, over all slices."""

    step: int = 0
    elapsed_s: float = 0.0


def rate_factor(schedule: Schedule, step: int, elapsed_s: float) -> float:
    """Share of the full learning rate: a warm-up of the new optimisers, then flat, then half a cosine to the floor."""
    share = min(1.0, elapsed_s / schedule.total_s)
    turn = max(0.0, share - schedule.flat_share) / (1 - schedule.flat_share)
    warm = min(1.0, (step + 1) / schedule.warmup_steps)
    return warm * max(schedule.floor, 0.5 * (1 + math.cos(math.pi * turn)))


class Trainer:
    """Walks a learner through its steps. `on_report` is given each report, on the first rank only."""

    def __init__(
        self, learner: Learner, progress: Progress, log: Path, on_report: Callable[[dict[str, float]], None]
    ) -> None:
        self.learner, self.progress, self.log, self.on_report = learner, progress, log, on_report
        self.rank = get_rank() if learner.n_ranks > 1 else 0
        train = learner.train
        self.sampler = Sampler(learner.corpus, train.shapes, train.seed, self.rank, train.mix)
        self.graphs = Graphs(learner) if learner.device.type == "cuda" else None

    def fit(self, seconds: float, max_steps: int | None = None) -> None:
        """Trains for a time, or for a number of steps if that comes first.

        Raises: TrainingStopped (`not_finite`) where too many gradients are no numbers; until then their steps are
        left out.
        """
        start, first = time.monotonic(), self.progress.step
        spent_before, reported_at = self.progress.elapsed_s, time.monotonic()
        every = self.learner.train.report_every
        while max_steps is None or self.progress.step - first < max_steps:
            spent = self.agree(time.monotonic() - start) if (self.progress.step - first) % every == 0 else None
            if spent is not None:
                self.progress.elapsed_s = spent_before + spent
                if spent >= seconds:
                    break
            self._set_rates()
            self._step(self.sampler.draw(self.progress.step))
            self.progress.step += 1
            if self.progress.step % every == 0:
                now = time.monotonic()
                self._report(every / (now - reported_at), spent_before + now - start)
                reported_at = now

    def release(self) -> None:
        """Gives the captured graphs back; after it, steps run one operation at a time."""
        self.graphs = None
        if self.learner.device.type == "cuda":
            torch.cuda.synchronize()

    def agree(self, value: float) -> float:
        """The first rank's figure on every rank, so that clocks cannot drive them apart."""
        if self.learner.n_ranks == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=self.learner.device)
        broadcast(shared, 0)
        return float(shared)

    def _set_rates(self) -> None:
        learner, schedule = self.learner, self.learner.train.schedule
        factor = rate_factor(schedule, self.progress.step, self.progress.elapsed_s)
        for side in (learner.voice_side, learner.judge_side):
            side.set_rate(factor)
        learner.searched_durations.fill_(float(self.progress.step >= schedule.duration_from))
        learner.own_alignments.fill_(self.progress.step < schedule.aligned_until)

    def _step(self, draw: Draw) -> None:
        schedule, step = self.learner.train.schedule, self.progress.step
        # The noise of a step, too, is a function of the step alone.
        torch.manual_seed((self.learner.train.seed * self.learner.n_ranks + self.rank) * 10_000_019 + step)
        adversary = step >= schedule.adversary_from
        conversion = step >= schedule.conversion_from and step % schedule.conversion_every == 0
        rows, companions = torch.from_numpy(draw.rows), torch.from_numpy(draw.companions)
        if self.graphs is not None:
            self.graphs.step(draw.shape, rows, companions, adversary, conversion)
            return
        shape = self.learner.train.shapes[draw.shape]
        self.learner.step(shape, rows, companions, adversary, conversion)

    def _report(self, steps_per_s: float, elapsed_s: float) -> None:
        *sums, taken, skipped = self.learner.sums.tolist()
        self.learner.sums.zero_()
        report = {"step": self.progress.step, "elapsed_s": elapsed_s, "steps_per_s": steps_per_s, "skipped": skipped}
        report |= {name: value / max(1.0, taken) for name, value in zip(LOSSES, sums, strict=True)}
        if self.rank == 0:
            rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in report.items()}
            with self.log.open("a") as log:
                log.write(json.dumps(rounded) + "\n")
            self.on_report(rounded)
        if skipped > MOST_SKIPPED * (taken + skipped):
            raise TrainingStopped(
                "not_finite",
                f"{skipped:.0f} of the {taken + skipped:.0f} steps up to step {self.progress.step} gave gradients "
                "that are no numbers; try a lower learning rate",
            )


class Graphs:
    """Whole steps as CUDA graphs, one for each shape and phase; they share one pool of memory."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.inputs: dict[int, tuple[Tensor, Tensor]] = {}
        self.captured: dict[tuple[int, bool, bool], torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, shape: int, rows: Tensor, companions: Tensor, adversary: bool, conversion: bool) -> None:
        """One update, by replay; the first of its kind runs twice eagerly, which also counts, and is then captured."""
        if shape not in self.inputs:
            self.inputs[shape] = rows.to(self.learner.device), companions.to(self.learner.device)
        for fixed, new in zip(self.inputs[shape], (rows, companions), strict=True):
            fixed.copy_(new)
        key = (shape, adversary, conversion)
        if key not in self.captured:
            self.captured[key] = self._capture(*key)
        self.captured[key].replay()

    def _capture(self, shape: int, adversary: bool, conversion: bool) -> torch.cuda.CUDAGraph:
        learner = self.learner
        arguments = (learner.train.shapes[shape], *self.inputs[shape], adversary, conversion)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                learner.step(*arguments)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        for trained in (learner.voice_side, learner.judge_side):
            trained.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        # Other threads (of the collective library) may call the driver while this one captures.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            learner.step(*arguments)
        return graph
