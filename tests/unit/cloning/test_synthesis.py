"""A request through the front end, the scheduler and a tiny voice."""

import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from cloning import bundle
from cloning.engines.base import Planned
from cloning.errors import BadConditioning, EngineError, LanguageUnsupported, Overloaded, TextRefused
from cloning.model import YourTTS
from cloning.streaming import join
from cloning.synthesis import Synthesiser
from cloning.training.recipes import tiny_voice
from cloning.types import Sentence, SpeechOptions, SpeechRequest

ENCODER = "ge2e-test-v1"
TWO_SENTENCES = "The first sentence is here. And a second one follows it."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("tiny")
    config = tiny_voice(ENCODER)
    bundle.save(path, config, YourTTS(config).state_dict(), "# tiny\n")
    return path


@pytest.fixture(scope="module")
def voice(folder: Path) -> Iterator[Synthesiser]:
    with Synthesiser.open(folder, threads=1) as opened:
        yield opened


def vector(seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(256).astype(np.float32)
    return drawn / np.linalg.norm(drawn)


def request(text: str = TWO_SENTENCES, seed: int = 1, speaker: int = 0, **options: float) -> SpeechRequest:
    return SpeechRequest(text, vector(speaker), ENCODER, options=SpeechOptions(seed=seed, **options))


def test_speech_says_what_it_is(voice: Synthesiser) -> None:
    speech = voice.speak(request())
    assert speech.n_sentences == 2
    assert speech.samples.dtype == np.float32
    assert speech.sample_rate == voice.voice.sample_rate == 24000
    assert np.abs(speech.samples).max() <= 1
    assert (speech.durations >= 1).all()


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(voice: Synthesiser) -> None:
    first, again, other = (voice.speak(request(seed=s)).samples for s in (5, 5, 6))
    assert np.array_equal(first, again)
    assert len(first) != len(other) or not np.array_equal(first, other)


@pytest.mark.parametrize("in_parts", [False, True])
def test_streaming_gives_the_same_samples_piece_by_piece(voice: Synthesiser, in_parts: bool) -> None:
    slow = request(length_scale=6.0)
    whole, pieces = voice.speak(slow), list(voice.stream(slow, in_parts))
    assert (len(pieces) > 2) is in_parts
    joined = join(pieces)
    assert np.array_equal(joined.samples, whole.samples)
    assert np.array_equal(joined.durations, whole.durations)
    assert (joined.n_sentences, joined.pause_s) == (2, whole.pause_s)
    assert all(len(piece.samples) for piece in pieces)


def test_each_sentence_is_of_its_requests_tenant(voice: Synthesiser, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken: list[Sentence] = []
    prior = voice._engine.prior
    monkeypatch.setattr(voice._engine, "prior", lambda sentences: spoken.extend(sentences) or prior(sentences))
    voice.speak(dataclasses.replace(request(), tenant="acme"))
    assert [sentence.tenant for sentence in spoken] == ["acme", "acme"]


def test_parallel_callers_get_what_they_get_alone(voice: Synthesiser) -> None:
    requests = [request(f"Caller number {i} speaks here.", seed=i, speaker=i) for i in range(8)]
    alone = [voice.speak(r).samples for r in requests]
    together: dict[int, np.ndarray] = {}
    threads = [
        threading.Thread(target=lambda i=i, r=r: together.__setitem__(i, voice.speak(r).samples))
        for i, r in enumerate(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, samples in enumerate(alone):
        assert np.array_equal(samples, together[i])


def test_a_longer_length_scale_takes_longer(voice: Synthesiser) -> None:
    assert voice.speak(request(length_scale=2.0)).duration_s > 1.5 * voice.speak(request()).duration_s


def test_everything_that_can_be_refused_is_refused_before_the_stream_starts(voice: Synthesiser) -> None:
    with pytest.raises(TextRefused):
        voice.stream(request("..."))
    with pytest.raises(LanguageUnsupported):
        voice.stream(dataclasses.replace(request(), language="xx"))


def test_a_vector_of_another_encoder_is_refused(voice: Synthesiser) -> None:
    with pytest.raises(BadConditioning) as caught:
        voice.speak(dataclasses.replace(request(), encoder_id="ge2e-other-v1"))
    assert caught.value.code == "wrong_encoder"


@pytest.mark.parametrize(
    "bad", [vector()[:255], vector() * 2, np.full(256, np.nan, np.float32), vector().astype(np.float64)]
)
def test_a_vector_that_is_none_is_refused(voice: Synthesiser, bad: np.ndarray) -> None:
    with pytest.raises(BadConditioning) as caught:
        voice.speak(dataclasses.replace(request(), d_vector=bad))
    assert caught.value.code == "bad_vector"


@pytest.mark.parametrize("n_heard", [0, 1, 3])
def test_a_closed_stream_is_spoken_no_further(voice: Synthesiser, n_heard: int) -> None:
    before = voice.stats()
    stream = voice.stream(request("One sentence is said. " * 30), in_parts=False)
    for _ in range(n_heard):
        next(stream)
    stream.close()
    with pytest.raises(Overloaded) as refused:
        next(stream)
    assert refused.value.code == "cancelled"
    voice.speak(request())
    after = voice.stats()
    assert after.waiting == 0
    # The two of the last request, those that were heard, and those that were ahead of the listener.
    assert 2 + n_heard <= after.sentences - before.sentences <= 2 + n_heard + 2


def test_who_waits_in_the_queue_is_told_at_once_that_another_thread_has_closed_it(folder: Path) -> None:
    go_on, begun = threading.Event(), threading.Event()
    with Synthesiser.open(folder, threads=1) as voice:
        engine = voice._engine
        prior = engine.prior

        def busy(sentences: Sequence[Sentence]) -> Sequence[Planned]:
            begun.set()
            assert go_on.wait(60)
            return prior(sentences)

        engine.prior = busy  # type: ignore[method-assign]
        first = voice.stream(request("Somebody else is spoken to."))
        assert begun.wait(60)
        waiting = voice.stream(request("This one waits in the queue."))
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(next, waiting)
            while not asked.running():
                time.sleep(0.001)
            waiting.close()
            with pytest.raises(Overloaded) as refused:
                asked.result(timeout=60)
        assert refused.value.code == "cancelled"
        assert not go_on.is_set()
        go_on.set()
        assert len(next(first).samples)
        first.close()
        assert voice.speak(request()).n_sentences == 2
        assert voice.stats().cancelled == 1


def test_a_reader_who_pauses_is_not_spoken_to_ahead(voice: Synthesiser) -> None:
    before = voice.stats().sentences
    stream = voice.stream(request("One sentence is said. " * 30))
    next(stream)
    voice.speak(request())
    assert voice.stats().sentences - before <= 1 + 2 + 2
    stream.close()


def test_a_text_of_more_sentences_than_the_queue_holds_is_spoken_whole(folder: Path) -> None:
    with Synthesiser.open(folder, threads=1, max_queue=4) as narrow:
        assert narrow.speak(request("So. " * 40)).n_sentences == 40


def test_the_deadline_counts_the_engines_time_and_not_the_readers(voice: Synthesiser) -> None:
    stream = voice.stream(dataclasses.replace(request("A short one. " * 6), deadline_s=1.0))
    next(stream)
    time.sleep(1.1)
    assert len(list(stream)) == 5
    with pytest.raises(Overloaded) as missed:
        voice.speak(dataclasses.replace(request(), deadline_s=0.0))
    assert missed.value.code == "deadline_missed"


def test_what_was_skipped_is_known_before_the_first_piece(voice: Synthesiser) -> None:
    stream = voice.stream(request("Call 我 now. Then 你."))
    assert stream.skipped == ("我", "你")
    stream.close()


def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device, so none is missing")
    with pytest.raises(EngineError) as caught:
        Synthesiser.open(folder, device="cuda")
    assert caught.value.code == "engine_unavailable"
