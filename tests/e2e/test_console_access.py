"""The console for everybody: names and roles, contrast, a phone, plain HTTP, hostile names, very many voices."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from chromium import Browser, missing
from servers import ADMIN_KEY, CONSOLE_KEY, DATA, RunningServer, enrol

from store.service import Store
from store.types import ClipRecord, NewSpeaker, StoreConfig

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
HOSTILE = "<img src=x onerror=alert(1)> “Zoë”"
# As much speech as nobody has who was really enrolled.
LITTLE_S = 0.4
CONTROLS = {
    *("button", "link", "textbox", "searchbox", "combobox", "listbox", "option", "slider", "meter", "progressbar"),
    *("checkbox", "radio", "dialog", "navigation", "region", "article", "image", "table", "Audio"),
}
# Text under 4.5 to 1 against what it stands on (WCAG 1.4.3), as the browser has painted it.
FAINT = """
const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const over = (colours) => {
  context.clearRect(0, 0, 1, 1);
  for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || element.value;
  const box = element.getBoundingClientRect();
  if (!says || !box.width || element.closest(".unseen, .skip, option, :disabled, svg, [type=range]")) continue;
  const under = [];
  for (let each = element; each; each = each.parentElement) under.unshift(getComputedStyle(each).backgroundColor);
  const ground = light(over(["white", ...under]));
  const ink = light(over(["white", ...under, getComputedStyle(element).color]));
  const ratio = (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
  if (ratio < 4.5) found.push(`${element.outerHTML.slice(0, 90)} ${ratio.toFixed(2)}`);
}
return found;
"""
# Things to press that are smaller than 24 by 24 and not inside a line of text (WCAG 2.5.8).
SMALL = """
return [...document.querySelectorAll("button, input:not(.unseen), select, textarea, .button, [role=option], nav a")]
  .map((each) => [each, each.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.width < 24 || box.height < 24))
  .map(([each]) => each.outerHTML.slice(0, 90));
"""


def _unnamed(browser: Browser) -> list[str]:
    """Controls without a name in the tree that a screen reader sees, and names that do not hold what is written."""
    nodes = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    seen = [node for node in nodes if not node["ignored"]]
    roles = {node["role"]["value"] for node in seen}
    # A dialog keeps everything else out of reach.
    expected = {"dialog", "heading"} if "dialog" in roles else {"main", "navigation", "link", "heading"}
    assert {"button", *expected} <= roles
    unnamed = [node for node in seen if node["role"]["value"] in CONTROLS and not node.get("name", {}).get("value")]
    shown = [f"{node['role']['value']} without a name: {_about(browser, node)}" for node in unnamed]
    labelled = browser.all("button[aria-label], a[aria-label]")
    lost = [each.text for each in labelled if each.text.strip("×") not in each.get_attribute("aria-label")]
    return shown + [f"{words!r} is written and not in the name" for words in lost if "•" not in words]


def _about(browser: Browser, node: dict[str, Any]) -> str:
    found = browser.driver.execute_cdp_cmd("DOM.describeNode", {"backendNodeId": node["backendDOMNodeId"]})["node"]
    return f"{found['nodeName']} {found.get('attributes', [])}"


def _check(browser: Browser, state: str) -> None:
    assert _unnamed(browser) == [], state
    assert browser.run(SMALL) == [], state
    ids = browser.run("return [...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids)), state
    levels = browser.run("return [...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))")
    assert levels[0] == 1 and all(b - a <= 1 for a, b in itertools.pairwise(levels)), (state, levels)
    for scheme in ("dark", "light"):
        browser.screen(320, 640, scheme)
        assert browser.run(FAINT) == [], (state, scheme)
        assert browser.run("return document.documentElement.scrollWidth") <= 320, state


def test_every_control_has_a_name_and_every_section_fits_a_phone_in_light_and_dark(
    browser: Browser, house: RunningServer
) -> None:
    browser.screen(320, 640)
    browser.open(house.url, "#/speak", CONSOLE_KEY)
    browser.press("Compare with another voice")
    browser.wait(lambda: browser.value("Second voice"), "no second voice is chosen")
    browser.press("Speak")
    browser.wait(lambda: len(browser.all(".take a[download]")) == 2, "the two are not spoken")
    browser.find("[role=combobox]").click()
    browser.wait_for("[role=option]")
    _check(browser, "speak")
    browser.go("enrol")
    browser.press("Record")
    browser.wait_for(".recording .time", "1 s")
    browser.press("Add a label")
    _check(browser, "recording")
    browser.press("Stop recording")
    browser.wait_for(".clips .waveform")
    browser.press("Enrol")
    browser.wait_for(".field .error")
    _check(browser, "an error")
    browser.press("Remove Recording 1")
    browser.find("input[type=file]").send_keys(str(DATA / "man.flac"))
    browser.fill("Name", f"A{'bcdefghij' * 9}")
    browser.press("Enrol")
    browser.wait_for(".report .waveform")
    _check(browser, "report")
    browser.go("speakers")
    browser.press("Listen to Woman")
    browser.wait_for(".take a[download]")
    _check(browser, "speakers")
    browser.find(".people .name").click()
    browser.wait_for(".near li")
    _check(browser, "speaker")
    browser.press("Delete")
    browser.wait_for(".message")
    _check(browser, "deleted")
    browser.press("Undo")
    browser.wait_for(".near li")
    browser.go("map")
    browser.wait(lambda: browser.all(".dot"), "the map is empty")[0].click()
    browser.wait_for(".dot.chosen")
    _check(browser, "map")
    browser.press("Key, one is in use")
    _check(browser, "key")
    _check_jobs(browser, house)
    browser.open(house.url, "#/admin", ADMIN_KEY)
    browser.fill("All but", "0")
    browser.press("See who would go")
    browser.wait_for(".result li")
    _check(browser, "admin")
    _check_keys(browser)


def _check_jobs(browser: Browser, house: RunningServer) -> None:
    browser.open(house.url, "#/jobs", CONSOLE_KEY)
    browser.wait(lambda: browser.value("Voice"), "nobody is chosen")
    _check(browser, "jobs")
    browser.fill("Title", "n" * 200)
    browser.fill("Text", "# One\n\nA door.\n\n# Two\n\nAnother door.")
    browser.press("Hand it in")
    browser.press(f"Chapters {'n' * 200}")
    browser.wait_for(".details li", "Two")
    _check(browser, "a job that is done")
    browser.press("Hand it in")
    browser.wait_for(".field .error", "Write what is to be said")
    _check(browser, "a job that lacks a text")
    browser.press(f"Delete {'n' * 200}")
    browser.wait_for("dialog")
    _check(browser, "a job to delete")
    browser.press("Delete", within="dialog")
    browser.wait_for(".hint", "There is none.")


def _check_keys(browser: Browser) -> None:
    browser.go("keys")
    browser.fill("What it is for", "n" * 200)
    browser.fill("Characters a month", "1000")
    browser.press("Make the key")
    browser.wait_for(".note input")
    browser.wait_for(".people progress")
    _check(browser, "a new key")
    browser.press("I have kept it")
    browser.press("Make the key")
    browser.wait_for(".field .error", "Say what the key is for.")
    _check(browser, "a key that lacks a name")
    browser.press(f"Revoke {'n' * 200}")
    browser.press("Revoke", within="dialog")
    browser.press(f"Delete {'n' * 200}")
    browser.wait_for("dialog")
    _check(browser, "a key to delete")
    browser.press("Delete", within="dialog")
    browser.wait_for(".hint", "There is none in the store.")


def test_by_plain_http_from_another_address_the_page_says_why_it_cannot_record(
    browser: Browser, house: RunningServer
) -> None:
    origin = house.url.replace("127.0.0.1", "console.example")
    browser.open(origin, "#/enrol", CONSOLE_KEY)
    assert browser.run("return window.isSecureContext") is False
    assert "https" in browser.wait_for(".source .note", "console.example").text
    assert not browser.find(".record").is_enabled()
    browser.find("input[type=file]").send_keys(str(DATA / "man.flac"))
    browser.fill("Name", "From afar")
    browser.press("Enrol")
    browser.wait_for("h2", "From afar is enrolled")
    browser.press("Speak as From afar")
    browser.wait(lambda: browser.value("Voice") == "From afar", "the new voice is not chosen")
    browser.press("Speak")
    browser.wait_for(".take a[download]")


def test_a_name_is_text_wherever_it_stands(browser: Browser, house: RunningServer) -> None:
    headers = {"Authorization": f"Bearer {CONSOLE_KEY}"}
    with httpx.Client(base_url=house.url, timeout=60, headers=headers) as client:
        speaker_id = enrol(client, HOSTILE, "man-again.flac")
        client.patch(f"/v1/speakers/{speaker_id}", json={"labels": {HOSTILE: HOSTILE}})
    for place in ("#/speakers", f"#/speakers/{speaker_id}", f"#/map?to={speaker_id}", f"#/speak?voice={speaker_id}"):
        browser.open(house.url, place, CONSOLE_KEY)
        browser.wait(
            lambda: HOSTILE in browser.run("return document.body.textContent") or browser.value("Voice") == HOSTILE,
            place,
        )
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    browser.press("Speak")
    browser.wait_for(".take a[download]")
    with httpx.Client(base_url=house.url, headers=headers) as client:
        assert client.delete(f"/v1/speakers/{speaker_id}").status_code == 204


@pytest.fixture
def crowd(house: RunningServer) -> Iterator[None]:
    """Five hundred more voices, put straight into the store and taken out again."""
    folder = Path(house.environment["VOICEKIN_STATE_DIR"])
    with httpx.Client(base_url=house.url) as client:
        encoder_id = client.get("/health/ready").json()["encoder_id"]
    config = StoreConfig(f"sqlite:///{folder / 'voicekin.db'}", folder)
    with Store.open(config) as store, ThreadPoolExecutor(8) as threads:
        added = list(threads.map(lambda number: store.enrol(_stranger(number, encoder_id)), range(500)))
    yield
    with httpx.Client(base_url=house.url, timeout=60, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as admin:
        pruned = admin.post("/v1/admin/prune", json={"speech_below_s": LITTLE_S + 0.1}).json()
        assert {each["speaker_id"] for each in pruned["victims"]} == {speaker.id for speaker in added}
        admin.post("/v1/admin/purge", json={"speaker_ids": [speaker.id for speaker in added]})


def test_five_hundred_voices_are_paged_found_and_charted(browser: Browser, house: RunningServer, crowd: None) -> None:
    browser.open(house.url, "#/speakers", CONSOLE_KEY)
    browser.wait(lambda: len(browser.all(".people > li")) == 30, "the first page is not 30 long")
    browser.press("Show more")
    browser.wait(lambda: len(browser.all(".people > li")) == 60, "there is no second page")
    assert browser.focused() == browser.all(".people > li a")[30]
    browser.fill("Search by name", "stranger 49")
    browser.wait_for(".hint", "11 of 11 speakers")
    browser.go("speak")
    browser.find("[role=combobox]").click()
    browser.focused().send_keys("stranger 4")
    browser.wait(lambda: len(browser.all("[role=option]")) == 31, "the list is not a page long")
    browser.wait_for("[role=option].more", "Show more of 111").click()
    browser.wait(lambda: len(browser.all("[role=option]")) == 61, "the list is not two pages long")
    browser.open(house.url, "#/map", CONSOLE_KEY)
    browser.wait(lambda: len(browser.all(".dot")) == 500, "the map has not its most")
    assert "500 voices of 5" in browser.find("figcaption").text
    assert len(browser.all(".voices li")) == 500


def _stranger(number: int, encoder_id: str) -> NewSpeaker:
    vector = np.abs(np.random.default_rng(number).standard_normal(256)).astype(np.float32)
    clip = ClipRecord(f"{number:064x}", vector / np.linalg.norm(vector), 5.0, LITTLE_S, 4)
    return NewSpeaker(f"Stranger {number}", encoder_id, (clip,))
