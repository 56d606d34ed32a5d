import pytest

from cloning.errors import TextRefused
from cloning.text.ipa import symbols_of_ipa
from cloning.text.lexicon import Lexicon
from cloning.text.marked import MarkedText, Said, said_character


def test_respelling_replaces_whole_words_of_any_case() -> None:
    applied = Lexicon({"Nginx": "engine ex"}).apply(MarkedText("nginx, NGINX's and nginxs"))
    assert applied.text == "engine ex, engine ex's and nginxs"


def test_ipa_becomes_a_word_that_is_said_as_given() -> None:
    earlier = Said("first", ("b",))
    applied = Lexicon({"lead": "/lˈɛd/"}).apply(MarkedText(f"{said_character(0)} lead pipe", (earlier,)))
    assert applied.text == f"{said_character(0)} {said_character(1)} pipe"
    assert applied.said == (earlier, Said("lead", ("l", "ˈɛ", "d")))


def test_the_longest_entry_wins_and_respellings_are_not_read_again() -> None:
    lexicon = Lexicon({"new": "old", "New York": "new place"})
    assert lexicon.apply(MarkedText("New York is new")).text == "new place is old"


def test_entries_are_plain_text_not_patterns() -> None:
    assert Lexicon({"a.b": "dot"}).apply(MarkedText("axb a.b")).text == "axb dot"


@pytest.mark.parametrize(
    ("ipa", "symbols"),
    [
        ("təˈmɑtoʊ", "t ə m ˈɑ t oʊ"),
        ("dʒʌdʒ", "d͡ʒ ʌ d͡ʒ"),
        ("t͡ʃɜːrt͡ʃ", "t͡ʃ ɚ t͡ʃ"),
        ("ˈwɝld", "w ˈɚ l d"),
        ("ɡoʊ.ɪŋ", "ɡ oʊ ɪ ŋ"),
        ("ˌaɪˈpiː", "ˌaɪ p ˈi"),
    ],
)
def test_ipa_as_people_write_it(ipa: str, symbols: str) -> None:
    assert symbols_of_ipa(ipa) == (tuple(symbols.split()), ())


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"tomato": "/ʘmɑ/"}, "ʘ"),
        ({"tomato": "//"}, "it is empty"),
        ({"tomato": "  "}, "nothing to say"),
        ({"...": "dots"}, "needs a letter or a digit"),
        ({"": "x"}, "needs a letter or a digit"),
        ({"word": "x" * 101}, "limit is 100"),
        ({f"word{n}": "x" for n in range(1001)}, "limit is 1000"),
    ],
)
def test_entries_that_cannot_be_read_are_refused_by_name(entries: dict[str, str], words: str) -> None:
    with pytest.raises(TextRefused) as refused:
        Lexicon(entries)
    assert refused.value.code == "bad_lexicon"
    assert words in refused.value.message
    assert str(refused.value.details["field"]).startswith("lexicon")


def test_a_refusal_can_always_be_sent() -> None:
    with pytest.raises(TextRefused) as refused:
        Lexicon({"\ud800a\x00": "/ʘ/"})
    assert refused.value.details["field"] == "lexicon.a"
    refused.value.message.encode("utf-8")
