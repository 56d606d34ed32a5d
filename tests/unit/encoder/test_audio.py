"""Uploads as people send them: every container, depth, rate and channel layout, and every kind of damage."""

import io
import struct

import av
import numpy as np
import pytest
from encoder_media import at_rate, encoded, wav, with_sizes

from encoder.audio import SAMPLE_RATE, condition_speech, level_dbfs, normalise_level
from encoder.errors import UnreadableAudio


def assert_same_sound(decoded, samples, tolerance):
    """Equal but for the offset that decoding removes and a scale that keeps peaks within 1."""
    found = decoded.waveform.samples
    assert decoded.waveform.sample_rate == SAMPLE_RATE
    assert abs(len(found) - len(samples)) <= 1
    n = min(len(found), len(samples))
    np.testing.assert_allclose(found[:n], samples[:n] - samples.mean(), atol=tolerance)


@pytest.mark.parametrize(
    ("subtype", "tolerance"),
    [
        ("PCM_U8", 0.01),
        ("PCM_16", 1e-4),
        ("PCM_24", 1e-5),
        ("PCM_32", 1e-5),
        ("FLOAT", 1e-5),
        ("DOUBLE", 1e-5),
        ("ALAW", 0.03),
        ("ULAW", 0.03),
    ],
)
def test_wav_of_any_depth(decoder, man, subtype, tolerance):
    samples = man[:80_000]
    assert_same_sound(decoder.decode(wav(samples, subtype=subtype)), samples, tolerance)


def test_wav_of_differences(decoder, man):
    decoded = decoder.decode(wav(man, subtype="IMA_ADPCM"))
    assert np.corrcoef(decoded.waveform.samples[: len(man)], man)[0, 1] > 0.99


@pytest.mark.parametrize("container", ["WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "FLAC"])
def test_lossless_containers(decoder, man, container):
    subtype = "PCM_24" if container == "FLAC" else "PCM_16"
    assert_same_sound(decoder.decode(wav(man, subtype=subtype, container=container)), man, 1e-4)


def test_24_bit_stereo_at_44100_equals_the_16_bit_version(decoder, man):
    stereo = np.stack([at_rate(man, 44_100)] * 2, axis=1)
    deep, plain = (decoder.decode(wav(stereo, 44_100, subtype)).waveform.samples for subtype in ("PCM_24", "PCM_16"))
    np.testing.assert_allclose(deep, plain, atol=1e-3)


COMPRESSED = {
    "webm of a browser's recorder, without duration": (48_000, "webm", "libopus", {"live": "1"}),
    "webm": (48_000, "webm", "libopus", {}),
    "webm in dash pieces": (48_000, "webm", "libopus", {"dash": "1", "cluster_time_limit": "500"}),
    "m4a, index at the end": (44_100, "ipod", "aac", {}),
    "m4a, index at the start": (44_100, "ipod", "aac", {"movflags": "faststart"}),
    "fragmented mp4": (44_100, "mp4", "aac", {"movflags": "frag_keyframe+empty_moov"}),
    "aac stream": (44_100, "adts", "aac", {}),
    "mp3": (44_100, "mp3", "libmp3lame", {}),
    "mp3 without a Xing header": (24_000, "mp3", "libmp3lame", {"write_xing": "0"}),
    "ogg opus": (48_000, "ogg", "libopus", {}),
    "alac": (44_100, "ipod", "alac", {}),
    "wma": (44_100, "asf", "wmav1", {}),
}


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("channels", [1, 2])
def test_compressed_formats(decoder, encoder, man, kind, channels):
    rate, container, codec, options = COMPRESSED[kind]
    samples = at_rate(man, rate)
    data = encoded(samples if channels == 1 else np.stack([samples] * 2, axis=1), rate, container, codec, **options)
    decoded = decoder.decode(data)
    # Two formats have no place to say how many samples of padding their encoder put in front.
    slack_s = 0.1 if kind in ("aac stream", "mp3 without a Xing header") else 0.05
    assert decoded.facts.duration_s == pytest.approx(len(man) / 16_000, abs=slack_s)
    assert decoded.waveform.duration_s == pytest.approx(decoded.facts.duration_s, abs=0.001)
    assert (decoded.facts.source_sample_rate, decoded.facts.channels) == (rate, channels)
    assert not decoded.facts.damaged
    assert not decoded.facts.channels_differ
    clean, found = encoder.embed([decoder.decode(wav(man)).waveform, decoded.waveform])
    assert clean.vector @ found.vector > 0.95


def test_a_browsers_recording_states_no_duration(man):
    rate, container, codec, options = COMPRESSED["webm of a browser's recorder, without duration"]
    with av.open(io.BytesIO(encoded(at_rate(man, rate), rate, container, codec, **options))) as file:
        assert file.duration is None


def test_ogg_vorbis(decoder, man):
    decoded = decoder.decode(wav(man, subtype="VORBIS", container="OGG"))
    assert decoded.facts.container == "ogg/vorbis"
    assert decoded.facts.duration_s == pytest.approx(len(man) / 16_000, abs=0.01)


def test_vorbis_in_webm(decoder, man):
    out = io.BytesIO()
    with (
        av.open(io.BytesIO(wav(man, subtype="VORBIS", container="OGG"))) as source,
        av.open(out, "w", "webm") as target,
    ):
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    decoded = decoder.decode(out.getvalue())
    assert decoded.facts.container == "matroska/vorbis"
    assert decoded.facts.duration_s == pytest.approx(len(man) / 16_000, abs=0.05)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 2_000_000_000, 0])
def test_wav_of_a_streaming_writer_is_read_to_its_end(decoder, man, size):
    decoded = decoder.decode(with_sizes(wav(man), size))
    assert_same_sound(decoded, man, 1e-4)
    assert not decoded.facts.damaged


def test_header_that_promises_more_than_there_is(decoder, man):
    assert decoder.decode(wav(man)[: 44 + 6400]).facts.duration_s == pytest.approx(0.2)
    assert len(decoder.decode(wav(man) + b"\x01").waveform.samples) == len(man)


@pytest.mark.parametrize("name", ["channels", "rate", "bits"])
def test_zeros_in_a_header_are_a_bad_container(decoder, man, name):
    at, kind = {"channels": (22, "<H"), "rate": (24, "<I"), "bits": (34, "<H")}[name]
    data = bytearray(wav(man))
    data[at : at + struct.calcsize(kind)] = struct.pack(kind, 0)
    with pytest.raises(UnreadableAudio) as refused:
        decoder.decode(bytes(data))
    assert refused.value.code == "bad_container"


UNREADABLE = {
    "nothing": (b"", "empty"),
    "a header alone": (wav(np.zeros(0)), "no_audio"),
    "a cut header": (wav(np.zeros(100))[:20], "bad_container"),
    "a flac cut in its header": (b"fLaC" + bytes(20), "bad_container"),
    "an ogg page of nothing": (b"OggS" + bytes(60), "bad_container"),
    "text": (b"hello world " * 100, "unsupported_format"),
    "a web page": (b"<!doctype html><html>" + b" " * 500, "unsupported_format"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "unsupported_format"),
    "an archive": (b"PK\x03\x04" + bytes(300), "unsupported_format"),
    "one byte": (b"\x00", "unsupported_format"),
    "raw samples": (
        np.random.default_rng(1).integers(-9000, 9000, 16_000).astype("<i2").tobytes(),
        "unsupported_format",
    ),
    "a rate of 2 kHz": (wav(np.zeros(2000), 2000), "unsupported_format"),
    "64 channels": (wav(np.zeros((100, 64))), "unsupported_format"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_audio_says_so(decoder, kind):
    data, code = UNREADABLE[kind]
    with pytest.raises(UnreadableAudio) as refused:
        decoder.decode(data)
    assert refused.value.code == code
    assert len(refused.value.message) > 20
    assert "/" not in refused.value.message.replace("m4a/aac", "")


def test_unreadable_formats_are_told_what_would_be_read(decoder):
    with pytest.raises(UnreadableAudio, match=r"m4a/aac, webm.*raw PCM needs .* rate and channels"):
        decoder.decode(b"hello world " * 100)


def test_video_without_sound_has_no_audio(decoder):
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as target:
        stream = target.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), "rgb24")
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            target.mux(packet)
    with pytest.raises(UnreadableAudio) as refused:
        decoder.decode(out.getvalue())
    assert refused.value.code == "no_audio"


def test_peaks_above_one_are_scaled_not_wrapped(decoder, man):
    loud = man * np.float32(1.8 / np.abs(man).max())
    decoded = decoder.decode(wav(loud, subtype="FLOAT"))
    found = decoded.waveform.samples
    assert np.abs(found).max() == pytest.approx(1.0)
    assert np.corrcoef(found, loud)[0, 1] > 0.9999
    assert decoded.facts.clipped_share > 0.0005


def test_not_a_number_is_silenced_and_called_damage(decoder, man):
    broken = man.copy()
    broken[5000:5100] = np.nan
    broken[9000] = np.inf
    decoded = decoder.decode(wav(broken, subtype="FLOAT"))
    assert np.isfinite(decoded.waveform.samples).all()
    assert decoded.facts.damaged


def test_offset_is_removed(decoder, man):
    found = decoder.decode(wav(man * 0.5 + 0.2)).waveform.samples
    assert abs(found.mean()) < 1e-4


def test_clipping_is_measured_wherever_the_ceiling_lies(decoder, man):
    ceiling = np.quantile(np.abs(man), 0.7)
    clipped = man.clip(-ceiling, ceiling)
    for scale in (1 / ceiling, 0.3 / ceiling):
        assert decoder.decode(wav(clipped * scale)).facts.clipped_share == pytest.approx(0.3, abs=0.05)
    assert decoder.decode(wav(man)).facts.clipped_share < 1e-4


def channels_of(decoder, *channels, subtype="PCM_16", container="WAV"):
    return decoder.decode(wav(np.stack(channels, axis=1), subtype=subtype, container=container))


def test_loud_equal_channels_do_not_overflow(decoder, man):
    loud = man / np.abs(man).max()
    assert_same_sound(channels_of(decoder, loud, loud), loud, 1e-3)


def test_inverse_channels_do_not_cancel(decoder, man):
    decoded = channels_of(decoder, man, -0.9 * man)
    assert_same_sound(decoded, man, 1e-3)
    assert decoded.facts.channels_differ


def test_silent_channels_do_not_dilute(decoder, man):
    still = np.zeros_like(man)
    decoded = channels_of(decoder, still, man)
    assert_same_sound(decoded, man, 1e-3)
    assert not decoded.facts.channels_differ
    centre = channels_of(decoder, still, still, man, still, still, still, container="WAVEX")
    assert_same_sound(centre, man, 1e-3)
    assert centre.facts.channels == 6


def test_different_channels_are_told(decoder, man, woman):
    n = min(len(man), len(woman))
    assert channels_of(decoder, man[:n], woman[:n]).facts.channels_differ


def test_one_channel_alone_can_be_asked_for(decoder, man, woman):
    n = min(len(man), len(woman))
    clip = wav(np.stack([man[:n], woman[:n]], axis=1))
    for channel, samples in enumerate((man[:n], woman[:n])):
        assert_same_sound(decoder.decode(clip, channel=channel), samples, 1e-3)


def mp3_of(samples):
    return encoded(at_rate(samples, 44_100), 44_100, "mp3", "libmp3lame")


def test_mp3_with_cover_art_and_a_cut_first_frame(decoder, man):
    picture = b"\x00image/png\x00\x03\x00" + bytes(2_000_000)
    frame = b"APIC" + struct.pack(">I", len(picture)) + b"\x00\x00" + picture
    size = bytes((len(frame) >> shift) & 0x7F for shift in (21, 14, 7, 0))
    decoded = decoder.decode(b"ID3\x03\x00\x00" + size + frame + mp3_of(man)[700:])
    assert decoded.facts.duration_s == pytest.approx(len(man) / 16_000, abs=0.1)


def test_mp3_with_zeros_inside_keeps_the_rest(decoder, man):
    data = mp3_of(man)
    half = len(data) // 2
    decoded = decoder.decode(data[:half] + bytes(4096) + data[half + 4096 :])
    assert decoded.facts.damaged
    assert decoded.facts.duration_s == pytest.approx(len(man) / 16_000, abs=0.6)


@pytest.mark.parametrize("kind", ["flac", "mp3", "m4a, index at the start"])
def test_a_cut_file_is_used_as_far_as_it_goes(decoder, man, kind):
    if kind == "flac":
        data = wav(man, container="FLAC")
    elif kind == "mp3":
        data = mp3_of(man)
    else:
        data = encoded(at_rate(man, 44_100), 44_100, "ipod", "aac", movflags="faststart")
    decoded = decoder.decode(data[: int(len(data) * 0.6)])
    assert decoded.facts.damaged
    assert 0.5 < decoded.facts.duration_s / (len(man) / 16_000) < 0.7


def test_level(man):
    assert level_dbfs(np.full(100, 0.1, np.float32)) == pytest.approx(-20)
    assert level_dbfs(np.zeros(100, np.float32)) == level_dbfs(np.zeros(0, np.float32)) == -120
    assert level_dbfs(normalise_level(man * np.float32(1e-3))) == pytest.approx(-30, abs=0.01)
    np.testing.assert_array_equal(normalise_level(man), man)
    assert level_dbfs(normalise_level(man, loudest_dbfs=-28.0)) == pytest.approx(-28, abs=0.01)


def test_conditioning_removes_hum_and_keeps_the_rest():
    time_s = np.arange(16_000) / 16_000
    tones = {hz: (0.05 * np.sin(2 * np.pi * hz * time_s)).astype(np.float32) for hz in (50, 60, 100, 5_000)}
    kept = condition_speech(tones[50] + tones[60] + tones[100] + tones[5_000])
    np.testing.assert_allclose(kept, tones[100] + tones[5_000], atol=1e-4)
