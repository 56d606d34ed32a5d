"""Written forms sound like the words they are read as: their symbols are compared without stress, marks and gaps."""

import pytest

from cloning.text.folding import fold, purge
from cloning.text.normalise import normalise
from cloning.text.phonemes import EnglishPhonemes
from cloning.text.symbols import GAP, MARKS


@pytest.fixture(scope="module")
def english() -> EnglishPhonemes:
    return EnglishPhonemes()


def sounds(english: EnglishPhonemes, text: str) -> list[str]:
    return [symbol.lstrip("ˈˌ") for symbol in english.phonemes(text) if symbol not in (*MARKS, GAP)]


NUMBERS = {
    "999": "nine hundred ninety nine",
    "1,000": "one thousand",
    "3,497": "three thousand four hundred ninety seven",
    "99,070.01": "ninety nine thousand seventy point zero one",
    "-10": "minus ten",
    "−10": "minus ten",
    "007": "zero zero seven",
    "1e6": "one times ten to the power of six",
    "3.14": "three point one four",
    "1/2": "one half",
    "1½ cups": "one and one half cups",
    "1 000 000": "one million",
    "٣": "three",
    "①②③": "one two three",
    "1,2,3": "one two three",
    "pages 3,5 and 7": "pages three five and seven",
    "a 50/50 chance": "a fifty fifty chance",
    "12345678901234567890": "one two three four five six seven eight nine zero " * 2,
}
MONEY = {
    "$5.3 billion": "five point three billion dollars",
    "$1,234.56": "one thousand two hundred thirty four dollars and fifty six cents",
    "£3": "three pounds",
    "€29,99": "twenty nine euros and ninety nine cents",
    "5 €": "five euros",
    "¥500": "five hundred yen",
    "$0.01": "one cent",
    "US$20m": "twenty million dollars",
    "10k": "ten thousand",
    "$5-10": "five to ten dollars",
}
TIMES = {
    "9:30PM": "nine thirty P M",
    "12:01am": "twelve oh one A.M.",
    "00:00": "midnight",
    "14:05:09": "fourteen oh five and nine seconds",
    "1/1/2023": "January first twenty twenty three",
    "2023-01-01": "January first twenty twenty three",
    "24.12.2024": "December twenty fourth twenty twenty four",
    "13/1/2023": "January thirteenth twenty twenty three",
    "2/30/2023": "two thirty twenty twenty three",
    "Feb 30": "February thirtieth",
    "the 1990s": "the nineteen nineties",
    "9am-5pm": "nine A.M. to five P.M.",
    "at 9 am we met": "at nine A.M. we met",
    "10:30-11:30": "ten thirty to eleven thirty",
}
ORDINALS = {
    "1st 2nd 11th 24th 101st": "first second eleventh twenty fourth one hundred first",
    "Thutmose II": "Thutmose the second",
    "World War II": "World War two",
    "Chapter IV": "Chapter four",
    "Table XIV": "Table fourteen",
    "Louis XIV.": "Louis the fourteenth",
    "Henry VIII's wife": "Henry the eighths wife",
    "Henry V, James I of Scotland": "Henry the fifth James the first of Scotland",
    "Super Bowl LVI": "Super Bowl fifty six",
    "Queen Victoria and King Charles": "Queen | Victoria and King | Charles",
    "Part Congress, James I think, Henry C. Jones": "Part | Congress James | I think Henry | C. Jones",
    "The IV drip": "The I V drip",
    "type C": "type C",
    "I am": "I am",
    "mix": "mix",
    "Malcolm X": "Malcolm ex",
}
ABBREVIATIONS = {
    "Dr. Smith lives on Elm St.": "Doctor Smith lives on Elm Street",
    "St. John": "Saint John",
    "e.g. this": "for example this",
    "Mr. Jones": "Mister Jones",
    "approx. 3 p.m. today": "approximately three P M today",
    "He said no.": "he said no",
    "See no. 5": "see number five",
    "FBI": "F B I",
    "SQL": "sequel",
    "NASA": "nasa",
    "three GPUs": "three G P U's",
    "the CEO's plan": "the C E ohs plan",
    "HTTP/2": "H T T P two",
    "CO2": "C O two",
    "C++ and C#": "C plus plus and C sharp",
    "THIS IS A WHOLE SHOUTED LINE": "this is a whole shouted line",
}
ADDRESSES = {
    "https://example.com/a?b=1#c": "example dot com",
    "see https://user:secret@example.com:8080/a.": "see example dot com",
    "www.site.org": "site dot org",
    "x.b@c.co.uk": "X dot B at C dot co dot U K",
    "@user": "at user",
    "#tag": "hashtag tag",
    "C:\\dir\\x.txt": "X dot T X T",
    "/usr/local/bin/tool": "tool",
    "and/or": "and or",
}
UNITS = {
    "40–60°C": "forty to sixty degrees Celsius",
    "10m (32ft)": "ten meters thirty two feet",
    "5'11\"": "five feet eleven inches",
    'a 5" screen': "a five inch screen",
    "100%": "one hundred percent",
    "10-20%": "ten to twenty percent",
    "3×4=12": "three times four equals twelve",
    "x²": "ex squared",
    "50 m²": "fifty square meters",
    "10⁻³": "ten to the power of minus three",
    "H₂O": "H to O",
    "±2": "plus or minus two",
    "5 µg": "five micrograms",
    "90 km/h": "ninety kilometers per hour",
    "12,5 kg": "twelve point five kilograms",
    "π": "pi",
}
CODES = {
    "+1 (555) 010-0199": "plus one five five five zero one zero zero one nine nine",
    "192.168.0.1": "one nine two dot one six eight dot zero dot one",
    "v2.10.3": "version two point ten point three",
    "555-1234 line": "five five five one two three four line",
    "2.10.3": "two point ten point three",
    "ISBN 978-3-16": "I S B N nine seven eight three one six",
    "4111 1111 1111 1111": "four " + " ".join(["one"] * 15),
}
SIGNS = {
    "5 < 6 & 7 > 2": "five less than six and seven greater than two",
    "✅ Done ⚙️ 👨‍👩‍👧 ── │ →": "done",
    "A→B": "A to B",
    "no--no": "no no",
    "“Smart” ‘quotes’ – and «more»": "smart quotes and more",
    "ﬁne ＡＢＣ １２３": "fine ABC one hundred twenty three",
    "zero\u200bwidth soft\u00adhyphen \ufeffmark\u200f": "zerowidth softhyphen mark",
    "nai\u0308ve cafe\u0301": "naïve café",
    "раураl": "paypal",
    "a\ud800b\x00c\ufffd\x01d": "abcd",
    "Nguyễn": "Nguyen",
}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pair
        for table in (NUMBERS, MONEY, TIMES, ORDINALS, ABBREVIATIONS, ADDRESSES, UNITS, CODES, SIGNS)
        for pair in table.items()
    ],
)
def test_written_form_sounds_like_its_words(english: EnglishPhonemes, written: str, read: str) -> None:
    assert sounds(english, written) == sounds(english, read)


def test_sums_keep_their_pause_between_groups_of_digits(english: EnglishPhonemes) -> None:
    assert [word.mark for word in english.words("978-3-16")] == ["", "", ",", ",", "", ""]


@pytest.mark.parametrize("text", ["I read it yesterday.", "I will read it."])
def test_heteronyms_follow_their_sentence(english: EnglishPhonemes, text: str) -> None:
    assert ("ɹ ˈɛ d" in " ".join(english.phonemes(text))) is ("yesterday" in text)


def test_numeral_letters_inside_words_are_left_alone() -> None:
    text = "mix DIM civic I am. The part I like, class C. Vivid."
    assert normalise(text) == text


def test_address_is_short_however_long_it_is(english: EnglishPhonemes) -> None:
    assert english.phonemes("https://example.com/" + "a1b2/" * 500) == english.phonemes("example dot com")


def test_fold_keeps_plain_text_as_it_is() -> None:
    plain = 'It\'s "plain" text: 5 < 6 & 7 (really); 100% sure? Yes!\nNext [line].'
    assert fold(purge(plain)) == plain


def test_fold_knows_line_ends_of_every_system() -> None:
    assert purge("a\r\nb\rc\u2028d\u2029e\x85f") == "a\nb\nc\nd\n\ne\nf"


def test_private_characters_of_a_user_are_removed() -> None:
    assert purge("a\ue000b\U000f0000c\U00100500d") == "abcd"
