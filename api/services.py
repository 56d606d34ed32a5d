"""The composition root: opens the rooms in order, joins them, and closes them in reverse."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from api.enrolment import Enrolment
from api.errors import SettingsError
from api.settings import Settings
from api.speech import Speaking, UsageLog
from cloning.types import FloatArray, Speech, SpeechRequest
from encoder.types import Waveform

if TYPE_CHECKING:
    from cloning.synthesis import Synthesiser
    from encoder.engine import SpeakerEncoder
    from store.service import Store

WARM_UP_TEXT = "Ready to speak."


@dataclass(frozen=True, slots=True)
class Services:
    """The open rooms, joined."""

    store: Store
    enrolment: Enrolment
    speaking: Speaking

    @property
    def synthesiser(self) -> Synthesiser:
        return self.speaking.synthesiser


@contextmanager
def open_services(settings: Settings) -> Iterator[Services]:
    """All rooms. Raises: any room's error where that room cannot be opened."""
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings))
        enrolment = stack.enter_context(open_enrolment(settings, store))
        speaking = stack.enter_context(open_speaking(settings, store, enrolment.encoder))
        yield Services(store, enrolment, speaking)


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


@contextmanager
def open_enrolment(settings: Settings, store: Store) -> Iterator[Enrolment]:
    """What enrols: the encoder and its decoder, joined to a store."""
    from encoder.audio import Decoder
    from encoder.engine import SpeakerEncoder

    with Decoder() as decoder:
        encoder = SpeakerEncoder.load(settings.device)
        yield Enrolment(store, encoder, decoder, settings.audio_limits(), settings.max_clips)


@contextmanager
def open_speaking(settings: Settings, store: Store, encoder: SpeakerEncoder | None) -> Iterator[Speaking]:
    """What speaks: a voice, joined to a store. Without an encoder it is loaded when a speech is verified."""
    from cloning.synthesis import Synthesiser

    with ExitStack() as stack:
        usage = UsageLog(store)
        stack.callback(usage.flush)
        synthesiser = stack.enter_context(
            Synthesiser.open(
                settings.bundle_dir(),
                device=settings.device,
                threads=settings.threads,
                max_chars=settings.max_text_chars,
            )
        )
        ear = _Ear(settings, encoder)
        yield Speaking(store, synthesiser, usage, ear.hear, settings.max_text_chars, settings.request_timeout_s)


def warm_up(services: Services) -> float:
    """Speaks a short sentence with a vector of no one; gives its length in seconds."""
    import numpy as np

    encoder = services.enrolment.encoder
    vector = np.full(encoder.dim, encoder.dim**-0.5, np.float32)
    request = SpeechRequest(WARM_UP_TEXT, vector, encoder.encoder_id)
    duration_s: float = services.synthesiser.speak(request).duration_s
    return duration_s


class _Ear:
    """Hears the d-vector of a speech, with an encoder that is loaded when it is first needed."""

    def __init__(self, settings: Settings, encoder: SpeakerEncoder | None) -> None:
        self._device = settings.device
        self._encoder = encoder
        self._lock = threading.Lock()

    def hear(self, speech: Speech) -> FloatArray:
        return self._loaded().embed([Waveform(speech.samples, speech.sample_rate)])[0].vector

    def _loaded(self) -> SpeakerEncoder:
        from encoder.engine import SpeakerEncoder

        with self._lock:
            if self._encoder is None:
                self._encoder = SpeakerEncoder.load(self._device)
            return self._encoder
