"""From a request to its speech; knows nothing of HTTP."""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from cloning.bundle import load_info
from cloning.config import VoiceConfig
from cloning.engines.base import Engine
from cloning.engines.choice import EngineChoice, open_engine
from cloning.errors import BadConditioning, EngineError, Overloaded
from cloning.scheduler import Scheduler, SchedulerStats, Spoken, give_up
from cloning.streaming import SentenceEdges, join
from cloning.text.frontend import front_end
from cloning.text.symbols import SymbolTable
from cloning.timing import timed
from cloning.types import AudioConfig, FloatArray, IntArray, Sentence, Speech, SpeechRequest, SpokenText

MAX_SEED = 2**63 - 1
_NONE: IntArray = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """What a loaded voice is and where it runs. `ids_per_sound` is 2 for a voice with blanks between its symbols."""

    name: str
    model_id: str
    encoder_id: str
    languages: tuple[str, ...]
    sample_rate: int
    frame_s: float
    engine: str
    device: str
    ids_per_sound: int = 1


class Synthesiser:
    """One loaded voice; many threads may ask it to speak."""

    def __init__(
        self, config: VoiceConfig, model_id: str, engine: Engine, max_queue: int = 256, max_chars: int = 5000
    ) -> None:
        self._config, self._engine = config, engine
        text = config.text
        self._front_end = front_end(
            text.front_end, SymbolTable(text.symbols), text.languages, text.max_symbols, max_chars, text.spelling
        )
        max_frames = round(config.speech.max_sentence_s / config.audio.frame_s)
        self._scheduler = Scheduler(engine, max_queue, max_frames)
        # One batch runs while the next waits: the engine is never idle, and a slow reader holds no more than this.
        self._ahead = 2 * engine.max_batch
        self.voice = VoiceInfo(
            config.name, model_id, config.encoder_id, tuple(config.text.languages), config.audio.sample_rate,
            config.audio.frame_s, engine.name, engine.device, 2 if text.spelling.blank else 1,
        )  # fmt: skip

    @classmethod
    def open(
        cls, bundle_dir: Path, device: str = "cpu", threads: int | None = None, max_queue: int = 256,
        max_chars: int = 5000, choice: EngineChoice | None = None,
    ) -> "Synthesiser":  # fmt: skip
        """The voice of a bundle on a device, by the engine `eager` or as `choice` says, which then names the device.

        Raises: BundleError; EngineError (`engine_unavailable`) where the device is not there.
        """
        info = load_info(bundle_dir)
        engine = open_engine(bundle_dir, choice or EngineChoice(device=device, threads=threads))
        return cls(info.voice, info.model_id, engine, max_queue, max_chars)

    def speak(self, request: SpeechRequest) -> Speech:
        """The whole text.

        Raises: TextRefused, LanguageUnsupported, BadConditioning, Overloaded, SynthesisFailed, EngineError.
        """
        return join(list(self.stream(request, in_parts=False)))

    def stream(self, request: SpeechRequest, in_parts: bool = True) -> "SpeechStream":
        """The text as it is spoken, sentence by sentence or, sooner, in parts of sentences.

        The samples are the same. Everything that can be refused is refused before this returns.

        Raises: as `speak`.
        """
        self._check_vector(request)
        spoken_texts = self._front_end.encode(request.text, request.language, request.lexicon)
        language_id = self._front_end.language_id(request.language)
        sentences = [self._sentence(request, text, i, language_id) for i, text in enumerate(spoken_texts)]
        return SpeechStream(self._scheduler, spoken_texts, sentences, self._config.audio, self._ahead, in_parts)

    def stats(self) -> SchedulerStats:
        """Counters of the scheduler."""
        return self._scheduler.stats()

    def close(self) -> None:
        """Stops the scheduler after its batch, then gives the device's memory back."""
        self._scheduler.close()
        self._engine.close()

    def __enter__(self) -> "Synthesiser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _sentence(self, request: SpeechRequest, text: SpokenText, index: int, language_id: int) -> Sentence:
        # Sentences of one request must not share their noise, and the same text must always get the same.
        seed = (request.options.seed + index * 0x9E3779B97F4A7C15) & MAX_SEED
        ids = np.asarray(text.token_ids, np.int64)
        if ids.min() < 0 or ids.max() >= self._config.text.n_symbols:
            raise EngineError("engine_failed", f"token ids {ids.min()}..{ids.max()} are outside the voice's table")
        length_scale = request.options.length_scale / text.rate
        options = dataclasses.replace(request.options, seed=seed, length_scale=length_scale)
        d_vector = request.d_vector if text.voice is None else request.voices[text.voice]
        return Sentence(ids, d_vector, language_id, options, request.deadline_s, request.priority, request.tenant)

    def _check_vector(self, request: SpeechRequest) -> None:
        """Raises: BadConditioning (`wrong_encoder`, `bad_vector`)."""
        if request.encoder_id != self._config.encoder_id:
            raise BadConditioning(
                "wrong_encoder",
                f"the speaker was enrolled with {request.encoder_id}, this voice needs {self._config.encoder_id}; "
                "enrol the speaker again",
            )
        for vector in (request.d_vector, *request.voices.values()):
            self._check_one(vector)

    def _check_one(self, vector: FloatArray) -> None:
        if vector.shape != (self._config.speaker.d_vector,) or vector.dtype != np.float32:
            raise BadConditioning(
                "bad_vector",
                f"the d-vector is {vector.dtype} {vector.shape}, expected float32 ({self._config.speaker.d_vector},)",
            )
        if not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > 1e-3:
            raise BadConditioning("bad_vector", "the d-vector is not finite or not of norm 1")


class SpeechStream:
    """A text while it is spoken; one thread iterates. Closing it, even before its first piece, cancels what waits.

    Any thread may close it. One that waits for a piece meanwhile gets `Overloaded` `cancelled`: at once where the piece
    was still in the queue, else when the engine is done with it.

    The first piece of each sentence counts it and has its durations, the last one its pause and its times.

    Only a few sentences are in the engine's queue at a time: a long text passes its neighbours no more than a short
    one, and is spoken no faster than somebody listens. The deadline counts the time that the listener waits.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        texts: Sequence[SpokenText],
        sentences: Sequence[Sentence],
        audio: AudioConfig,
        n_ahead: int,
        in_parts: bool,
    ) -> None:
        """Raises: Overloaded, where the queue has no room for the first sentences."""
        self._scheduler, self._audio, self._n_ahead, self._in_parts = scheduler, audio, n_ahead, in_parts
        # Of the sentence that is being given, from its first part on.
        self._edges: SentenceEdges | None = None
        self._is_counted = False
        self._begun_at = 0
        self._texts, self._sentences = deque(texts), deque(sentences)
        self._deadline_s = sentences[0].deadline_s
        self._futures: deque[Future[Spoken]] = deque()
        self._turn = threading.Lock()
        self._is_closed = False
        self._waited_s = 0.0
        self._n_samples = 0
        self.skipped = tuple(dict.fromkeys(signs for text in texts for signs in text.skipped))
        self._submit(continuing=False)

    def __iter__(self) -> "SpeechStream":
        return self

    def __next__(self) -> Speech:
        if not self._futures and not self._is_closed:
            raise StopIteration
        try:
            return self._take()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Gives up what is not spoken yet."""
        with self._turn:
            self._is_closed = True
            self._sentences.clear()
            futures, self._futures = self._futures, deque()
        for future in futures:
            give_up(future)

    def _take(self) -> Speech:
        """The next piece that is sure; of a sentence that has not begun to sound there is none yet."""
        while True:
            spoken = self._wait()
            if self._edges is None:
                self._edges, self._is_counted, self._begun_at = (
                    SentenceEdges(self._audio.sample_rate),
                    False,
                    self._n_samples,
                )
            samples = self._edges.push(spoken.samples)
            if spoken.rest is None:
                return self._last_piece(spoken, samples, self._edges)
            if len(samples):
                return self._piece(spoken, samples)

    def _wait(self) -> Spoken:
        """The next part of the sentence that is spoken; what follows it takes its place."""
        started_s = time.monotonic()
        try:
            spoken = self._next_future().result(self._left_s())
        except CancelledError:
            raise _given_up() from None
        except TimeoutError:
            # Whatever the engine is busy with: the listener is told when the time is over, not when the engine is free.
            raise Overloaded(
                "deadline_missed", "the speech was not finished in its time; try again, or send a shorter text"
            ) from None
        self._waited_s += time.monotonic() - started_s
        with self._turn:
            if self._is_closed:
                raise _given_up()
            if spoken.rest is None:
                self._futures.popleft()
                self._submit(continuing=True)
            else:
                self._futures[0] = spoken.rest
        return spoken

    def _next_future(self) -> "Future[Spoken]":
        with self._turn:
            if self._is_closed:
                raise _given_up()
            return self._futures[0]

    def _piece(self, spoken: Spoken, samples: FloatArray) -> Speech:
        self._n_samples += len(samples)
        if self._is_counted:
            return Speech(samples, self._audio.sample_rate, _NONE, n_sentences=0)
        self._is_counted = True
        text, n = self._texts[0], len(spoken.durations)
        slowed = n / text.rate - n
        return Speech(samples, self._audio.sample_rate, spoken.durations, 1, skipped=text.skipped, n_slowed=slowed)

    def _last_piece(self, spoken: Spoken, samples: FloatArray, edges: SentenceEdges) -> Speech:
        text, start = self._texts[0], self._begun_at
        rest = edges.finish(text.pause_after_s)
        piece = self._piece(spoken, np.concatenate([samples, rest.samples]))
        heard = (start, start + rest.n_spoken)
        times = timed(text, spoken.durations, self._audio.hop_length, start - rest.n_cut, heard)
        self._edges = None
        self._texts.popleft()
        return dataclasses.replace(piece, pause_s=text.pause_after_s, sentences=(times,))

    def _submit(self, continuing: bool) -> None:
        room = min(self._n_ahead - len(self._futures), len(self._sentences))
        if room:
            batch = [self._within_deadline(self._sentences.popleft()) for _ in range(room)]
            self._futures.extend(self._scheduler.submit(batch, continuing, self._in_parts))

    def _left_s(self) -> float | None:
        """What is left of the time that the listener waits; None where that has no end."""
        return None if self._deadline_s is None else max(0.0, self._deadline_s - self._waited_s)

    def _within_deadline(self, sentence: Sentence) -> Sentence:
        return dataclasses.replace(sentence, deadline_s=self._left_s())


def _given_up() -> Overloaded:
    return Overloaded("cancelled", "nobody waits for this speech any more")
