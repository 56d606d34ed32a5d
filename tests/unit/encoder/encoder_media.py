"""Makes the containers, rates and faults that the tests upload, from real speech."""

import io
import struct
import tempfile
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import soundfile
import soxr

DATA = Path(__file__).parents[2] / "data"
LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1"}


def recording(name: str) -> np.ndarray:
    """One of the recordings. Shapes: float32 (n,) at 16 kHz."""
    return soundfile.read(DATA / f"{name}.flac", dtype="float32")[0]


def at_rate(samples: np.ndarray, rate: int) -> np.ndarray:
    return soxr.resample(samples, 16_000, rate)


def wav(samples: np.ndarray, rate: int = 16_000, subtype: str = "PCM_16", container: str = "WAV") -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=container, subtype=subtype)
    return out.getvalue()


def with_sizes(data: bytes, size: int) -> bytes:
    """A plain WAV whose RIFF and data chunks claim another size, as streaming writers leave it."""
    return data[:4] + struct.pack("<I", size) + data[8:40] + struct.pack("<I", size) + data[44:]


def encoded(samples: np.ndarray, rate: int, container: str, codec: str, **options: str) -> bytes:
    """Compressed audio by FFmpeg. Shapes: samples float32 (n,) or (n, channels)."""
    planes = np.ascontiguousarray(np.atleast_2d(samples.T), np.float32)
    with tempfile.NamedTemporaryFile() as out, av.open(out.name, "w", format=container, options=options) as target:
        stream = target.add_stream(codec, rate=rate, layout=LAYOUTS[len(planes)])
        stream.bit_rate = 64_000 * len(planes)
        fitting = av.AudioResampler(
            stream.codec_context.format or "fltp", LAYOUTS[len(planes)], rate, stream.codec_context.frame_size or 1024
        )
        frame = av.AudioFrame.from_ndarray(planes, "fltp", LAYOUTS[len(planes)])
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for piece in [*fitting.resample(frame), *fitting.resample(None), None]:
            target.mux(stream.encode(piece))
        target.close()
        return Path(out.name).read_bytes()


def repeated_opus(seconds: float) -> bytes:
    """Hours of Opus in little space: one packet of 60 ms again and again."""
    out = io.BytesIO()
    with av.open(out, "w", format="ogg") as target:
        stream = target.add_stream("libopus", rate=48_000, layout="mono", options={"frame_duration": "60"})
        stream.bit_rate = 6_000
        stream.codec_context.open()
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 2880), np.float32), "flt", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
        packets = [*stream.encode(frame), *stream.encode(None)]
        payload = bytes(packets[0])
        for index in range(int(seconds / 0.06)):
            packet = av.Packet(payload)
            packet.stream, packet.time_base = stream, Fraction(1, 48_000)
            packet.pts = packet.dts = index * 2880
            packet.duration = 2880
            target.mux(packet)
    return out.getvalue()


def silent_flac(seconds: int, rate: int = 16_000) -> bytes:
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", rate, 1, "PCM_16", format="FLAC") as file:
        second = np.zeros(rate * 60, np.int16)
        for _ in range(seconds // 60):
            file.write(second)
    return out.getvalue()
