"""Fixed shapes on the CPU, where a recording is a plain call: buckets, padding, buffers and cuts."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from network_samples import D_VECTOR, DECODERS, DURATIONS, HOP, small_model

from cloning.engines.base import Part
from cloning.engines.bucketed import BucketedEngine, Run, Shapes
from cloning.engines.buckets import bucket, ladder
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import compare, drawn_sentences, to_half
from cloning.engines.windows import Span, divided
from cloning.model import YourTTS
from cloning.types import Sentence, SpeechOptions

CPU = torch.device("cpu")
SHAPES = Shapes(sentences=(1, 2, 4), symbols=(8, 16, 224), frames=(64, 96, 128), most_area=256)


class Recorder:
    """Counts what is recorded and what is run."""

    def __init__(self) -> None:
        self.n_recorded = self.n_runs = 0

    def record(self, run: Run) -> Run:
        self.n_recorded += 1

        def again() -> None:
            self.n_runs += 1
            run()

        return again


def bucketed(model: YourTTS, shapes: Shapes = SHAPES) -> tuple[BucketedEngine, Recorder]:
    recorder = Recorder()
    return BucketedEngine(model, CPU, shapes, recorder.record, nullcontext), recorder


def sentence(n_symbols: int, seed: int = 0, length_scale: float = 3.0) -> Sentence:
    rng = np.random.default_rng(seed)
    vector = rng.standard_normal(D_VECTOR).astype(np.float32)
    options = SpeechOptions(seed=seed, length_scale=length_scale)
    return Sentence(rng.integers(1, 10, n_symbols), vector / np.linalg.norm(vector), seed % 2, options)


@pytest.mark.parametrize(("durations", "decoder"), list(zip(DURATIONS, DECODERS, strict=True)))
def test_fixed_shapes_say_what_the_networks_say(durations: str, decoder: str) -> None:
    """Batches below, on and above the buckets; sentences shorter than a bucket and longer than the longest."""
    model = small_model(DURATIONS[durations], DECODERS[decoder])
    engine, oracle = bucketed(model)[0], EagerEngine(model, CPU)
    lengths = (1, 7, 8, 9, 15, 16, 40)
    sentences = [sentence(n, seed) for seed, n in enumerate(lengths)]
    plans = [plan for some in (sentences[:3], sentences[3:]) for plan in engine.prior(some)]
    # A batch of parts that were planned in different ones.
    order = [4, 0, 6, 2]
    sounds = engine.decode([plans[i].whole() for i in order])
    assert max(plans[i].n_frames for i in order) > SHAPES.frames[-1]
    for i, samples in zip(order, sounds, strict=True):
        (expected,) = oracle.prior([sentences[i]])
        assert np.array_equal(plans[i].durations, expected.durations)
        assert samples.shape == (plans[i].n_frames * HOP,)
        np.testing.assert_allclose(samples, oracle.decode([expected.whole()])[0], rtol=0, atol=2e-5)


def test_what_was_in_a_buffer_before_changes_nothing() -> None:
    engine, recorder = bucketed(small_model())
    (plan,) = engine.prior([sentence(5)])
    part = Part(plan, Span(1, plan.n_frames))
    (before,) = engine.decode([part])
    engine.decode([p.whole() for p in engine.prior([sentence(n, n) for n in (200, 3, 90, 14)])])
    n_recorded = recorder.n_recorded
    (again,) = engine.decode([Part(engine.prior([sentence(5)])[0], part.span)])
    assert np.array_equal(before, again)
    assert np.array_equal(before, engine.decode([part])[0]), "the first prior must not have been overwritten"
    assert recorder.n_recorded == n_recorded, "each shape is recorded once"


def test_samples_stay_what_they_are_while_others_are_spoken() -> None:
    engine, _ = bucketed(small_model())
    plans = engine.prior([sentence(5, 1), sentence(6, 2)])
    (kept,) = engine.decode([plans[0].whole()])
    before = kept.copy()
    engine.decode([plans[1].whole()])
    assert np.array_equal(kept, before)


def test_warming_up_records_all_shapes_that_fit_and_no_more() -> None:
    engine, recorder = bucketed(small_model())
    # Three widths of symbols; of frames all for 1 and 2 sentences, and only the narrowest for 4.
    assert engine.warm_up((1, 2, 4)) == 3 * 3 + 3 + 3 + 1 == recorder.n_recorded
    engine.decode([p.whole() for p in engine.prior([sentence(n, n) for n in (60, 3, 9, 2)])])
    assert recorder.n_recorded == 16


def test_memory_does_not_grow_with_the_number_of_shapes() -> None:
    engine, _ = bucketed(small_model())
    before = engine._memory.n_bytes
    engine.warm_up((1, 2, 4))
    assert engine._memory.n_bytes == before


def test_half_precision_passes_and_a_broken_network_does_not() -> None:
    model, oracle = small_model(), EagerEngine(small_model(), CPU)
    sentences = drawn_sentences(model, 4)
    assert compare(EagerEngine(model, CPU), oracle, sentences).error_db < -100
    halved = compare(EagerEngine(to_half(small_model()), CPU), oracle, sentences)
    assert halved.passed
    assert halved.error_db > -100, "half precision leaves a trace"
    other = compare(EagerEngine(small_model(seed=1), CPU), oracle, sentences)
    assert not other.passed
    broken = small_model()
    broken.decoder.head.bias.data[3] = torch.nan  # type: ignore[union-attr]  # the iSTFT decoder's
    assert not compare(EagerEngine(broken, CPU), oracle, sentences).finite


def test_windows_and_sums_stay_in_full_precision() -> None:
    model = to_half(small_model())
    assert {p.dtype for p in model.flow.parameters()} == {p.dtype for p in model.decoder.parameters()} == {torch.half}
    assert all(b.dtype != torch.half for b in model.buffers())
    assert all(p.dtype == torch.float32 for n in (model.text_encoder, model.durations) for p in n.parameters())


@given(st.integers(1, 64).map(lambda n: 4 * n), st.integers(1, 5000))
def test_a_ladder_reaches_its_top_and_wastes_a_fifth_at_most(least: int, most: int) -> None:
    steps = ladder(least, most)
    assert (steps[0], steps[-1] >= most, sorted(set(steps))) == (least, True, list(steps))
    for size in range(least, most, 7):
        assert 0 <= bucket(size, steps) - size < 0.2 * bucket(size, steps) + 1
    with pytest.raises(ValueError, match="largest bucket"):
        bucket(steps[-1] + 1, steps)


@given(st.integers(0, 500), st.integers(1, 5000), st.integers(1, 700))
def test_a_long_span_is_divided_into_few_and_equal_parts(start: int, length: int, most: int) -> None:
    found = divided(Span(start, start + length), most)
    assert (found[0].start, found[-1].stop, len(found)) == (start, start + length, -(-length // most))
    assert all(a.stop == b.start for a, b in pairwise(found))
    assert max(s.n_frames for s in found) <= most
    assert max(s.n_frames for s in found) - min(s.n_frames for s in found) <= 1
