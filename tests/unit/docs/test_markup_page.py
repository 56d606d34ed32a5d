"""The page of markup names what is read and what it takes."""

import re
from pathlib import Path

from cloning.text import markup, say_as
from cloning.text.marked import MAX_BREAK_S

PAGE = (Path(__file__).parents[3] / "docs" / "markup.md").read_text("utf-8")


def test_every_element_and_every_value_stands_on_the_page() -> None:
    elements = markup._CONTENT_REPLACED | markup._MANNERED | {"break", "p", "s"}
    assert {name for name in elements if not re.search(rf"<{name}\b", PAGE)} == set()
    values = {*markup._STRENGTH_S, *markup._RATES, *say_as._READINGS, *say_as._FORMS} - {"default"}
    assert {value for value in values if not re.search(rf"[`\"]{value}[`\"]", PAGE)} == set()


def test_the_figures_are_those_of_the_program() -> None:
    assert f"at most {MAX_BREAK_S:g} s, and {markup.MAX_SILENCE_S:g} s in all" in PAGE
    assert "{:g} to {:g}, on top".format(*markup.RATE_RANGE) in PAGE
    for name, rate in re.findall(r"`([a-z-]+)` (\d[\d.]*)", PAGE.split("speed: ")[1].split("|")[0]):
        assert markup._RATES[name] == float(rate)
