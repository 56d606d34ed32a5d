"""What the console does with a no: words beside the field, fitting the clip; keys, for which nothing is lost."""

from pathlib import Path

import numpy as np
import pytest
from chromium import Browser, missing
from encoder_media import recording, wav
from servers import CONSOLE_KEY, DATA, RunningServer

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
TEXT = "This was written before the key was there."


def test_what_the_server_refuses_stands_beside_its_field_and_fits_the_clip(
    browser: Browser, house: RunningServer, tmp_path: Path
) -> None:
    noise = tmp_path / "noise.wav"
    noise.write_bytes(wav(np.random.default_rng(1).standard_normal(48_000) * 0.05))
    short = tmp_path / "short.wav"
    short.write_bytes(wav(recording("woman")[:14_000]))
    browser.open(house.url, "#/enrol", CONSOLE_KEY)
    browser.press("Enrol")
    browser.wait_for("fieldset .error", "Record something or choose a file first.")
    files = browser.find("input[type=file]")
    files.send_keys(str(noise))
    browser.press("Enrol")
    assert browser.wait_for(".field .error", "Give the voice a name.")
    assert browser.focused().accessible_name == "Name"
    browser.fill("Name", "woman")
    browser.press("Enrol")
    words = browser.wait_for(".clips > li .error").text
    assert "No speech was found" in words and "Choose another file" in words
    browser.press("Remove noise.wav")
    files.send_keys(str(short))
    browser.press("Enrol")
    words = browser.wait_for(".clips > li .error").text
    assert "1.6 s is the least" in words and "Choose another file" in words
    browser.press("Remove short.wav")

    browser.run(
        """navigator.mediaDevices.getUserMedia = async () => {
          const context = new AudioContext();
          const place = context.createMediaStreamDestination();
          const still = new ConstantSourceNode(context, { offset: 0 });
          still.connect(place);
          still.start();
          return place.stream;
        };"""
    )
    browser.press("Record")
    browser.wait_for(".recording .time", "1 s, quiet")
    browser.press("Stop recording")
    browser.wait_for(".clips > li")
    browser.press("Enrol")
    words = browser.wait_for(".clips > li .error").text
    assert "Record again" in words and "file" not in words
    browser.press("Remove Recording 1")

    files.send_keys(str(DATA / "man.flac"))
    browser.press("Enrol")
    words = browser.wait_for(".field .error", "name belongs to another speaker".capitalize()).text
    name = browser.labelled("Name")
    assert browser.focused() == name and name.get_attribute("aria-invalid") == "true"
    described = name.get_attribute("aria-describedby").split()
    assert words in [browser.find(f"#{each}").text for each in described]


def test_a_key_is_asked_for_explained_and_kept_for_the_tab_only(browser: Browser, house: RunningServer) -> None:
    browser.open(house.url, "#/speakers")
    browser.wait_for(".error", "Press Key above and enter yours.")
    for key, words in (("wrong", "does not know this key"), (CONSOLE_KEY, "")):
        browser.press("Key" if key == "wrong" else "Key, one is in use")
        browser.fill("API key", key)
        browser.press("Use this key")
        browser.wait_for(".error" if words else ".people .name", words)
    assert browser.run("return [sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    browser.go("admin")
    browser.wait_for(".note", "This key may not do that")


def test_a_key_that_comes_late_loses_nothing_that_was_written_or_recorded(
    browser: Browser, house: RunningServer
) -> None:
    browser.open(house.url, "#/enrol")
    browser.find("input[type=file]").send_keys(str(DATA / "man.flac"))
    browser.fill("Name", "Late")
    browser.press("Enrol")
    browser.wait_for("form .error", "Press Key above and enter yours.")
    browser.press("Key, none is in use")
    browser.fill("API key", CONSOLE_KEY)
    browser.press("Use this key")
    browser.press("Enrol")
    browser.wait_for("h2", "Late is enrolled")
    browser.open(house.url, "#/speak")
    browser.fill("Text", TEXT)
    browser.press("Key, none is in use")
    browser.fill("API key", CONSOLE_KEY)
    browser.press("Use this key")
    browser.wait(lambda: browser.value("Voice"), "nobody is chosen")
    assert browser.value("Text") == TEXT
