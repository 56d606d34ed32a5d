"""The networks recorded as CUDA graphs, one for each shape, and run again without a launch from Python."""

import copy
import logging

import torch

from cloning.engines.bucketed import BucketedEngine, Networks, Run, Shapes
from cloning.engines.buckets import Room
from cloning.engines.devices import use_full_float32
from cloning.engines.eager import EagerEngine
from cloning.engines.precision import compare, drawn_sentences, to_half
from cloning.model import YourTTS

_log = logging.getLogger(__name__)
# A library chooses its kernels and takes its workspaces in the first runs, which must not be recorded.
_RUNS_BEFORE = 2
_N_GATE = 8


class GraphEngine(BucketedEngine):
    """Whatever runs the networks, recorded as graphs that share one pool of memory, on a stream of its own.

    Only one thread may call it. A graph's results are copied out before the next graph runs, so that all of them may
    use the same memory; other threads may use the device meanwhile, also while a graph is recorded.
    """

    def __init__(self, networks: Networks, device: torch.device, shapes: Shapes) -> None:
        use_full_float32()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        super().__init__(networks, device, shapes, self._capture, lambda: torch.cuda.stream(self._stream))
        # The buffers were filled with zeros on another stream.
        torch.cuda.synchronize(device)

    def _capture(self, run: Run) -> Run:
        for _ in range(_RUNS_BEFORE):
            run()
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate and copy on their own streams while this one records.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            run()
        return graph.replay


class CudaGraphEngine(GraphEngine):
    """Graphs of torch's networks."""

    name = "cuda-graph"

    def __init__(self, model: YourTTS, device: torch.device, shapes: Shapes | None = None) -> None:
        self._model = model
        super().__init__(model, device, shapes or Shapes.of(model))

    @classmethod
    def gated(cls, model: YourTTS, device: torch.device, room: Room | None = None) -> "CudaGraphEngine":
        """In half precision where that passes the gate against the networks as they are written, else in full."""
        shapes = Shapes.of(model, room.max_batch, most_area=room.most_area) if room else None
        half = cls(to_half(copy.deepcopy(model)), device, shapes)
        verdict = compare(half, EagerEngine(model, device, room), drawn_sentences(model, _N_GATE))
        if verdict.passed:
            return half
        _log.warning("%s runs in full precision: half precision failed its comparison, %s", model.config.name, verdict)
        half.close()
        return cls(model, device, shapes)

    def close(self) -> None:
        """Gives the device's memory back."""
        super().close()
        self._model.to("meta")
