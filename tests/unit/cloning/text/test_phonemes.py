import threading

import pytest

from cloning.text.phonemes import EnglishPhonemes
from cloning.text.symbols import SymbolTable, default_symbols


@pytest.fixture(scope="module")
def english() -> EnglishPhonemes:
    return EnglishPhonemes()


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("Hello there.", "^ h ə l ˈoʊ _ ð ˈɛ ɹ . $"),
        (
            "Her heart fluttered, her knees trembled.",
            "^ h ˌɚ _ h ˈɑ ɹ t _ f l ˈʌ t ɚ d , _ h ɚ _ n ˈi z _ t ɹ ˈɛ m b ə l d . $",
        ),
        ("Church, judge!", "^ t͡ʃ ˈɚ t͡ʃ , _ d͡ʒ ˈʌ d͡ʒ ! $"),
        ("Boy, how are they?", "^ b ˈɔɪ , _ h ˌaʊ _ ɑ ɹ _ ð eɪ ? $"),
        ("button kitten", "^ b ˈʌ t n _ k ˈɪ t n $"),
        ("7", "^ s ˈɛ v ə n $"),
        ('He said "yes" twice', "^ h ˌi _ s ˈɛ d _ j ˈɛ s _ t w ˈaɪ s $"),
        ("What?!?!", "^ w ˌʌ t ? $"),
        ("no—no", "^ n ˈoʊ , _ n ˈoʊ $"),
        ("worry (aside) more", "^ w ˈɚ i , _ ə s ˈaɪ d , _ m ˈɔ ɹ $"),
        ("", "^ $"),
    ],
)
def test_text_becomes_the_symbols_of_the_alphabet(english: EnglishPhonemes, text: str, symbols: str) -> None:
    assert english.phonemes(text) == symbols.split()


def test_every_word_of_the_dictionary_letters_has_a_symbol(english: EnglishPhonemes) -> None:
    table = default_symbols()
    words = english.words(
        "The gryzzk Xqzt hhh garage measured rhythmic fjords, naïve café, Nguyen's jalapeño and Bach."
    )
    assert [word for word in words if word.skipped or not word.symbols] == []
    for word in words:
        table.ids(word.symbols)


def test_words_keep_their_text_and_mark(english: EnglishPhonemes) -> None:
    assert [(word.text, word.mark) for word in english.words("It's one (small) step; go!")] == [
        ("It's", ""),
        ("one", ","),
        ("small", ","),
        ("step", ";"),
        ("go", "!"),
    ]


def test_a_sign_that_is_not_read_keeps_the_space_before_it(english: EnglishPhonemes) -> None:
    assert [word.text for word in english.words("We paid $5 today")] == ["We", "paid", "5", "today"]


def test_characters_without_a_reading_are_named_not_lost(english: EnglishPhonemes) -> None:
    words = english.words("Call 我 at 5")
    assert [word.skipped for word in words if word.skipped] == [("我",)]


def test_threads_share_one_reader(english: EnglishPhonemes) -> None:
    texts = [f"I read {n} books about gryzzk{'x' * (n % 7)} on March {n % 28 + 1}." for n in range(40)]
    alone = [english.phonemes(text) for text in texts]
    shared: list[list[list[str]]] = []
    threads = [threading.Thread(target=lambda: shared.append([english.phonemes(t) for t in texts])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared == [alone] * 6


def test_table_numbers_symbols_by_their_place() -> None:
    table = default_symbols()
    assert len(table) == 82
    assert table.ids(["<pad>", "^", "$", "_", ",", ":", "b", "θ", "aɪ", "ˈaɪ", "ˌʌ"]) == (
        0,
        1,
        2,
        3,
        4,
        9,
        10,
        33,
        34,
        35,
        81,
    )


def test_table_refuses_symbols_it_does_not_have() -> None:
    with pytest.raises(ValueError, match="'x' is not in this voice's table of 82"):
        default_symbols().ids(["h", "x"])


def test_table_refuses_a_symbol_listed_twice() -> None:
    with pytest.raises(ValueError, match=r"listed twice: \['a'\]"):
        SymbolTable(("a", "b", "a"))


@pytest.mark.parametrize("word", ["button", "kitten", "written", "gryzzk", "Xqzt", "hhh"])
def test_odd_words_are_said_and_lose_nothing(english: EnglishPhonemes, word: str) -> None:
    (said,) = english.words(word)
    assert len(said.symbols) >= 2
    assert said.skipped == ()


def test_lives_follows_its_sentence(english: EnglishPhonemes) -> None:
    assert "l ˈɪ v z" in " ".join(english.phonemes("She lives here."))
    assert "l ˈaɪ v z" in " ".join(english.phonemes("It changed their lives."))


def test_numbers_with_commas_apart_are_no_number_longer_than_can_be_named(english: EnglishPhonemes) -> None:
    said = english.phonemes("100 ," * 13)
    assert " ".join(said).count("h ˈʌ n d ɹ ə d") == 13
