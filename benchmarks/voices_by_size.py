"""Voices by the sizes of their networks, for figures that do not depend on what a voice has learned."""

from importlib.resources import files
from pathlib import Path

import torch

from cloning.bundle import load_model
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

NAMES = ("default", "yourtts-sized")


def yourtts_sized() -> VoiceConfig:
    """The sizes of the published YourTTS: 16 kHz, H/ASP's d-vectors, HiFi-GAN V1, stochastic durations.

    Source: YourTTS (Casanova et al. 2022), section 2, and the configuration published with its checkpoint.
    """
    return VoiceConfig(
        name="yourtts-sized",
        encoder_id="none",
        audio=AudioConfig(sample_rate=16000, n_fft=1024, win_length=1024, hop_length=256),
        text=TextConfig("characters", tuple(chr(0x100 + i) for i in range(165)), {"en": 0, "fr-fr": 1, "pt-br": 2}),
        speaker=SpeakerConfig(512),
        text_encoder=TextEncoderConfig(192, 768, n_heads=2, n_layers=10, language_width=4),
        durations=DurationConfig("stochastic", 192, language_conditioned=True),
        posterior=WaveNetConfig(5, 16),
        flow=FlowConfig(4, WaveNetConfig(5, 4)),
        decoder=DecoderConfig(
            "hifigan", 512, upsample_rates=(8, 8, 2, 2), upsample_kernels=(16, 16, 4, 4), resblock="1",
            resblock_kernels=(3, 7, 11), resblock_dilations=((1, 3, 5),) * 3,
        ),
    )  # fmt: skip


def open_model(name: str, device: torch.device) -> YourTTS:
    """The bundled voice, or random weights of a size; no layer is left at zero, where arithmetic would be exact."""
    if name == "default":
        return load_model(Path(str(files("voices"))) / "default", device)
    torch.manual_seed(0)
    model = YourTTS(yourtts_sized())
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.01)
    return model.to(device).eval().requires_grad_(False)
