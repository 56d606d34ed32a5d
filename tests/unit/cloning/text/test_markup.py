import pytest

from cloning.errors import TextRefused
from cloning.text.marked import MarkedText, break_character, said_character
from cloning.text.markup import parse, unmarked

ANSWER = """# Title
Some **bold**, *italic*, __strong__ and ~~gone~~ `code` with [a label](https://x.org/a_(b)).

- item one
* [x] item two
1. first

| Name | Age |
|------|----:|
| Ann  | 5   |

```python
print("never heard")
```
> a quote with snake_case and 3*4*5

![picture](u.png) end[^1]
***
"""
HEARD = """
Title

Some bold, italic, strong and gone code with a label.

item one.
item two.
1, first.

Name, Age.
Ann, 5.

a quote with snake_case and 3*4*5

picture end
"""


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def test_markdown_is_silent_and_its_labels_stay() -> None:
    assert lines(parse(ANSWER).text) == lines(HEARD)


def test_headings_and_blocks_end_a_paragraph() -> None:
    assert "Title\n\n" in parse(ANSWER).text


def test_unmarked_text_keeps_its_signs() -> None:
    text = "**bold** <b>x</b> &amp; [a](b)"
    assert unmarked(text) == MarkedText(text)


@pytest.mark.parametrize(
    ("written", "heard"),
    [
        ("<b>x</b><br>y", "x\ny"),
        ("5 < 6 & 7 > 2", "5 < 6 & 7 > 2"),
        ("if a<b and c>d then", "if a<b and c>d then"),
        ("&amp; don&#x27;t &lt;b&gt;", "& don't <b>"),
        ("a <!-- <b> -->b<script>alert(1)</script>", "a  b "),
        ("<speak>Hello</speak>", "Hello"),
        ("<p>One</p><p>Two</p>", "One\n\n\n\nTwo".join(["\n\n", "\n\n"])),
        ("<sub alias='World Wide Web'>WWW</sub>!", "World Wide Web!"),
        ("<prosody rate='slow'>slow</prosody>", "slow"),
        ("\\*not italic\\*", "*not italic*"),
        ("5 * 3 * 2", "5 * 3 * 2"),
        ("<https://example.com>", "https://example.com"),
    ],
)
def test_tags_and_entities(written: str, heard: str) -> None:
    assert parse(written).text == heard


@pytest.mark.parametrize(
    ("tag", "pause_s"),
    [
        ("<break time='500ms'/>", 0.5),
        ('<break time="1.5s"/>', 1.5),
        ("<break/>", 0.25),
        ("<break strength='x-strong'></break>", 1.0),
    ],
)
def test_breaks_are_as_long_as_they_say(tag: str, pause_s: float) -> None:
    assert parse(f"a{tag}b").text == f"a{break_character(pause_s)}b"


def test_phoneme_gives_the_sounds_of_its_word() -> None:
    marked = parse("a <phoneme alphabet='ipa' ph='təˈmɑːtəʊ'>tomato</phoneme>.")
    assert marked.text == f"a {said_character(0)}."
    assert [(word.text, word.symbols) for word in marked.said] == [("tomato", ("t", "ə", "m", "ˈɑ", "t", "oʊ"))]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("<speak>Hello", "close each <speak>"),
        ("Hello</speak>", "do not match"),
        ("<break time='soon'/>", "time='500ms'"),
        ("<break time='11s'/>", "limit of 10 s"),
        ("<break time='9s'/>" * 7, "limit is 60 s"),
        ("<break strength='huge'/>", "x-strong"),
        ("<sub alias='x'>never closed", "add </sub>"),
        ("<sub>WWW</sub>", "needs alias="),
        ("<phoneme ph='ʘǁ'>x</phoneme>", "ʘ ǁ"),
        ("<phoneme ph='ˈ'>x</phoneme>", "none at all"),
        ("<phoneme alphabet='x-sampa' ph='A'>x</phoneme>", "alphabet='ipa' only"),
    ],
)
def test_markup_that_cannot_be_read_is_refused_with_the_remedy(written: str, words: str) -> None:
    with pytest.raises(TextRefused) as refused:
        parse(written)
    assert refused.value.code == "bad_markup"
    assert words in refused.value.message
    assert refused.value.details["field"] == "text"


def test_no_break_can_be_forged_with_a_private_character() -> None:
    assert parse("a\U00100500b &#x1001F4; \U000f0000").text == "ab  "
