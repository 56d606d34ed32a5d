"""Decoders under attack: caps hold while decoding, and a decoder that hangs or dies costs one clip."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from encoder_media import at_rate, encoded, repeated_opus, silent_flac, wav
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.audio import Decoder
from encoder.errors import AudioTooLong, EncoderError, UnreadableAudio
from encoder.types import AudioLimits


def child_ids() -> set[int]:
    return {
        int(child) for children in Path("/proc/self/task").glob("*/children") for child in children.read_text().split()
    }


def peak_kib(pid: int | str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def cpu_s(pid: int) -> float:
    """Time that the process computed: unlike the clock's, it does not grow with the load of the machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def lone():
    """A decoder with one child of its own, and the child's process id."""
    before = child_ids()
    with Decoder(workers=1) as decoder:
        decoder.decode(wav(np.zeros(1600)))
        (pid,) = child_ids() - before
        yield decoder, pid


@pytest.mark.parametrize("bomb", ["opus of 4 hours", "flac of silence"])
def test_bombs_stop_at_the_cap_in_seconds(lone, bomb):
    decoder, pid = lone
    make = repeated_opus if bomb == "opus of 4 hours" else silent_flac
    data = make(4 * 3600)
    before, child_before = peak_kib("self"), peak_kib(pid)
    start_s = cpu_s(pid)
    with pytest.raises(AudioTooLong) as refused:
        decoder.decode(data)
    bomb_s = cpu_s(pid) - start_s
    assert refused.value.code == "decoded_too_long"
    assert refused.value.details["max_duration_s"] == 1800
    assert "1800 s" in refused.value.message
    assert peak_kib("self") - before < 200 * 1024
    assert peak_kib(pid) - child_before < 100 * 1024
    # A bomb costs no more than decoding up to the cap, here twice the half of it, on a machine of any speed.
    start_s = cpu_s(pid)
    decoder.decode(make(900))
    assert bomb_s < 2 * 2 * (cpu_s(pid) - start_s) + 0.5


def test_a_header_that_lies_allocates_nothing(lone):
    decoder, pid = lone
    data = bytearray(wav(np.zeros(1600)))
    data[4:8] = data[40:44] = b"\xf0\xff\xff\x7e"
    before, child_before = peak_kib("self"), peak_kib(pid)
    assert len(decoder.decode(bytes(data)).waveform.samples) == 1600
    assert peak_kib("self") - before < 10 * 1024
    assert peak_kib(pid) - child_before < 10 * 1024


def test_bytes_are_capped_before_anything_is_read(decoder):
    with pytest.raises(AudioTooLong) as refused:
        decoder.decode(wav(np.zeros(1600)), AudioLimits(max_bytes=1000))
    assert refused.value.code == "too_many_bytes"
    assert refused.value.details == {"n_bytes": 3244, "max_bytes": 1000}


def test_half_an_hour_is_decoded_whole(decoder):
    assert decoder.decode(silent_flac(1740)).waveform.duration_s == 1740


def test_a_decoder_that_never_returns_is_ended_and_its_slot_is_free_again(lone):
    decoder, pid = lone
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(UnreadableAudio) as refused:
        decoder.decode(wav(np.zeros(1600)), AudioLimits(max_decode_s=0.3))
    assert refused.value.code == "decode_timeout"
    assert refused.value.details["max_decode_s"] == 0.3
    assert not Path(f"/proc/{pid}").exists()
    assert len(decoder.decode(wav(np.zeros(1600))).waveform.samples) == 1600


def test_a_decoder_that_dies_once_costs_nothing(lone):
    decoder, pid = lone
    others = child_ids() - {pid}
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
    assert len(decoder.decode(wav(np.zeros(1600))).waveform.samples) == 1600
    (fresh,) = child_ids() - others
    os.kill(fresh, signal.SIGKILL)
    assert len(decoder.decode(wav(np.zeros(1600))).waveform.samples) == 1600


def test_a_clip_that_breaks_two_decoders_is_bad_and_costs_no_other(lone):
    decoder, pid = lone
    others = child_ids() - {pid}
    os.kill(pid, signal.SIGSTOP)
    done = threading.Event()

    def kill_all() -> None:
        while not done.wait(0.005):
            # A thread or a process that is looked at may be gone by then.
            with suppress(FileNotFoundError, ProcessLookupError):
                for child in child_ids() - others:
                    os.kill(child, signal.SIGKILL)

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        with pytest.raises(UnreadableAudio) as refused:
            decoder.decode(wav(np.zeros(1600)))
    finally:
        done.set()
        killer.join()
    assert refused.value.code == "bad_container"
    assert len(decoder.decode(wav(np.zeros(1600))).waveform.samples) == 1600


def test_threads_wait_for_a_free_child_and_get_their_own_clip(lone):
    decoder, _ = lone
    lengths = [1000 + 100 * index for index in range(12)]
    found: dict[int, int] = {}

    def decode(length: int) -> None:
        found[length] = len(decoder.decode(wav(np.zeros(length))).waveform.samples)

    threads = [threading.Thread(target=decode, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {length: length for length in lengths}


def test_closing_leaves_no_child_and_no_further_use():
    before = child_ids()
    decoder = Decoder(workers=2)
    assert len(child_ids() - before) == 2
    decoder.close()
    assert child_ids() <= before
    with pytest.raises(RuntimeError, match="closed"):
        decoder.decode(wav(np.zeros(1600)))


def test_children_end_with_a_parent_that_was_killed():
    program = (
        "import os, sys, time; from encoder.audio import Decoder; Decoder(workers=1)\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "the orphan is still there"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "playlist",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:{port}/a.ts\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile 'http://127.0.0.1:{port}/a.wav'\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n",
    ],
    ids=["hls", "concat", "sdp"],
)
def test_playlists_open_no_address(decoder, playlist):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        with pytest.raises(UnreadableAudio) as refused:
            decoder.decode(playlist.format(port=server.getsockname()[1]).encode())
        assert refused.value.code == "unsupported_format"
        with pytest.raises(TimeoutError):
            server.accept()


def test_nothing_is_written_to_disk(lone, tmp_path):
    _, pid = lone
    limits = Path(f"/proc/{pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max file size")]
    assert line.split()[3:5] == ["0", "0"]


@pytest.fixture(scope="module")
def containers(woman):
    short = woman[:16_000]
    return {
        "wav": wav(short),
        "flac": wav(short, container="FLAC"),
        "webm": encoded(at_rate(short, 48_000), 48_000, "webm", "libopus"),
        "m4a": encoded(at_rate(short, 44_100), 44_100, "ipod", "aac"),
        "mp3": encoded(at_rate(short, 44_100), 44_100, "mp3", "libmp3lame"),
    }


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["wav", "flac", "webm", "m4a", "mp3"]),
    hits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=20),
    keep=st.floats(0.1, 1),
)
def test_damaged_bytes_are_heard_or_refused_in_words(decoder, containers, kind, hits, keep):
    data = bytearray(containers[kind])
    for where, value in hits:
        # Half of the hits fall into the header, where they hurt most.
        data[int(where * 2 % 1 * (400 if where < 0.5 else len(data)))] = value
    try:
        decoded = decoder.decode(bytes(data[: int(keep * len(data))]), AudioLimits(max_duration_s=60))
    except EncoderError as error:
        assert error.code in {"no_audio", "bad_container", "unsupported_format", "decoded_too_long"}
    else:
        assert np.isfinite(decoded.waveform.samples).all()
        assert np.abs(decoded.waveform.samples).max(initial=0) <= 1
