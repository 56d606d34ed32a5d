"""Everything a voice says about itself: the typed form of a bundle's `model.json`.

No width, rate or depth is a constant in the networks; each of them reads its part of `VoiceConfig`.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from cloning.errors import BundleError
from cloning.types import AudioConfig, Spelling

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class TextConfig:
    """Which front end turns text into ids, and the symbols those ids stand for."""

    front_end: str
    symbols: tuple[str, ...]
    languages: Mapping[str, int]
    max_symbols: int = 220
    spelling: Spelling = field(default_factory=Spelling)

    @property
    def n_symbols(self) -> int:
        return len(self.symbols)


@dataclass(frozen=True, slots=True)
class SpeakerConfig:
    """How a d-vector becomes the global condition `g`.

    `width` 0 hands the d-vector over as it is. `recordings` names the learned recording conditions
    (bandwidth and room) that training tells apart; `speak_as` is the one used for speaking.
    """

    d_vector: int
    input_scale: float = 1.0
    width: int = 0
    recordings: tuple[str, ...] = ()
    speak_as: str = ""

    @property
    def g_width(self) -> int:
        return self.width or self.d_vector


@dataclass(frozen=True, slots=True)
class TextEncoderConfig:
    """The transformer over symbols; `hidden` is also the width of the latents."""

    hidden: int
    filter: int
    n_heads: int
    n_layers: int
    kernel: int = 3
    window: int = 4
    dropout: float = 0.1
    language_width: int = 0
    speaker_conditioned: bool = False


@dataclass(frozen=True, slots=True)
class DurationConfig:
    """Frames for each symbol: `plain` regression of log frames or the `stochastic` flow, which reads the last four.

    `language_conditioned` joins the language's embedding to the speaker's condition. `plain` alone reads
    `norm_epsilon` and `rounding` of frames to whole ones.
    """

    kind: Literal["plain", "stochastic"]
    filter: int
    kernel: int = 3
    dropout: float = 0.5
    language_conditioned: bool = False
    n_flows: int = 4
    n_layers: int = 3
    n_bins: int = 10
    spline_bound: float = 5.0
    norm_epsilon: float = 1e-5
    rounding: Literal["nearest", "up"] = "nearest"


@dataclass(frozen=True, slots=True)
class WaveNetConfig:
    """Gated convolutions; `condition_width` 0 maps `g` straight to all layers, else through a narrow layer."""

    kernel: int
    n_layers: int
    dilation_rate: int = 1
    condition_width: int = 0


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """Mean-only affine couplings, each with its own WaveNet."""

    n_couplings: int
    wavenet: WaveNetConfig


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Latents to samples. `istft` reads `hidden`, `filter`, `n_blocks`; `hifigan` reads the rest."""

    kind: Literal["istft", "hifigan"]
    hidden: int
    filter: int = 0
    n_blocks: int = 0
    condition_width: int = 0
    upsample_rates: tuple[int, ...] = ()
    upsample_kernels: tuple[int, ...] = ()
    resblock: Literal["1", "2"] = "1"
    resblock_kernels: tuple[int, ...] = ()
    resblock_dilations: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SpeechDefaults:
    """How the voice speaks when a request does not say; `length_scale` corrects the bias of log durations."""

    noise_scale: float = 0.333
    noise_scale_dp: float = 0.8
    length_scale: float = 1.0
    max_sentence_s: float = 30.0


@with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
@dataclass(frozen=True, slots=True)
class VoiceConfig:
    """A whole voice."""

    name: str
    encoder_id: str
    audio: AudioConfig
    text: TextConfig
    speaker: SpeakerConfig
    text_encoder: TextEncoderConfig
    durations: DurationConfig
    posterior: WaveNetConfig
    flow: FlowConfig
    decoder: DecoderConfig
    speech: SpeechDefaults = field(default_factory=SpeechDefaults)
    format: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        for part in (self._check_text, self._check_speaker, self._check_networks, self._check_decoder):
            part()

    def _check_text(self) -> None:
        text = self.text
        _require(len(set(text.symbols)) == text.n_symbols > 0, "text.symbols is empty or names a symbol twice")
        ids = sorted(text.languages.values())
        _require(ids == list(range(len(ids))), f"text.languages has the ids {ids}, expected 0 to {len(ids) - 1}")
        _require(text.max_symbols > 0, f"text.max_symbols is {text.max_symbols}, it must be at least 1")

    def _check_speaker(self) -> None:
        speaker = self.speaker
        _require(speaker.d_vector > 0, f"speaker.d_vector is {speaker.d_vector}, it must be at least 1")
        _require(
            not speaker.recordings or speaker.speak_as in speaker.recordings,
            f"speaker.speak_as {speaker.speak_as!r} is not among the recordings {speaker.recordings}",
        )

    def _check_networks(self) -> None:
        encoder, durations = self.text_encoder, self.durations
        width = encoder.hidden + encoder.language_width
        for name in ("hidden", "filter", "n_heads"):
            value = getattr(encoder, name)
            _require(value > 0, f"text_encoder.{name} is {value}, it must be at least 1")
        _require(encoder.hidden % 2 == 0, f"text_encoder.hidden is {encoder.hidden}, the flow needs an even number")
        _require(width % encoder.n_heads == 0, f"a width of {width} does not divide by {encoder.n_heads} heads")
        _require(durations.filter > 0, f"durations.filter is {durations.filter}, it must be at least 1")
        _require(
            encoder.language_width > 0 or not durations.language_conditioned,
            "durations.language_conditioned needs a text_encoder.language_width above 0",
        )
        kernels = (encoder.kernel, durations.kernel, self.posterior.kernel, self.flow.wavenet.kernel)
        _require(all(k % 2 for k in kernels), f"kernels must be odd to keep the length, found {kernels}")

    def _check_decoder(self) -> None:
        decoder = self.decoder
        _require(decoder.hidden > 0, f"decoder.hidden is {decoder.hidden}, it must be at least 1")
        if decoder.kind == "istft":
            _require(decoder.filter > 0, f"decoder.filter is {decoder.filter}, it must be at least 1")
            _require(decoder.n_blocks > 0, f"decoder.n_blocks is {decoder.n_blocks}, it must be at least 1")
            return
        rates, kernels = decoder.upsample_rates, decoder.upsample_kernels
        product, hop = math.prod(rates), self.audio.hop_length
        _require(product == hop, f"decoder.upsample_rates multiply to {product}, audio.hop_length is {hop}")
        _require(len(rates) == len(kernels), f"{len(rates)} upsample_rates but {len(kernels)} upsample_kernels")
        for rate, kernel in zip(rates, kernels, strict=True):
            fits = kernel >= rate > 0 and (kernel - rate) % 2 == 0
            _require(fits, f"upsample kernel {kernel} and rate {rate} must differ by an even number, the kernel larger")
        _require(
            decoder.hidden % 2 ** len(rates) == 0,
            f"decoder.hidden is {decoder.hidden}, {len(rates)} stages need a multiple of {2 ** len(rates)}",
        )
        blocks, dilations = decoder.resblock_kernels, decoder.resblock_dilations
        _require(
            len(blocks) == len(dilations) > 0, f"{len(blocks)} resblock_kernels but {len(dilations)} resblock_dilations"
        )
        _require(all(k % 2 for k in blocks), f"resblock_kernels must be odd to keep the length, found {blocks}")

    @property
    def recording_id(self) -> int:
        """Index of the recording condition used for speaking."""
        return self.speaker.recordings.index(self.speaker.speak_as) if self.speaker.recordings else 0

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `from_json` reads them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "VoiceConfig":
        """The typed form of a parsed `model.json`.

        Raises: BundleError (`bundle_mismatch`) where a field is missing, unknown, of the wrong kind or at odds with
            another, the message naming it; `bundle_version` for another format.
        """
        # A newer format may have any fields, so its number is looked at before they are.
        found = data.get("format", FORMAT_VERSION) if isinstance(data, Mapping) else FORMAT_VERSION
        if found != FORMAT_VERSION:
            raise BundleError(
                "bundle_version",
                f"this voice has format {found}, this program reads format {FORMAT_VERSION}",
                found=found,
                supported=FORMAT_VERSION,
            )
        try:
            # Only the strict reading of JSON takes a list for a tuple and still no text for a number.
            return TypeAdapter(cls).validate_json(json.dumps(data), strict=True)
        except ValidationError as error:
            mistakes = "; ".join(_mistake(e["loc"], e["type"], e["msg"]) for e in error.errors(include_url=False))
            raise BundleError("bundle_mismatch", f"model.json: {mistakes}") from error


def _mistake(location: tuple[int | str, ...], kind: str, message: str) -> str:
    words = "unknown field" if kind == "unexpected_keyword_argument" else message
    return f"{'.'.join(map(str, ('voice', *location)))}: {words}"


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise BundleError("bundle_mismatch", f"model.json: {message}")
