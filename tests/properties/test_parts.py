"""A sentence in parts is the sentence: for every cut, through the networks and through the trimming of its edges."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cloning.engines.base import Part, Planned
from cloning.engines.eager import EagerEngine
from cloning.engines.windows import Span
from cloning.errors import SynthesisFailed
from cloning.model import YourTTS
from cloning.streaming import SentenceEdges, finish_sentence
from cloning.training.recipes import default_voice
from cloning.types import FloatArray, Sentence, SpeechOptions
from tests.unit.cloning.network_samples import D_VECTOR, DECODERS, restless, small_model

CPU = torch.device("cpu")
RATE = 8000
# A part in another algorithm's hands differs in the last bits of a float whose largest value is about 4.
ROUNDING = 8e-6
LENGTH_SCALE = 4.0


def planned(engine: EagerEngine, n_symbols: int, d_vector: int, length_scale: float) -> Planned:
    vector = np.full(d_vector, d_vector**-0.5, np.float32)
    ids = np.arange(n_symbols) % 9 + 1
    return engine.prior([Sentence(ids, vector, 0, SpeechOptions(seed=5, length_scale=length_scale))])[0]


def spoken_in_parts(engine: EagerEngine, plan: Planned, borders: list[int], n_together: int = 1) -> FloatArray:
    cuts = sorted({0, plan.n_frames, *(b % plan.n_frames for b in borders)})
    parts = [Part(plan, Span(a, b)) for a, b in pairwise(cuts)]
    batches = [parts[i : i + n_together] for i in range(0, len(parts), n_together)]
    return np.concatenate([samples for batch in batches for samples in engine.decode(batch)])


@pytest.mark.parametrize("kind", list(DECODERS))
def test_every_cut_of_a_sentence_gives_its_samples(kind: str) -> None:
    engine = EagerEngine(small_model(decoder=DECODERS[kind]), CPU)
    plan = planned(engine, 12, D_VECTOR, LENGTH_SCALE)
    assert plan.n_frames > 8 * engine._model.receptive_field_frames
    (whole,) = engine.decode([plan.whole()])

    @settings(max_examples=12, deadline=None)
    @given(st.lists(st.integers(1, 10**6), max_size=8), st.integers(1, 3))
    def check(borders: list[int], n_together: int) -> None:
        found = spoken_in_parts(engine, plan, borders, n_together)
        np.testing.assert_allclose(found, whole, rtol=0, atol=ROUNDING)

    check()


@pytest.mark.parametrize("kind", list(DECODERS))
def test_a_window_that_is_too_narrow_is_noticed(kind: str) -> None:
    model = small_model(decoder=DECODERS[kind])
    engine = EagerEngine(model, CPU)
    plan = planned(engine, 12, D_VECTOR, LENGTH_SCALE)
    (whole,) = engine.decode([plan.whole()])
    model.receptive_field_frames = model.decoder.receptive_field_frames
    assert np.abs(spoken_in_parts(engine, plan, [plan.n_frames // 2]) - whole).max() > 10 * ROUNDING


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
@pytest.mark.parametrize("length_scale", [0.7, 3.0])
def test_the_default_network_gives_the_same_bits_for_every_cut(length_scale: float) -> None:
    """One part at a time, as on a CPU; sentences shorter and longer than where torch changes its algorithm."""
    model = restless(YourTTS(default_voice("test-v1")), spread=0.7)
    engine = EagerEngine(model, CPU)
    plan = planned(engine, 40, 256, length_scale)
    (whole,) = engine.decode([plan.whole()])
    for borders in ([17], [40, 41, 90], [plan.n_frames - 1]):
        assert np.array_equal(spoken_in_parts(engine, plan, borders), whole)


levels = st.lists(st.tuples(st.floats(0.01, 0.4), st.sampled_from([0.0, 1e-4, 1e-3, 0.02, 0.3, 1.4])), max_size=7)


@settings(deadline=None)
@given(levels, st.lists(st.integers(0, 10**6), max_size=12), st.integers(0, 2**32 - 1))
def test_edges_are_the_same_for_every_cut(sounds: list[tuple[float, float]], borders: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = [level * rng.uniform(-1, 1, round(seconds * RATE)) for seconds, level in sounds]
    samples = np.concatenate([np.zeros(0), *pieces]).astype(np.float32)
    edges, given_samples = SentenceEdges(RATE), []
    for part in np.split(samples, sorted(b % (len(samples) + 1) for b in borders)):
        given_samples.append(edges.push(part))
    try:
        whole = finish_sentence(samples, RATE, 0.1).samples
    except SynthesisFailed:
        assert not np.concatenate(given_samples).size, "nothing of a silent sentence may have been given"
        with pytest.raises(SynthesisFailed):
            edges.finish(0.1)
        return
    assert np.array_equal(np.concatenate([*given_samples, edges.finish(0.1).samples]), whole)


@settings(deadline=None)
@given(st.floats(0.21, 2.0), st.integers(1, 2000))
def test_a_sentence_that_sounds_is_given_before_its_end(seconds: float, step: int) -> None:
    samples = (0.3 * np.sin(np.arange(round(seconds * RATE)))).astype(np.float32)
    edges = SentenceEdges(RATE)
    n_given = sum(len(edges.push(samples[i : i + step])) for i in range(0, len(samples), step))
    assert n_given == len(samples) - round(0.008 * RATE)
