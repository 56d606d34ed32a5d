"""`model.json`: there and back, and every mistake named."""

import dataclasses
import json
from typing import Any

import pytest
from network_samples import DECODERS, DURATIONS, HIFIGAN, small_voice

from cloning.config import FORMAT_VERSION, VoiceConfig
from cloning.errors import BundleError
from cloning.training.recipes import default_voice, tiny_voice

VOICES = {f"{d}-{v}": small_voice(DURATIONS[d], DECODERS[v]) for d in DURATIONS for v in DECODERS}
VOICES |= {"default": default_voice("e"), "tiny": tiny_voice("e")}


def changed(path: str, value: Any, voice: VoiceConfig | None = None) -> dict[str, Any]:
    data = json.loads(json.dumps((voice or small_voice(decoder=HIFIGAN)).to_json()))
    *parents, name = path.split(".")
    place = data
    for parent in parents:
        place = place[parent]
    place[name] = value
    return data


@pytest.mark.parametrize("name", list(VOICES))
def test_json_there_and_back_is_the_same_voice(name):
    text = json.dumps(VOICES[name].to_json())
    read = VoiceConfig.from_json(json.loads(text))
    assert read == VOICES[name]
    assert json.dumps(read.to_json()) == text


def test_fields_that_came_later_may_be_absent():
    data = small_voice().to_json()
    for name in ("language_conditioned", "n_layers", "n_bins", "spline_bound"):
        del data["durations"][name]
    del data["speech"], data["format"]
    assert VoiceConfig.from_json(data) == small_voice()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("colour", "red", ["voice.colour", "unknown field"]),
        ("flow.wavenet.colour", "red", ["voice.flow.wavenet.colour", "unknown field"]),
        ("audio.colour", "red", ["voice.audio.colour", "unknown field"]),
        ("name", 7, ["voice.name", "string"]),
        ("decoder.kind", "wavenet", ["voice.decoder.kind", "istft", "hifigan"]),
        ("durations.kind", "random", ["voice.durations.kind", "plain", "stochastic"]),
        ("decoder.resblock", "3", ["voice.decoder.resblock", "1", "2"]),
        ("text_encoder.hidden", "10", ["voice.text_encoder.hidden", "integer"]),
        ("text_encoder.hidden", None, ["voice.text_encoder.hidden", "integer"]),
        ("text_encoder.speaker_conditioned", 1, ["voice.text_encoder.speaker_conditioned", "boolean"]),
        ("speech.noise_scale", "loud", ["voice.speech.noise_scale", "number"]),
        ("speech.noise_scale", float("nan"), ["voice.speech.noise_scale", "finite"]),
        ("text.symbols", "abc", ["voice.text.symbols"]),
        ("text.languages", {"en": "0"}, ["voice.text.languages.en", "integer"]),
        ("decoder.resblock_dilations", [1, 3], ["voice.decoder.resblock_dilations.0"]),
        ("audio", None, ["voice.audio"]),
        ("audio.hop_length", -16, ["voice.audio", "positive"]),
        ("audio.hop_length", 24, ["voice.audio", "multiple"]),
    ],
)
def test_a_wrong_field_is_named(path, value, words):
    with pytest.raises(BundleError) as caught:
        VoiceConfig.from_json(changed(path, value))
    assert caught.value.code == "bundle_mismatch"
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize("data", [[], None, "voice", 3])
def test_what_is_not_an_object_is_refused(data):
    with pytest.raises(BundleError, match="object"):
        VoiceConfig.from_json(data)


def test_a_missing_part_is_named():
    data = small_voice().to_json()
    del data["decoder"]
    with pytest.raises(BundleError, match=r"voice\.decoder: Field required"):
        VoiceConfig.from_json(data)


def test_another_format_is_told_apart_from_a_mistake_even_with_new_fields():
    data = changed("colour", "red") | {"format": FORMAT_VERSION + 1}
    with pytest.raises(BundleError) as caught:
        VoiceConfig.from_json(data)
    assert caught.value.code == "bundle_version"
    assert caught.value.details == {"found": FORMAT_VERSION + 1, "supported": FORMAT_VERSION}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("decoder.upsample_rates", [4, 4, 4], ["64", "16"]),
        ("decoder.upsample_rates", [4, 4], ["2 upsample_rates", "3 upsample_kernels"]),
        ("decoder.upsample_kernels", [8, 4, 5], ["kernel 5", "rate 2"]),
        ("decoder.upsample_kernels", [2, 4, 4], ["kernel 2", "rate 4"]),
        ("decoder.upsample_rates", [-4, -2, 2], ["rate -4"]),
        ("decoder.hidden", 20, ["20", "8"]),
        ("decoder.hidden", 0, ["decoder.hidden", "0"]),
        ("decoder.resblock_kernels", [3], ["1 resblock_kernels", "2 resblock_dilations"]),
        ("decoder.resblock_kernels", [3, 4], ["resblock_kernels", "4"]),
        ("text_encoder.n_heads", 5, ["12", "5"]),
        ("text_encoder.n_heads", 0, ["text_encoder.n_heads", "0"]),
        ("text_encoder.hidden", 11, ["text_encoder.hidden", "11"]),
        ("text_encoder.kernel", 4, ["4"]),
        ("durations.filter", 0, ["durations.filter", "0"]),
        ("text.symbols", [], ["text.symbols"]),
        ("text.symbols", ["a", "a"], ["text.symbols", "twice"]),
        ("text.languages", {"en": 0, "pt": 2}, ["[0, 2]", "0 to 1"]),
        ("text.max_symbols", 0, ["text.max_symbols", "0"]),
        ("speaker.d_vector", 0, ["speaker.d_vector", "0"]),
        ("speaker.speak_as", "radio", ["radio", "studio"]),
    ],
)
def test_parts_that_do_not_fit_together_are_refused_with_both_figures(path, value, words):
    with pytest.raises(BundleError) as caught:
        VoiceConfig.from_json(changed(path, value))
    assert caught.value.code == "bundle_mismatch"
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize(("field", "value"), [("filter", 0), ("n_blocks", 0)])
def test_an_istft_decoder_needs_its_sizes(field, value):
    with pytest.raises(BundleError, match=f"decoder.{field} is {value}"):
        VoiceConfig.from_json(changed(f"decoder.{field}", value, small_voice()))


def test_durations_by_language_need_a_language_to_read():
    voice = small_voice(DURATIONS["by-language"])
    with pytest.raises(BundleError, match="language_width"):
        dataclasses.replace(voice, text_encoder=dataclasses.replace(voice.text_encoder, language_width=0))
