"""How long a stream is, written into its head where the container has a place for it and the length is known before.

Sources: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, RIFF WAVE; EBU Tech 3306, RF64;
RFC 9639, section 8.2, STREAMINFO; ISO/IEC 11172-3, the frame header, and the `Info` tag that LAME writes.
"""

import math
import struct

UNKNOWN_SIZE = 0xFFFFFFFF
_WAV_HEAD_BYTES = 44
_RF64_HEAD_BYTES = 80
_MP3_FRAME_SAMPLES = 1152
# What the encoder puts before the sound; what decoders add to it is theirs to know.
_MP3_DELAY_SAMPLES = 576
_MP3_FRAMES_FLAG = 1
# The tag stands behind the side information of one channel, which is empty.
_MP3_TAG_AT = 21
_MP3_PADS_AT = 32


def wav_head(sample_rate: int, n_bytes: int | None) -> bytes:
    """The head of 16-bit mono; with unknown sizes for None, and as RF64 from 4 GiB on."""
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16)
    if n_bytes is not None and n_bytes + _WAV_HEAD_BYTES - 8 >= UNKNOWN_SIZE:
        sizes = struct.pack("<4sIQQQI", b"ds64", 28, n_bytes + _RF64_HEAD_BYTES - 8, n_bytes, n_bytes // 2, 0)
        riff = struct.pack("<4sI4s", b"RF64", UNKNOWN_SIZE, b"WAVE")
        return riff + sizes + fmt + struct.pack("<4sI", b"data", UNKNOWN_SIZE)
    whole, data = (UNKNOWN_SIZE, UNKNOWN_SIZE) if n_bytes is None else (n_bytes + _WAV_HEAD_BYTES - 8, n_bytes)
    return struct.pack("<4sI4s", b"RIFF", whole, b"WAVE") + fmt + struct.pack("<4sI", b"data", data)


def wav_size(n_samples: int) -> int:
    """The bytes of a whole file of 16-bit mono."""
    return len(wav_head(1, 2 * n_samples)) + 2 * n_samples


def flac_with_length(head: bytes, n_samples: int) -> bytes:
    """The first bytes of a FLAC stream, with its length in STREAMINFO: 36 bits behind rate, channels and depth."""
    at = len(b"fLaC") + 4 + 10
    (packed,) = struct.unpack(">Q", head[at : at + 8])
    return head[:at] + struct.pack(">Q", packed >> 36 << 36 | n_samples) + head[at + 8 :]


def mp3_with_length(head: bytes, n_samples: int) -> bytes:
    """The first bytes of an MP3 stream of constant bit rate, with a silent frame that tells the length."""
    at = _id3_bytes(head)
    frame = bytearray(head[at : at + 4].ljust(_mp3_frame_bytes(head[at : at + 4]), b"\0"))
    # Neither padded nor joined with another channel.
    frame[2] &= 0b11111101
    frame[3] = 0b11000000
    n_frames = math.ceil(n_samples / _MP3_FRAME_SAMPLES) + 1
    padding = n_frames * _MP3_FRAME_SAMPLES - _MP3_DELAY_SAMPLES - n_samples
    struct.pack_into(">4sII9s", frame, _MP3_TAG_AT, b"Info", _MP3_FRAMES_FLAG, n_frames, b"Lavf")
    pads = _MP3_DELAY_SAMPLES << 12 | padding
    struct.pack_into(">I", frame, _MP3_TAG_AT + _MP3_PADS_AT, pads)
    return head[:at] + bytes(frame) + head[at:]


def _id3_bytes(head: bytes) -> int:
    if head[:3] != b"ID3":
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte
    return size + 10


def _mp3_frame_bytes(header: bytes) -> int:
    kbits = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)[header[2] >> 4]
    rate = (44100, 48000, 32000)[header[2] >> 2 & 3]
    return 144 * kbits * 1000 // rate
