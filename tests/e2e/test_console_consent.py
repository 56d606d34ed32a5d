"""The console of a server that asks for consent: who agrees, and the sentence as that person says it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, missing
from servers import CONSOLE_KEY, DATA, RunningServer, environment_of, migrate, start, with_key

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
MAN = (DATA / "man.flac").read_bytes()
SENTENCE = "I agree, on this page."


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, voice_dir: Path) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("asking")
    settings = {"API_KEYS": CONSOLE_KEY, "CONSENT": "recording", "CONSENT_STATEMENT": SENTENCE}
    environment = environment_of(folder / "state", voice_dir, **settings)
    migrate(environment)
    running = start(environment, folder / "log")
    running.wait_ready(within_s=180)
    yield running
    assert running.stop() == 0, running.log.read_text()


def consents(server: RunningServer) -> list[dict[str, object]]:
    with with_key(server, CONSOLE_KEY) as client:
        found: list[dict[str, object]] = client.get("/v1/consents").json()["consents"]
        return found


def test_a_person_is_enrolled_under_the_consent_that_was_read_out(browser: Browser, asking: RunningServer) -> None:
    browser.open(asking.url, "#/enrol", CONSOLE_KEY)
    browser.wait_for("fieldset fieldset .hint", SENTENCE)
    clip, statement = browser.all("input[type=file]")
    clip.send_keys(str(DATA / "man-again.flac"))
    browser.fill("Name", "Ada")
    browser.press("Enrol")
    browser.wait_for(".field .error", "Say whose voice it is.")
    assert browser.focused().accessible_name == "Whose voice it is"
    browser.fill("Whose voice it is", "Ada Lovelace")
    browser.press("Enrol")
    browser.wait_for("fieldset .error", "Record the statement or choose a file first.")
    assert consents(asking) == []

    statement.send_keys(str(DATA / "woman.flac"))
    browser.press("Enrol")
    browser.wait_for(".error", "does not sound like the voice that gave the consent")
    browser.press("Remove woman.flac")
    statement.send_keys(str(DATA / "man.flac"))
    browser.press("Enrol")
    browser.wait_for("h2", "Ada is enrolled")
    found = consents(asking)
    assert [each["state"] for each in found] == ["unused", "in_use"]
    assert {each["person"] for each in found} == {"Ada Lovelace"} and found[1]["statement"] == SENTENCE


def test_a_consent_is_revoked_on_its_speakers_page(browser: Browser, asking: RunningServer) -> None:
    with with_key(asking, CONSOLE_KEY) as client:
        consent = client.post("/v1/consents", files={"person": (None, "Cleo"), "recording": ("a.flac", MAN)}).json()
        data = {"name": "Cleo", "consent_id": consent["consent_id"]}
        made = client.post("/v1/speakers", data=data, files={"clips": ("a.flac", MAN)})
        assert made.status_code == 201, made.text
        speaker_id = made.json()["speaker_id"]
        order = {"speaker_id": speaker_id, "text": "Hello."}
        assert client.post("/v1/speech", json=order).status_code == 200
        browser.open(asking.url, f"#/speakers/{speaker_id}", CONSOLE_KEY)
        words = browser.wait_for("[aria-label=Consents] > li", "Cleo").text
        assert SENTENCE in words and "sounds like every clip" in words and "words were not checked" in words
        browser.press("Revoke")
        browser.wait_for("dialog", "spoken with no more")
        browser.press("Keep", within="dialog")
        assert client.post("/v1/speech", json=order).status_code == 200
        browser.press("Revoke")
        browser.press("Revoke", within="dialog")
        browser.wait_for("[aria-label=Consents] > li", "revoked")
        assert client.post("/v1/speech", json=order).json()["code"] == "consent_revoked"
    browser.open(asking.url, f"#/speak?voice={speaker_id}", CONSOLE_KEY)
    browser.fill("Text", "Hello.")
    browser.press("Speak")
    told = browser.wait_for(".error", "consent to this voice was revoked").text
    assert "key" not in told, "another key would change nothing"


def test_a_second_try_sends_no_second_consent(browser: Browser, asking: RunningServer) -> None:
    before = len(consents(asking))
    browser.open(asking.url, "#/enrol", CONSOLE_KEY)
    browser.wait_for("fieldset fieldset .hint", SENTENCE)
    clip, statement = browser.all("input[type=file]")
    clip.send_keys(str(DATA / "man-again.flac"))
    statement.send_keys(str(DATA / "man.flac"))
    browser.fill("Whose voice it is", "Ben")
    browser.fill("Name", "00000000-0000-4000-8000-000000000000")
    browser.press("Enrol")
    browser.wait_for(".field .error", "form of a speaker id")
    browser.fill("Name", "Ben")
    browser.press("Enrol")
    browser.wait_for("h2", "Ben is enrolled")
    assert len(consents(asking)) == before + 1
