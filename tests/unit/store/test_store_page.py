"""docs/store.md shows the figures that were measured, and names tests that exist."""

import re
from pathlib import Path

from benchmarks import store_page

TESTS = Path(__file__).parent


def test_the_tables_are_those_of_the_results() -> None:
    page = store_page.PAGE.read_text("utf-8")
    for name, words in store_page.tables().items():
        assert f"<!-- {name} -->\n\n{words}\n\n<!-- end -->" in page, "run `python -m benchmarks.store_page`"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", store_page.PAGE.read_text("utf-8"))
    assert len(named) > 15
    for file_name, test in named:
        assert f"def {test}(" in (TESTS / file_name).read_text("utf-8"), (file_name, test)
