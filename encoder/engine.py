"""Speaker embeddings of many clips at once, on the CPU or on a side stream of a CUDA device."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from encoder.activity import SpeechDetector
from encoder.audio import SAMPLE_RATE, normalise_level, resample
from encoder.errors import UnusableSpeech
from encoder.networks.ge2e import GE2E, load_pretrained
from encoder.networks.hasp import Hasp
from encoder.types import Embedding, FloatArray, Waveform

PREPROCESSING_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class EmbeddedClip:
    """One clip's embedding and those of its partials. Shapes: partials float32 (P, d), L2 norm 1 each."""

    embedding: Embedding
    partials: FloatArray


@dataclass(frozen=True, slots=True)
class Handover:
    """Embeddings that still lie on the device. Shapes: vectors float32 (n_clips, d), L2 norm 1.

    `event` is None on the CPU, where the vectors are ready.
    """

    vectors: Tensor
    event: torch.cuda.Event | None

    def join(self, stream: torch.cuda.Stream) -> Tensor:
        """The vectors, safe to use in work that is queued on `stream` from now on; the host does not wait."""
        if self.event is not None:
            stream.wait_event(self.event)
            self.vectors.record_stream(stream)
        return self.vectors


def encoder_id_of(weights_sha256: str, kind: str = "ge2e") -> str:
    """The id of vectors that come from these weights and from this version of the preprocessing."""
    return f"{kind}-{weights_sha256[:12]}-{PREPROCESSING_VERSION}"


class SpeakerEncoder:
    """A network that makes d-vectors, Resemblyzer's GE2E unless another is given; many threads may call it.

    `encoder_id` names the weights and the version of the preprocessing, of which the speech `detector` is a part:
    vectors of different ids never meet.
    """

    def __init__(self, network: GE2E | Hasp, detector: SpeechDetector, encoder_id: str, device: torch.device) -> None:
        self.detector = detector
        self.encoder_id = encoder_id
        self.dim = network.dim
        self.device = device
        self._network = network.to(device)
        self._lock = threading.Lock()
        # torch's stubs leave the stream's constructor untyped.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(device))  # the weights arrive on that one

    @classmethod
    def load(cls, device: str = "cpu") -> "SpeakerEncoder":
        """The encoder with the pretrained weights.

        Raises: FileNotFoundError where the weights are missing.
        """
        network, sha256 = load_pretrained()
        return cls(network, SpeechDetector.load(), encoder_id_of(sha256), torch.device(device))

    def embed(self, waveforms: Sequence[Waveform]) -> list[Embedding]:
        """One embedding per waveform, of any sample rate; the whole of each is heard.

        Raises: UnusableSpeech (`no_speech`) for an empty, silent or non-finite waveform.
        """
        return [clip.embedding for clip in self.analyse(waveforms)]

    def analyse(self, waveforms: Sequence[Waveform]) -> list[EmbeddedClip]:
        """As `embed`, with the vectors of the partials beside each embedding."""
        clips = [_prepare(index, waveform) for index, waveform in enumerate(waveforms)]
        if not clips:
            return []
        with self._lock, self._side_stream():
            counts, vectors = self._embed_partials(clips)
            host = vectors.to("cpu", non_blocking=True)
            done = self._record()
        if done is not None:
            done.synchronize()
        parts = np.split(host.numpy(), np.cumsum(counts)[:-1])
        return [self._summarise(index, clip, part) for index, (clip, part) in enumerate(zip(clips, parts, strict=True))]

    def embed_async(self, waveforms: Sequence[Waveform]) -> Handover:
        """The embeddings left on the device, for work on another stream; see `Handover.join`.

        Raises: UnusableSpeech (`no_speech`) for an empty, silent or non-finite waveform; ValueError for no waveform.
        """
        if not waveforms:
            raise ValueError("embed_async needs at least one waveform")
        clips = [_prepare(index, waveform) for index, waveform in enumerate(waveforms)]
        with self._lock, self._side_stream():
            counts, vectors = self._embed_partials(clips)
            means = torch.stack([part.mean(dim=0) for part in torch.split(vectors, counts)])
            return Handover(torch.nn.functional.normalize(means, dim=1), self._record())

    @torch.inference_mode()
    def _embed_partials(self, clips: Sequence[FloatArray]) -> tuple[list[int], Tensor]:
        parts = self._network.embed_clips([torch.from_numpy(clip).to(self.device) for clip in clips])
        return [len(part) for part in parts], torch.cat(parts)

    def _summarise(self, index: int, clip: FloatArray, partials: FloatArray) -> EmbeddedClip:
        mean = partials.mean(axis=0)
        norm = float(np.linalg.norm(mean))
        if not np.isfinite(norm) or norm == 0.0:
            raise UnusableSpeech("no_speech", f"the speaker encoder hears no voice in waveform {index}", clip=index)
        vector = (mean / norm).astype(np.float32)
        coherence = float((partials @ vector).mean())
        speech_s = len(clip) / SAMPLE_RATE
        return EmbeddedClip(Embedding(vector, self.encoder_id, speech_s, len(partials), coherence), partials)

    @contextmanager
    def _side_stream(self) -> Iterator[None]:
        with torch.cuda.stream(self._stream):  # a stream of None is a no-op
            yield

    def _record(self) -> torch.cuda.Event | None:
        return self._stream.record_event() if self._stream is not None else None


def _prepare(index: int, waveform: Waveform) -> FloatArray:
    samples = waveform.samples
    if not len(samples) or not np.isfinite(samples).all() or not samples.any():
        raise UnusableSpeech("no_speech", f"waveform {index} is empty, silent or not finite", clip=index)
    return normalise_level(resample(samples, waveform.sample_rate, SAMPLE_RATE))
