"""A real store and who speaks its jobs, with a voice whose answers are scripted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scripted_voices import RATE, VoiceInfo, clip, unit

from api.jobs import JobOrder, Jobs, audible
from api.jobs_files import JobFiles
from api.jobs_limits import JobLimits
from api.jobs_speaking import JobRun
from api.speech import Speaking, UsageLog
from cloning.types import Speech, SpeechRequest, TimedSentence
from store.jobs_types import Job, JobBounds
from store.schema import migrate
from store.service import Store
from store.types import NewSpeaker, StoreConfig

BOUNDS = JobBounds(10, 10**9)
# Three passages: 400 characters at most, a chapter each.
TEXT = "# One\n\nFirst words.\n\n# Two\n\nSecond words.\n\n# Three\n\nThird words.\n"


@dataclass
class Voice:
    """Gives each request a second of a level that follows from its seed; `errors` are raised first, by what is said."""

    voice: VoiceInfo = field(default_factory=VoiceInfo)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    requests: list[SpeechRequest] = field(default_factory=list)
    on_speak: Callable[[], None] = lambda: None
    seconds: float = 1.0

    def stream(self, request: SpeechRequest, in_parts: bool) -> "_Stream":
        for words, errors in self.errors.items():
            if words in request.text and errors:
                raise errors.pop(0)
        self.requests.append(request)
        return _Stream(self, request)


class _Stream:
    skipped = ()

    def __init__(self, voice: Voice, request: SpeechRequest) -> None:
        self._voice, self._request, self._left = voice, request, 2

    def __iter__(self) -> "_Stream":
        return self

    def __next__(self) -> Speech:
        if not self._left:
            raise StopIteration
        self._left -= 1
        self._voice.on_speak()
        n = round(RATE * self._voice.seconds / 2)
        samples = np.full(n, (self._request.options.seed % 1000) / 2000, np.float32)
        heard = (0, n) if self._left else (n, 2 * n)
        sentence = TimedSentence((0, len(self._request.text)), *heard, ())
        return Speech(samples, RATE, np.ones(6, np.int64), sentences=(sentence,))

    def close(self) -> None:
        self._left = 0


@dataclass
class _Text:
    languages: tuple[str, ...] = ("en",)


@dataclass
class _Config:
    encoder_id: str = "enc"
    name: str = "default"
    text: _Text = field(default_factory=_Text)
    audio: VoiceInfo = field(default_factory=VoiceInfo)


@dataclass
class _Bundle:
    voice: _Config = field(default_factory=_Config)


@dataclass
class _Shelf:
    loaded: Voice

    @contextmanager
    def lease(self, model: str | None) -> Iterator[Voice]:
        yield self.loaded

    def describe(self, model: str | None) -> _Bundle:
        return _Bundle()


@dataclass
class House:
    """A store, a voice and who speaks."""

    store: Store
    voice: Voice
    speaking: Speaking
    jobs: Jobs
    anna: str
    stopping: bool = False
    kept_s: float = 0.0

    def submit(self, text: str = TEXT, **options: object) -> Job:
        return self.jobs.submit(JobOrder(text, self.anna, seed=1, **options))  # type: ignore[arg-type]

    def run(self, owner: str = "owner", max_bytes: int = 10**9) -> str | None:
        job = self.store.jobs.lease(owner, 60)
        assert job is not None
        return self.go_on(job, owner, max_bytes)

    def go_on(self, job: Job, owner: str, max_bytes: int = 10**9) -> str | None:
        return JobRun(self.store.jobs, self.speaking, job, owner, max_bytes, lambda: self.stopping, self._count).go()

    def wav(self, job: Job) -> bytes:
        return b"".join(JobFiles(self.store.jobs).audio(audible(self.store, job.id), "wav").parts)

    def _count(self, seconds: float) -> None:
        self.kept_s += seconds


@contextmanager
def open_house(folder: Path) -> Iterator[House]:
    config = StoreConfig(f"sqlite:///{folder / 'v.db'}", folder)
    migrate(config)
    with Store.open(config) as store:
        anna = store.enrol(NewSpeaker("Anna", "enc", (clip(1),))).id
        voice = Voice()
        speaking = Speaking(store, _Shelf(voice), UsageLog(store), lambda *_: unit(1), 500, 9.0)  # type: ignore[arg-type]
        jobs = Jobs(store, _Shelf(voice), JobLimits(2000, 500, BOUNDS))  # type: ignore[arg-type]
        yield House(store, voice, speaking, jobs, anna)
