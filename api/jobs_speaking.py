"""One job, spoken piece by piece by who holds its lease. Knows nothing of HTTP."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from api.errors import TooBusy
from api.jobs_pieces import packed, sound_of
from api.jobs_text import spoken_text
from api.problems import ROOTS, RoomError
from api.rendering import speech_key
from api.speech import IMPLAUSIBLE, MAX_SEED, Asked, Speaking, SpeechOrder, Spoken
from cloning.errors import BundleError, EngineError, LanguageUnsupported, Overloaded, SynthesisFailed, TextRefused
from cloning.types import Speech
from store.errors import SpeakerNotFound, StorageFull, StoreError, StoreUnavailable
from store.jobs_types import BAD, DONE, FAILED, GONE_DETAIL, PARTIAL, SPEAKER_GONE, WAITING, Job, Piece, SpokenPiece

if TYPE_CHECKING:
    from store.jobs import Jobs as StoredJobs

logger = logging.getLogger("voicekin")
# A sentence that fails, or comes out implausible, is tried with so many seeds.
MAX_ATTEMPTS = 3
# Where somebody must make room, or mend a voice, before the job can go on.
REST_S = 30.0
BUSY_RETRY_S = 1.0
_PIECE_FORM = "piece of a job"
_SEEDS_APART = 1_000_003


class _Lost(Exception):
    """The job is somebody else's, or has ended."""


class _Stopped(Exception):
    """This process stops."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job under a lease. `on_piece` is told the seconds of each piece that is kept."""

    jobs: StoredJobs
    speaking: Speaking
    job: Job
    owner: str
    max_bytes: int
    stopping: Callable[[], bool]
    on_piece: Callable[[float], None]

    def go(self) -> str | None:
        """Speaks what is not spoken yet; the state in which the job ended, None where it did not end here."""
        try:
            return self._speak_all()
        except _Lost:
            logger.info("job %s was ended, or taken over, by another", self.job.id)
        except _Stopped:
            self._give_back(0.0, None)
        except (StoreUnavailable, TooBusy, Overloaded) as error:
            self._give_back(BUSY_RETRY_S, error)
        except (StorageFull, BundleError, EngineError) as error:
            self._give_back(REST_S, error)
        except SpeakerNotFound:
            return self._end(SPEAKER_GONE, (SPEAKER_GONE, GONE_DETAIL))
        except ROOTS as error:
            return self._end(FAILED, (error.code, error.message))
        except Exception:
            logger.exception("job %s failed", self.job.id)
            return self._end(FAILED, ("internal_error", "internal error; the log has it under the job's id"))
        return None

    def _speak_all(self) -> str | None:
        text = spoken_text(self.jobs.text(self.job.id))
        while True:
            # Who was heard anew meanwhile is spoken anew: one job has one voice for each speaker.
            self.jobs.match(self.job.id, self._voices())
            waiting = self.jobs.pieces(self.job.id, WAITING)
            if not waiting:
                return self._finish()
            for piece in waiting:
                self._speak(piece, text[piece.start_char : piece.stop_char])

    def _voices(self) -> dict[str, str]:
        """What shapes the sound of each speaker of the job, as a digest."""
        found = {}
        for speaker_id in sorted({piece.speaker_id for piece in self.jobs.pieces(self.job.id)}):
            with self.speaking.asked(self._order(speaker_id, "", 0)) as asked:
                found[speaker_id] = self._voice(asked)
        return found

    def _voice(self, asked: Asked) -> str:
        return speech_key(replace(asked, order=self._order(asked.speaker_id, "", 0)), _PIECE_FORM)

    def _speak(self, piece: Piece, text: str) -> None:
        """Speaks a piece and keeps it; after too many failures it is given up. Raises: _Lost, _Stopped, StoreError."""
        started_s = time.monotonic()
        for seed, is_last in self._seeds(piece):
            with self.speaking.asked(self._order(piece.speaker_id, text, seed)) as asked:
                voice = self._voice(asked)
                made = self._made(asked)
            if isinstance(made, Spoken) and (is_last or IMPLAUSIBLE not in made.notices):
                self._keep(piece, made, voice, time.monotonic() - started_s)
                return
            if not isinstance(made, Spoken) and (is_last or _is_hopeless(made)):
                self._give_up(piece, voice, made)
                return

    def _made(self, asked: Asked) -> Spoken | RoomError:
        """The speech, or why there is none. Raises: _Lost, _Stopped, and what has nothing to do with the text."""
        while True:
            try:
                return self.speaking.speak_asked(asked, self._unwanted)
            except (SynthesisFailed, EngineError) as error:
                return error
            except (TextRefused, LanguageUnsupported) as error:
                if error.details.get("field") == "language":
                    raise
                return _silence(asked) if error.code == "nothing_to_say" else error
            except Overloaded as error:
                if self.stopping() or error.code == "closed":
                    raise _Stopped from None
                if self._unwanted():
                    raise _Lost from None
                time.sleep(BUSY_RETRY_S)

    def _unwanted(self) -> bool:
        """Asked between sentences. Where SQL does not answer the work goes on: nothing is kept without it anyway."""
        with suppress(StoreError):
            return self.stopping() or not self.jobs.is_owned(self.job.id, self.owner)
        return self.stopping()

    def _seeds(self, piece: Piece) -> Iterator[tuple[int, bool]]:
        """The seeds that are tried, the same ones in every run."""
        first = int(str(self.job.options["seed"])) + piece.number * MAX_ATTEMPTS
        for attempt in range(MAX_ATTEMPTS):
            yield (first + attempt) * _SEEDS_APART % MAX_SEED, attempt == MAX_ATTEMPTS - 1

    def _order(self, speaker_id: str, text: str, seed: int) -> SpeechOrder:
        options: dict[str, Any] = {**self.job.options, "seed": seed}
        return SpeechOrder(speaker_id, text, reuse=False, in_bulk=True, **options)

    def _keep(self, piece: Piece, spoken: Spoken, voice: str, spent_s: float) -> None:
        sound = sound_of(spoken.speech, piece.pause_s)
        rate, n_samples = spoken.speech.sample_rate, len(sound.samples)
        kept = SpokenPiece(piece.number, packed(sound), n_samples, rate, spoken.model, voice, spent_s)
        if not self.jobs.keep(self.job.id, self.owner, kept, self.max_bytes):
            raise _Lost
        self.on_piece(n_samples / rate)

    def _give_up(self, piece: Piece, voice: str, error: RoomError) -> None:
        logger.warning("job %s: piece %d is given up (%s)", self.job.id, piece.number, error.code)
        if not self.jobs.give_up(self.job.id, self.owner, piece.number, voice, (error.code, error.message)):
            raise _Lost

    def _finish(self) -> str | None:
        bad = self.jobs.pieces(self.job.id, BAD)
        if not bad and not self.jobs.get(self.job.id).n_samples:
            return self._end(FAILED, ("nothing_to_say", "text: there is nothing to say in it; send words"))
        if not bad:
            return self._end(DONE)
        first = (str(bad[0].code), str(bad[0].detail))
        return self._end(FAILED if len(bad) == self.job.n_pieces else PARTIAL, first)

    def _end(self, state: str, why: tuple[str, str] = ("", "")) -> str | None:
        try:
            return state if self.jobs.finish(self.job.id, self.owner, state, why) else None
        except StoreError as error:
            logger.warning("job %s could not be ended and is taken up again: %s", self.job.id, error.message)
            return None

    def _give_back(self, for_s: float, error: RoomError | None) -> None:
        why = None if error is None else (error.code, error.message)
        try:
            self.jobs.hold_back(self.job.id, self.owner, for_s, why)
        except StoreError as fault:
            logger.warning("job %s could not be given back; its lease ends by itself: %s", self.job.id, fault.message)


def _is_hopeless(error: RoomError) -> bool:
    """Whether another seed makes no difference."""
    return isinstance(error, TextRefused | LanguageUnsupported)


def _silence(asked: Asked) -> Spoken:
    """What is made of a piece that says nothing: pictures, ornaments."""
    info = asked.voice.voice
    speech = Speech(np.zeros(0, np.float32), info.sample_rate, np.zeros(0, np.int64), n_sentences=0)
    return Spoken(speech, asked.request.options.seed, info.model_id, None, ())
