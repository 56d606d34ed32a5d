"""A Coqui VITS config.json, with what its tensors say beside it, as the configuration of a voice of ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloning.config import (
    DecoderConfig,
    DurationConfig,
    FlowConfig,
    SpeakerConfig,
    SpeechDefaults,
    TextEncoderConfig,
    VoiceConfig,
    WaveNetConfig,
)
from cloning.errors import BundleError
from cloning.importers.checkpoint import read_json
from cloning.importers.coqui_text import language_ids, text_config
from cloning.importers.mapping import Tensors
from cloning.types import AudioConfig

# Far above any voice; what is beyond would only fill the memory.
MOST_WIDE, MOST_DEEP = 1_000_000, 256
_RELATIVE = "text_encoder.encoder.attn_layers.0.emb_rel_k"


@dataclass(frozen=True, slots=True)
class Listener:
    """Who makes the d-vectors that a voice is asked to take."""

    encoder_id: str
    d_vector: int


class CoquiConfig:
    """The fields of a config.json; those of the model stand in `model_args`, some in older files beside it.

    Raises: BundleError where it is not one of a VITS or YourTTS voice, or is one that cannot be brought.
    """

    def __init__(self, folder: Path) -> None:
        self.root = read_json(folder / "config.json")
        kind = self.root.get("model")
        if str(kind).lower() != "vits":
            raise refused("model", f"{kind!r} is not a VITS or YourTTS voice; only `vits` can be brought")
        self.args = self.section("model_args")
        if self.args.get("encoder_sample_rate"):
            raise refused("encoder_sample_rate", "voices whose decoder runs at another rate are not supported")

    @property
    def takes_d_vectors(self) -> bool:
        return self.flag("use_d_vector_file", False)

    @property
    def d_vector(self) -> int:
        return self.number("d_vector_dim", 0)

    @property
    def is_multilingual(self) -> bool:
        return self.flag("use_language_embedding", False)

    def section(self, name: str) -> Mapping[str, Any]:
        """A part of the file. Raises: BundleError where it is missing."""
        found = self.root.get(name)
        if not isinstance(found, Mapping):
            raise refused(name, "the section is missing")
        return found

    def value(self, name: str, default: Any = None) -> Any:
        found = self.args.get(name) or self.root.get(name)
        return default if found is None else found

    def flag(self, name: str, default: bool) -> bool:
        found = self.args.get(name)
        found = self.root.get(name) if found is None else found or self.root.get(name) or False
        return default if found is None else bool(found)

    def number(self, name: str, default: int, most: int = MOST_WIDE) -> int:
        return whole_number(name, self.value(name, default), most)

    def numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        found = self.value(name, default)
        if not isinstance(found, list | tuple):
            raise refused(name, f"{found!r} is not a list of whole numbers")
        return tuple(whole_number(name, item) for item in found)

    def real(self, name: str, default: float) -> float:
        found = self.args.get(name)
        if found is None:
            return default
        if type(found) not in (int, float):
            raise refused(name, f"{found!r} is not a number")
        return float(found)


def voice_config(folder: Path, name: str, read: CoquiConfig, tensors: Tensors, listener: Listener) -> VoiceConfig:
    """The configuration under which our networks have the checkpoint's shapes.

    Raises: BundleError `bundle_mismatch`, naming the field and both numbers.
    """
    table = read_json(folder / "language_ids.json") if read.is_multilingual else None
    n_embedded = (*tensors.shape("text_encoder.emb.weight"), 0)[0]
    return VoiceConfig(
        name=name,
        encoder_id=listener.encoder_id,
        audio=_audio(read.section("audio"), tensors),
        text=text_config(read.root, language_ids(read.root, table), n_embedded),
        speaker=_speaker(read, listener),
        text_encoder=_text_encoder(read, tensors),
        durations=_durations(read, tensors),
        posterior=_wavenet(read, "posterior_encoder", 16),
        flow=FlowConfig(_count(tensors, "flow.flows."), _wavenet(read, "flow", 4)),
        decoder=_decoder(read),
        speech=SpeechDefaults(
            noise_scale=read.real("inference_noise_scale", 0.667),
            noise_scale_dp=read.real("inference_noise_scale_dp", 1.0),
            length_scale=read.real("length_scale", 1.0),
        ),
    )


def _audio(audio: Mapping[str, Any], tensors: Tensors) -> AudioConfig:
    sizes = {
        name: whole_number(f"audio.{name}", audio.get(name, default))
        for name, default in (("sample_rate", 22050), ("fft_size", 1024), ("win_length", 1024), ("hop_length", 256))
    }
    try:
        read = AudioConfig(*sizes.values())
    except ValueError as error:
        raise refused("audio", str(error)) from None
    shape = tensors.shape("posterior_encoder.pre.weight")
    if shape and shape[1] != read.n_bins:
        raise refused("audio.fft_size", f"it makes {read.n_bins} bins, the checkpoint's posterior takes {shape[1]}")
    return read


def _speaker(read: CoquiConfig, listener: Listener) -> SpeakerConfig:
    if not read.takes_d_vectors:
        # A condition of width 1 that is always 0: the voice is the same for every d-vector.
        return SpeakerConfig(listener.d_vector, input_scale=0.0, width=1)
    if read.d_vector != listener.d_vector:
        words = f"the voice takes d-vectors of {read.d_vector} numbers, its speaker encoder makes {listener.d_vector}"
        raise refused("d_vector_dim", words)
    return SpeakerConfig(read.d_vector)


def _text_encoder(read: CoquiConfig, tensors: Tensors) -> TextEncoderConfig:
    distances = (*tensors.shape(_RELATIVE), 0, 0)[1]
    return TextEncoderConfig(
        hidden=read.number("hidden_channels", 192),
        filter=read.number("hidden_channels_ffn_text_encoder", 768),
        n_heads=read.number("num_heads_text_encoder", 2),
        n_layers=read.number("num_layers_text_encoder", 6, MOST_DEEP),
        kernel=read.number("kernel_size_text_encoder", 3),
        window=max(1, distances // 2),
        language_width=read.number("embedded_language_dim", 4) if read.is_multilingual else 0,
    )


def _durations(read: CoquiConfig, tensors: Tensors) -> DurationConfig:
    """Their code holds this network's width and depth, not their configuration: the tensors say them."""
    dropout, by_language = read.real("dropout_p_duration_predictor", 0.5), read.is_multilingual
    if not 0 <= dropout < 1:
        raise refused("dropout_p_duration_predictor", f"{dropout} is not a share")
    if read.flag("use_sdp", True):
        width = (*tensors.shape("duration_predictor.proj.weight"), 1)[0]
        n_flows = max(1, _count(tensors, "duration_predictor.flows.") - 1)
        return DurationConfig("stochastic", width, 3, dropout, by_language, n_flows)
    width = (*tensors.shape("duration_predictor.conv_1.weight"), 1)[0]
    return DurationConfig("plain", width, 3, dropout, by_language, norm_epsilon=1e-4, rounding="up")


def _wavenet(read: CoquiConfig, part: str, n_layers: int) -> WaveNetConfig:
    return WaveNetConfig(
        read.number(f"kernel_size_{part}", 5),
        read.number(f"num_layers_{part}", n_layers, MOST_DEEP),
        read.number(f"dilation_rate_{part}", 1),
    )


def _decoder(read: CoquiConfig) -> DecoderConfig:
    name = "resblock_dilation_sizes_decoder"
    rows = read.value(name, ((1, 3, 5),) * 3)
    if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
        raise refused(name, f"{rows!r} is not a list of lists")
    paired = str(read.value("resblock_type_decoder", "1")) == "1"
    # Blocks of their type 1 read three dilations of a row, all others two.
    dilations = tuple(tuple(whole_number(name, d) for d in row[: 3 if paired else 2]) for row in rows)
    return DecoderConfig(
        "hifigan",
        hidden=read.number("upsample_initial_channel_decoder", 512),
        upsample_rates=read.numbers("upsample_rates_decoder", (8, 8, 2, 2)),
        upsample_kernels=read.numbers("upsample_kernel_sizes_decoder", (16, 16, 4, 4)),
        resblock="1" if paired else "2",
        resblock_kernels=read.numbers("resblock_kernel_sizes_decoder", (3, 7, 11)),
        resblock_dilations=dilations,
    )


def _count(tensors: Tensors, prefix: str) -> int:
    """How many modules a list in the checkpoint has."""
    return len({name.removeprefix(prefix).partition(".")[0] for name in tensors.names(prefix)})


def whole_number(name: str, found: Any, most: int = MOST_WIDE) -> int:
    """The field's value. Raises: BundleError where it is not a whole number from 0 to the most that makes sense."""
    if type(found) is not int or not 0 <= found <= most:
        raise refused(name, f"{found!r} is not a whole number from 0 to {most}")
    return int(found)


def refused(field: str, words: str) -> BundleError:
    """The refusal of a field of config.json."""
    return BundleError("bundle_mismatch", f"config.json: {field}: {words}", field=field)
