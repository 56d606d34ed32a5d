"""Brought voices against what Coqui's own code made of the same weights; tests/fixtures_recipe/coqui.py made both."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from coqui_samples import COQUI, SPEAKERS, WIDTHS, copied, edit_json, edit_tensors, read
from torch import Tensor

from cloning.engines.eager import EagerEngine
from cloning.importers.coqui import Imported
from cloning.layers.convolutions import sequence_mask
from cloning.model import PriorInput, YourTTS
from cloning.synthesis import Synthesiser
from cloning.text.frontend import FrontEnd, front_end
from cloning.text.spelling import CharacterFrontEnd
from cloning.text.symbols import SymbolTable
from cloning.types import SpeechRequest

TOLERANCE = 1e-4
CASES = [
    (name, language) for name in WIDTHS for language in json.loads((COQUI / name / "texts.json").read_text("utf-8"))
]


class Expected:
    """The arrays of one text of one voice."""

    def __init__(self, name: str, language: str) -> None:
        self._arrays, self._language = np.load(COQUI / name / "expected.npz"), language
        self.text = json.loads((COQUI / name / "texts.json").read_text("utf-8"))[language]

    def __getitem__(self, name: str) -> Tensor:
        return torch.from_numpy(self._arrays[f"{self._language}/{name}"])

    @property
    def ids(self) -> Tensor:
        return self["ids"][None]


def network(imported: Imported) -> YourTTS:
    model = YourTTS(imported.config)
    model.load_state_dict(imported.weights)
    return model.eval().requires_grad_(False)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Imported, YourTTS, Expected, str]]:
    name, language = request.param
    imported = read(COQUI / name, speaker=SPEAKERS.get(name))
    yield imported, network(imported), Expected(name, language), language


def spoken_to(imported: Imported) -> FrontEnd:
    text = imported.config.text
    return front_end(
        text.front_end, SymbolTable(text.symbols), text.languages, text.max_symbols, spelling=text.spelling
    )


def inputs(imported: Imported, expected: Expected, language: str) -> PriorInput:
    width = imported.config.speaker.d_vector
    # A voice of one speaker must say the same for any vector.
    d_vectors = expected["d_vector"] if width == expected["d_vector"].shape[1] else torch.randn(1, width)
    language_id = torch.tensor([imported.config.text.languages.get(language, 0)])
    n_symbols = torch.tensor([expected.ids.shape[1]])
    return PriorInput(expected.ids, n_symbols, d_vectors, language_id, torch.ones(1), expected["noise_dp"])


def test_text_ids(case: tuple[Imported, YourTTS, Expected, str]) -> None:
    imported, _, expected, language = case
    reader = spoken_to(imported)
    wanted = tuple(expected["ids"].tolist())
    if imported.config.text.front_end == "ipa":  # its text is IPA already: what Coqui's espeak would have said
        assert isinstance(reader, CharacterFrontEnd)
        assert reader.ids(expected.text) == wanted
    else:
        (spoken,) = reader.encode(expected.text, language, markup=False)
        assert spoken.token_ids == wanted


def test_statistics_of_the_text_encoder(case: tuple[Imported, YourTTS, Expected, str]) -> None:
    imported, model, expected, language = case
    batch = inputs(imported, expected, language)
    mask = sequence_mask(batch.n_symbols, batch.token_ids.shape[1])
    g = model.condition(batch.d_vectors)
    hidden, m_p, logs_p = model.text_encoder(batch.token_ids, batch.language_ids, mask, g)
    close(hidden, expected["hidden"])
    close(m_p, expected["m_p"])
    close(logs_p, expected["logs_p"])


def test_durations_for_given_noise(case: tuple[Imported, YourTTS, Expected, str]) -> None:
    imported, model, expected, language = case
    _, _, durations = model.prior(inputs(imported, expected, language))
    assert durations[0].tolist() == expected["frames"].long().tolist()
    assert len(set(durations[0].tolist())) > 2, "equal durations would compare nothing"


def test_inverse_flow(case: tuple[Imported, YourTTS, Expected, str]) -> None:
    imported, model, expected, language = case
    g = model.condition(inputs(imported, expected, language).d_vectors)
    z = model.flow(expected["z_p"], torch.ones(1, 1, expected["z_p"].shape[2]), g, reverse=True)
    close(z, expected["z"])
    assert float((z - expected["z_p"]).abs().max()) > 0.1, "a flow that does nothing would pass"


def test_waveform(case: tuple[Imported, YourTTS, Expected, str]) -> None:
    imported, model, expected, language = case
    d_vectors = inputs(imported, expected, language).d_vectors
    durations = expected["durations"][None]
    samples = model.decode(expected["m_p"], expected["logs_p"], durations, d_vectors, expected["noise"])
    close(samples, expected["waveform"][0])
    assert 0.05 < float(expected["waveform"].std()) < 0.5, "silence or saturation would hide differences"


def old_names(table: dict[str, Tensor]) -> None:
    for name in list(table):
        for new, old in (("original0", "weight_g"), ("original1", "weight_v")):
            if name.endswith(f".parametrizations.weight.{new}"):
                table[name.replace(f"parametrizations.weight.{new}", old)] = table.pop(name)


def without_weight_norm(table: dict[str, Tensor]) -> None:
    for name in [name for name in table if name.endswith(".parametrizations.weight.original1")]:
        stem = name.removesuffix(".parametrizations.weight.original1")
        v, g = table.pop(name), table.pop(f"{stem}.parametrizations.weight.original0")
        table[f"{stem}.weight"] = torch._weight_norm(v, g, 0)


def with_discriminator(table: dict[str, Tensor]) -> None:
    table["disc.nets.0.convs.0.weight"] = torch.ones(3)


def without_posterior(table: dict[str, Tensor]) -> None:
    for name in [name for name in table if name.startswith("posterior_encoder.")]:
        del table[name]


@pytest.mark.parametrize("change", [old_names, without_weight_norm, with_discriminator, without_posterior])
def test_the_same_weights_under_other_names(tmp_path, change) -> None:
    plain = read(COQUI / "yourtts")
    folder = copied(tmp_path, "yourtts")
    edit_tensors(folder, change)
    changed = read(folder)
    assert changed.config == plain.config
    assert changed.weights.keys() == plain.weights.keys()
    for name, tensor in plain.weights.items():
        torch.testing.assert_close(changed.weights[name], tensor, rtol=0, atol=1e-6)


def test_single_speaker_says_the_same_for_every_vector() -> None:
    imported = read(COQUI / "single")
    engine = EagerEngine(network(imported), torch.device("cpu"))
    vectors = np.eye(256, dtype=np.float32)
    with Synthesiser(imported.config, "brought", engine) as voice:
        first, second = (voice.speak(SpeechRequest("Hello world.", vectors[i], "test-encoder")) for i in (0, 1))
    np.testing.assert_array_equal(first.samples, second.samples)
    assert first.duration_s > 0.1


def test_durations_without_the_speaker_are_those_of_a_condition_of_zero(tmp_path) -> None:
    def silenced(table: dict[str, Tensor]) -> None:
        for kind in ("weight", "bias"):
            table[f"duration_predictor.cond.{kind}"].zero_()

    def without(table: dict[str, Tensor]) -> None:
        for kind in ("weight", "bias"):
            del table[f"duration_predictor.cond.{kind}"]

    folder = copied(tmp_path, "yourtts")
    edit_tensors(folder, silenced)
    zero = read(folder)
    edit_tensors(folder, without)
    edit_json(folder / "config.json", lambda data: data["model_args"].update(condition_dp_on_speaker=False))
    paced_by_text = read(folder)
    for name, tensor in zero.weights.items():
        torch.testing.assert_close(paced_by_text.weights[name], tensor, rtol=0, atol=0)


def test_speakers_of_a_table_sound_apart() -> None:
    bob, eve = (read(COQUI / "table", speaker=name).weights for name in ("bob", "eve"))
    assert not torch.allclose(bob["decoder.condition.bias"], eve["decoder.condition.bias"])


def test_d_vectors_change_a_voice_that_follows_them() -> None:
    imported = read(COQUI / "multi")
    vectors = np.eye(12, dtype=np.float32)
    with Synthesiser(imported.config, "brought", EagerEngine(network(imported), torch.device("cpu"))) as voice:
        first, second = (voice.speak(SpeechRequest("Hello world.", vectors[i], "test-encoder")) for i in (0, 1))
    assert first.samples.shape != second.samples.shape or not np.allclose(first.samples, second.samples)
