import subprocess
import sys

import pytest

from cloning.errors import BundleError, CloningError, LanguageUnsupported, TextRefused
from cloning.text.frontend import DEFAULT_KIND, TextFrontEnd, front_end
from cloning.text.split import CLAUSE_PAUSE_S, PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S
from cloning.text.symbols import ENGLISH_SYMBOLS, SymbolTable, default_symbols
from cloning.types import SpokenText

TABLE = default_symbols()
MAX_SYMBOLS = 220
MAX_CHARS = 5000


@pytest.fixture(scope="module")
def front() -> TextFrontEnd:
    return TextFrontEnd(TABLE, {"en-US": 3}, MAX_SYMBOLS, MAX_CHARS)


def symbols(spoken: SpokenText) -> str:
    return " ".join(TABLE.symbols[index] for index in spoken.token_ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi", "^ h ˈaɪ . $"),
        ("No.", "^ n ˈoʊ . $"),
        ("OK", "^ ˌoʊ k ˈeɪ . $"),
        ("I", "^ ˌaɪ . $"),
        ("7", "^ s ˈɛ v ə n . $"),
        ("Ja", "^ j ˈɑ . $"),
        ("Yes, but", "^ j ˈɛ s , _ b ˌʌ t . $"),
        ("What?!?!?!", "^ w ˌʌ t ? $"),
        ("Why,", "^ w ˌaɪ . $"),
    ],
)
def test_short_text_ends_with_a_mark(front: TextFrontEnd, text: str, expected: str) -> None:
    (spoken,) = front.encode(text)
    assert symbols(spoken) == expected
    assert spoken.pause_after_s == 0.0


@pytest.mark.parametrize(
    "text",
    ["", "   ", "\n\n", "...", "!!!", "---", '"', "😀", "\u200b", "?!?!?!", "." * 60, "**", "<b></b>", "```\nx\n```"],
)
def test_nothing_to_say_is_refused(front: TextFrontEnd, text: str) -> None:
    with pytest.raises(TextRefused) as refused:
        front.encode(text)
    assert refused.value.code == "nothing_to_say"


def test_sentences_come_in_order_with_their_pauses(front: TextFrontEnd) -> None:
    spoken = front.encode("# Heading\nOne here. Two there!\n\n- last item")
    assert [(part.text, part.pause_after_s) for part in spoken] == [
        ("Heading.", PARAGRAPH_PAUSE_S),
        ("One here.", SENTENCE_PAUSE_S),
        ("Two there!", PARAGRAPH_PAUSE_S),
        ("last item.", 0.0),
    ]


def test_ssml_break_is_the_pause(front: TextFrontEnd) -> None:
    spoken = front.encode('<speak>Hello <break time="500ms"/>world</speak>')
    assert [(part.text, part.pause_after_s) for part in spoken] == [("Hello.", 0.5), ("world.", 0.0)]


def test_markup_can_be_switched_off(front: TextFrontEnd) -> None:
    assert front.encode("&amp;", markup=False)[0].text != front.encode("&amp;")[0].text


def test_characters_of_other_scripts_are_listed_and_the_rest_is_said(front: TextFrontEnd) -> None:
    (spoken,) = front.encode("Call 我 at Привет 5")
    assert spoken.text == "Call at 5."
    assert spoken.skipped == ("我", "Привет")


def test_skipped_sentence_is_reported_by_its_neighbour(front: TextFrontEnd) -> None:
    assert [part.skipped for part in front.encode("我. Hello. 你.")] == [("我", "你")]


def test_text_in_another_script_names_its_characters_and_the_languages(front: TextFrontEnd) -> None:
    with pytest.raises(LanguageUnsupported) as refused:
        front.encode("Привет")
    assert refused.value.code == "language_unsupported"
    assert refused.value.details["languages"] == ["en"]
    assert "П" in refused.value.message


@pytest.mark.parametrize("tag", [None, "en", "en-US", "EN_gb", "English"])
def test_language_tags_of_any_form(front: TextFrontEnd, tag: str | None) -> None:
    assert front.language_id(tag) == 3
    assert front.encode("Hi", language=tag)


@pytest.mark.parametrize("tag", ["xx", "", "de-DE"])
def test_unknown_language_is_refused_with_the_list(front: TextFrontEnd, tag: str) -> None:
    with pytest.raises(LanguageUnsupported) as refused:
        front.encode("Hi", language=tag)
    assert refused.value.details == {"field": "language", "languages": ["en"]}


def test_limit_counts_code_points_and_includes_itself(front: TextFrontEnd) -> None:
    exact = ("é 😀 word. " * MAX_CHARS)[:MAX_CHARS]
    assert front.encode(exact)
    with pytest.raises(TextRefused) as refused:
        front.encode(exact + "a")
    assert refused.value.code == "text_too_long"
    assert refused.value.details == {"field": "text", "limit": MAX_CHARS, "length": MAX_CHARS + 1}


@pytest.mark.parametrize("text", ["word " * 140, "x" * 3000, "a" * 2000, "Xylophonically" * 200, "so, it goes; " * 60])
def test_long_text_is_split_and_all_of_it_is_said(front: TextFrontEnd, text: str) -> None:
    spoken = front.encode(text)
    assert len(spoken) > 1
    assert max(len(part.token_ids) for part in spoken) <= MAX_SYMBOLS
    assert [char for part in spoken for char in part.text if char.isalpha()] == [
        char for char in text if char.isalpha()
    ]
    assert {part.pause_after_s for part in spoken[:-1]} == {CLAUSE_PAUSE_S}
    assert {TABLE.symbols[part.token_ids[-2]] for part in spoken[:-1]} <= {",", ";"}


def test_lexicon_forces_a_reading(front: TextFrontEnd) -> None:
    (plain,) = front.encode("the lead pipe")
    (forced,) = front.encode("the lead pipe", lexicon={"Lead": "/ˈlɛd/"})
    (respelled,) = front.encode("the lead pipe", lexicon={"lead": "led"})
    assert "l ˈi d" in symbols(plain)
    assert "l ˈɛ d" in symbols(forced)
    assert forced.token_ids == respelled.token_ids


def test_given_sounds_take_a_possessive_and_choose_the_article(front: TextFrontEnd) -> None:
    (spoken,) = front.encode("the Acme's the Bex's", lexicon={"Acme": "/ˈækmi/", "Bex": "/bɛks/"})
    assert symbols(spoken) == "^ ð i _ ˈæ k m i z _ ð ə _ b ɛ k s ɪ z . $"


def test_lexicon_cannot_blow_a_text_up(front: TextFrontEnd) -> None:
    with pytest.raises(TextRefused) as refused:
        front.encode("a " * 2500, lexicon={"a": "long " * 19})
    assert refused.value.code == "bad_lexicon"


def test_bad_lexicon_is_refused_before_anything_is_read(front: TextFrontEnd) -> None:
    with pytest.raises(TextRefused, match="tomato"):
        front.encode("Hello", lexicon={"tomato": "/ʘ/"})


def test_symbols_that_a_voice_lacks_are_skipped_and_counted() -> None:
    taught = SymbolTable(tuple(symbol for symbol in ENGLISH_SYMBOLS if symbol not in ("t", "!", "ˈʌ")))
    (spoken,) = TextFrontEnd(taught, {"en": 0}, MAX_SYMBOLS).encode("button!")
    assert [taught.symbols[index] for index in spoken.token_ids] == ["^", "b", "n", "$"]
    assert spoken.skipped == ("ˈʌ", "t")


def test_same_text_gives_the_same_ids(front: TextFrontEnd) -> None:
    text = "It was gryzzk on 1/2/2023, at 9:30PM; $5.3 billion!"
    assert front.encode(text) == front.encode(text)


def test_front_end_is_found_by_the_kind_a_voice_names() -> None:
    assert front_end(DEFAULT_KIND, TABLE, {"en": 0}, MAX_SYMBOLS).languages == ("en",)


@pytest.mark.parametrize(
    ("kind", "table", "languages", "max_symbols"),
    [
        ("klingon-runes", TABLE, {"en": 0}, MAX_SYMBOLS),
        (DEFAULT_KIND, TABLE, {"xx": 0}, MAX_SYMBOLS),
        (DEFAULT_KIND, TABLE, {"en": 0}, 4),
        (DEFAULT_KIND, SymbolTable(("a", "b")), {"en": 0}, MAX_SYMBOLS),
    ],
)
def test_a_bundle_that_cannot_be_read_for_is_refused(
    kind: str, table: SymbolTable, languages: dict[str, int], max_symbols: int
) -> None:
    with pytest.raises(BundleError) as refused:
        front_end(kind, table, languages, max_symbols)
    assert refused.value.code == "bundle_mismatch"
    assert isinstance(refused.value, CloningError)


def test_importing_loads_neither_the_dictionary_nor_torch() -> None:
    code = "import sys, cloning.text.frontend; sys.exit(bool({'hibari', 'torch', 'onnxruntime'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
