"""Where a voice loses its words: recordings of the synthetic corpus, and the same decoded from each stage of the voice.

python -m benchmarks.voice_stages --corpus manifest.tsv --unspoken voices/default.training/unspoken.safetensors
"""

import argparse
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jiwer
import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.machine import conditions
from cloning import bundle
from cloning.alignment import log_likelihood, search
from cloning.model import YourTTS
from cloning.posterior import LogSpectrogram
from cloning.text.symbols import SymbolTable
from cloning.text_encoder import expand, owners
from cloning.training.corpus import Utterance, read_manifest
from cloning.training.hearing import at_16_khz, plain_words
from cloning.training.judges import Recogniser
from cloning.training.prepare import Job, frame_durations, load_samples
from encoder.engine import SpeakerEncoder
from encoder.types import Waveform

RESULT = Path("benchmarks/results/voice-stages.json")


def main() -> None:
    """Listens to every n-th utterance, prints, and writes the result."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bundle", type=Path, default=Path("voices/default"))
    options.add_argument("--unspoken", type=Path, required=True)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--every", type=int, default=180)
    chosen = options.parse_args()
    voice = Stages(chosen.bundle, chosen.unspoken)
    recogniser = Recogniser.load(threads=1)
    texts: list[str] = []
    heard: dict[str, list[str]] = {}
    offsets: list[Tensor] = []
    for utterance in read_manifest(chosen.corpus).utterances[:: chosen.every]:
        texts.append(plain_words(utterance.text))
        for stage, samples in voice.stages(utterance, offsets):
            words = recogniser.transcribe(at_16_khz(samples.numpy(), voice.rate))
            heard.setdefault(stage, []).append(plain_words(words))
    borders = torch.cat(offsets).float()
    result: dict[str, Any] = {
        "model": bundle.load_info(chosen.bundle).model_id,
        "utterances": len(texts),
        "wer": {stage: round(capped_wer(texts, words), 4) for stage, words in heard.items()},
        "borders_within_2_frames": round(float((borders.abs() <= 2).float().mean()), 4),
        "borders_earlier_frames": round(float(-borders.mean()), 2),
        "conditions": conditions("cpu"),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def capped_wer(texts: list[str], heard: list[str]) -> float:
    """Share of words wrong, with no more errors in an utterance than it has words: recognisers babble at noise."""
    pairs = [(jiwer.process_words(text, words), len(text.split())) for text, words in zip(texts, heard, strict=True)]
    errors = [min(n, found.substitutions + found.deletions + found.insertions) for found, n in pairs]
    return sum(errors) / sum(n for _, n in pairs)


class Stages:
    """A voice with its posterior encoder, taken apart."""

    def __init__(self, folder: Path, unspoken: Path) -> None:
        self.info = bundle.load_info(folder)
        self.rate = self.info.voice.audio.sample_rate
        self.model = YourTTS(self.info.voice, with_posterior=True)
        weights = bundle.read_weights(folder)
        weights |= {n[6:]: v for n, v in load_file(unspoken).items() if n.startswith("model.")}
        self.model.load_state_dict({name: value.float() for name, value in weights.items()})
        self.model.eval()
        self.spectrogram = LogSpectrogram(self.info.voice.audio)
        self.symbols = SymbolTable(self.info.voice.text.symbols)
        self.encoder = SpeakerEncoder.load()

    @torch.inference_mode()
    def stages(self, utterance: Utterance, offsets: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
        """(name, samples) of each stage; by how many frames found borders follow the corpus's is added to `offsets`."""
        model, audio = self.model, self.info.voice.audio
        with tarfile.open(utterance.file) as tar:
            member = tar.extractfile(utterance.member or "")
            samples = load_samples(member.read() if member else b"", 1.0, self.rate)
        n = len(samples) // audio.hop_length
        recorded = torch.from_numpy(samples[: n * audio.hop_length])
        job = Job(Path(), (), (), (), self.rate, audio.hop_length, self.symbols.symbols)
        durations = torch.from_numpy(frame_durations(utterance, n, job))[None]
        vector = self.encoder.embed([Waveform(recorded.numpy(), self.rate)])[0].vector
        g, mask = model.condition(torch.from_numpy(vector)[None]), torch.ones(1, 1, n)
        ids = torch.tensor([self.symbols.ids(utterance.symbols)])
        text_mask = torch.ones(1, 1, ids.shape[1])
        yield "recording", recorded
        m_q, _ = model.posterior(self.spectrogram(recorded[None]), mask, g)
        yield "posterior's means", model.decoder(m_q, g)[0]
        hidden, m_p, logs_p = model.text_encoder(ids, torch.zeros(1, dtype=torch.long), text_mask, g)
        yield "prior's means, the corpus's durations", self._decoded(expand(m_p, durations, n), g)
        own = model.durations.frames(hidden, text_mask, g, torch.tensor([1.2]), torch.zeros(1, 2, ids.shape[1]))
        yield "prior's means, predicted durations", self._decoded(expand(m_p, own, int(own.sum())), g)
        z_p = model.flow(m_q, mask, g)
        score = log_likelihood(z_p, m_p, logs_p)
        found = search(score, torch.tensor([ids.shape[1]]), torch.tensor([n]))
        offsets.append((found.cumsum(1) - durations.cumsum(1))[0, :-1])
        yield "prior's means, found durations", self._decoded(expand(m_p, found, n), g)
        for name, of_symbols in (("the corpus's", durations), ("found", found)):
            means = torch.zeros_like(m_p).index_add_(2, owners(of_symbols, n)[0], z_p) / of_symbols.clamp(min=1)
            yield (
                f"posterior's means over each symbol, {name} durations",
                self._decoded(expand(means, of_symbols, n), g),
            )

    def _decoded(self, z_p: Tensor, g: Tensor) -> Tensor:
        mask = torch.ones(1, 1, z_p.shape[2])
        return self.model.decoder(self.model.flow(z_p, mask, g, reverse=True), g)[0]


if __name__ == "__main__":
    main()
