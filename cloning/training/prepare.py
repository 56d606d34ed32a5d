"""Packing: recordings and texts become a few files of integers that training loads straight into device memory.

Each part is written by one worker, under a new name that is then given its place, so an interrupted run goes on where
it stopped; d-vectors are added part by part afterwards, on the device.
"""

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from cloning.config import VoiceConfig
from cloning.text.phonemes import EnglishPhonemes
from cloning.text.symbols import SymbolTable
from cloning.training.corpus import Utterance, fingerprint
from cloning.training.errors import CorpusError, PackError
from cloning.types import FloatArray

PACK_VERSION = 1
COLUMNS = ("audio_start", "n_frames", "ids_start", "n_symbols", "speaker", "recording", "aligned")
MIN_FRAMES = 50
SPEECH_LEVEL_DBFS = -24.0

Embed = Callable[[Sequence[FloatArray], int], FloatArray]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One part: its utterances, and the index of each one's speaker and recording condition."""

    path: Path
    utterances: tuple[Utterance, ...]
    speakers: tuple[int, ...]
    recordings: tuple[int, ...]
    sample_rate: int
    hop_length: int
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackSummary:
    """What was packed, and what was refused and why."""

    n_utterances: int
    n_speakers: int
    hours: float
    refused: tuple[str, ...]


def prepare(
    utterances: Sequence[Utterance], out: Path, config: VoiceConfig, embed: Embed, workers: int, progress: Progress
) -> PackSummary:
    """Packs a corpus into the folder `out`; parts that are there already are kept.

    Raises: CorpusError where nothing can be learned from.
    """
    out.mkdir(parents=True, exist_ok=True)
    speakers = sorted({u.speaker for u in utterances})
    jobs = list(_jobs(utterances, speakers, out, config))
    refused = list(_write_parts(jobs, workers, progress))
    for i, job in enumerate(jobs):
        _add_vectors(job.path, embed, config.audio.sample_rate)
        progress("d-vectors", i + 1, len(jobs))
    tables = [load_file(job.path)["table"] for job in jobs if job.path.exists()]
    table = np.concatenate(tables) if tables else np.zeros((0, len(COLUMNS)))
    if not len(table):
        raise CorpusError("nothing_to_learn", f"none of {len(utterances)} utterances could be used: {refused[:3]}")
    index = {
        "version": PACK_VERSION,
        "encoder_id": config.encoder_id,
        "parts": [job.path.name for job in jobs],
        "speakers": speakers,
        "refused": refused,
    }
    _write_json(out / "pack.json", index)
    hours = float(table[:, 1].sum()) * config.audio.frame_s / 3600
    return PackSummary(len(table), len(speakers), hours, tuple(refused))


def _jobs(utterances: Sequence[Utterance], speakers: list[str], out: Path, config: VoiceConfig) -> Iterator[Job]:
    number = {name: i for i, name in enumerate(speakers)}
    ordered = sorted(utterances, key=lambda u: (u.file, u.member or "", u.warp))
    size = 256
    for start in range(0, len(ordered), size):
        chunk = tuple(ordered[start : start + size])
        name = fingerprint(chunk, PACK_VERSION, config.audio, config.text.symbols, config.speaker.recordings)
        yield Job(
            out / f"part-{name}.safetensors", chunk, tuple(number[u.speaker] for u in chunk),
            tuple(config.speaker.recordings.index(u.recording) for u in chunk),
            config.audio.sample_rate, config.audio.hop_length, config.text.symbols,
        )  # fmt: skip


def _write_parts(jobs: list[Job], workers: int, progress: Progress) -> Iterator[str]:
    waiting = [job for job in jobs if not job.path.exists()]
    done = len(jobs) - len(waiting)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures: list[Future[list[str]]] = [pool.submit(write_part, job) for job in waiting]
        for future in as_completed(futures):
            yield from future.result()
            done += 1
            progress("audio and phonemes", done, len(jobs))


def write_part(job: Job) -> list[str]:
    """Decodes and phonemises one part and writes it. Gives the refusals, in words."""
    phonemes, table = EnglishPhonemes(), SymbolTable(job.symbols)
    audio: list[NDArray[np.int16]] = []
    ids: list[NDArray[np.int16]] = []
    durations: list[NDArray[np.int16]] = []
    rows, refused, at, at_id = [], [], 0, 0
    for utterance, speaker, recording, encoded in zip(
        job.utterances, job.speakers, job.recordings, _read(job.utterances), strict=True
    ):
        try:
            samples = load_samples(encoded, utterance.warp, job.sample_rate)
            symbols = utterance.symbols or tuple(phonemes.phonemes(utterance.text))
            n_frames = len(samples) // job.hop_length
            if n_frames < max(MIN_FRAMES, len(symbols)):
                raise CorpusError("unreadable_clip", f"{n_frames} frames for {len(symbols)} symbols")
            spans = frame_durations(utterance, n_frames, job) if utterance.ends_ms else np.zeros(len(symbols))
            encoded_ids = table.ids(symbols)
        except (CorpusError, ValueError, RuntimeError, KeyError) as error:
            refused.append(f"{utterance.file}:{utterance.member}: {error}")
            continue
        audio.append((samples[: n_frames * job.hop_length] * 32767).astype(np.int16))
        ids.append(np.asarray(encoded_ids, np.int16))
        durations.append(spans.astype(np.int16))
        rows.append((at, n_frames, at_id, len(symbols), speaker, recording, int(bool(utterance.ends_ms))))
        at, at_id = at + len(audio[-1]), at_id + len(symbols)
    part: dict[str, NDArray[np.generic]] = {"table": np.asarray(rows, np.int64).reshape(-1, len(COLUMNS))}
    for name, pieces in (("audio", audio), ("ids", ids), ("durations", durations)):
        part[name] = np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
    _write(job.path, part)
    return refused


def _read(utterances: Sequence[Utterance]) -> Iterator[bytes]:
    """The encoded bytes of each utterance; a tar stays open while its members follow each other."""
    tar: tarfile.TarFile | None = None
    for utterance in utterances:
        if utterance.member is None:
            yield Path(utterance.file).read_bytes()
            continue
        if tar is None or tar.name != str(Path(utterance.file).absolute()):
            tar = tarfile.open(utterance.file)  # noqa: SIM115  # it outlives this turn of the loop
        member = tar.extractfile(utterance.member)
        yield member.read() if member else b""


def load_samples(encoded: bytes, warp: float, sample_rate: int) -> FloatArray:
    """Mono samples at the rate asked for, played `warp` times as fast, at the level of the corpus.

    Shapes: -> float32 (n,) in [-1, 1].
    Raises: RuntimeError where the clip cannot be decoded; CorpusError where it is silent.
    """
    import soundfile

    samples, rate = soundfile.read(io.BytesIO(encoded), dtype="float32", always_2d=True)
    mono = soxr.resample(samples.mean(1), rate * warp, sample_rate).astype(np.float32)
    level = active_level_dbfs(mono, sample_rate)
    if level < -70:
        raise CorpusError("unreadable_clip", "the clip is silent")
    gain = min(10 ** ((SPEECH_LEVEL_DBFS - level) / 20), 0.97 / max(1e-6, float(np.abs(mono).max())))
    louder: FloatArray = mono * np.float32(gain)
    return louder


def active_level_dbfs(samples: FloatArray, sample_rate: int) -> float:
    """Level of the louder frames: those within 20 dB of the 95th percentile. Shapes: samples float32 (n,)."""
    width = sample_rate // 50
    frames = samples[: len(samples) // width * width].reshape(-1, width)
    if not len(frames):
        return -np.inf
    power = (frames.astype(np.float64) ** 2).mean(1) + 1e-12
    return float(10 * np.log10(power[power > np.percentile(power, 95) / 100].mean()))


def frame_durations(utterance: Utterance, n_frames: int, job: Job) -> NDArray[np.int64]:
    """End times in milliseconds as whole frames, at least one for each symbol, that fill the clip."""
    scale = job.sample_rate / job.hop_length / 1000 / utterance.warp
    bounds = np.round(np.asarray(utterance.ends_ms) * scale).astype(np.int64)
    bounds[-1] = n_frames
    n = np.arange(len(bounds))
    bounds = np.maximum.accumulate(bounds - n) + n
    bounds = np.clip(bounds, n + 1, n_frames - n[::-1])
    return np.diff(bounds, prepend=0)


def _add_vectors(path: Path, embed: Embed, sample_rate: int) -> None:
    if not path.exists() or vectors_path(path).exists():
        return
    part = load_file(path)
    starts, lengths = part["table"][:, 0], np.diff(part["table"][:, 0], append=len(part["audio"]))
    clips = [
        part["audio"][s : s + n].astype(np.float32) / np.float32(32768) for s, n in zip(starts, lengths, strict=True)
    ]
    _write(vectors_path(path), {"vectors": embed(clips, sample_rate) if clips else np.zeros((0, 1), np.float32)})


def vectors_path(part: Path) -> Path:
    """Where the d-vectors of a part lie."""
    return part.with_suffix(".vectors")


def read_index(folder: Path) -> dict[str, object]:
    """The index of a packed corpus.

    Raises: PackError where it is missing or of another version.
    """
    path = folder / "pack.json"
    if not path.is_file():
        raise PackError("pack_missing", f"{folder} holds no packed corpus: run `voicekin train prepare` first")
    index: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    if index.get("version") != PACK_VERSION:
        raise PackError("pack_version", f"{path} has version {index.get('version')}, this program reads {PACK_VERSION}")
    return index


def _write(path: Path, tensors: dict[str, NDArray[np.generic]]) -> None:
    new = path.with_name(path.name + ".new")
    save_file(tensors, new)
    new.replace(path)


def _write_json(path: Path, value: object) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    new.replace(path)
