"""Decoders (vocoders): latents to samples."""

from cloning.config import DecoderConfig
from cloning.decoders.hifigan import HifiGanDecoder
from cloning.decoders.istft import IstftDecoder
from cloning.types import AudioConfig

__all__ = ["Decoder", "HifiGanDecoder", "IstftDecoder", "build_decoder"]

Decoder = HifiGanDecoder | IstftDecoder


def build_decoder(hidden: int, g_width: int, config: DecoderConfig, audio: AudioConfig) -> Decoder:
    """The decoder that the configuration names."""
    if config.kind == "istft":
        return IstftDecoder(hidden, g_width, config, audio)
    return HifiGanDecoder(hidden, g_width, config)
