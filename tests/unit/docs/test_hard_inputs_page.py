"""The page of hard inputs names tests that exist, and every row has one or says why there is none."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
_TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def _rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "hard-inputs.md").read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [A-Z]\d", line)]
    assert len(cells) > 80
    return cells


@cache
def _tests_of(file_name: str) -> frozenset[str]:
    paths = list((ROOT / "tests").rglob(file_name))
    assert len(paths) == 1, f"{file_name}: {paths}"
    tree = ast.parse(paths[0].read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_test_that_the_page_names_exists() -> None:
    for name, *_, proof in _rows():
        for file_name, test in _TEST.findall(proof):
            assert test in _tests_of(file_name), (name, file_name, test)


def test_every_row_is_proved_or_says_why_not() -> None:
    for name, *_, proof in _rows():
        assert _TEST.search(proof) or proof.startswith("none: "), name


def test_every_row_of_the_groups_stands_on_the_page_once() -> None:
    counts = {"A": 26, "E": 26, "F": 7, "G": 16, "H": 8, "J": 7, "K": 5, "L": 6, "M": 7, "N": 4, "P": 4, "Q": 3}
    whole_groups = {f"{group}{number}" for group, count in counts.items() for number in range(1, count + 1)}
    expected = whole_groups | {"C3", "C4", "C5", "C6", "D4", "D7", "I1", "I2", "O1", "S3"}
    names = [row[0] for row in _rows()]
    assert sorted(names) == sorted(expected)
