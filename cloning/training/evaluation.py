"""How alike and how clear a voice is with people it has never heard: they are enrolled, they speak, judges listen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cloning.errors import SynthesisFailed
from cloning.synthesis import Synthesiser
from cloning.training.errors import EvaluationError
from cloning.training.hearing import Hearing, at_16_khz, hear, median_f0_hz, not_spoken
from cloning.training.judges import RATE_HZ, Embed, Judges
from cloning.training.likeness import ENROLLING_ENCODER, Gallery, Known, Likeness
from cloning.training.people import Person
from cloning.types import FloatArray, SpeechOptions, SpeechRequest

HELD_SOUNDS_PER_PERSON = 2

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Ears:
    """The encoder room's part: a reference from files, samples at 16 kHz from a file, and a vector from samples."""

    enrol: Callable[[Sequence[bytes]], FloatArray]
    decode: Callable[[bytes], FloatArray]
    embed: Embed


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is spoken. `clips` are the numbers of clips to enrol from; a person who has no more than that many
    enrols from all but one, and one who has a single clip enrols from it and has nothing held out."""

    clips: tuple[int, ...]
    per_speaker: int
    sentences: tuple[str, ...]
    options: SpeechOptions = field(default_factory=SpeechOptions)

    def __post_init__(self) -> None:
        if not self.clips or min(self.clips) < 1 or self.per_speaker < 1:
            raise EvaluationError(
                "bad_plan", f"clips {self.clips} and per_speaker {self.per_speaker} must be 1 or more"
            )
        if not self.sentences:
            raise EvaluationError("bad_sentences", "there is no sentence to speak")


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
    held_out_from = max(1, min(max(plan.clips), len(person.clips) - 1))
    audio = tuple(ears.decode(clip.data) for clip in person.clips)
    vectors = {name: np.stack([embed(a) for a in audio]) for name, embed in encoders.items()}
    data = [clip.data for clip in person.clips]
    enrolled = {n: ears.enrol(data[: min(n, held_out_from)]) for n in plan.clips}
    pitches = [f0 for a in audio[:held_out_from] if (f0 := median_f0_hz(a))]
    return Known(person, held_out_from, audio, vectors, enrolled, float(np.median(pitches)) if pitches else None)


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
