"""A real Chromium without a window: what it is started with, and how tests wait, click, type and look in it."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install -e '.[dev]'")

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-fake-ui-for-media-stream --use-fake-device-for-media-stream "
    # A name that is not this machine's own, so that its pages are no secure context.
    "--host-resolver-rules=MAP\tconsole.example\t127.0.0.1"
)
_PLAIN_REFUSAL = "Failed to load resource: the server responded with a status of 4"
_WAIT_S = 40


class Browser:
    """One Chromium. `heard` is what its microphone hears."""

    def __init__(self, profile: Path, heard: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        arguments = [f"--user-data-dir={profile}", f"--use-file-for-fake-audio-capture={heard}"]
        for argument in [*_FLAGS.split(" "), *arguments]:
            options.add_argument(argument.replace("\t", " "))
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # The path is given: otherwise Selenium looks for a driver on the network.
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        self.origin = ""
        self.downloads = profile / "downloads"
        allow = {"behavior": "allow", "downloadPath": str(self.downloads)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allow)

    def open(self, origin: str, place: str = "", key: str = "") -> None:
        """A fresh page of the console, with no trace of an earlier one."""
        self.origin = origin
        self.driver.get(f"{origin}/console/limits.json")
        self.run("sessionStorage.clear(); if (arguments[0]) sessionStorage.setItem('voicekin-key', arguments[0])", key)
        self.driver.get(f"{origin}/console/{place}")
        self.wait_for(".section[data-ready]")

    def go(self, section: str) -> None:
        """Another section, by its link."""
        self.find(f"#sections a[href='#/{section}']").click()
        self.wait_for(f".section[data-section={section}][data-ready]")

    def screen(self, width: int, height: int, scheme: str = "light") -> None:
        """A screen of this size, light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, look: Callable[[], T], what: str) -> T:
        """What `look` gives once it is true."""
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                if found := look():
                    return found
            except (NoSuchElementException, StaleElementReferenceException):
                pass
            assert time.monotonic() < until, f"{what}\n{self.find('body').text}"
            time.sleep(0.05)

    def wait_for(self, selector: str, text: str = "") -> WebElement:
        """The first element that is shown and has this text in it."""
        return self.wait(
            lambda: next((each for each in self.all(selector) if each.is_displayed() and text in each.text), None),
            f"{selector} with {text!r} is not shown",
        )

    def press(self, name: str, within: str = "body") -> None:
        """Clicks the button of this name, or the link where there is none."""

        def clicked() -> bool:
            found = self.all(f"{within} button") + self.all(f"{within} a")
            shown = (each for each in found if each.is_displayed())
            named = next((each for each in shown if name in {each.text.strip(), each.accessible_name}), None)
            if named is not None:
                # As a person would: out from under a message that stands at the foot of the window.
                self.run("arguments[0].scrollIntoView({ block: 'center' })", named)
                named.click()
            return named is not None

        self.wait(clicked, f"there is no {name!r}")

    def fill(self, label: str, text: str) -> WebElement:
        """Types into the field of this label."""
        field = self.wait(lambda: self.labelled(label), f"there is no field {label!r}")
        field.clear()
        field.send_keys(text)
        return field

    def labelled(self, label: str) -> WebElement | None:
        fields = (each for each in self.all("input, textarea, select") if each.is_displayed())
        return next((each for each in fields if each.accessible_name == label), None)

    def value(self, label: str) -> str:
        """What stands in the field of this label; nothing where there is no such field yet."""
        field = self.labelled(label)
        return (field.get_attribute("value") or "") if field else ""

    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def complaints(self) -> list[str]:
        """What went wrong since the last call: errors of the page, and requests that left its origin."""
        errors = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
        messages = (json.loads(each["message"])["message"] for each in self.driver.get_log("performance"))
        sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        pages = [each for each in sent if each["documentURL"].startswith("http")]
        # Chromium draws the buttons of its own players from data.
        ours = (self.origin + "/", f"blob:{self.origin}/", "data:image/svg+xml;")
        left = [each["request"]["url"] for each in pages if not each["request"]["url"].startswith(ours)]
        return [each for each in errors if _PLAIN_REFUSAL not in each] + left


def missing() -> str:
    """Why no browser can be started here; empty where one can."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not found: apt-get install chromium chromium-driver" if lacking else ""
