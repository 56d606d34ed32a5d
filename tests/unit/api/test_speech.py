"""The joint of store and cloning, on a real store, with a voice whose faults are injected."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from scripted_voices import RATE, VoiceInfo, clip, unit

from api.errors import RequestRefused
from api.speech import MAX_SEED, Speaking, SpeechOrder, UsageLog, plausible
from cloning.errors import BadConditioning, Overloaded, SynthesisFailed, TextRefused
from cloning.types import Speech, SpeechRequest
from store.errors import SpeakerNotFound, StoreUnavailable
from store.schema import migrate
from store.service import Store
from store.types import NewSpeaker, PrunePolicy, StoreConfig


@dataclass
class _Scripted:
    """Answers each request with two halves of the speech, or the error, that is next; remembers what it was asked."""

    answers: list[Speech | Exception]
    requests: list[SpeechRequest] = field(default_factory=list)
    voice: VoiceInfo = field(default_factory=VoiceInfo)
    closed: int = 0

    def stream(self, request: SpeechRequest, in_parts: bool) -> "_Pieces":
        self.requests.append(request)
        return _Pieces(self, self.answers.pop(0))


@dataclass(frozen=True)
class _One:
    """A shelf with one voice."""

    voice: _Scripted

    @contextmanager
    def lease(self, model: str | None) -> Iterator[_Scripted]:
        yield self.voice


class _Pieces:
    """The two halves of an answer, as a stream of the synthesiser."""

    def __init__(self, voice: _Scripted, answer: Speech | Exception) -> None:
        self.skipped = () if isinstance(answer, Exception) else answer.skipped
        self._voice, self._answers = voice, [answer, answer]

    def __iter__(self) -> "_Pieces":
        return self

    def __next__(self) -> Speech:
        if not self._answers:
            raise StopIteration
        answer = self._answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self._answers.clear()
        self._voice.closed += 1


def _speech(seconds: float, n_symbols: int) -> Speech:
    """Half of a speech of so many seconds and symbols."""
    seconds, n_symbols = seconds / 2, n_symbols // 2
    durations = np.full(n_symbols, round(seconds / n_symbols / VoiceInfo.frame_s))
    return Speech(np.full(round(seconds * RATE), 0.1, np.float32), RATE, durations)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    config = StoreConfig(f"sqlite:///{tmp_path / 'v.db'}", tmp_path)
    migrate(config)
    with Store.open(config) as opened:
        yield opened


@pytest.fixture
def speaker_id(store: Store) -> str:
    return store.enrol(NewSpeaker("Ada", "enc-1", (clip(1),))).id


def _speaking(store: Store, *answers: Speech | Exception) -> tuple[Speaking, _Scripted]:
    voice = _Scripted(list(answers))
    return Speaking(store, _One(voice), UsageLog(store), lambda *_: unit(1), 50, 9.0), voice  # type: ignore[arg-type]


def test_a_request_carries_the_stored_vector_and_the_options(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(1, 12))
    spoken = speaking.speak(SpeechOrder(speaker_id, "Hello.", "en", speed=2.0, seed=5, lexicon={"a": "b"}))
    request = voice.requests[0]
    np.testing.assert_allclose(request.d_vector, unit(1), atol=1e-6)
    assert request.tenant == ""
    assert (request.encoder_id, request.language, request.deadline_s) == ("enc-1", "en", 9.0)
    assert (request.options.length_scale, request.options.seed, dict(request.lexicon)) == (0.5, 5, {"a": "b"})
    assert (spoken.seed, spoken.model, spoken.cosine, spoken.notices) == (5, "voice-1", None, ())


def test_a_request_is_spoken_in_the_turn_of_whoever_sent_it(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(1, 12))
    replace(speaking, tenant="tenant acme").speak(SpeechOrder(speaker_id, "Hello."))
    assert voice.requests[0].tenant == "tenant acme"


def test_a_seed_is_drawn_where_none_is_given(store: Store, speaker_id: str) -> None:
    speaking, _ = _speaking(store, *[_speech(1, 12)] * 5)
    seeds = {speaking.speak(SpeechOrder(speaker_id, "Hello.")).seed for _ in range(5)}
    assert len(seeds) > 1
    assert all(0 <= seed < MAX_SEED for seed in seeds)


def test_verify_gives_the_cosine_to_the_speaker(store: Store, speaker_id: str) -> None:
    speaking, _ = _speaking(store, _speech(1, 12))
    assert speaking.speak(SpeechOrder(speaker_id, "Hello.", verify=True)).cosine == pytest.approx(1.0, abs=1e-5)


def test_a_text_over_the_limit_is_refused_with_both_figures(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store)
    with pytest.raises(TextRefused) as refused:
        speaking.speak(SpeechOrder(speaker_id, "a" * 51))
    assert (refused.value.code, refused.value.details["limit"], refused.value.details["length"]) == (
        "text_too_long",
        50,
        51,
    )
    assert voice.requests == []


def test_an_unknown_speaker_never_reaches_the_voice(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store)
    store.delete(speaker_id)
    for ask in (speaking.speak, speaking.stream):
        with pytest.raises(SpeakerNotFound):
            ask(SpeechOrder(speaker_id, "Hello."))
    assert voice.requests == []


@pytest.mark.parametrize(
    ("seconds", "n_symbols", "speed", "expected"),
    [
        (4.0, 60, 1.0, True),
        (60.0, 60, 1.0, False),
        (0.5, 60, 1.0, False),
        (12.0, 60, 0.25, True),
        (1.0, 60, 4.0, True),
        (1.2, 5, 1.0, True),
        (1.6, 5, 1.0, False),
        (2.9, 5, 0.5, True),
        (0.1, 5, 1.0, False),
    ],
)
def test_what_length_is_plausible(seconds: float, n_symbols: int, speed: float, expected: bool) -> None:
    assert plausible(_speech(2 * seconds, 2 * n_symbols), speed) is expected


def test_blanks_between_symbols_are_no_sounds() -> None:
    fast = _speech(2, 100)
    assert not plausible(fast, 1.0)
    assert plausible(fast, 1.0, ids_per_sound=2)


def test_pauses_that_the_text_asks_for_are_not_implausible() -> None:
    paused = Speech(np.full(20 * RATE, 0.1, np.float32), RATE, np.ones(10, np.int64), pause_s=19.0)
    assert plausible(paused, 1.0)


def test_a_stream_that_begins_implausibly_is_begun_once_more_with_another_seed(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(60, 60), _speech(4, 60))
    stream = speaking.stream(SpeechOrder(speaker_id, "Hello."))
    first, second = (request.options.seed for request in voice.requests)
    assert (first != second, stream.seed, stream.notices, voice.closed) == (True, second, (), 1)
    assert sum(piece.duration_s for piece in stream.pieces) == pytest.approx(4.0)
    stream.close()


def test_a_stream_that_stays_implausible_says_so_at_its_start(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(60, 60), _speech(60, 60))
    stream = speaking.stream(SpeechOrder(speaker_id, "Hello."))
    assert (stream.notices, len(voice.requests)) == (("implausible_length",), 2)
    asked, voice = _speaking(store, _speech(60, 60))
    assert asked.stream(SpeechOrder(speaker_id, "Hello.", seed=9)).seed == 9
    assert len(voice.requests) == 1


def test_an_implausible_length_is_tried_once_more_with_another_seed(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(60, 60), _speech(4, 60))
    spoken = speaking.speak(SpeechOrder(speaker_id, "Hello."))
    first, second = (request.options.seed for request in voice.requests)
    assert first != second == spoken.seed
    assert spoken.notices == ()


def test_a_length_that_stays_implausible_is_noticed(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(60, 60), _speech(60, 60))
    assert speaking.speak(SpeechOrder(speaker_id, "Hello.")).notices == ("implausible_length",)
    assert len(voice.requests) == 2


def test_a_seed_that_was_asked_for_is_kept(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(60, 60))
    spoken = speaking.speak(SpeechOrder(speaker_id, "Hello.", seed=MAX_SEED))
    assert (spoken.seed, spoken.notices) == (MAX_SEED, ("implausible_length",))
    assert len(voice.requests) == 1


def test_a_failed_synthesis_is_never_audio(store: Store, speaker_id: str) -> None:
    speaking, _ = _speaking(store, SynthesisFailed("synthesis_failed", "not finite"))
    with pytest.raises(SynthesisFailed):
        speaking.speak(SpeechOrder(speaker_id, "Hello."))


def test_a_verified_stream_is_refused(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store)
    with pytest.raises(RequestRefused, match="stream"):
        speaking.stream(SpeechOrder(speaker_id, "Hello.", verify=True))
    assert voice.requests == []


def test_uses_are_written_in_bulk(store: Store, speaker_id: str) -> None:
    speaking, _ = _speaking(store, *[_speech(1, 12)] * 3)
    for _ in range(3):
        speaking.speak(SpeechOrder(speaker_id, "Hello."))
    assert store.get(speaker_id).uses == 0
    speaking.usage.flush()
    speaking.usage.flush()
    assert store.get(speaker_id).uses == 3
    assert store.get(speaker_id).last_used_at is not None


def test_facts_are_texts_for_headers(store: Store, speaker_id: str) -> None:
    odd = Speech(np.zeros(RATE // 2, np.float32), RATE, np.ones(12, np.int64), skipped=("名", "前"), notices=("slow",))
    speaking, _ = _speaking(store, odd)
    facts = speaking.speak(SpeechOrder(speaker_id, "Hello.", seed=2)).facts()
    assert facts == {
        "audio-seconds": "1.000",
        "seed": "2",
        "model": "voice-1",
        "notices": "slow; skipped characters: 名 前",
    }


def test_what_nobody_waits_for_is_not_spoken_to_its_end(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(1, 12))
    with pytest.raises(Overloaded) as refused:
        speaking.speak(SpeechOrder(speaker_id, "Hello."), unwanted=lambda: True)
    assert refused.value.code == "cancelled"
    assert voice.closed == 1


def test_closing_a_stream_closes_the_voices_and_frees_the_speaker(store: Store, speaker_id: str) -> None:
    speaking, voice = _speaking(store, _speech(1, 12))
    stream = speaking.stream(SpeechOrder(speaker_id, "Hello."))
    next(stream.pieces)
    policy = PrunePolicy(older_than_days=0)
    assert store.prune(policy, dry_run=True).victims == ()
    stream.close()
    assert voice.closed == 1
    assert [victim[0] for victim in store.prune(policy, dry_run=True).victims] == [speaker_id]


class _Unwilling:
    """A store whose database does not answer."""

    def touch(self, uses: object) -> None:
        raise StoreUnavailable("store_unavailable", "the database does not answer")


def test_uses_that_could_not_be_written_are_kept_for_the_next_time(store: Store, speaker_id: str) -> None:
    usage = UsageLog(_Unwilling())  # type: ignore[arg-type]
    usage.add(speaker_id)
    with pytest.raises(StoreUnavailable):
        usage.flush()
    usage.add(speaker_id)
    usage._store = store
    usage.flush()
    assert store.get(speaker_id).uses == 2


def test_voice_elements_bring_the_vectors_of_their_speakers(store: Store, speaker_id: str) -> None:
    other = store.enrol(NewSpeaker("Bert", "enc-1", (clip(2),)))
    text = "Hi. <voice name='bert'>Yes?</voice>"
    speaking, voice = _speaking(store, _speech(1, 12))
    speaking.speak(SpeechOrder(speaker_id, text))
    assert list(voice.requests[0].voices) == ["bert"]
    np.testing.assert_allclose(voice.requests[0].voices["bert"], unit(2), atol=1e-6)
    speaking.usage.flush()
    assert (store.get(speaker_id).uses, store.get(other.id).uses) == (1, 1)


def test_a_voice_element_that_names_nobody_or_another_encoders_speaker_is_refused_with_its_place(
    store: Store, speaker_id: str
) -> None:
    store.enrol(NewSpeaker("Carl", "enc-2", (clip(3),)))
    speaking, _ = _speaking(store)
    for name, kind in (("Nobody", SpeakerNotFound), ("Carl", BadConditioning)):
        with pytest.raises(kind) as refused:
            speaking.speak(SpeechOrder(speaker_id, f"Hi. <voice name='{name}'>Yes?</voice>"))
        assert refused.value.message.startswith(f"text: <voice> at character 4: '{name}' ")
        assert (refused.value.details["element"], refused.value.details["position"]) == ("voice", 4)
