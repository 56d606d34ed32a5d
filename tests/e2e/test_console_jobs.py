"""Long texts in the console: handed in, followed, fetched, cancelled, refused."""

import io
import wave
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from chromium import Browser, missing
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from servers import CONSOLE_KEY, RunningServer, with_key

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
HOSTILE = "<img src=x onerror=alert(1)> “Night”"
CHAPTERS = "# The door\n\nWho is there?\n\n[speaker: Man] Only me.\n\n# The end\n\nThey left."
LONG = " ".join(f"Sentence number {n} of a chapter that goes on and on." for n in range(1800))
NO_EVENTS = """
const asked = window.fetch;
window.fetch = (url, ...rest) =>
  String(url).endsWith("/events") ? Promise.reject(new TypeError("no stream")) : asked(url, ...rest);
"""


# Nothing but events says how far a job is.
NO_ASKING = """
const asked = window.fetch;
window.fetch = (url, ...rest) =>
  /jobs\\/[^/]+$/.test(url) ? Promise.reject(new TypeError("no asking")) : asked(url, ...rest);
"""
# The first order arrives, and its reply does not.
LOST_REPLY = """
const asked = window.fetch;
window.fetch = async (url, options) => {
  const reply = await asked(url, options);
  if (options.method !== "POST" || window.lost) return reply;
  window.lost = true;
  throw new TypeError("lost");
};
"""


@pytest.fixture
def client(house: RunningServer) -> Iterator[httpx.Client]:
    """Whoever may speak, without a job at the end."""
    with with_key(house, CONSOLE_KEY) as opened:
        yield opened
        for job in opened.get("/v1/jobs").json()["jobs"]:
            assert opened.delete(f"/v1/jobs/{job['job_id']}").status_code == 204


def _open(browser: Browser, house: RunningServer) -> None:
    browser.open(house.url, "#/jobs", CONSOLE_KEY)
    browser.wait(lambda: browser.value("Voice"), "nobody is chosen")


def _write(browser: Browser, text: str) -> None:
    """A text as it is pasted: typing a hundred thousand characters takes minutes."""
    field = browser.labelled("Text")
    browser.run("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", field, text)


def _downloaded(browser: Browser, name: str) -> bytes:
    path = browser.downloads / name
    browser.wait(path.exists, f"{name} is not downloaded")
    return path.read_bytes()


def _choose(browser: Browser, label: str, value: str) -> None:
    browser.wait(lambda: browser.labelled(label), label).find_element("css selector", f"[value={value}]").click()


def test_a_file_is_handed_in_followed_and_fetched_with_its_chapters_and_subtitles(
    browser: Browser, house: RunningServer, client: httpx.Client, tmp_path: Path
) -> None:
    chapter = tmp_path / "The visit.txt"
    chapter.write_text(CHAPTERS, encoding="utf-8-sig")
    _open(browser, house)
    browser.find("input[type=file]").send_keys(str(chapter))
    browser.wait(lambda: browser.value("Text") == CHAPTERS, "the file is not in the text")
    assert browser.value("Title") == "The visit"
    browser.press("Hand it in")
    browser.wait_for(".people .name", "The visit")
    assert browser.value("Text") == ""
    browser.wait_for(".people strong", "Done")
    assert "kept until" in browser.find(".people small").text
    browser.press("Chapters The visit")
    chapters = browser.wait(lambda: browser.all(".details li"), "there are no chapters")
    assert [each.text.split(" from ")[0] for each in chapters] == ["The door", "The end"]
    for form in ("wav", "srt"):
        _choose(browser, "File of The visit", form)
        browser.press("Download The visit")
    with wave.open(io.BytesIO(_downloaded(browser, "The visit.wav"))) as sound:
        (job,) = client.get("/v1/jobs").json()["jobs"]
        assert sound.getnframes() / sound.getframerate() == pytest.approx(job["audio_s"], abs=0.001)
    assert b"Only me." in _downloaded(browser, "The visit.srt")
    browser.press("Delete The visit")
    browser.press("Delete", within="dialog")
    browser.wait_for(".hint", "There is none.")
    assert client.get("/v1/jobs").json()["total"] == 0


def test_a_job_comes_on_without_being_asked_and_is_cancelled_after_a_question(
    browser: Browser, house: RunningServer, client: httpx.Client
) -> None:
    _open(browser, house)
    browser.run(NO_ASKING)
    browser.fill("Title", HOSTILE)
    _write(browser, LONG)
    browser.press("Hand it in")
    browser.wait_for(".people .time", "left")
    assert browser.focused().text == HOSTILE
    assert browser.run("return document.querySelectorAll('main img').length") == 0
    at = float(browser.find("progress").get_attribute("value"))
    browser.wait(lambda: float(browser.find("progress").get_attribute("value")) > at, "it does not come on")
    browser.press(f"Cancel {HOSTILE}")
    browser.press("Keep", within="dialog")
    assert client.get("/v1/jobs").json()["jobs"][0]["state"] == "running"
    browser.press(f"Cancel {HOSTILE}")
    browser.press("Cancel it", within="dialog")
    browser.wait_for(".people strong", "Cancelled")
    shown = browser.find(".people small").text
    assert "listed until" in shown and "of speech" not in shown
    browser.wait(lambda: browser.focused().text == HOSTILE, "the focus is lost")
    assert client.get("/v1/jobs").json()["jobs"][0]["state"] == "cancelled"


def test_where_events_do_not_come_through_the_page_asks_for_progress(
    browser: Browser, house: RunningServer, client: httpx.Client
) -> None:
    _open(browser, house)
    browser.run(NO_EVENTS)
    browser.fill("Title", "Asked for")
    _write(browser, CHAPTERS)
    browser.press("Hand it in")
    browser.wait_for(".people strong", "Done")
    assert not [each for each in browser.all(".people .error") if each.is_displayed()]


def test_an_order_whose_reply_was_lost_makes_one_job(
    browser: Browser, house: RunningServer, client: httpx.Client
) -> None:
    _open(browser, house)
    browser.run(LOST_REPLY)
    _write(browser, CHAPTERS)
    browser.press("Hand it in")
    browser.wait_for("form .error", "cannot be reached")
    assert browser.value("Text") == CHAPTERS
    browser.press("Hand it in")
    browser.wait_for(".people .name", "Untitled")
    assert client.get("/v1/jobs").json()["total"] == 1


def test_a_job_is_handed_in_and_cancelled_by_the_keyboard_alone(
    browser: Browser, house: RunningServer, client: httpx.Client
) -> None:
    def tab_to(name: str) -> None:
        for _ in range(12):
            keys.send_keys(Keys.TAB).perform()
            if browser.focused().accessible_name == name:
                return
        raise AssertionError(f"{name} is not reached")

    _open(browser, house)
    _write(browser, LONG)
    keys = ActionChains(browser.driver)
    browser.run("document.getElementById('main').focus()")
    tab_to("Title")
    keys.send_keys("By keys").perform()
    tab_to("Hand it in")
    keys.send_keys(Keys.ENTER).perform()
    browser.wait(lambda: browser.focused().text == "By keys", "the new job has not the focus")
    tab_to("Cancel By keys")
    keys.send_keys(Keys.ENTER).perform()
    browser.wait_for("dialog", "Cancel By keys?")
    tab_to("Cancel it")
    keys.send_keys(Keys.ENTER).perform()
    browser.wait_for(".people strong", "Cancelled")
    browser.wait(lambda: browser.focused().text == "By keys", "the focus is lost")


def test_what_is_refused_stands_beside_its_field_and_the_text_stays(
    browser: Browser, house: RunningServer, client: httpx.Client, tmp_path: Path
) -> None:
    _open(browser, house)
    for text, label, words in (
        ("", "Text", "Write what is to be said"),
        ("One.\n\n[speker: Ada] Two.", "Text", "line 3"),
        ("[speaker: Nobody at all] Two.", "Text", "Nobody at all"),
        ("x" * 100_001, "Text", "100000"),
    ):
        _write(browser, text)
        browser.press("Hand it in")
        browser.wait_for(".field .error", words)
        assert browser.focused().accessible_name == label
        assert browser.value("Text") == text
    _write(browser, "One.")
    browser.fill("Speed", "9")
    browser.press("Hand it in")
    browser.wait(lambda: browser.focused().accessible_name == "Speed", "the error is not at the speed")
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Grüße".encode("latin-1"))
    browser.find("input[type=file]").send_keys(str(latin))
    browser.wait_for(".field .error", "Save it as plain text in UTF-8")
    assert client.get("/v1/jobs").json()["total"] == 0
