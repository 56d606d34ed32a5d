"""Pages show what the results say."""

from benchmarks.tables import PAGES, ROOT, filled


def test_every_table_is_what_its_result_gives() -> None:
    for name in PAGES:
        path = ROOT / name
        if path.exists():
            text = path.read_text(encoding="utf-8")
            assert filled(text) == text, f"{name} is stale: run python -m benchmarks.tables"
