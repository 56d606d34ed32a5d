"""Front ends that spell: letters for many languages, IPA for English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloning.errors import BundleError, CloningError, LanguageUnsupported, TextRefused
from cloning.text.cleaning import clean
from cloning.text.spelling import CharacterFrontEnd, IpaFrontEnd
from cloning.text.split import CLAUSE_PAUSE_S, SENTENCE_PAUSE_S
from cloning.text.symbols import SymbolTable
from cloning.types import Spelling, SpokenText

LETTERS = SymbolTable(("_", *"!'(),-.:;? abcdefghijklmnopqrstuvwxyzàéç", "<BLNK>", "^", "$"))
LANGUAGES = {"en": 0, "fr-fr": 1, "pt-br": 2}
PLAIN = Spelling("<BLNK>", "^", "$", "plain-lower")
IPA = SymbolTable(("_", *";:,.!? abdefhijklmnoprstuvwzæðŋɑɔəɚɛɜɡɪɹʃʊʌʒθˈˌː", "<BLNK>"))


def letters(max_symbols: int = 400, spelling: Spelling = PLAIN, max_chars: int = 5000) -> CharacterFrontEnd:
    return CharacterFrontEnd(LETTERS, LANGUAGES, max_symbols, max_chars, spelling)


def ipa() -> IpaFrontEnd:
    return IpaFrontEnd(IPA, {"en-us": 0, "de": 1}, 400, 5000, Spelling("<BLNK>", cleaner="plain-marks"))


def written(spoken: SpokenText, table: SymbolTable = LETTERS) -> str:
    symbols = [table.symbols[index] for index in spoken.token_ids]
    return "".join(symbol for symbol in symbols if symbol not in ("<BLNK>", "^", "$"))


def test_blanks_stand_before_between_and_after() -> None:
    (spoken,) = letters().encode("Hi!")
    symbols = [LETTERS.symbols[index] for index in spoken.token_ids]
    assert symbols == ["^", "<BLNK>", "h", "<BLNK>", "i", "<BLNK>", "!", "<BLNK>", "$"]


def test_without_blanks_or_edges_there_are_letters_alone() -> None:
    (spoken,) = letters(spelling=Spelling(cleaner="fold-case")).encode("Hi!")
    assert [LETTERS.symbols[index] for index in spoken.token_ids] == ["h", "i", "!"]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Tom & Ana", "en", "tom and ana"),
        ("Tom & Ana", "fr-fr", "tom et ana"),
        ("Tom & Ana", "pt-br", "tom e ana"),
        ("well-known: [yes]; (no)", "en", "well known, yes, no"),
        ("It’s “fine”", "en", "it's fine"),
        ("ÇA  VA\tDÉJÀ", "fr", "ça va déjà"),
        ("Łódź", "en", "lodz"),
        ("I have 23 cats", "en", "i have twenty three cats"),
        ("It costs $23.50, or 5%.", "en", "it costs twenty three dollars and fifty cents, or five percent."),
        (
            "The 2nd of 1,234 in 1999",
            "en",
            "the second of one thousand two hundred and thirty four in nineteen ninety nine",
        ),
        ("Pi is 3.14", "en", "pi is three point one four"),
        ("At 5:30", "en", "at five thirty"),
    ],
)
def test_cleaned_and_spelt(text: str, language: str, expected: str) -> None:
    (spoken,) = letters().encode(text, language)
    assert written(spoken) == expected


@pytest.mark.parametrize(
    ("cleaner", "expected"),
    [("none", "A; B-C"), ("fold-case", "a; b-c"), ("plain-marks", "A, B C"), ("plain-lower", "a, b c")],
)
def test_cleaners(cleaner: str, expected: str) -> None:
    assert clean("A; B-C", cleaner, "en") == expected


def test_marks_of_greek_and_catalan_are_their_own() -> None:
    assert clean("τι; - x", "plain-lower", "el") == "τι; x"
    assert clean("l'avi - hi", "plain-lower", "ca") == "lavi hi"


def test_sentences_are_spoken_alone_with_their_pauses() -> None:
    spoken = letters().encode("One here. Two there.")
    assert [(written(part), part.pause_after_s) for part in spoken] == [
        ("one here.", SENTENCE_PAUSE_S),
        ("two there.", 0.0),
    ]


def test_long_sentences_are_cut_between_words_within_the_cap() -> None:
    text = ", ".join(f"number {word} of them all" for word in ("one", "two", "three", "four", "five", "six"))
    spoken = letters(max_symbols=101).encode(text)
    assert len(spoken) > 2
    assert all(len(part.token_ids) <= 101 for part in spoken)
    assert " ".join(written(part) for part in spoken) == text
    assert [part.pause_after_s for part in spoken] == [CLAUSE_PAUSE_S] * (len(spoken) - 1) + [0.0]


def test_one_endless_word_is_cut_too() -> None:
    spoken = letters(max_symbols=101).encode("a" * 500)
    assert all(len(part.token_ids) <= 101 for part in spoken)
    assert sum(len(written(part)) for part in spoken) == 500


def test_letters_that_the_voice_has_not_are_reported() -> None:
    (spoken,) = letters().encode("abc 日本 def")
    assert (written(spoken), "".join(spoken.skipped)) == ("abc def", "日本")


@pytest.mark.parametrize("text", ["", " ", "😀", "\u200b"])
def test_nothing_to_say(text: str) -> None:
    with pytest.raises(TextRefused) as refused:
        letters().encode(text)
    assert refused.value.code == "nothing_to_say"


def test_only_foreign_letters() -> None:
    with pytest.raises(LanguageUnsupported) as refused:
        letters().encode("日本")
    assert refused.value.details["characters"] == ["日", "本"]


def test_too_long() -> None:
    with pytest.raises(TextRefused) as refused:
        letters(max_chars=10).encode("a" * 11)
    assert (refused.value.code, refused.value.details["limit"]) == ("text_too_long", 10)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [(None, 0), ("en", 0), ("en-GB", 0), ("fr", 1), ("FR_fr", 1), ("pt-BR", 2), ("pt", 2)],
)
def test_language_tags_of_any_form(tag: str | None, expected: int) -> None:
    assert letters().language_id(tag) == expected


def test_unknown_language() -> None:
    with pytest.raises(LanguageUnsupported) as refused:
        letters().encode("hallo", "de")
    assert refused.value.details["languages"] == ["en", "fr-fr", "pt-br"]


def test_a_lexicon_respells_and_its_sounds_are_left_as_written() -> None:
    front = letters()
    (respelt,) = front.encode("Qi is here", lexicon={"Qi": "chee"})
    (sounds,) = front.encode("Qi is here", lexicon={"Qi": "/tʃi/"})
    assert (written(respelt), written(sounds)) == ("chee is here", "qi is here")


def test_table_without_the_blank_is_refused() -> None:
    with pytest.raises(BundleError, match="lacks"):
        letters(spelling=Spelling("#"))


def test_english_in_ipa() -> None:
    (spoken,) = ipa().encode("Jude was reading, he said.")
    assert written(spoken, IPA) == "dʒˈuːd wʌz ɹˈiːdɪŋ, hi sˈɛd."


def test_a_lexicons_sounds_reach_an_ipa_voice() -> None:
    (spoken,) = ipa().encode("Qi.", lexicon={"Qi": "/tʃˈi/"})
    assert written(spoken, IPA) == "tʃˈiː."


def test_letters_of_ipa_that_a_voice_has_not_take_the_nearest() -> None:
    table = SymbolTable((*(symbol for symbol in IPA.symbols if symbol not in ("ɡ", "ː", "ɚ")), "g"))
    front = IpaFrontEnd(table, {"en": 0}, 400, 5000, Spelling("<BLNK>"))
    (spoken,) = front.encode("Good butter.")
    assert written(spoken, table) == "gˈʊd bˈʌtəɹ."


def test_ipa_voices_read_english_only() -> None:
    assert ipa().languages == ("en-us",)
    with pytest.raises(BundleError, match="none of the voice's languages"):
        IpaFrontEnd(IPA, {"de": 0}, 400, 5000, Spelling())


@given(st.text(max_size=120), st.sampled_from(("en", "fr", "pt")))
def test_any_text_is_spelt_within_the_table_or_refused(text: str, language: str) -> None:
    try:
        spoken = letters(max_symbols=61).encode(text, language)
    except CloningError:
        return
    for part in spoken:
        assert 0 < len(part.token_ids) <= 61
        assert max(part.token_ids) < len(LETTERS)
