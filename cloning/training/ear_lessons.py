"""How the second ear learns: to tell the speakers of the corpus apart in noise, in rooms and by short pieces."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cloning.training.data import PackedCorpus
from cloning.training.ear import N_MELS, RATE_HZ, VECTOR, Ear, crops, equal_error_rate
from cloning.training.errors import TrainingStopped
from cloning.training.losses import Resampler


@dataclass(frozen=True, slots=True)
class EarConfig:
    """One course of lessons: the margin is an angle in radians, by which the right speaker must be nearer."""

    batch: int = 128
    crop_s: float = 2.4
    learning_rate: float = 2e-3
    margin: float = 0.2
    scale: float = 30.0
    noise_share: float = 0.6
    room_share: float = 0.4
    seed: int = 1
    report_every: int = 100


Report = Callable[[dict[str, float]], None]


class Lessons:
    """An ear, the corpus it learns from, and one direction for each speaker that its vectors are drawn to.

    Source: additive angular margin, ArcFace (Deng et al. 2019), equation 3.
    """

    def __init__(self, corpus: PackedCorpus, sample_rate_hz: int, config: EarConfig) -> None:
        torch.manual_seed(config.seed)
        self.corpus, self.config, self.rate_hz = corpus, config, sample_rate_hz
        self.device = corpus.audio.device
        self.ear = Ear().to(self.device)
        self.resampler = Resampler(sample_rate_hz, RATE_HZ).to(self.device)
        self.directions = nn.Parameter(torch.randn(len(corpus.speakers), VECTOR, device=self.device) / VECTOR**0.5)
        self.optimiser = torch.optim.AdamW(
            [*self.ear.parameters(), self.directions], config.learning_rate, weight_decay=0.05
        )
        of_speaker = corpus.host_table[:, 4]
        self.order = torch.from_numpy(np.argsort(of_speaker, kind="stable")).to(self.device)
        counts = torch.from_numpy(np.bincount(of_speaker, minlength=len(corpus.speakers))).to(self.device)
        self.counts, self.firsts = counts, counts.cumsum(0) - counts

    def learn(self, seconds: float, report: Report, max_steps: int | None = None) -> None:
        """Learns for a time, at a rate that falls to nothing.

        Raises: TrainingStopped (`not_finite`) where the loss is no number.
        """
        start, step = time.monotonic(), 0
        self.ear.train()
        while max_steps is None or step < max_steps:
            spent = (time.monotonic() - start) / seconds if max_steps is None else step / max_steps
            if spent >= 1:
                break
            self._set_rate(min(1, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * spent)))
            loss, right = self._step(min(1.0, 4 * spent))
            step += 1
            if step % self.config.report_every == 0:
                if not math.isfinite(float(loss)):
                    raise TrainingStopped("not_finite", f"the ear's loss at step {step} is {float(loss)}")
                elapsed_s = time.monotonic() - start
                report({"step": step, "elapsed_s": elapsed_s, "loss": float(loss), "right": float(right)})
        self.ear.eval().requires_grad_(False)

    def _set_rate(self, factor: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.learning_rate * factor

    def _step(self, margin_share: float) -> tuple[Tensor, Tensor]:
        speakers = torch.randint(len(self.counts), (self.config.batch,), device=self.device)
        mels = self.ear.mels(self._heard(speakers))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            vectors = self.ear.embed_mels(_with_gaps(mels))
        cosines = (vectors @ F.normalize(self.directions, dim=1).T).clamp(-1 + 1e-6, 1 - 1e-6)
        own = cosines.gather(1, speakers[:, None])
        held_back = (own.acos() + margin_share * self.config.margin).cos()
        loss = F.cross_entropy(self.config.scale * cosines.scatter(1, speakers[:, None], held_back), speakers)
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimiser.step()
        return loss.detach(), (cosines.argmax(1) == speakers).float().mean()

    def _heard(self, speakers: Tensor) -> Tensor:
        """A piece of each speaker at 16 kHz, some in a room, some in noise. Shapes: int64 (B,) -> float32 (B, n)."""
        config, n = self.config, len(speakers)
        which = (torch.rand(n, device=self.device) * self.counts[speakers]).long()
        rows = self.order[self.firsts[speakers] + which]
        n_samples = int(config.crop_s * self.rate_hz)
        audio = self.resampler(crops(self.corpus, rows, n_samples, torch.rand(n, device=self.device)))
        audio = torch.where(self._chosen(n, config.room_share), _in_a_room(audio), audio)
        return torch.where(self._chosen(n, config.noise_share), _in_noise(audio), audio)

    def _chosen(self, n: int, share: float) -> Tensor:
        return torch.rand(n, 1, device=self.device) < share


def _in_a_room(audio: Tensor) -> Tensor:
    """Speech and its echoes: noise that dies away within 50 to 400 ms."""
    n_echo = RATE_HZ * 2 // 5
    t = torch.arange(n_echo, device=audio.device) / RATE_HZ
    decay_s = 0.05 + 0.35 * torch.rand(len(audio), 1, device=audio.device)
    # Down by 60 dB after `decay_s`.
    echo = torch.randn(len(audio), n_echo, device=audio.device) * torch.exp(-6.9 * t / decay_s)
    echo = F.normalize(echo, dim=1) * 0.7 * torch.rand(len(audio), 1, device=audio.device)
    echo[:, 0] += 1
    n = audio.shape[1] + n_echo
    heard: Tensor = torch.fft.irfft(torch.fft.rfft(audio, n) * torch.fft.rfft(echo, n), n)
    return heard[:, : audio.shape[1]]


def _in_noise(audio: Tensor) -> Tensor:
    """Speech in steady noise, white or falling with frequency, 5 to 40 dB under it."""
    noise = torch.fft.rfft(torch.randn_like(audio))
    frequency = torch.linspace(0.02, 1, noise.shape[1], device=audio.device)
    noise = torch.fft.irfft(noise * frequency ** -torch.rand(len(audio), 1, device=audio.device), audio.shape[1])
    ratio_db = 5 + 35 * torch.rand(len(audio), 1, device=audio.device)
    level = audio.square().mean(1, keepdim=True).sqrt() / noise.square().mean(1, keepdim=True).sqrt()
    noisy: Tensor = audio + noise * level * 10 ** (-ratio_db / 20)
    return noisy


def _with_gaps(mels: Tensor) -> Tensor:
    """One band of up to 10 mels and one time of up to 20 frames left out of each piece.

    Source: SpecAugment (Park et al. 2019), section 2.
    """
    for dimension, widest in ((1, min(10, N_MELS)), (2, 20)):
        size = mels.shape[dimension]
        start = torch.rand(len(mels), 1, device=mels.device) * size
        at = torch.arange(size, device=mels.device)
        gap = (at >= start) & (at < start + torch.rand(len(mels), 1, device=mels.device) * widest)
        mels = mels.masked_fill(gap.unsqueeze(3 - dimension), 0.0)
    return mels


@torch.no_grad()
def halves_told_apart(ear: Ear, corpus: PackedCorpus, sample_rate_hz: int) -> dict[str, float]:
    """How well the ear knows people again by the two halves of each utterance: mean cosines and equal error rate."""
    resampler = Resampler(sample_rate_hz, RATE_HZ).to(corpus.audio.device)
    rows = torch.arange(len(corpus), device=corpus.audio.device)
    shortest = int(corpus.table[:, 1].min()) * corpus.hop_length // 2
    halves = [crops(corpus, rows, shortest, torch.full_like(rows, start, dtype=torch.float32)) for start in (0.0, 1.0)]
    first, second = (ear(resampler(audio)) for audio in halves)
    cosines, speakers = first @ second.T, corpus.table[:, 4]
    own = speakers[:, None] == speakers
    same, different = cosines[own].tolist(), cosines[~own].tolist()
    return {
        "same": sum(same) / len(same),
        "different": sum(different) / max(1, len(different)),
        "equal_error_rate": equal_error_rate(same, different),
    }
