"""Keys in the console: made with limits, their secret shown once and copied, their use seen, ended after a question."""

from collections.abc import Iterator

import httpx
import pytest
from chromium import Browser, missing
from selenium.webdriver.common.keys import Keys
from servers import ADMIN_KEY, CONSOLE_KEY, RunningServer, make_key, with_key

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
HOSTILE = "<img src=x onerror=alert(1)> “Reading room”"


@pytest.fixture
def admin(house: RunningServer) -> Iterator[httpx.Client]:
    """Whoever keeps the keys, without one at the end."""
    with with_key(house, ADMIN_KEY) as opened:
        yield opened
        for key in opened.get("/v1/admin/keys").json()["keys"]:
            assert opened.delete(f"/v1/admin/keys/{key['key_id']}").status_code == 204


def _speak(house: RunningServer, secret: str) -> httpx.Response:
    with with_key(house, secret) as client:
        found = client.get("/v1/speakers", params={"name_contains": "Woman"})
        if not found.is_success:
            return found
        body = {"text": "Hello there.", "speaker_id": found.json()["speakers"][0]["speaker_id"]}
        return client.post("/v1/speech", json=body)


def test_a_key_is_made_copied_used_seen_and_ended(browser: Browser, house: RunningServer, admin: httpx.Client) -> None:
    allowed = {"origin": house.url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", allowed)
    browser.open(house.url, "#/keys", ADMIN_KEY)
    browser.fill("What it is for", HOSTILE)
    browser.labelled("Enrol, change and delete speakers").click()
    browser.fill("Ends after days", "30")
    browser.fill("Characters a month", "20")
    browser.fill("Requests a minute", "60")
    browser.press("Make the key")
    shown = browser.wait_for(".note input")
    secret = shown.get_attribute("value")
    assert browser.focused() == shown and shown.accessible_name == f"Key for {HOSTILE}"
    browser.press("Copy")
    browser.wait_for(".note button", "Copied")
    browser.fill("Tenant", "").send_keys(Keys.CONTROL, "v")
    assert browser.value("Tenant") == secret
    browser.press("I have kept it")
    (listed,) = admin.get("/v1/admin/keys").json()["keys"]
    assert (listed["name"], listed["scopes"], listed["limits"]) == (
        HOSTILE,
        ["speak"],
        {"requests_per_minute": 60, "characters_per_month": 20, "speakers": None},
    )
    assert listed["expires_at"] is not None
    assert _speak(house, secret).status_code == 200
    browser.open(house.url, "#/keys", ADMIN_KEY)
    row = browser.wait_for(".people > li", HOSTILE)
    assert "12 of 20 characters this month" in row.text and "60 requests a minute" in row.text
    assert float(browser.find(".people progress").get_attribute("value")) == 12
    assert browser.run("return document.querySelectorAll('main img').length") == 0
    _end(browser, house, admin, secret)


def _end(browser: Browser, house: RunningServer, admin: httpx.Client, secret: str) -> None:
    browser.press(f"Revoke {HOSTILE}")
    browser.press("Keep", within="dialog")
    assert admin.get("/v1/admin/keys").json()["keys"][0]["state"] == "live"
    browser.press(f"Revoke {HOSTILE}")
    browser.press("Revoke", within="dialog")
    browser.wait_for(".people small", "revoked")
    assert browser.focused().text == HOSTILE
    assert _speak(house, secret).status_code == 401
    browser.press(f"Delete {HOSTILE}")
    browser.press("Delete", within="dialog")
    browser.wait_for(".hint", "There is none in the store.")
    assert admin.get("/v1/admin/keys").json()["total"] == 0


def test_a_secret_is_nowhere_once_it_was_put_away_or_the_section_was_left(
    browser: Browser, house: RunningServer, admin: httpx.Client
) -> None:
    browser.open(house.url, "#/keys", ADMIN_KEY)
    kept = "return JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, location.href])"
    page = (
        "return document.documentElement.outerHTML "
        "+ [...document.querySelectorAll('input, textarea')].map((each) => each.value)"
    )
    for leave in (lambda: browser.press("I have kept it"), lambda: (browser.go("admin"), browser.go("keys"))):
        browser.fill("What it is for", "Once")
        browser.press("Make the key")
        secret = browser.wait_for(".note input").get_attribute("value")
        assert secret.startswith("vk_") and secret in browser.run(page) and secret not in browser.run(kept)
        leave()
        assert secret not in browser.run(page) + browser.run(kept)


def test_what_is_refused_stands_beside_its_field(browser: Browser, house: RunningServer, admin: httpx.Client) -> None:
    browser.open(house.url, "#/keys", ADMIN_KEY)
    for label, wrong, right, words in (
        ("What it is for", "", "A test", "Say what the key is for."),
        ("Characters a month", "many", "10", "Give a whole number"),
        ("Requests a minute", "0.5", "", "Give a whole number"),
        ("Ends after days", "4000", "", "3650"),
        ("Tenant", "a b", "acme", "letters, digits, dots"),
    ):
        browser.fill(label, wrong)
        browser.press("Make the key")
        browser.wait_for(".field .error", words)
        assert browser.focused().accessible_name == label
        browser.fill(label, right)
    for box in browser.all("input[type=checkbox]:checked"):
        box.click()
    browser.press("Make the key")
    browser.wait_for("fieldset .error", "Choose what it may do.")
    assert admin.get("/v1/admin/keys").json()["total"] == 0


def test_without_an_admin_s_key_nothing_of_keys_is_shown(
    browser: Browser, house: RunningServer, admin: httpx.Client
) -> None:
    make_key(admin, "speak", name="Not to be seen")
    browser.open(house.url, "#/keys", CONSOLE_KEY)
    browser.wait_for(".note", "This key may not do that")
    assert "Not to be seen" not in browser.find("body").text
    assert not browser.all("form")
