"""Long texts as jobs: taken in, looked at, ended. Joins the text rules and the store; knows nothing of HTTP."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from api.errors import JobInaudible, RequestRefused
from api.jobs_limits import JobLimits
from api.jobs_text import PIECE_CHARS, Passage, read_script, spoken_text, storable
from api.listing import find_speaker
from api.metering import Meter
from api.reading import check_reading
from api.speech import MAX_SEED
from cloning.errors import BadConditioning, TextRefused
from cloning.text.markup import lexicon_of, parse
from cloning.text.tags import moved
from store.checks import clean_text
from store.errors import SpeakerNotFound
from store.jobs_types import AUDIBLE, BAD, DONE, UNFINISHED, Job, NewJob, NewPiece, Piece
from store.types import RequestKey

if TYPE_CHECKING:
    from api.voices import Voices
    from cloning.config import VoiceConfig
    from store.service import Store

# More than speech takes in the mean, so that what is promised has its room.
_SECONDS_PER_CHAR = 0.09
_SAMPLE_BYTES = 2


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What is to be spoken. `speaker`, an id or a name, says what comes before the first tag; no seed draws one."""

    text: str
    speaker: str | None = None
    title: str = ""
    language: str | None = None
    speed: float = 1.0
    seed: int | None = None
    lexicon: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A finished job and what can be heard of it, in order."""

    job: Job
    pieces: tuple[Piece, ...]
    sample_rate: int

    def starts(self) -> dict[int, int]:
        """The first sample of each piece, of those that fell out too, by its number."""
        starts, at = {}, 0
        for piece in self.pieces:
            starts[piece.number] = at
            at += piece.n_samples
        return starts


@dataclass(frozen=True, slots=True)
class Jobs:
    """Takes texts in, and gives what became of them."""

    store: Store
    voices: Voices
    limits: JobLimits
    meter: Meter = field(default_factory=Meter)

    def submit(self, order: JobOrder, request_key: str | None = None) -> Job:
        """The new job, waiting; a key that was answered gives the job of then. All that can be refused is refused now.

        Raises: TextRefused, RequestRefused, SpeakerNotFound, BadConditioning, LanguageUnsupported, ModelUnknown,
        TooManyJobs, QuotaExceeded, StorageFull, KeyReused, JobNotFound.
        """
        key = None if request_key is None else RequestKey(request_key, _digest(order))
        known = None if key is None else self.store.jobs.added_before(key)
        if known is not None:
            return known
        self._check_length(order.text)
        with self.meter.charged(len(order.text)):
            return self.store.jobs.add(self._planned(order), self.limits.bounds, key)

    def _check_length(self, text: str) -> None:
        limit = self.limits.max_chars
        if len(text) > limit:
            words = f"text has {len(text)} characters, the limit is {limit}; send it in several jobs"
            raise TextRefused("text_too_long", words, field="text", limit=limit, length=len(text))

    def _planned(self, order: JobOrder) -> NewJob:
        text = storable(order.text)
        order = replace(order, lexicon={**order.lexicon, **lexicon_of(text)})
        voice = self.voices.describe(order.model).voice
        script = read_script(text, min(PIECE_CHARS, self.limits.max_text_chars))
        check_reading(order.language, order.lexicon, voice)
        _check_markup(spoken_text(text), script.passages)
        speakers = self._speakers(order, script.passages, voice)
        pieces = tuple(
            NewPiece(speakers[each.speaker], each.start, each.stop, each.pause_s) for each in script.passages
        )
        return NewJob(
            title=clean_text(order.title),
            text=text,
            options=_options(order),
            chapters=script.firsts(),
            pieces=pieces,
            expected_bytes=_expected_bytes(pieces, order.speed, voice.audio.sample_rate),
        )

    def _speakers(self, order: JobOrder, passages: tuple[Passage, ...], voice: VoiceConfig) -> dict[str | None, str]:
        """The ids of all who speak, by the names they are called by in the text; the job's own under None."""
        found: dict[str | None, str] = {}
        for passage in passages:
            if passage.speaker not in found:
                found[passage.speaker] = self._speaker(order, passage, voice)
        return found

    def _speaker(self, order: JobOrder, passage: Passage, voice: VoiceConfig) -> str:
        name, where = passage.speaker, f"text, line {passage.line}: [speaker: {str(passage.speaker)[:80]}]"
        details: dict[str, object] = {"field": "text", "line": passage.line}
        if passage.element_at is not None:
            where = f"text, line {passage.line}: <voice> at character {passage.element_at}: {str(name)[:80]!r}"
            details |= {"element": "voice", "position": passage.element_at}
        if name is None:
            name, where, details = order.speaker, "speaker_id", {"field": "speaker_id"}
        if name is None:
            words = "speaker_id is missing, and the text does not begin with [speaker: NAME_OR_ID]"
            raise RequestRefused("missing_field", words, **details)
        try:
            speaker = find_speaker(self.store, name)
        except SpeakerNotFound as error:
            raise SpeakerNotFound(error.code, f"{where}: {error.message}", **details) from None
        if speaker.encoder_id != voice.encoder_id:
            words = f"{where}: was enrolled with {speaker.encoder_id}, the voice {voice.name} needs {voice.encoder_id}"
            raise BadConditioning("wrong_encoder", f"{words}; enrol the speaker again", **details)
        return speaker.id


def audible(store: Store, job_id: str) -> Heard:
    """The job with its pieces, all of which are there.

    Raises: JobNotFound; JobInaudible where it is not finished, or ended without a sound.
    """
    job = store.jobs.get(job_id)
    if job.state in UNFINISHED:
        raise _unfinished(job)
    if job.state not in AUDIBLE or job.sample_rate is None:
        words = f"the job is {job.state}: nothing of it can be heard; submit it again"
        raise JobInaudible("job_inaudible", words, state=job.state)
    pieces = store.jobs.pieces(job.id, DONE, BAD)
    if lost := store.jobs.missing(job.id, [piece for piece in pieces if piece.state == DONE]):
        store.jobs.speak_anew(job.id, lost)
        raise _unfinished(store.jobs.get(job.id))
    return Heard(job, tuple(pieces), job.sample_rate)


def expected_left_s(job: Job) -> float | None:
    """Time until an unfinished job is done, by what its pieces took so far; None before the first."""
    if job.state not in UNFINISHED or not job.chars_done:
        return None
    return job.spent_s / job.chars_done * (job.n_chars - job.chars_done)


def _check_markup(text: str, passages: tuple[Passage, ...]) -> None:
    """Raises: TextRefused (`bad_markup`), with the line."""
    for passage in passages:
        try:
            parse(text[passage.start : passage.stop])
        except TextRefused as refusal:
            error = moved(refusal, passage.start)
            at = error.details.get("position")
            line = text.count("\n", 0, at) + 1 if isinstance(at, int) else passage.line
            words = f"text, line {line}: {error.message.removeprefix('text: ')}"
            raise TextRefused(error.code, words, **{**error.details, "line": line}) from None


def _options(order: JobOrder) -> dict[str, object]:
    seed = secrets.randbelow(MAX_SEED) if order.seed is None else order.seed
    found = asdict(replace(order, seed=seed))
    return {name: found[name] for name in ("language", "speed", "seed", "lexicon", "model")}


def _expected_bytes(pieces: tuple[NewPiece, ...], speed: float, sample_rate: int) -> int:
    n_chars = sum(piece.stop_char - piece.start_char for piece in pieces)
    seconds = n_chars * _SECONDS_PER_CHAR / speed + sum(piece.pause_s for piece in pieces)
    return round(seconds * sample_rate * _SAMPLE_BYTES)


def _digest(order: JobOrder) -> str:
    return hashlib.sha256(json.dumps(asdict(order), sort_keys=True).encode()).hexdigest()


def _unfinished(job: Job) -> JobInaudible:
    words = f"the job is {job.state}, {job.n_done} of {job.n_pieces} pieces are spoken: ask again when it is done"
    return JobInaudible("job_not_done", words, state=job.state, n_done=job.n_done, n_pieces=job.n_pieces)
