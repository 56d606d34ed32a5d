"""One slice of a training run, from its settings to its exports."""

import dataclasses
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cloning import bundle
from cloning.config import VoiceConfig
from cloning.text.frontend import DEFAULT_KIND
from cloning.text.phonemes import EnglishPhonemes
from cloning.text.symbols import SymbolTable
from cloning.training.board import open_board
from cloning.training.config import Schedule, TrainConfig, Weights
from cloning.training.data import Mix, PackedCorpus, Shape
from cloning.training.ear import load_ear
from cloning.training.errors import TrainingStopped
from cloning.training.learner import Learner
from cloning.training.listening import averaged, length_bias, listen
from cloning.training.losses import SpeakerNetwork
from cloning.training.recipes import RECIPES
from cloning.training.state import load_state, load_weights, save_state, save_unspoken
from cloning.training.trainer import Progress, Trainer


@dataclass(frozen=True, slots=True)
class Slice:
    """What a slice is asked to do; `settings` is JSON that differs from `TrainConfig`.

    `recipe` names the networks; `same` are those of the voice in `start_from`.
    """

    packs: tuple[Path, ...]
    out: Path
    recipe: str
    seconds: float
    total_s: float
    start_from: Path | None
    unspoken: Path | None
    export_every_s: float
    settings: str
    sentences: tuple[str, ...]
    ear: Path | None = None


def choose_device(rank: int, n_ranks: int, port: int) -> torch.device:
    """This rank's device, with the ranks introduced to each other at a loopback port."""
    if not torch.cuda.is_available():
        device = torch.device("cpu")
    else:
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    if n_ranks > 1:
        backend, device_id = ("nccl", device) if device.type == "cuda" else ("gloo", None)
        torch.distributed.init_process_group(
            backend, f"tcp://127.0.0.1:{port}", rank=rank, world_size=n_ranks, device_id=device_id
        )
    return device


def train_slice(
    plan: Slice, network: SpeakerNetwork, encoder_id: str, device: torch.device, rank: int, n_ranks: int
) -> None:
    """Trains, listens, exports and saves; goes on from the state in `plan.out` if there is one.

    Raises: TrainingStopped (`not_finite`), with the last good state kept.
    """
    voice = _voice(plan, encoder_id)
    corpus = PackedCorpus(plan.packs, voice.audio.hop_length, device)
    ear = load_ear(plan.ear, device) if plan.ear else None
    learner = Learner(voice, train_config(plan.settings, plan.total_s), corpus, network, n_ranks, ear)
    progress = Progress()
    if (plan.out / "state.safetensors").exists():
        progress = load_state(plan.out, learner)
    elif plan.start_from is not None and plan.unspoken is not None:
        load_weights(plan.start_from, plan.unspoken, learner)
    reporter = Reporter(plan, learner, network) if rank == 0 else None
    trainer = Trainer(learner, progress, plan.out / "log.jsonl", reporter.losses if reporter else lambda _: None)
    end = time.monotonic() + plan.seconds
    while (left := trainer.agree(end - time.monotonic())) > 1:
        trainer.fit(min(left, plan.export_every_s or left))
        if reporter:
            reporter.report(progress)
    if reporter:
        save_state(plan.out, learner, progress)
        reporter.board.close()
    if n_ranks > 1:
        # The group cannot be taken down while a captured graph still holds its collectives.
        trainer.release()
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _voice(plan: Slice, encoder_id: str) -> VoiceConfig:
    if plan.recipe == "same" and plan.start_from is not None:
        return bundle.load_info(plan.start_from).voice
    return RECIPES[plan.recipe](encoder_id)


def check_teachable(voice: VoiceConfig, encoder_id: str) -> None:
    """Raises: TrainingStopped (`bad_settings`) for a voice that this trainer cannot go on with, with the reason."""
    if voice.text.front_end != DEFAULT_KIND:
        reason = f"it reads {voice.text.front_end!r}, the trainer writes {DEFAULT_KIND!r}"
    elif voice.encoder_id != encoder_id:
        reason = f"its d-vectors are of {voice.encoder_id}, the trainer's of {encoder_id}"
    elif voice.decoder.kind != "istft":
        reason = f"its decoder is {voice.decoder.kind!r}, the trainer knows 'istft'"
    else:
        return
    raise TrainingStopped("bad_settings", f"the voice {voice.name} cannot be taught here: {reason}")


def merged(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others in place of their like; groups of settings are joined."""
    grouped = {n: merged(settings[n], v) for n, v in more.items() if isinstance(v, dict) and n in settings}
    return dict(settings) | dict(more) | grouped


def train_config(settings: str, total_s: float) -> TrainConfig:
    """The recipe's settings with those of a JSON object in place of their like.

    Raises: TrainingStopped (`bad_settings`) for a name that does not exist.
    """
    values: dict[str, Any] = dict(json.loads(settings))
    if "shapes" in values:
        values["shapes"] = tuple(Shape(*s) for s in values["shapes"])
    try:
        values["mix"] = Mix(**values.get("mix", {}))
        values["weights"] = Weights(**values.get("weights", {}))
        values["schedule"] = Schedule(**({"total_s": total_s} | values.get("schedule", {})))
        return TrainConfig(**values)
    except TypeError as error:
        raise TrainingStopped("bad_settings", f"training settings: {error}") from error


def print_report(report: Mapping[str, float]) -> None:
    """A line for whoever watches."""
    print(" ".join(f"{name} {value}" for name, value in report.items()), flush=True)  # noqa: T201  # it is the report


class Reporter:
    """Listens to the averaged voice and writes it out as a bundle, on the first rank."""

    def __init__(self, plan: Slice, learner: Learner, network: SpeakerNetwork) -> None:
        self.plan, self.learner, self.network = plan, learner, network
        self.board = open_board(plan.out / "board")
        phonemes, table = EnglishPhonemes(), SymbolTable(learner.voice.text.symbols)
        self.sentences = [list(table.ids(phonemes.phonemes(s))) for s in plan.sentences]
        held_out = plan.packs[-1] / "held-out"
        self.vectors: Tensor | None = None
        if (held_out / "pack.json").exists():
            self.vectors = PackedCorpus([held_out], learner.voice.audio.hop_length, learner.device).speaker_vectors

    def losses(self, report: Mapping[str, float]) -> None:
        """The trainer's own report, for whoever watches and for the board."""
        print_report(report)
        step = int(report["step"])
        self.board.scalars(step, {f"train/{n}": v for n, v in report.items() if n != "step"})

    def report(self, progress: Progress) -> None:
        """Likeness to people who are held out, their speech as files, and the bundle."""
        if self.vectors is not None:
            at = {"step": progress.step, "elapsed_s": round(progress.elapsed_s, 1)}
            line = at | self._listen(self.vectors, progress)
            with (self.plan.out / "log.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")
            print_report(line)
            self.board.scalars(progress.step, {f"held-out/{n}": v for n, v in line.items() if n != "step"})
        self.export()

    def _listen(self, vectors: Tensor, progress: Progress) -> dict[str, float]:
        import soundfile

        heard = listen(self.learner, vectors, self.sentences, per_speaker=2)
        own = torch.stack([self._embed(h.samples) for h in heard])
        cosines = own @ vectors.T
        speakers = torch.tensor([h.speaker for h in heard], device=own.device)
        rate = self.learner.voice.audio.sample_rate
        for h in heard[:: max(1, len(heard) // 4)]:
            name = f"heard-{progress.step:06d}-{h.speaker}-{h.sentence}.flac"
            samples = h.samples.clamp(-1, 1)
            soundfile.write(self.plan.out / name, samples.numpy(), rate)
            self.board.sound(progress.step, f"held-out/{h.speaker}-{h.sentence}", samples, rate)
        return {
            "held_out_cosine": round(float(cosines.gather(1, speakers[:, None]).mean()), 4),
            "held_out_rank_1": round(float((cosines.argmax(1) == speakers).float().mean()), 3),
            "seconds_each": round(sum(len(h.samples) for h in heard) / len(heard) / rate, 2),
        }

    @torch.no_grad()
    def _embed(self, samples: Tensor) -> Tensor:
        """Mean d-vector over partials of half a step each. Shapes: float32 (n,) -> float32 (d,)."""
        audio = self.learner.resampler(samples[None].to(self.learner.device))
        mels = self.network.mels(torch.nn.functional.pad(audio, (0, 25600)))[0]
        starts = range(0, max(1, audio.shape[1] // 160 - 80), 80)
        vectors = self.network.embed_mels(torch.stack([mels[s : s + 160] for s in starts]))
        return torch.nn.functional.normalize(vectors.mean(0), dim=0)

    def export(self) -> None:
        """The averaged weights as a bundle, and beside it what only training needs."""
        learner = self.learner
        speech = dataclasses.replace(learner.voice.speech, length_scale=round(length_bias(learner), 3))
        with averaged(learner):
            weights = {n: v.clone() for n, v in learner.model.state_dict().items() if not n.startswith("posterior.")}
        card = f"# {learner.voice.name}\n\nExported by `voicekin train run`; not yet evaluated.\n"
        bundle.save(self.plan.out / "bundle", dataclasses.replace(learner.voice, speech=speech), weights, card)
        save_unspoken(self.plan.out / "unspoken.safetensors", learner)
