"""Small voices of every kind, with weights that leave no layer idle."""

import dataclasses
import math
from typing import TypeVar

import torch
from torch import nn

from cloning.config import (
    DecoderConfig,
    DurationConfig,
    FlowConfig,
    SpeakerConfig,
    TextConfig,
    TextEncoderConfig,
    VoiceConfig,
    WaveNetConfig,
)
from cloning.model import YourTTS
from cloning.types import AudioConfig

M = TypeVar("M", bound=nn.Module)
D_VECTOR = 8
HOP = 16
AUDIO = AudioConfig(sample_rate=8000, n_fft=64, win_length=48, hop_length=HOP)
ISTFT = DecoderConfig("istft", 12, 20, n_blocks=2, condition_width=6)
HIFIGAN = DecoderConfig(
    "hifigan", 16, upsample_rates=(4, 2, 2), upsample_kernels=(8, 4, 4), resblock="1",
    resblock_kernels=(3, 5), resblock_dilations=((1, 3), (1, 2)),
)  # fmt: skip
HIFIGAN_2 = dataclasses.replace(HIFIGAN, resblock="2")
PLAIN = DurationConfig("plain", 12)
STOCHASTIC = DurationConfig("stochastic", 10, n_flows=4)
BY_LANGUAGE = dataclasses.replace(STOCHASTIC, language_conditioned=True)

DECODERS = {"istft": ISTFT, "hifigan-1": HIFIGAN, "hifigan-2": HIFIGAN_2}
DURATIONS = {"plain": PLAIN, "stochastic": STOCHASTIC, "by-language": BY_LANGUAGE}


def small_voice(durations: DurationConfig = PLAIN, decoder: DecoderConfig = ISTFT) -> VoiceConfig:
    return VoiceConfig(
        name="small",
        encoder_id="test-v1",
        audio=AUDIO,
        text=TextConfig("characters", tuple("_abcdefghij"), {"en": 0, "pt": 1}),
        speaker=SpeakerConfig(D_VECTOR, 2.0, 6, ("studio", "phone"), "phone"),
        text_encoder=TextEncoderConfig(10, 16, n_heads=2, n_layers=2, language_width=2, speaker_conditioned=True),
        durations=durations,
        posterior=WaveNetConfig(3, 2),
        flow=FlowConfig(2, WaveNetConfig(3, 2, dilation_rate=2, condition_width=4)),
        decoder=decoder,
    )


def restless(module: M, seed: int = 0, spread: float = 1.0) -> M:
    """Every parameter drawn anew: what starts at zero or one would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        fan = math.prod(parameter.shape[1:]) or 1
        drawn = torch.randn(parameter.shape, generator=generator) * spread / math.sqrt(fan if parameter.ndim > 1 else 9)
        parameter.data.copy_(drawn + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
    return module.eval().requires_grad_(False)


def small_model(durations: DurationConfig = PLAIN, decoder: DecoderConfig = ISTFT, seed: int = 0) -> YourTTS:
    return restless(YourTTS(small_voice(durations, decoder)), seed)
