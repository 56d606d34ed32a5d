"""Voices that can be trained by name: their widths and depths."""

from cloning.config import (
    DecoderConfig,
    DurationConfig,
    FlowConfig,
    SpeakerConfig,
    SpeechDefaults,
    TextConfig,
    TextEncoderConfig,
    VoiceConfig,
    WaveNetConfig,
)
from cloning.text.symbols import ENGLISH_SYMBOLS
from cloning.types import AudioConfig

RECORDINGS = ("studio", "full-band", "narrow-band")
D_VECTOR = 256


def _english() -> TextConfig:
    return TextConfig("english-phonemes", tuple(ENGLISH_SYMBOLS), {"en": 0})


def _speaker(width: int) -> SpeakerConfig:
    # A d-vector's entries are about 1/16; times 16 they are about 1.
    return SpeakerConfig(D_VECTOR, 16.0, width, RECORDINGS, "studio")


def default_voice(encoder_id: str) -> VoiceConfig:
    """The voice that ships: 24 kHz, 19.9 million weights to speak with."""
    return VoiceConfig(
        name="default",
        encoder_id=encoder_id,
        audio=AudioConfig(sample_rate=24000, n_fft=1024, win_length=1024, hop_length=256),
        text=_english(),
        speaker=_speaker(256),
        text_encoder=TextEncoderConfig(192, 768, n_heads=4, n_layers=5, speaker_conditioned=True),
        durations=DurationConfig("plain", 256, dropout=0.3),
        posterior=WaveNetConfig(5, 10, condition_width=96),
        flow=FlowConfig(4, WaveNetConfig(3, 4, condition_width=96)),
        decoder=DecoderConfig("istft", 384, 1152, n_blocks=8, condition_width=96),
        speech=SpeechDefaults(noise_scale=0.333),
    )


def tiny_voice(encoder_id: str) -> VoiceConfig:
    """A voice for tests of the machinery: it trains a step in a blink and says nothing."""
    return VoiceConfig(
        name="tiny",
        encoder_id=encoder_id,
        audio=AudioConfig(sample_rate=24000, n_fft=1024, win_length=1024, hop_length=256),
        text=_english(),
        speaker=_speaker(16),
        text_encoder=TextEncoderConfig(16, 32, n_heads=2, n_layers=1, speaker_conditioned=True),
        durations=DurationConfig("plain", 16, dropout=0.1),
        posterior=WaveNetConfig(3, 2, condition_width=8),
        flow=FlowConfig(2, WaveNetConfig(3, 1, condition_width=8)),
        decoder=DecoderConfig("istft", 16, 32, n_blocks=1, condition_width=8),
    )


RECIPES = {"default": default_voice, "tiny": tiny_voice}
