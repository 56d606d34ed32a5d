"""Samples without a container, whose shape only the upload's declared type tells."""

import re
import struct

import numpy as np

from encoder.containers import MAGIC, MAX_CHANNELS, MAX_RATE_HZ, MIN_RATE_HZ
from encoder.errors import UnreadableAudio

_RAW_TYPES = {"audio/l16", "audio/pcm"}
_PARAMETER = re.compile(r";\s*([A-Za-z]+)\s*=\s*\"?([^\s;\"]*)\"?")
_LIMITS = {"rate": (MIN_RATE_HZ, MAX_RATE_HZ), "channels": (1, MAX_CHANNELS)}


def in_container(data: bytes, declared_type: str) -> bytes:
    """Raw 16-bit samples as WAV; bytes of any other type, and files of a known format whatever their type, as they are.

    The order of each sample's two bytes is found out: by the standard the high one comes first, most writers put it
    last. Raises: UnreadableAudio (`unsupported_format`) where the type does not say rate and channels.
    Source: RFC 2586, the audio/L16 MIME content type.
    """
    media_type, _, _ = declared_type.partition(";")
    if media_type.strip().lower() not in _RAW_TYPES or data.startswith(MAGIC) or not data:
        return data
    given = {name.lower(): value for name, value in _PARAMETER.findall(declared_type)}
    rate, channels = (_number(name, given.get(name, "")) for name in ("rate", "channels"))
    samples = _little_endian(data[: len(data) // (2 * channels) * 2 * channels])
    return _header(rate, channels, len(samples)) + samples


def _number(name: str, text: str) -> int:
    low, high = _LIMITS[name]
    if text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high:
        return int(text)
    raise UnreadableAudio(
        "unsupported_format",
        f"raw samples need their {name}, {low} to {high}, in the type of the file part, "
        "as in `audio/L16;rate=16000;channels=1`; or send a WAV",
        missing=name,
    )


def _little_endian(data: bytes) -> bytes:
    """Sound changes little from sample to sample; read in the wrong order it is noise."""
    orders = [np.frombuffer(data, order) for order in ("<i2", ">i2")]
    unrest = [float(np.square(np.diff(samples[:160_000].astype(np.float32))).sum()) for samples in orders]
    return data if unrest[0] <= unrest[1] else orders[1].astype("<i2").tobytes()


def _header(rate: int, channels: int, n_bytes: int) -> bytes:
    """Source: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, RIFF WAVE."""
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * 2 * channels, 2 * channels, 16)
    return struct.pack("<4sI4s", b"RIFF", 36 + n_bytes, b"WAVE") + fmt + struct.pack("<4sI", b"data", n_bytes)
