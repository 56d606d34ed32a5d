"""docs/store.md names tests that exist; `tests/unit/test_tables.py` holds its figures."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "store.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE.read_text("utf-8"))
    assert len(named) > 15
    for file_name, test in named:
        assert f"def {test}(" in (TESTS / file_name).read_text("utf-8"), (file_name, test)
