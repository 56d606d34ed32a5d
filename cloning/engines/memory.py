"""How much of a device's memory an engine takes, part by part, and what it may do at once within a bound.

The d-vectors in use (`VOICEKIN_POOL_BYTES`) lie in the host's memory and go over with each batch.
"""

import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cloning.config import VoiceConfig
from cloning.engines.bucketed import Shapes, buffers
from cloning.engines.buckets import Room
from cloning.engines.eager import GPU_BATCH
from cloning.errors import EngineError
from cloning.model import PriorInput, YourTTS

MIB = 2**20
# Assumed, not measured by us: what the driver and the kernels take before torch allocates anything.
CONTEXT_BYTES = 512 * MIB
# Workspaces of cuBLAS and cuDNN, and how much more torch's allocator holds than lives at once: with these two the
# sums come out over what was measured (`reserved_mib` of benchmarks/results/engines-cuda.json), and little over it.
LIBRARIES_BYTES = 128 * MIB
SPREAD = 1.75
# Sentences between their two phases, whose priors wait on the device; the default of VOICEKIN_MAX_REQUESTS.
N_WAITING = 64
MOST_SENTENCES = {"eager": GPU_BATCH, "cuda-graph": 32}
FRAMES_A_SENTENCE = 512
_LEAST_FRAMES = 1024
_FLOAT_BYTES, _HALF_BYTES = 4, 2


@dataclass(frozen=True, slots=True)
class Bound:
    """The device memory of a process: the limit, how many voices share it, and what others than voices take of it."""

    limit_bytes: int
    n_voices: int
    elsewhere_bytes: int

    @property
    def allocated_bytes(self) -> int:
        """The most that torch may allocate."""
        return max(0, self.limit_bytes - CONTEXT_BYTES)

    @property
    def share_bytes(self) -> int:
        """A voice's part of it."""
        return (self.allocated_bytes - LIBRARIES_BYTES - self.elsewhere_bytes) // self.n_voices

    def limit_for(self, share_bytes: int) -> int:
        """The limit that gives each voice so much."""
        return share_bytes * self.n_voices + self.elsewhere_bytes + LIBRARIES_BYTES + CONTEXT_BYTES


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a voice does at once, and what that takes. `graphs_bytes` are buffers and recorded graphs."""

    engine: str
    room: Room
    weights_bytes: int
    activations_bytes: int
    graphs_bytes: int
    waiting_bytes: int

    @property
    def n_bytes(self) -> int:
        """All of it."""
        return self.weights_bytes + self.activations_bytes + self.graphs_bytes + self.waiting_bytes


@dataclass(frozen=True, slots=True)
class Counted:
    """Of a voice's networks: values of weights, those that may be halved, and the most bytes alive while they run."""

    n_weights: int
    n_halved: int
    prior_bytes: int
    frame_bytes: int
    reach_frames: int


def plan_of(config: VoiceConfig, engine: str, bound: Bound) -> MemoryPlan:
    """The most that a voice's engine can do at once within the bound.

    Raises: EngineError (`engine_unavailable`) for an engine that plans its own memory, and where not even one sentence
        at a time fits, with the limit that would do.
    """
    for plan in _plans(config, engine):
        if plan.n_bytes <= bound.share_bytes:
            return plan
    needed = -(-bound.limit_for(plan.n_bytes) // MIB)
    raise EngineError(
        "engine_unavailable",
        f"VOICEKIN_VRAM_LIMIT_BYTES is {bound.limit_bytes // MIB} MiB; the engine {engine} needs {needed} MiB at "
        f"the least, with {bound.n_voices} voice(s) in memory: raise it, or lower VOICEKIN_MAX_VOICES",
        limit_bytes=bound.limit_bytes,
        needed_bytes=needed * MIB,
    )


def full_plan(config: VoiceConfig, engine: str) -> MemoryPlan:
    """What the engine takes at its largest batch. Raises: EngineError for one that plans its own memory."""
    return _plans(config, engine)[0]


def _plans(config: VoiceConfig, engine: str) -> list[MemoryPlan]:
    """From the largest batch to single sentences."""
    if engine not in MOST_SENTENCES:
        words = (
            f"the shapes of the engine {engine} are fixed; with VOICEKIN_VRAM_LIMIT_BYTES choose eager or cuda-graph"
        )
        raise EngineError("engine_unavailable", words)
    counted, n = counted_of(config), MOST_SENTENCES[engine]
    least = max(_LEAST_FRAMES, 4 * counted.reach_frames)
    rooms = [Room(1 << i, max(least, FRAMES_A_SENTENCE << i)) for i in reversed(range(n.bit_length()))]
    return [planned(config, counted, engine, room) for room in rooms]


def planned(config: VoiceConfig, counted: Counted, engine: str, room: Room) -> MemoryPlan:
    """What a voice takes at a room.

    eager: weights in float32, and what lives in the larger of the two phases. cuda-graph: the same weights, which the
    comparison at the start reads, beside those in half precision; buffers and the graphs' own memory; and, outside of
    it, a run before a shape is recorded.
    """
    alive = max(room.max_batch * counted.prior_bytes, room.most_area * counted.frame_bytes)
    statistics_bytes = 2 * _FLOAT_BYTES * config.text_encoder.hidden * config.text.max_symbols
    weights, waiting = _FLOAT_BYTES * counted.n_weights, N_WAITING * statistics_bytes
    if engine == "eager":
        return MemoryPlan(engine, room, weights, round(SPREAD * alive), 0, waiting)
    halved = weights - (_FLOAT_BYTES - _HALF_BYTES) * counted.n_halved
    shapes = Shapes.of(outline(config), room.max_batch, most_area=room.most_area)
    graphs = sum(buffer.n_bytes for buffer in buffers(config, shapes)) + round(SPREAD * alive)
    return MemoryPlan(engine, room, weights + halved, alive, graphs, waiting)


def counted_of(config: VoiceConfig) -> Counted:
    """Counted by running the networks without their values, on torch's device `meta`; a tenth of a second, once."""
    return _counted(json.dumps(config.to_json()))


@lru_cache(maxsize=16)
def _counted(config_json: str) -> Counted:
    config = VoiceConfig.from_json(json.loads(config_json))
    model, n, t = outline(config), config.text.max_symbols, _LEAST_FRAMES
    hidden, d = config.text_encoder.hidden, config.speaker.d_vector
    with torch.no_grad(), torch.device("meta"):
        ids, one, row = torch.zeros(1, n).long(), torch.zeros(1).long(), torch.zeros(1, d)
        prior = PriorInput(ids, one, row, one, torch.zeros(1), torch.zeros(1, 2, n))
        statistics = torch.zeros(2, 1, hidden, n)
        prior_bytes = most_alive(model, lambda: model.prior(prior))
        decode_bytes = most_alive(
            model, lambda: model.decode(statistics[0], statistics[1], ids, row, torch.zeros(1, hidden, t))
        )
    n_halved = sum(p.numel() for network in (model.flow, model.decoder) for p in network.parameters())
    n_weights = sum(p.numel() for p in model.parameters())
    return Counted(n_weights, n_halved, prior_bytes, -(-decode_bytes // t), model.receptive_field_frames)


def most_alive(model: YourTTS, run: Callable[[], object]) -> int:
    """The most bytes of results that are alive at once in a run, the model's own tensors not counted."""
    alive = _Alive([*model.parameters(), *model.buffers()])
    with alive:
        run()
    return alive.most_bytes


def outline(config: VoiceConfig) -> YourTTS:
    """The networks without weights: they say how far a sample reaches, and what they take."""
    with torch.device("meta"):
        return YourTTS(config).eval()


class _Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Sums what every operation returns until it is freed; views have their storage in common."""

    def __init__(self, known: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now_bytes = self.most_bytes = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(
        self, function: Callable[..., object], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:  # fmt: skip
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, n_bytes = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now_bytes += n_bytes
        self.most_bytes = max(self.most_bytes, self.now_bytes)
        weakref.finalize(storage, self._drop, key, n_bytes)

    def _drop(self, key: int, n_bytes: int) -> None:
        self._known.discard(key)
        self.now_bytes -= n_bytes
