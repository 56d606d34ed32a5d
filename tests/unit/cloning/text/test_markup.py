import pytest

from cloning.errors import TextRefused
from cloning.text.marked import Manner, MarkedText, break_character, manner_character, said_character
from cloning.text.markup import parse, unmarked, voices_of

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


def test_a_code_block_without_lines_ends_at_its_second_fence() -> None:
    assert parse("```\n```\nHello.\n```\nx\n```\n").text.split() == ["Hello."]


@pytest.mark.parametrize("digits", ["9" * 5000, "0" * 5000 + "65", "065", "1114112", "0"])
def test_an_entity_of_any_number_is_a_character_or_nothing(digits: str) -> None:
    assert parse(f"x&#{digits};y").text == ("xAy" if digits.endswith("65") else "xy")


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
        ("<prosody pitch='high'>high</prosody>", "high"),
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
        ("<break time='9s'/>" * 7, "at character 108: makes 63 s of breaks; the limit is 60 s"),
        ("<break strength='huge'/>", "x-strong"),
        ("<sub alias='x'>never closed", "add </sub>"),
        ("<sub>WWW</sub>", "needs alias="),
        ("<phoneme ph='ʘǁ'>x</phoneme>", "ʘ ǁ"),
        ("<phoneme ph='ˈ'>x</phoneme>", "none at all"),
        ("<phoneme alphabet='x-sampa' ph='A'>x</phoneme>", "alphabet='ipa' only"),
        ("<prosody rate='quick'>x</prosody>", "x-slow|slow|medium|default|fast|x-fast, 80%, +20% or 0.8; got 'quick'"),
        ("<prosody rate='+2'>x</prosody>", "got '+2'"),
        ("<prosody rate='500%'>x</prosody>", "a rate of 5; it goes from 0.25 to 4"),
        ("<prosody rate='x-slow'><prosody rate='-60%'>x</prosody></prosody>", "a rate of 0.2"),
        ("<prosody rate='slow'>x", "add </prosody>"),
        ("x</prosody>", "closes nothing"),
        ("<voice name='A'><prosody rate='slow'>x</voice></prosody>", "</voice> at character 38: closes nothing"),
        ("<voice>x</voice>", "needs name="),
        ("<say-as>x</say-as>", "needs interpret-as="),
        ("<say-as interpret-as='song'>x</say-as>", "cardinal|characters|currency|"),
        ("<say-as interpret-as='cardinal'>many</say-as>", "needs a whole number"),
        ("<say-as interpret-as='date' format='dmy'>31/2/2024</say-as>", "is no date"),
        ("<say-as interpret-as='date' format='dmy'>1/2</say-as>", "needs 3 numbers"),
        ("<say-as interpret-as='date' format='week'>1/2</say-as>", "takes format="),
        ("<say-as interpret-as='digits'>none</say-as>", "needs a digit"),
        ("<lexicon uri='http://a.b/c'>x</lexicon>", "fetches nothing"),
        ("<lexicon><lexeme><grapheme>a</grapheme></lexeme></lexicon>", "needs a <grapheme>, and a <phoneme>"),
    ],
)
def test_markup_that_cannot_be_read_is_refused_with_the_remedy(written: str, words: str) -> None:
    with pytest.raises(TextRefused) as refused:
        parse(written)
    assert refused.value.code == "bad_markup"
    assert words in refused.value.message
    assert refused.value.details["field"] == "text"


def test_a_refusal_names_the_element_and_its_place_in_the_text_as_it_was_sent() -> None:
    text = "One\r\n&amp; <!-- x --> \u0007two <b>three</b> <break time='1h'/>"
    with pytest.raises(TextRefused) as refused:
        parse(text)
    assert refused.value.message.startswith(f"text: <break> at character {text.index('<break')}: takes time=")
    assert refused.value.details == {"field": "text", "element": "break", "position": text.index("<break")}


def test_rates_and_voices_hold_until_their_elements_end() -> None:
    marked = parse(
        "a<prosody rate='slow'>b<voice name='Ada'>c<prosody rate='200%'>d</prosody></voice></prosody>e<prosody/>f"
    )
    manners = [Manner(), Manner(0.75), Manner(0.75, "Ada"), Manner(1.5, "Ada")]
    assert list(marked.manners) == manners
    assert marked.text == "a{}b{}c{}d{}{}{}ef".format(*map(manner_character, (1, 2, 3, 2, 1, 0)))
    text = "<voice name='Ada'>x</voice> <VOICE name='B'>y</VOICE><voice name='Ada'>z</voice>"
    assert voices_of(text) == {"Ada": 0, "B": text.index("<VOICE")}
    assert voices_of("a voice") == {}


@pytest.mark.parametrize(
    ("rate", "factor"),
    [("x-slow", 0.5), ("medium", 1.0), ("x-fast", 2.0), ("80%", 0.8), ("+50%", 1.5), ("-50%", 0.5), ("1.25", 1.25)],
)
def test_a_rate_is_a_word_or_a_number_or_a_share(rate: str, factor: float) -> None:
    assert parse(f"<prosody rate='{rate}'>x</prosody>").manners[-1] == Manner(pytest.approx(factor))


@pytest.mark.parametrize(
    ("kind", "content", "heard"),
    [
        ("characters", "xB-7", "X B dash 7"),
        ("spell-out", "no", "N O"),
        ("verbatim", "C:\\", "C colon backslash"),
        ("cardinal", "2024", "2,024"),
        ("number", "-1,234", "minus 1,234"),
        ("ordinal", "2", "2nd"),
        ("ordinal", "11", "11th"),
        ("ordinal", "23rd", "23rd"),
        ("digits", "20-24", "2 0 2 4"),
        ("telephone", "+44 20 7946", "plus 4 4 , 2 0 , 7 9 4 6"),
        ("date", "3/4/2024", "3/4/2024"),
        ("date' format='dmy", "3/4/2024", "April 3rd 2024"),
        ("date' format='ymd", "2024-04-03", "April 3rd 2024"),
        ("date' format='md", "04/03", "April 3rd"),
        ("time", "10:30", "10:30"),
        ("currency", "$5", "$5"),
    ],
)
def test_what_is_said_as_something(kind: str, content: str, heard: str) -> None:
    assert parse(f"<say-as interpret-as='{kind}'>{content}</say-as>").text == heard


def test_a_letter_is_said_by_its_name() -> None:
    marked = parse("<say-as interpret-as='characters'>BA</say-as>")
    assert marked.text == f"B {said_character(0)}"
    assert (marked.said[0].text, marked.said[0].symbols) == ("A", ("ˈeɪ",))


def test_a_lexicon_in_the_text_says_how_its_words_are_said_and_is_not_read() -> None:
    tomato = "<grapheme>tomato</grapheme><grapheme>Tomate</grapheme><phoneme>təˈmɑtoʊ</phoneme>"
    people = "<grapheme>W3C</grapheme><alias>the web people</alias>"
    marked = parse(f"<lexicon v='1'><lexeme>{tomato}</lexeme>\n<lexeme>{people}</lexeme></lexicon>A tomato.")
    assert marked.text == "A tomato."
    assert marked.lexicon == {"tomato": "/təˈmɑtoʊ/", "Tomate": "/təˈmɑtoʊ/", "W3C": "the web people"}


def test_no_break_can_be_forged_with_a_private_character() -> None:
    assert parse("a\U00100500b &#x1001F4; \U000f0000").text == "ab  "
