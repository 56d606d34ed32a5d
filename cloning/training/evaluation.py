"""How alike and how clear a voice is with people it has never heard: they are enrolled, they speak, judges listen."""

import csv
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cloning.errors import SynthesisFailed
from cloning.synthesis import Synthesiser
from cloning.training.errors import CorpusError, EvaluationError
from cloning.training.hearing import Hearing, at_16_khz, hear, median_f0_hz, not_spoken
from cloning.training.judges import RATE_HZ, Embed, Judges
from cloning.types import FloatArray, SpeechOptions, SpeechRequest

ENROLLING_ENCODER = "resemblyzer"
HELD_SOUNDS_PER_PERSON = 2

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording of a person, as its file holds it."""

    path: str
    text: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Person:
    """A speaker with two recordings or more, in the manifest's order."""

    name: str
    split: str
    gender: str
    clips: tuple[Clip, ...]


@dataclass(frozen=True, slots=True)
class Ears:
    """The encoder room's part: a reference from files, samples at 16 kHz from a file, and a vector from samples."""

    enrol: Callable[[Sequence[bytes]], FloatArray]
    decode: Callable[[bytes], FloatArray]
    embed: Embed


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is spoken. `clips` are the numbers of clips to enrol from; a person who has no more than that many
    enrols from all but one."""

    clips: tuple[int, ...]
    per_speaker: int
    sentences: tuple[str, ...]
    options: SpeechOptions = SpeechOptions()

    def __post_init__(self) -> None:
        if not self.clips or min(self.clips) < 1 or self.per_speaker < 1:
            raise EvaluationError(
                "bad_plan", f"clips {self.clips} and per_speaker {self.per_speaker} must be 1 or more"
            )
        if not self.sentences:
            raise EvaluationError("bad_sentences", "there is no sentence to speak")


@dataclass(frozen=True, slots=True)
class Likeness:
    """Cosines by one speaker encoder, and whether the right person came first among all.

    `enrolled` is to the clips that the voice was enrolled from, `held_out` to the mean of the person's other clips,
    `others` the mean over all other people; None where the person has no other clip to compare with.
    """

    enrolled: float
    held_out: float | None
    others: float
    first_by_enrolled: bool
    first_by_held_out: bool | None


@dataclass(frozen=True, slots=True)
class Utterance:
    """One sentence of the voice, or one recording, judged. `n_clips` is the plan's, `used_clips` what there was."""

    speaker: str
    split: str
    n_clips: int
    used_clips: int
    recorded: bool
    text: str
    hearing: Hearing
    f0_reference_hz: float | None
    likeness: Mapping[str, Likeness] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sound:
    """What a person may listen to. Shapes: samples float32 (n,)."""

    utterance: Utterance
    samples: FloatArray
    sample_rate: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one person before the voice speaks. Shapes: vectors float32 (n_clips, d) of each encoder.

    Clips from `held_out_from` on are never enrolled; `d_vectors` holds the reference for each number of clips.
    """

    person: Person
    held_out_from: int
    audio: tuple[FloatArray, ...]
    vectors: Mapping[str, FloatArray]
    d_vectors: Mapping[int, FloatArray]
    f0_hz: float | None

    def used(self, n_clips: int) -> int:
        return min(n_clips, self.held_out_from)


def read_people(manifest: Path, splits: Sequence[str], names: Sequence[str] = ()) -> list[Person]:
    """The people of some splits of a manifest (`manifest.tsv`) who have two clips or more, with their clips.

    Raises: CorpusError where the manifest or a tar cannot be read; EvaluationError (`nothing_to_judge`) naming the
    splits and the speakers that there are.
    """
    rows = [row for row in _rows(manifest) if row["split"] in splits and (not names or row["speaker"] in names)]
    grouped: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        grouped.setdefault((row["split"], row["speaker"]), []).append(row)
    several = {key: clips for key, clips in grouped.items() if len(clips) > 1}
    absent = sorted(set(names) - {speaker for _, speaker in several})
    if not several or absent:
        raise EvaluationError(
            "nothing_to_judge",
            f"{manifest} has no speaker with two clips or more in {', '.join(splits)}"
            + (f" named {', '.join(absent)}" if absent else "")
            + "; choose --split and --speakers from its columns",
        )
    data = _read_members(manifest.parent, [row for clips in several.values() for row in clips])
    return [
        Person(
            name, split, clips[0]["gender"],
            tuple(Clip(c["path"], c["text_punctuated"] or c["transcript"], data[c["path"]]) for c in clips),
        )
        for (split, name), clips in several.items()
    ]  # fmt: skip


def _rows(manifest: Path) -> list[dict[str, str]]:
    if not manifest.is_file():
        raise CorpusError("manifest_missing", f"there is no manifest at {manifest}")
    with manifest.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    needed = {"split", "shard", "path", "speaker", "gender", "transcript", "text_punctuated"}
    if absent := needed - set(rows[0] if rows else ()):
        raise CorpusError("bad_line", f"{manifest} lacks the columns {', '.join(sorted(absent))}", line=1)
    return rows


def _read_members(folder: Path, rows: Sequence[Mapping[str, str]]) -> dict[str, bytes]:
    found = {}
    for shard in sorted({row["shard"] for row in rows}):
        wanted = {row["path"] for row in rows if row["shard"] == shard}
        try:
            with tarfile.open(folder / shard) as tar:
                for member in tar:
                    if member.name in wanted and (stream := tar.extractfile(member)):
                        found[member.name] = stream.read()
        except (OSError, tarfile.TarError) as error:
            raise CorpusError("unreadable_clip", f"{folder / shard}: {error}") from error
        if absent := sorted(wanted - set(found)):
            raise CorpusError("unreadable_clip", f"{folder / shard} lacks {absent[0]} and {len(absent) - 1} more")
    return found


def evaluate(
    people: Sequence[Person], plan: Plan, voice: Synthesiser, ears: Ears, judges: Judges, progress: Progress
) -> tuple[list[Utterance], list[Sound]]:
    """All recordings that are held out and all sentences, judged; and some of them to listen to.

    Raises: EncoderError of `ears` for a clip that cannot be enrolled; CloningError where the voice cannot be used.
    """
    encoders = {ENROLLING_ENCODER: ears.embed, **judges.encoders}
    known = []
    for i, person in enumerate(people):
        progress("meeting people", i, len(people))
        known.append(_meet(person, plan, ears, encoders))
    progress("meeting people", len(people), len(people))
    gallery = Gallery(known)
    utterances: list[Utterance] = []
    sounds: list[Sound] = []
    for said in (_recordings(gallery, plan, judges), _speech(gallery, plan, voice, judges, encoders)):
        stage = "listening to recordings" if not utterances else "listening to the voice"
        for done, total, sound in said:
            utterances.append(sound.utterance)
            if _worth_keeping(sound, sounds, plan):
                sounds.append(sound)
            progress(stage, done, total)
    return utterances, sounds


def _meet(person: Person, plan: Plan, ears: Ears, encoders: Mapping[str, Embed]) -> Known:
    held_out_from = min(max(plan.clips), len(person.clips) - 1)
    audio = tuple(ears.decode(clip.data) for clip in person.clips)
    vectors = {name: np.stack([embed(a) for a in audio]) for name, embed in encoders.items()}
    data = [clip.data for clip in person.clips]
    enrolled = {n: ears.enrol(data[: min(n, held_out_from)]) for n in plan.clips}
    pitches = [f0 for a in audio[:held_out_from] if (f0 := median_f0_hz(a))]
    return Known(person, held_out_from, audio, vectors, enrolled, float(np.median(pitches)) if pitches else None)


class Gallery:
    """All people, to be recognised among."""

    def __init__(self, known: Sequence[Known]) -> None:
        self.known = known
        self.encoders = tuple(known[0].vectors)
        self._held_out = {e: np.stack([_unit(k.vectors[e][k.held_out_from :]) for k in known]) for e in self.encoders}

    def compare(
        self, who: int, n_clips: int, vectors: Mapping[str, FloatArray], clip: int | None
    ) -> dict[str, Likeness]:
        """Likeness of vectors to all people; a recording (`clip` is its number) is not compared with itself."""
        return {encoder: self._compare(encoder, who, n_clips, vector, clip) for encoder, vector in vectors.items()}

    def _compare(self, encoder: str, who: int, n_clips: int, vector: FloatArray, clip: int | None) -> Likeness:
        enrolled = np.stack([self._enrolled(encoder, k, n_clips) for k in self.known]) @ vector
        means = self._held_out[encoder] @ vector
        held_out = means[who] if clip is None else self._without(encoder, who, clip, vector)
        others = np.delete(means, who)
        return Likeness(
            float(enrolled[who]),
            None if held_out is None else float(held_out),
            float(others.mean()) if len(others) else float("nan"),
            int(enrolled.argmax()) == who,
            None if held_out is None else bool(held_out > others.max(initial=-1.0)),
        )

    def _enrolled(self, encoder: str, known: Known, n_clips: int) -> FloatArray:
        if encoder == ENROLLING_ENCODER:
            return known.d_vectors[n_clips]
        return _unit(known.vectors[encoder][: known.used(n_clips)])

    def _without(self, encoder: str, who: int, clip: int, vector: FloatArray) -> float | None:
        known = self.known[who]
        rest = [i for i in range(known.held_out_from, len(known.audio)) if i != clip]
        return float(_unit(known.vectors[encoder][rest]) @ vector) if rest else None


def _recordings(gallery: Gallery, plan: Plan, judges: Judges) -> Iterator[tuple[int, int, Sound]]:
    """Every held-out recording, heard once and compared for each number of enrolled clips."""
    jobs = [(who, i) for who, k in enumerate(gallery.known) for i in range(k.held_out_from, len(k.audio))]
    for done, (who, i) in enumerate(jobs, 1):
        known = gallery.known[who]
        text = known.person.clips[i].text
        hearing = hear(known.audio[i], RATE_HZ, text, judges)
        vectors = {encoder: known.vectors[encoder][i] for encoder in gallery.encoders}
        for n in plan.clips:
            likeness = gallery.compare(who, n, vectors, i)
            yield done, len(jobs), Sound(_utterance(known, n, True, text, hearing, likeness), known.audio[i], RATE_HZ)


def _speech(
    gallery: Gallery, plan: Plan, voice: Synthesiser, judges: Judges, encoders: Mapping[str, Embed]
) -> Iterator[tuple[int, int, Sound]]:
    """Every sentence of every person; the list is walked through in turn, so that all of it is used."""
    jobs = [(n, who, i) for n in plan.clips for who in range(len(gallery.known)) for i in range(plan.per_speaker)]
    for done, (n, who, i) in enumerate(jobs, 1):
        known = gallery.known[who]
        text = plan.sentences[(who * plan.per_speaker + i) % len(plan.sentences)]
        request = SpeechRequest(text, known.d_vectors[n], voice.voice.encoder_id, "en", plan.options)
        try:
            samples = voice.speak(request).samples
        except SynthesisFailed as error:
            utterance = _utterance(known, n, False, text, not_spoken(text, error.message), {})
            yield done, len(jobs), Sound(utterance, np.zeros(0, np.float32), voice.voice.sample_rate)
            continue
        audio = at_16_khz(samples, voice.voice.sample_rate)
        likeness = gallery.compare(who, n, {name: embed(audio) for name, embed in encoders.items()}, None)
        hearing = hear(samples, voice.voice.sample_rate, text, judges)
        sound = Sound(_utterance(known, n, False, text, hearing, likeness), samples, voice.voice.sample_rate)
        yield done, len(jobs), sound


def _utterance(
    known: Known, n_clips: int, recorded: bool, text: str, hearing: Hearing, likeness: Mapping[str, Likeness]
) -> Utterance:
    person = known.person
    return Utterance(
        person.name, person.split, n_clips, known.used(n_clips), recorded, text, hearing, known.f0_hz, likeness
    )


def _worth_keeping(sound: Sound, kept: Sequence[Sound], plan: Plan) -> bool:
    """The first recording and the first two sentences of each person, for the middle number of clips, and failures."""
    new = sound.utterance
    if not len(sound.samples) or new.n_clips != sorted(plan.clips)[len(plan.clips) // 2]:
        return False
    same = sum(k.utterance.speaker == new.speaker and k.utterance.recorded == new.recorded for k in kept)
    return same < (1 if new.recorded else HELD_SOUNDS_PER_PERSON) or (not new.recorded and bool(new.hearing.failures))


def _unit(vectors: FloatArray) -> FloatArray:
    mean = vectors.mean(axis=0)
    unit: FloatArray = (mean / np.linalg.norm(mean)).astype(np.float32)
    return unit
