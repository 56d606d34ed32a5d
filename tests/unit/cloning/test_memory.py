"""What an engine takes of a device's memory: against what was measured, and against what runs on the CPU."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from network_samples import DECODERS, DURATIONS, small_model

from cloning import bundle
from cloning.engines import memory
from cloning.engines.base import Part
from cloning.engines.bucketed import BucketedEngine, Shapes
from cloning.engines.buckets import Room
from cloning.engines.choice import EngineChoice, open_engine
from cloning.engines.eager import EagerEngine
from cloning.engines.memory import MIB, Bound, counted_of, most_alive, plan_of, planned
from cloning.engines.precision import drawn_sentences
from cloning.engines.windows import Span
from cloning.errors import EngineError
from cloning.training.recipes import default_voice
from encoder.networks.ge2e import DEVICE_BYTES, N_WEIGHTS, load_pretrained

CPU = torch.device("cpu")
DEFAULT = default_voice("test-v1")
ROOT = Path(__file__).parents[3]
MEASURED = ROOT / "benchmarks" / "results" / "engines-cuda.json"
# The longest of the benchmark's sentences, in frames, for each of 16.
FRAMES_OF_16 = 16 * round(6.0 * 24000 / 256)


def bound(limit_bytes: int, n_voices: int = 1) -> Bound:
    return Bound(limit_bytes, n_voices, DEVICE_BYTES)


@pytest.mark.parametrize(("engine", "room"), [("eager", Room(16, FRAMES_OF_16)), ("cuda-graph", Room(32, 16384))])
def test_the_estimate_is_over_what_was_measured_and_little_over_it(engine: str, room: Room) -> None:
    """The benchmark holds a model of its own beside the engine's, and no sentences that wait."""
    reserved = json.loads(MEASURED.read_text())["voices"]["default"][engine]["reserved_mib"] * MIB
    counted = counted_of(DEFAULT)
    plan = planned(DEFAULT, counted, engine, room)
    estimate = 4 * counted.n_weights + plan.n_bytes - plan.waiting_bytes + memory.LIBRARIES_BYTES
    assert reserved <= estimate <= 1.2 * reserved


@pytest.mark.parametrize("engine", ["eager", "cuda-graph"])
def test_the_reference_card_speaks_eight_at_once(engine: str) -> None:
    plan = plan_of(DEFAULT, engine, bound(1500 * 10**6))
    assert plan.room.max_batch >= 8
    assert bound(0).limit_for(plan.n_bytes) <= 1500 * 10**6


@pytest.mark.parametrize("engine", ["eager", "cuda-graph"])
@pytest.mark.parametrize("n_voices", [1, 3])
def test_less_memory_means_smaller_batches_and_in_the_end_none(engine: str, n_voices: int) -> None:
    found = []
    for limit in range(6000 * MIB, 0, -50 * MIB):
        try:
            plan = plan_of(DEFAULT, engine, bound(limit, n_voices))
        except EngineError as error:
            needed, words = int(str(error.details["needed_bytes"])), error.message
            break
        assert bound(limit, n_voices).limit_for(plan.n_bytes) <= limit
        found.append(plan.room.max_batch)
    assert found[0] == memory.MOST_SENTENCES[engine]
    assert found == sorted(found, reverse=True)
    # For one and for two the least window is the same.
    assert found[-1] <= 2
    assert "VOICEKIN_VRAM_LIMIT_BYTES" in words and f"needs {needed // MIB} MiB" in words
    # The figure in the message is the least that will do.
    assert plan_of(DEFAULT, engine, bound(needed, n_voices)).room.most_area == 1024
    with pytest.raises(EngineError, match="VOICEKIN_MAX_VOICES"):
        plan_of(DEFAULT, engine, bound(needed - 2 * MIB, n_voices))


def test_the_page_says_what_is_computed_for_the_voice_that_ships() -> None:
    least_words = r"from (\d+) MiB \(`eager`\) and (\d+) MiB \(`cuda-graph`\)"
    limit_words = r"(\d+) MB \((\d+) MiB\) gives (\d+)\s+and (\d+) sentences"
    found = re.search(f"{least_words}; {limit_words}", (ROOT / "docs" / "gpu.md").read_text("utf-8"))
    assert found is not None, "the sentence reads otherwise by now"
    *least, limit_mb, limit_mib, eager, graph = map(int, found.groups())
    voice, limit_bytes = bundle.load_info(ROOT / "voices" / "default").voice, limit_mb * 10**6
    assert limit_mib == limit_bytes // MIB
    for engine, least_mib, n_sentences in zip(("eager", "cuda-graph"), least, (eager, graph), strict=True):
        with pytest.raises(EngineError) as refused:
            plan_of(voice, engine, bound(0))
        assert refused.value.details["needed_bytes"] == least_mib * MIB
        assert plan_of(voice, engine, bound(limit_bytes)).room.max_batch == n_sentences


def test_an_engine_of_fixed_shapes_is_not_bounded() -> None:
    with pytest.raises(EngineError, match="tensorrt are fixed"):
        plan_of(DEFAULT, "tensorrt", bound(10**10))


@pytest.mark.parametrize(("durations", "decoder"), list(zip(DURATIONS, DECODERS, strict=True)))
def test_what_is_counted_without_values_is_what_lives_with_them(durations: str, decoder: str) -> None:
    model = small_model(DURATIONS[durations], DECODERS[decoder])
    counted, (b, n, t) = counted_of(model.config), (3, 20, 500)
    hidden, d = model.config.text_encoder.hidden, model.config.speaker.d_vector
    statistics, ids = torch.zeros(2, b, hidden, n), torch.full((b, n), 3)
    noise, vectors = torch.zeros(b, hidden, t), torch.zeros(b, d)
    with torch.no_grad():
        alive = most_alive(model, lambda: model.decode(statistics[0], statistics[1], ids, vectors, noise))
    # A frame's mask over the symbols is larger for the longest sentence, which is what is counted.
    symbols_bytes = b * t * (model.config.text.max_symbols - n)
    assert alive <= b * t * counted.frame_bytes <= 1.1 * (alive + symbols_bytes) + 2**16


def test_the_buffers_are_those_of_the_engine() -> None:
    model = small_model()
    shapes = Shapes.of(model, 4, most_area=2048)
    engine = BucketedEngine(model, CPU, shapes, lambda run: run, nullcontext)
    plan = planned(model.config, counted_of(model.config), "cuda-graph", Room(4, 2048))
    alive = max(4 * counted_of(model.config).prior_bytes, 2048 * counted_of(model.config).frame_bytes)
    assert plan.graphs_bytes == engine._memory.n_bytes + round(memory.SPREAD * alive)


def test_an_engine_in_a_small_room_says_the_same_in_less_memory() -> None:
    model = small_model()
    room = Room(4, max(128, 4 * model.receptive_field_frames))
    free, small = EagerEngine(model, CPU), EagerEngine(model, CPU, room)
    assert small.max_batch == 4
    plans = [plan for sentence in drawn_sentences(model, 6)[2:] for plan in free.prior([sentence])]
    parts = [plan.whole() for plan in plans[:3]] + [Part(plans[3], Span(2, plans[3].n_frames - 3))]
    assert max(part.span.n_frames for part in parts) > room.most_area
    calls: list[tuple[int, int]] = []
    of_model = model.decode

    def watched(*args: torch.Tensor) -> torch.Tensor:
        calls.append((args[4].shape[0], args[4].shape[2]))
        return of_model(*args)

    expected = [free.decode([part])[0] for part in parts]
    model.decode = watched  # type: ignore[method-assign]
    for ours, whole in zip(small.decode(parts), expected, strict=True):
        np.testing.assert_allclose(ours, whole, rtol=0, atol=2e-5)
    assert max(n * width for n, width in calls) <= room.most_area
    assert max(n for n, _ in calls) <= room.max_batch


def test_the_speaker_encoder_has_the_weights_that_are_counted() -> None:
    assert sum(p.numel() for p in load_pretrained()[0].parameters()) == N_WEIGHTS


def test_a_voice_is_opened_in_the_room_that_fits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On the CPU the graphs give way to eager, which keeps to the bound."""
    model = small_model()
    bundle.save(tmp_path, model.config, model.state_dict(), "# small\n")
    least = bound(0).limit_for(memory.full_plan(model.config, "eager").n_bytes)
    for limit, batch in ((least, 16), (least - MIB, 8)):
        engine = open_engine(tmp_path, EngineChoice("cuda-graph", threads=1, bound=bound(limit)))
        assert (engine.name, engine.max_batch) == ("eager", batch)
        engine.close()
    assert "takes the place of cuda-graph" in caplog.text
    with pytest.raises(EngineError, match="VOICEKIN_VRAM_LIMIT_BYTES"):
        open_engine(tmp_path, EngineChoice("eager", threads=1, bound=bound(MIB)))
