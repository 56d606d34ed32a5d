"""Everything a voice says about itself: the typed form of a bundle's `model.json`.

No width, rate or depth is a constant in the networks; each of them reads its part of `VoiceConfig`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from cloning.errors import BundleError
from cloning.types import AudioConfig

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class TextConfig:
    """Which front end turns text into ids, and the symbols those ids stand for."""

    front_end: str
    symbols: tuple[str, ...]
    languages: Mapping[str, int]
    max_symbols: int = 220

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
    """Frames for each symbol: `plain` regression of log frames or the `stochastic` flow."""

    kind: Literal["plain", "stochastic"]
    filter: int
    kernel: int = 3
    dropout: float = 0.5
    n_flows: int = 4


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
        if self.format != FORMAT_VERSION:
            raise BundleError(
                "bundle_version",
                f"this voice has format {self.format}, this program reads format {FORMAT_VERSION}",
                found=self.format,
                supported=FORMAT_VERSION,
            )
        if self.speaker.recordings and self.speaker.speak_as not in self.speaker.recordings:
            raise BundleError("bundle_mismatch", f"speak_as {self.speaker.speak_as!r} is not among the recordings")

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

        Raises: BundleError where a field is missing, unknown or of the wrong kind; the message names it.
        """
        return _build(cls, data, "model.json")


T = TypeVar("T")


def _build(kind: type[T], data: object, where: str) -> T:
    """A dataclass from plain values, nested ones too; every mistake is named by its path."""
    if not isinstance(data, Mapping):
        raise BundleError("bundle_mismatch", f"{where}: expected an object, found {type(data).__name__}")
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # T is always a dataclass here
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise BundleError("bundle_mismatch", f"{where}: unknown fields {', '.join(unknown)}")
    values = {}
    for name, value in data.items():
        nested = fields[name].type
        if dataclasses.is_dataclass(nested) and isinstance(nested, type):
            values[name] = _build(nested, value, f"{where}.{name}")
        else:
            values[name] = _tuples(value)
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise BundleError("bundle_mismatch", f"{where}: {error}") from error


def _tuples(value: object) -> object:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
