"""Every page stands in the site's navigation, and every link leads to what exists."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _site() -> dict[str, Any]:
    site: dict[str, Any] = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text("utf-8"))
    return site


def _in_navigation(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, list):
                yield from _in_navigation(value)
            else:
                yield value


def _links(page: Path) -> list[str]:
    found = _LINK.findall(_CODE.sub("", page.read_text("utf-8")))
    return [link for link in found if not link.startswith(("http://", "https://"))]


@cache
def _anchors(page: Path) -> frozenset[str]:
    """As the site names its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    plain = (
        unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode() for words in _HEADING.findall(text)
    )
    return frozenset(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower()) for words in plain)


def test_every_page_is_in_the_navigation_once() -> None:
    named = list(_in_navigation(_site()["nav"]))
    pages = [str(page.relative_to(DOCS)) for page in PAGES]
    assert sorted(named) == pages, "docs/site/mkdocs.yml lists the pages under nav"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_exists(page: Path) -> None:
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert page.parent == ROOT or target.is_relative_to(DOCS), f"{link} leads out of the site"
        assert not anchor or anchor in _anchors(target), link


def test_the_site_asks_no_other_host_for_letters() -> None:
    assert _site()["theme"]["font"] is False
