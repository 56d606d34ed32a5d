"""The console in a real browser with a real server: what a person does there, from an enrolment to a deletion."""

import httpx
import pytest
import soundfile
from chromium import Browser, missing
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from servers import ADMIN_KEY, CONSOLE_KEY, DATA, RunningServer, enrol

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
TEXT = "One day the wind came over the hill and nobody was there. Then it went."


def _client(server: RunningServer, key: str = CONSOLE_KEY) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=60, headers={"Authorization": f"Bearer {key}"})


def _names(server: RunningServer) -> set[str]:
    with _client(server) as client:
        return {each["name"] for each in client.get("/v1/speakers", params={"limit": 500}).json()["speakers"]}


def _note_words(browser: Browser) -> None:
    """Has the page remember each word that is marked."""
    browser.run(
        """window.heard = [];
        new MutationObserver((changes) => changes.forEach(({ target }) => {
          if (target.classList?.contains("heard")) window.heard.push(target.textContent);
        })).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["class"] });"""
    )


def _heard_to_its_end(browser: Browser, take: str) -> list[str]:
    """Waits until a take has been played; the words that were marked meanwhile."""
    browser.wait(lambda: float(browser.find(f"{take} input").get_attribute("value") or 0) > 0, "nothing is heard")
    browser.wait(lambda: browser.find(f"{take} .play").text == "Play", "the speech does not end")
    slider = browser.find(f"{take} input")
    assert float(slider.get_attribute("value")) == pytest.approx(float(slider.get_attribute("max")), abs=0.01)
    return browser.run("return window.heard.splice(0)")


def test_from_a_recording_to_a_voice_that_is_heard_compared_found_and_deleted(
    browser: Browser, house: RunningServer
) -> None:
    browser.open(house.url, "#/enrol", CONSOLE_KEY)
    _enrol_ada(browser)
    browser.press("Speak as Ada")
    _hear_ada(browser)
    _compare_ada(browser)
    _find_ada(browser, house)
    _delete_ada_and_bring_her_back(browser, house)


def _enrol_ada(browser: Browser) -> None:
    browser.press("Record")
    browser.wait_for(".recording .time", "3 s")
    assert browser.find("[role=meter]").get_attribute("aria-valuetext") in {"quiet", "good", "too loud"}
    browser.press("Stop recording")
    browser.wait_for(".clips .waveform")
    browser.find("input[type=file]").send_keys(str(DATA / "woman.flac"))
    browser.wait(lambda: len(browser.all(".clips .waveform")) == 2, "the second clip has no picture")
    browser.fill("Name", "Ada")
    browser.press("Add a label")
    browser.fill("Label", "accent")
    browser.fill("Its value", "northern")
    browser.press("Enrol")
    title = browser.wait_for("h2", "Ada is enrolled")
    assert browser.focused() == title
    assert len(browser.all(".report .clips > li")) == 2
    for picture in browser.all(".report .waveform"):
        assert "of speech in" in picture.get_attribute("aria-label")
        assert len(picture.find_elements("css selector", ".span")) >= 1


def _hear_ada(browser: Browser) -> None:
    browser.wait(lambda: browser.value("Voice") == "Ada", "Ada is not chosen")
    _note_words(browser)
    browser.fill("Text", TEXT)
    browser.press("Speak")
    marked = _heard_to_its_end(browser, ".take")
    words = [word.strip(".") for word in TEXT.split()]
    rest = iter(words)
    assert len(marked) > 3 and all(word in rest for word in marked), marked
    facts = browser.wait_for(".take .facts", "Likeness").text
    assert "Seed" in facts and "Length" in facts
    browser.press("Download wav")
    file = browser.downloads / "Ada.wav"
    browser.wait(file.exists, "nothing is downloaded")
    samples, rate = soundfile.read(file)
    assert len(samples) / rate == pytest.approx(float(browser.find(".take input").get_attribute("max")), abs=0.001)


def _compare_ada(browser: Browser) -> None:
    browser.press("Compare with another voice")
    browser.wait(lambda: browser.value("Second voice"), "no second voice is chosen")
    browser.press("Speak", within="form")
    browser.wait(lambda: len(browser.all(".take a[download]")) == 2, "the two are not spoken")
    _heard_to_its_end(browser, ".take:nth-child(1)")
    seeds = {each.text for each in browser.all(".take dd:last-child") if each.text.isdigit()}
    assert len(seeds) == 1
    browser.press(browser.all(".take .play")[1].accessible_name)
    assert browser.wait(lambda: browser.all(".take .play")[1].text == "Pause", "the second is not heard")


def _find_ada(browser: Browser, house: RunningServer) -> None:
    browser.go("map")
    dots = browser.wait(lambda: browser.all(".dot"), "the map is empty")
    assert len(dots) == len(_names(house))
    browser.all(".dot")[0].click()
    chosen = browser.wait_for(".dot.chosen")
    assert chosen.text or browser.find(".voices [aria-selected=true]").text
    browser.press(browser.wait_for("figcaption a").text)
    browser.wait_for(".near li a")


def _delete_ada_and_bring_her_back(browser: Browser, house: RunningServer) -> None:
    browser.go("speakers")
    browser.fill("Search by name", "aD")
    browser.wait_for(".hint", "1 of 1 speaker")
    browser.press("Delete Ada")
    browser.wait_for(".message", "Ada is deleted")
    assert "Ada" not in _names(house)
    browser.press("Undo")
    browser.wait_for(".people .name", "Ada")
    assert "Ada" in _names(house)


def test_a_voice_is_chosen_and_heard_by_the_keyboard_alone(browser: Browser, house: RunningServer) -> None:
    browser.open(house.url, "#/speak", CONSOLE_KEY)
    keys = ActionChains(browser.driver)

    def tab_to(name: str) -> None:
        for _ in range(40):
            keys.send_keys(Keys.TAB).perform()
            if browser.focused().accessible_name == name:
                outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"the focus on {name} cannot be seen"
                return
        raise AssertionError(f"{name} cannot be reached by tabbing")

    tab_to("Skip to the content")
    keys.send_keys(Keys.ENTER).perform()
    assert browser.focused().tag_name == "main"
    tab_to("Voice")
    keys.key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys("woma").perform()
    browser.wait_for("[role=option]", "Woman")
    assert browser.focused().get_attribute("aria-expanded") == "true"
    keys.send_keys(Keys.ARROW_DOWN).perform()
    active = browser.find(f"#{browser.focused().get_attribute('aria-activedescendant')}")
    assert active.text.startswith("Woman")
    keys.send_keys(Keys.ENTER).perform()
    assert browser.focused().get_attribute("value") == "Woman"
    tab_to("Speed")
    keys.send_keys(Keys.ARROW_RIGHT * 5).perform()
    assert browser.focused().get_attribute("aria-valuetext") == "1.25 times"
    tab_to("Speak")
    keys.send_keys(Keys.ENTER).perform()
    browser.wait_for(".take .facts", "Likeness")
    tab_to("Compare with another voice")
    tab_to(browser.find(".play").accessible_name)
    browser.wait(lambda: "Play" in browser.focused().text, "the speech does not end")
    keys.send_keys(Keys.SPACE).perform()
    browser.wait(lambda: "Pause" in browser.focused().text, "space does not play")
    keys.send_keys(Keys.SPACE).perform()
    browser.wait(lambda: "Play" in browser.focused().text, "space does not pause")


def test_speech_is_heard_while_the_rest_is_under_way_and_can_be_stopped(browser: Browser, house: RunningServer) -> None:
    browser.open(house.url, "#/speak", CONSOLE_KEY)
    browser.wait(lambda: browser.value("Voice"), "nobody is chosen")
    slow = {"offline": False, "latency": 0, "downloadThroughput": 70_000, "uploadThroughput": 1e6}
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
    try:
        browser.fill("Text", TEXT * 6)
        browser.press("Speak")
        browser.wait(lambda: float(browser.find(".take input").get_attribute("value") or 0) > 0.2, "nothing is heard")
        assert browser.find("button.primary").text == "Stop"
        assert not browser.all(".take a[download]")
        browser.press("Stop")
        browser.wait_for("button.primary", "Speak")
    finally:
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**slow, "downloadThroughput": -1})
    at = [browser.find(".take input").get_attribute("value") for _ in range(2)]
    assert at[0] == at[1]
    assert not browser.find(".take .error").is_displayed()


def test_without_web_audio_the_whole_speech_is_played(browser: Browser, house: RunningServer) -> None:
    hide = {"source": "delete window.AudioContext"}
    added = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", hide)
    try:
        browser.open(house.url, "#/speak", CONSOLE_KEY)
        browser.wait(lambda: browser.value("Voice"), "nobody is chosen")
        _note_words(browser)
        browser.press("Speak")
        assert len(_heard_to_its_end(browser, ".take")) > 3
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_pruning_shows_who_would_go_before_anybody_goes(browser: Browser, house: RunningServer) -> None:
    with _client(house) as client:
        client.patch(f"/v1/speakers/{enrol(client, 'Stays')}", json={"pinned": True})
        enrol(client, "Goes", "man-again.flac")
    before = _names(house)
    browser.open(house.url, "#/admin", ADMIN_KEY)
    browser.wait_for(".facts", "Speakers")
    browser.fill("Steadiness below", "abc")
    browser.press("See who would go")
    browser.wait_for(".field .error", "Give a number.")
    browser.fill("Steadiness below", "1")
    browser.press("See who would go")
    shown = {each.text for each in browser.wait(lambda: browser.all(".result li strong"), "nobody would go")}
    assert shown == before - {"Stays"} == {name for name in before if name != "Stays"}
    assert _names(house) == before
    browser.press(f"Remove {len(shown)} speakers")
    browser.wait_for("dialog", "Remove")
    browser.press("Keep")
    assert _names(house) == before
    browser.press(f"Remove {len(shown)} speakers")
    browser.press("Remove", within="dialog")
    browser.wait_for(".result", f"{len(shown)} speakers removed")
    assert _names(house) == {"Stays"}
    browser.press("Erase now: Goes")
    browser.press("Erase", within="dialog")
    browser.wait_for(".message", "Goes is erased. Receipt")
    for name in shown - {"Goes"}:
        browser.press(f"Bring back {name}")
        browser.wait(lambda name=name: name in _names(house), f"{name} is not back")
    assert _names(house) == before - {"Goes"}
    lines = browser.wait(lambda: [row.text for row in browser.all("tbody tr")], "the audit is empty")
    assert any("prune" in line for line in lines)


def test_a_speaker_is_renamed_labelled_pinned_and_given_more_clips(browser: Browser, house: RunningServer) -> None:
    with _client(house) as client:
        speaker_id = enrol(client, "Novice")
    browser.open(house.url, f"#/speakers/{speaker_id}", CONSOLE_KEY)
    browser.press("Pin Novice")
    browser.wait_for("[aria-pressed=true]")
    browser.fill("Name", "Woman")
    browser.press("Save")
    assert "belongs to another speaker" in browser.wait_for(".field .error").text
    browser.fill("Name", "Adept")
    browser.press("Add a label")
    browser.fill("Label", "role")
    browser.fill("Its value", "narrator")
    browser.press("Save")
    browser.wait_for("h1", "Adept")
    browser.wait_for("a.button", "Speak as Adept")
    assert browser.find("[aria-pressed]").get_attribute("aria-pressed") == "true"
    browser.find("input[type=file]").send_keys(str(DATA / "man.flac"))
    browser.press("Add them")
    browser.wait_for(".message", "The clips are added to Adept.")
    with _client(house) as client:
        speaker = client.get(f"/v1/speakers/{speaker_id}").json()
        assert (speaker["name"], speaker["labels"], speaker["pinned"], speaker["n_clips"]) == (
            "Adept",
            {"role": "narrator"},
            True,
            2,
        )
        assert client.delete(f"/v1/speakers/{speaker_id}").status_code == 204
