"""Both phases of every kind of voice, through the engine that runs them as they are written."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from network_samples import D_VECTOR, DECODERS, DURATIONS, HOP, restless, small_model, small_voice
from torch.utils._python_dispatch import TorchDispatchMode

from cloning.engines.eager import EagerEngine
from cloning.model import PriorInput, YourTTS
from cloning.types import Sentence, SpeechOptions

CPU = torch.device("cpu")
TEXTS = ((1, 2, 3, 4, 5, 6, 7), (3, 1), (9, 8, 7, 6))


def sentence(ids: Sequence[int], seed: int = 7, speaker: int = 0, language: int = 0, **options: float) -> Sentence:
    vector = np.random.default_rng(speaker).standard_normal(D_VECTOR).astype(np.float32)
    options = {"length_scale": 3.0, **options}
    return Sentence(
        np.array(ids, np.int64), vector / np.linalg.norm(vector), language, SpeechOptions(seed=seed, **options)
    )


def speak(engine: EagerEngine, *sentences: Sentence) -> list[np.ndarray]:
    return engine.decode([plan.whole() for plan in engine.prior(sentences)])


@pytest.fixture(params=[(d, v) for d in DURATIONS for v in DECODERS], ids="-".join)
def engine(request: pytest.FixtureRequest) -> Iterator[EagerEngine]:
    durations, decoder = request.param
    yield EagerEngine(small_model(DURATIONS[durations], DECODERS[decoder]), CPU)


def test_a_batch_speaks_each_sentence_as_it_does_alone(engine):
    sentences = [sentence(ids, seed=i, speaker=i, language=i % 2) for i, ids in enumerate(TEXTS)]
    together = engine.prior(sentences)
    alone = [engine.prior([s])[0] for s in sentences]
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.durations, other.durations)
        assert (one.durations >= 1).all()
        n = len(one.sentence.token_ids)
        for part in ("m_p", "logs_p"):
            batched, single = getattr(one.prior, part)[one.row, :, :n], getattr(other.prior, part)[0]
            torch.testing.assert_close(batched, single, atol=1e-5, rtol=1e-4)
    # The second phase also takes sentences that come from several first phases.
    mixed = engine.decode([plan.whole() for plan in (together[2], alone[0], together[1])])
    for samples, index in zip(mixed, (2, 0, 1), strict=True):
        (expected,) = engine.decode([alone[index].whole()])
        assert len(samples) == alone[index].n_frames * HOP
        np.testing.assert_allclose(samples, expected, atol=1e-5, rtol=1e-4)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(engine):
    first, again, other = (speak(engine, sentence(TEXTS[0], seed=s))[0] for s in (5, 5, 6))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_each_request_keeps_its_own_noise_speaker_and_language():
    engine = EagerEngine(small_model(), CPU)
    (base,) = speak(engine, sentence(TEXTS[0]))
    for changed in ({"seed": 8}, {"speaker": 1}, {"language": 1}, {"noise_scale": 0.9}, {"length_scale": 6.0}):
        (other,) = speak(engine, sentence(TEXTS[0], **changed))
        assert other.tobytes() != base.tobytes(), changed


def test_the_seed_and_the_noise_scale_decide_stochastic_rhythm():
    engine = EagerEngine(small_model(DURATIONS["stochastic"]), CPU)
    rhythms = [tuple(engine.prior([sentence(TEXTS[0], seed=s, length_scale=30.0)])[0].durations) for s in (1, 2, 1)]
    assert rhythms[0] == rhythms[2] != rhythms[1]
    (wilder,) = engine.prior([sentence(TEXTS[0], seed=1, length_scale=30.0, noise_scale_dp=2.0)])
    assert tuple(wilder.durations) != rhythms[0]


def test_durations_by_language_read_the_embedding_of_each_row():
    g, languages = torch.randn(2, 6), torch.tensor([1, 0])
    model = small_model(DURATIONS["by-language"])
    joined = model.duration_condition(g, languages)
    assert torch.equal(joined, torch.cat([g, model.text_encoder.languages.weight[languages]], 1))
    assert small_model(DURATIONS["stochastic"]).duration_condition(g, languages) is g


def test_no_noise_makes_every_seed_the_same():
    engine = EagerEngine(small_model(DURATIONS["stochastic"]), CPU)
    quiet = {"noise_scale": 0.0, "noise_scale_dp": 0.0}
    one, other = (speak(engine, sentence(TEXTS[0], seed=s, **quiet))[0] for s in (1, 2))
    assert one.tobytes() == other.tobytes()


def test_length_scale_makes_speech_longer_by_its_factor():
    engine = EagerEngine(small_model(), CPU)
    n_frames = [engine.prior([sentence(TEXTS[0], length_scale=s)])[0].n_frames for s in (20.0, 40.0)]
    assert n_frames[1] / n_frames[0] == pytest.approx(2, rel=0.1)


def test_the_recording_condition_is_the_one_the_voice_speaks_as():
    model = small_model()
    vectors = torch.randn(2, D_VECTOR, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.condition(vectors), model.condition(vectors, torch.tensor([1, 1])))
    assert not torch.equal(model.condition(vectors), model.condition(vectors, torch.tensor([0, 0])))


def test_a_closed_engine_gives_its_memory_back():
    model = small_model()
    EagerEngine(model, CPU).close()
    assert all(p.is_meta for p in model.parameters())


class Recorder(TorchDispatchMode):
    """Names of the operations that run, and whether one was given a boolean index."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        if func.overloadpacket is torch.ops.aten.index:
            self.names |= {"boolean_index" for i in args[1] if i is not None and i.dtype == torch.bool}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("durations", list(DURATIONS))
@pytest.mark.parametrize("decoder", list(DECODERS))
def test_no_shape_depends_on_a_value(durations, decoder):
    """Graphs and engine builders refuse operations whose result has a shape that only the values decide."""
    model = small_model(DURATIONS[durations], DECODERS[decoder])
    batch = PriorInput(
        torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]), torch.randn(2, D_VECTOR), torch.tensor([0, 1]),
        torch.ones(2), torch.randn(2, 2, 3),
    )  # fmt: skip
    with Recorder() as recorder:
        m_p, logs_p, frames = model.prior(batch)
        model.decode(m_p, logs_p, frames, batch.d_vectors, torch.randn(2, 10, 40))
    assert "convolution" in recorder.names
    assert not recorder.names & {"nonzero", "masked_select", "_local_scalar_dense", "boolean_index", "unique"}


def test_the_recorder_sees_a_boolean_index():
    with Recorder() as recorder:
        x = torch.randn(3)
        x[x > 0]
    assert "boolean_index" in recorder.names


def test_a_voice_without_languages_or_recordings_speaks():
    config = small_voice()
    config = dataclasses.replace(
        config,
        text=dataclasses.replace(config.text, languages={}),
        speaker=dataclasses.replace(config.speaker, width=0, recordings=(), speak_as=""),
        text_encoder=dataclasses.replace(config.text_encoder, language_width=0, speaker_conditioned=False),
    )
    (samples,) = speak(EagerEngine(restless(YourTTS(config)), CPU), sentence(TEXTS[1]))
    assert np.isfinite(samples).all()
    assert len(samples) >= 2 * HOP
