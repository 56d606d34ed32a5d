"""The page of conversations names every message, every code and the settings as they are."""

import re
from pathlib import Path

from api.catalogue import CODES
from api.conversation_messages import ANSWERED, ASKED
from api.conversing import FRAME_BYTES, MAX_MESSAGE_BYTES
from api.errors import ApiError, Idle, OutOfTurn
from api.settings import Settings
from cloning.text.growing import LONGEST

PAGE = (Path(__file__).parents[3] / "docs" / "websocket.md").read_text("utf-8")


def _first_cells(heading: str) -> set[str]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_message_stands_on_the_page_with_its_fields() -> None:
    kinds = {model.model_fields["type"].annotation.__args__[0]: model for model in ASKED}  # type: ignore[union-attr]
    assert _first_cells("What a client sends") == set(kinds)
    for kind, model in kinds.items():
        (row,) = re.findall(rf"^\| `{kind}` \| ([^|]*)\|", PAGE, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row)) == set(model.model_fields) - {"type"}
    assert _first_cells("What a client hears") == set(ANSWERED)


def test_the_codes_of_conversations_alone_are_named() -> None:
    def codes(kind: type[ApiError]) -> set[str]:
        return {code for code, owner in CODES.items() if owner is kind}

    (named,) = re.findall(r"^Codes that only conversations have: (.*)$", PAGE, re.MULTILINE)
    assert codes(OutOfTurn) | codes(Idle) | {"origin_refused"} == set(re.findall(r"`(\w+)`", named)) - {"begin"}


def test_the_figures_are_those_of_the_program() -> None:
    for figure in (FRAME_BYTES, MAX_MESSAGE_BYTES, LONGEST):
        assert f"{figure:,}" in PAGE
    for name, figure in re.findall(r"`VOICEKIN_(\w+)` \(([\d,]+)\)", PAGE):
        assert Settings.model_fields[name.lower()].default == int(figure.replace(",", "")), name
