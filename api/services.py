"""The composition root: opens the rooms in order, joins them, and closes them in reverse."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from api.access import Caller, KeyLog
from api.consent_words import WordsChecker
from api.consenting import Consenting
from api.enrolment import Enrolment
from api.errors import SettingsError
from api.jobs import Jobs
from api.jobs_files import JobFiles
from api.jobs_running import JobRunner
from api.limits import Standings
from api.metering import KeyMeter, Meter
from api.rendering import Rendering
from api.settings import Settings, forbid_tf32
from api.speech import Speaking, UsageLog
from api.voices import Encoders, Voices
from cloning.errors import LanguageUnsupported
from cloning.types import FloatArray, Speech, SpeechRequest
from encoder.types import Waveform

if TYPE_CHECKING:
    from cloning.synthesis import Synthesiser
    from store.service import Store

WARM_UP_TEXT = "Ready to speak."
_OWN_LETTERS = 12


@dataclass(frozen=True, slots=True)
class Services:
    """The open rooms, joined."""

    store: Store
    enrolment: Enrolment
    consenting: Consenting
    speaking: Speaking
    rendering: Rendering
    keys: KeyLog
    jobs: Jobs
    job_files: JobFiles
    runner: JobRunner

    def seen_by(self, caller: Caller, standings: Standings) -> Services:
        """The same rooms on the caller's behalf: only its tenant's speakers and jobs are there, its key pays."""
        store = self.store.seen_by(caller.owner)
        enrolment, speaking = (
            replace(self.enrolment, store=store),
            replace(self.speaking, store=store, tenant=caller.share),
        )
        meter = Meter() if caller.key is None else KeyMeter(store, self.keys, caller.key, standings)
        return replace(
            self,
            store=store,
            enrolment=enrolment,
            consenting=replace(self.consenting, enrolment=enrolment),
            speaking=speaking,
            rendering=replace(self.rendering, speaking=speaking, meter=meter),
            jobs=replace(self.jobs, store=store, meter=meter),
        )


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    """All rooms. Raises: any room's error where that room cannot be opened."""
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        voices = stack.enter_context(open_voices(settings))
        enrolment = stack.enter_context(open_enrolment(settings, store, voices))
        speaking = stack.enter_context(open_speaking(settings, store, voices))
        keys = KeyLog(store.touch_keys)
        stack.callback(keys.flush)
        runner = stack.enter_context(open_runner(settings, store, speaking))
        jobs = Jobs(store, voices.voices, settings.job_limits())
        consents, files = consenting(settings, enrolment), JobFiles(store.jobs)
        yield Services(store, enrolment, consents, speaking, Rendering(speaking), keys, jobs, files, runner)


@contextmanager
def open_store(settings: Settings) -> Iterator[Store]:
    """The store alone: enough to list, search by speaker and prune.

    Raises: StoreError; SettingsError (`settings_invalid`) where the state folder cannot be written.
    """
    from store.service import Store

    check_state_dir(settings.state_dir)
    with Store.open(settings.store_config()) as store:
        yield store


def check_state_dir(folder: Path) -> None:
    """Raises: SettingsError, with the folder and the user, where this user may not write into a folder that is there.

    A database that cannot be written could be read, but neither followed nor kept from being changed meanwhile.
    """
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise SettingsError(
            "settings_invalid",
            f"{folder.absolute()} cannot be written by user {os.geteuid()}: give the folder to that user, or set "
            "VOICEKIN_STATE_DIR to another",
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """Voices and encoders, none of them loaded before it is asked for."""

    voices: Voices
    encoders: Encoders


@contextmanager
def open_voices(settings: Settings) -> Iterator[Loaded]:
    """The installed voices and the encoders that they take d-vectors from, within the limit of device memory.

    Raises: SettingsError; EngineError (`engine_unavailable`) where the device is not there.
    """
    from cloning.engines.choice import device_of
    from encoder.bundle import load_encoder
    from encoder.engine import SpeakerEncoder

    if settings.engine == "tensorrt":
        forbid_tf32()

    # Here, because the encoder may be the first that needs it, and torch's own words name no remedy.
    device = device_of(settings.device)
    if device.type == "cpu":
        # Before anything is computed: a thread that has once had helpers keeps them.
        settings.engine_choice().lane()
    bound = settings.memory_bound()
    if bound is not None:
        from cloning.engines.devices import bound_memory

        bound_memory(device, bound.allocated_bytes)

    def open_voice(folder: Path) -> Synthesiser:
        from cloning.synthesis import Synthesiser

        return Synthesiser.open(folder, max_chars=settings.max_text_chars, choice=settings.engine_choice())

    voices = Voices(settings.shelf(), open_voice, settings.max_voices, settings.voice_idle_s)
    encoders = Encoders(
        voices,
        lambda: SpeakerEncoder.load(settings.device),
        lambda folder: load_encoder(folder, settings.device),
        settings.max_voices,
    )
    with closing(voices):
        yield Loaded(voices, encoders)


@contextmanager
def open_enrolment(settings: Settings, store: Store, loaded: Loaded) -> Iterator[Enrolment]:
    """What enrols: the encoders and their decoder, joined to a store."""
    from encoder.audio import Decoder

    with Decoder() as decoder:
        yield Enrolment(
            store,
            loaded.encoders,
            decoder,
            settings.audio_limits(),
            settings.max_clips,
            keep_clips=settings.keep_clips,
        )


def consenting(settings: Settings, enrolment: Enrolment) -> Consenting:
    """What takes consents and protected voices in."""
    words = WordsChecker(settings.consent_word_errors) if settings.consent_words else None
    return Consenting(enrolment, settings.consent_statement, words, settings.protected_cosine)


@contextmanager
def open_speaking(settings: Settings, store: Store, loaded: Loaded) -> Iterator[Speaking]:
    """What speaks: voices, joined to a store."""

    def hear(speech: Speech, encoder_id: str) -> FloatArray:
        encoder = loaded.encoders.by_id(encoder_id)
        return encoder.embed([Waveform(speech.samples, speech.sample_rate)])[0].vector

    usage = UsageLog(store)
    try:
        yield Speaking(store, loaded.voices, usage, hear, settings.max_text_chars, settings.request_timeout_s)
    finally:
        usage.flush()


@contextmanager
def open_runner(settings: Settings, store: Store, speaking: Speaking) -> Iterator[JobRunner]:
    """What speaks jobs; it takes none before it is started."""
    with closing(JobRunner(store.jobs, speaking, settings.job_runner())) as runner:
        yield runner


def warm_up(services: Services) -> float:
    """Speaks a short sentence with a vector of no one; gives its length in seconds."""
    import numpy as np

    encoder = services.enrolment.encoders.of_voice()
    vector = np.full(encoder.dim, encoder.dim**-0.5, np.float32)
    request = SpeechRequest(WARM_UP_TEXT, vector, encoder.encoder_id)
    with services.speaking.voices.lease() as voice:
        try:
            duration_s: float = voice.speak(request).duration_s
        except LanguageUnsupported:  # a voice without Latin letters speaks its own
            letters = services.speaking.voices.describe().voice.text.symbols
            own = "".join(letter for letter in letters if letter.isalpha() and len(letter) == 1)[:_OWN_LETTERS]
            duration_s = voice.speak(replace(request, text=own)).duration_s
    return duration_s
