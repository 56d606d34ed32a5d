"""Where a voice loses likeness: recordings of people it learned from, and the same from each stage of the voice.

python -m benchmarks.voice_likeness --corpus manifest.tsv --speakers a,b --unspoken unspoken.safetensors
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.machine import conditions
from benchmarks.voice_stages import Stages
from cloning.alignment import log_likelihood, search
from cloning.text.phonemes import EnglishPhonemes
from cloning.text_encoder import expand
from cloning.training.hearing import at_16_khz
from cloning.training.judges import RATE_HZ, CamPlus
from cloning.training.people import Clip, Person, read_people
from cloning.training.prepare import load_samples
from cloning.types import FloatArray
from encoder.audio import condition_speech
from encoder.types import Waveform

RESULT = Path("benchmarks/results/voice-likeness.json")
LONGEST_S = 11.0
LOOKED_AT = 12
JUDGED, KNOWN_BY = 2, 3
RECORDED_AS = "narrow-band"


def main() -> None:
    """Judges two recordings of each speaker by what three others sound like, prints, and writes the result."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bundle", type=Path, default=Path("voices/default"))
    options.add_argument("--unspoken", type=Path, required=True)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--speakers", required=True, help="comma separated; of the training split, narrow-band")
    options.add_argument("--out", type=Path, default=RESULT)
    chosen = options.parse_args()
    speakers = chosen.speakers.split(",")
    voice = LikenessStages(chosen.bundle, chosen.unspoken)
    heard: dict[str, list[tuple[float, float]]] = {}
    for person in read_people(chosen.corpus, ["train"], speakers):
        for stage, cosines in voice.judged(person):
            heard.setdefault(stage, []).append(cosines)
    result: dict[str, Any] = {
        "model": voice.info.model_id,
        "speakers": speakers,
        "recordings": len(heard["recording"]),
        "cosine": {
            stage: dict(zip(("resemblyzer", "campplus"), np.mean(pairs, axis=0).round(4).tolist(), strict=True))
            for stage, pairs in heard.items()
        },
        "conditions": conditions("cpu"),
    }
    chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


class LikenessStages(Stages):
    """A voice taken apart, and two speaker encoders that listen."""

    def __init__(self, folder: Path, unspoken: Path) -> None:
        super().__init__(folder, unspoken)
        self.camplus, self.phonemes = CamPlus.load(), EnglishPhonemes()

    def judged(self, person: Person) -> Iterator[tuple[str, tuple[float, float]]]:
        """(stage, cosines by Resemblyzer and CAM++ to the person's other recordings) of each stage and recording."""
        loaded = [(clip, load_samples(clip.data, 1.0, self.rate)) for clip in person.clips[:LOOKED_AT]]
        loaded = [pair for pair in loaded if len(pair[1]) < LONGEST_S * self.rate]
        loaded = sorted(loaded, key=lambda pair: -len(pair[1]))[: JUDGED + KNOWN_BY]
        known = [self._vectors(samples) for _, samples in loaded[JUDGED:]]
        references = [_unit(np.mean(vectors, axis=0)) for vectors in zip(*known, strict=True)]
        d_vector = torch.from_numpy(references[0])[None]
        for clip, samples in loaded[:JUDGED]:
            for stage, spoken in self.of_clip(clip, samples, d_vector):
                ours, theirs = (float(v @ r) for v, r in zip(self._vectors(spoken.numpy()), references, strict=True))
                yield stage, (ours, theirs)

    @torch.inference_mode()
    def of_clip(self, clip: Clip, samples: FloatArray, d_vector: Tensor) -> Iterator[tuple[str, Tensor]]:
        """(name, samples) of each stage, in every recording condition. Shapes: d_vector float32 (1, d)."""
        model, recordings = self.model, self.info.voice.speaker.recordings
        assert model.posterior is not None
        n = len(samples) // self.info.voice.audio.hop_length
        recorded = torch.from_numpy(samples[: n * self.info.voice.audio.hop_length])
        yield "recording", recorded
        g = {name: model.condition(d_vector, torch.tensor([i])) for i, name in enumerate(recordings)}
        mask, own = torch.ones(1, 1, n), g[RECORDED_AS]
        m_q, _ = model.posterior(self.spectrogram(recorded[None]), mask, own)
        ids = torch.tensor([self.symbols.ids(self.phonemes.phonemes(clip.text))])
        n_symbols, text_mask = torch.tensor([ids.shape[1]]), torch.ones(1, 1, ids.shape[1])
        language = torch.zeros(1, dtype=torch.long)
        _, m_p, logs_p = model.text_encoder(ids, language, text_mask, own)
        found = search(log_likelihood(model.flow(m_q, mask, own), m_p, logs_p), n_symbols, torch.tensor([n]))
        for name, of_speech in g.items():
            yield f"posterior's means as {name}", model.decoder(m_q, of_speech)[0]
            hidden, m_p, _ = model.text_encoder(ids, language, text_mask, of_speech)
            yield f"prior's means, found durations, as {name}", self._decoded(expand(m_p, found, n), of_speech)
            scale, noise = torch.tensor([self.info.voice.speech.length_scale]), torch.zeros(1, 2, ids.shape[1])
            frames = model.durations.frames(hidden, text_mask, of_speech, scale, noise)
            spoken = self._decoded(expand(m_p, frames, int(frames.sum())), of_speech)
            yield f"prior's means, predicted durations, as {name}", spoken

    def _vectors(self, samples: FloatArray) -> tuple[FloatArray, FloatArray]:
        audio = at_16_khz(samples, self.rate)
        vector = self.encoder.embed([Waveform(condition_speech(audio), RATE_HZ)])[0].vector
        return vector, self.camplus.judge(audio)


def _unit(vector: FloatArray) -> FloatArray:
    unit: FloatArray = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


if __name__ == "__main__":
    main()
