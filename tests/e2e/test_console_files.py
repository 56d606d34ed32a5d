"""The console's files and the map, as HTTP, and the one thing that is otherwise where nothing can be undone."""

import gzip
import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from asking import problem
from chromium import Browser, missing
from selenium.webdriver.common.keys import Keys
from servers import RunningServer, enrol

from api.settings import Settings

NAMES = sorted(item.name for item in (files("api") / "console").iterdir())
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
MAX_BYTES = 150_000


def test_a_browser_is_led_to_the_console_and_a_program_is_told_where_the_api_is(client: httpx.Client) -> None:
    browser = client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (browser.status_code, browser.headers["Location"]) == (303, "console/")
    program = client.get("/", headers={"Accept": "*/*"})
    places = program.json()
    assert client.get(f"/{places['api']}speakers").status_code == 200
    for name in ("reference", "openapi", "console"):
        assert client.get(f"/{places[name]}").status_code == 200, name
    for response in (browser, program):
        assert "Accept" in response.headers["Vary"].split(", ")
    unslashed = client.get("/console")
    assert (unslashed.status_code, unslashed.headers["Location"]) == (308, "console/")


def test_every_file_is_sent_as_what_it_is_and_only_the_page_s_own_origin_is_allowed(client: httpx.Client) -> None:
    total = 0
    for name in NAMES:
        response = client.get(
            f"/console/{'' if name == 'index.html' else name}", headers={"Accept-Encoding": "identity"}
        )
        assert response.content == (files("api") / "console" / name).read_bytes()
        total += len(response.content)
        assert response.headers["Content-Type"].split(";")[0] == TYPES[name.rpartition(".")[2]]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert not re.search(r"unsafe|https?:|\*", policy)
    assert total < MAX_BYTES


def test_the_console_is_as_large_as_its_page_of_docs_says(client: httpx.Client) -> None:
    words = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")
    said = re.search(r"All of it is (\d+) kB,\s(\d+) kB on the wire", words)
    assert said is not None
    for encoding, n_kb in zip(("identity", "gzip"), said.groups(), strict=True):
        total = 0
        for name in NAMES:
            with client.stream("GET", f"/console/{name}", headers={"Accept-Encoding": encoding}) as response:
                total += sum(len(part) for part in response.iter_raw())
        # Packers differ by a little.
        assert total / 1000 == pytest.approx(int(n_kb), rel=0.02), encoding


@pytest.mark.parametrize("name", ["", "app.js"])
def test_a_file_that_is_known_is_not_sent_again(client: httpx.Client, name: str) -> None:
    plain = client.get(f"/console/{name}", headers={"Accept-Encoding": "identity"})
    assert plain.headers["Cache-Control"] == "no-cache"
    with client.stream("GET", f"/console/{name}", headers={"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content
    for tag in (plain.headers["ETag"], f'"x", {packed.headers["ETag"]}', "*"):
        again = client.get(f"/console/{name}", headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == plain.headers["ETag"]
    assert client.get(f"/console/{name}", headers={"If-None-Match": '"x"'}).status_code == 200
    head = client.head(f"/console/{name}", headers={"Accept-Encoding": "identity"})
    assert (head.status_code, head.content, head.headers["ETag"]) == (200, b"", plain.headers["ETag"])
    assert head.headers["Content-Length"] == str(len(plain.content))


def test_nothing_but_the_console_s_own_files_can_be_asked_for(client: httpx.Client) -> None:
    for name in ("nothing.js", "..%2fapp.py", "..%2F..%2Fetc%2Fpasswd", "%00", "__init__.py", "style.css%00.js"):
        problem(client.get(f"/console/{name}"), 404, "http_404")


def test_the_page_is_told_the_limits_of_this_server(client: httpx.Client) -> None:
    limits = client.get("/console/limits.json").json()
    assert limits["max_text_chars"] == 2000
    assert limits["max_clips"] == 4
    assert (limits["consent"], limits["consent_statement"]) == ("off", Settings().consent_statement)
    assert limits["grace_days"] == Settings().grace_days
    assert set(limits["formats"]) == {"wav", "mp3", "opus", "aac", "flac", "pcm"}
    assert set(limits["job_formats"]) == {*limits["formats"], "m4a"}
    assert (limits["max_job_chars"], limits["job_keep_days"]) == (Settings().job_max_chars, Settings().job_keep_days)
    assert set(limits["key_limits"]) == {"requests_per_minute", "characters_per_month", "speakers"}


def test_speakers_are_found_by_a_part_of_their_name(client: httpx.Client, woman: str, man: str) -> None:
    found = client.get("/v1/speakers", params={"name_contains": "WOM"}).json()
    assert [(each["speaker_id"], each["name"]) for each in found["speakers"]] == [(woman, "Woman")]
    assert found["total"] == 1
    assert client.get("/v1/speakers", params={"name_contains": "%"}).json()["total"] == 0


def test_the_map_has_everybody_and_is_the_same_each_time(client: httpx.Client, woman: str, man: str) -> None:
    chart = client.get("/v1/speakers/map", params={"to": woman}).json()
    points = {point["speaker_id"]: point for point in chart["points"]}
    assert points.keys() >= {woman, man}
    assert points[woman]["cosine"] == pytest.approx(1, abs=1e-5)
    (nearest, *_) = client.get(f"/v1/speakers/{woman}/similar").json()["matches"]
    assert points[nearest["speaker_id"]]["cosine"] == pytest.approx(nearest["cosine"], abs=1e-5)
    assert client.get("/v1/speakers/map", params={"to": woman}).json() == chart
    assert {point["cosine"] for point in client.get("/v1/speakers/map").json()["points"]} == {None}
    problem(client.get("/v1/speakers/map", params={"to": "nobody"}), 404, "speaker_not_found")
    problem(client.get("/v1/speakers/map", params={"limit": 1001}), 422, "bad_field")


def test_a_report_says_where_speech_was_found(client: httpx.Client, woman: str) -> None:
    (clip,) = client.get(f"/v1/speakers/{woman}").json()["report"]["clips"]
    spans = clip["voiced_spans_s"]
    assert spans == sorted(spans)
    assert sum(stop - start for start, stop in spans) == pytest.approx(clip["voiced_s"], abs=0.01)
    assert spans[-1][1] <= clip["duration_s"] + 0.01


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_where_nothing_can_be_undone_erasing_asks_first(
    browser: Browser, server: RunningServer, client: httpx.Client
) -> None:
    speaker_id = enrol(client, "Fleeting")
    browser.open(server.url, "#/speakers")
    browser.fill("Search by name", "fleeting")
    browser.press("Delete Fleeting")
    browser.wait_for("dialog", "This cannot be undone.")
    browser.focused().send_keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.all("dialog"), "Escape does not close the dialog")
    assert client.get(f"/v1/speakers/{speaker_id}").status_code == 200
    browser.press("Delete Fleeting")
    browser.press("Erase", within="dialog")
    browser.wait_for(".message", "Fleeting is erased.")
    assert client.get(f"/v1/speakers/{speaker_id}").status_code == 404
