"""What a Coqui config.json says of text: its table of characters, what stands between them, how text is cleaned."""

from collections.abc import Mapping
from typing import Any, Literal

from cloning.config import TextConfig
from cloning.errors import BundleError
from cloning.types import Spelling

MAX_SYMBOLS = 400
# Their name of a cleaner, without the ending `_cleaners`, to what ours does; numbers are read before, in English.
_CLEANERS: dict[str, Literal["none", "fold-case", "plain-marks", "plain-lower"]] = {
    **dict.fromkeys(("no",), "none"),
    **dict.fromkeys(("basic", "transliteration", "basic_german"), "fold-case"),
    **dict.fromkeys(("phoneme", "multilingual_phoneme"), "plain-marks"),
    **dict.fromkeys(("multilingual", "english", "french", "portuguese", "italian"), "plain-lower"),
}
_BLANK = "<BLNK>"


def text_config(config: Mapping[str, Any], languages: Mapping[str, int], n_embedded: int) -> TextConfig:
    """The front end of a voice whose network embeds `n_embedded` symbols.

    Raises: BundleError `bundle_mismatch`, naming the field that cannot be read here.
    """
    vocabulary, blank, edges = _vocabulary(config)
    start, end = edges if config.get("enable_eos_bos_chars") else ("", "")
    if config.get("add_blank", True):
        if not blank and n_embedded == len(vocabulary) + 1:
            vocabulary, blank = [*vocabulary, _BLANK], _BLANK
        if not blank:
            raise _refused("characters.blank", "add_blank is set and no blank is named")
    else:
        blank = ""
    if len(vocabulary) != n_embedded:
        raise _refused("characters", f"the table has {len(vocabulary)} symbols, the checkpoint embeds {n_embedded}")
    spelling = Spelling(blank, start, end, _cleaner(config.get("text_cleaner")))
    kind = "ipa" if config.get("use_phonemes") else "characters"
    return TextConfig(kind, _distinct(vocabulary), dict(languages), MAX_SYMBOLS, spelling)


def language_ids(config: Mapping[str, Any], table: Mapping[str, Any] | None) -> dict[str, int]:
    """The languages by their ids: those of language_ids.json, else of the config, else of its phonemes or English."""
    if table is not None:
        wrong = [tag for tag, index in table.items() if type(index) is not int]
        if wrong:
            raise _refused(f"language_ids.json: {wrong[0]}", f"its id is {table[wrong[0]]!r}, expected a whole number")
        return dict(sorted(table.items(), key=lambda item: item[1]))
    named = [tag for tag in config.get("languages") or [] if isinstance(tag, str) and tag]
    found = named or sorted({d["language"] for d in config.get("datasets") or [] if d.get("language")})
    return {tag: i for i, tag in enumerate(found or [config.get("phoneme_language") or "en"])}


def _vocabulary(config: Mapping[str, Any]) -> tuple[list[str], str, tuple[str, str]]:
    """The table in the order of its ids, the blank, and the pair that starts and ends a text."""
    given = config.get("characters")
    if not isinstance(given, Mapping):
        raise _refused("characters", "it does not say which characters the voice was taught")
    kind = str(given.get("characters_class") or ("IPAPhonemes" if config.get("use_phonemes") else "Graphemes"))
    kind = kind.rpartition(".")[2]
    named = {name: str(given.get(name) or "") for name in ("pad", "eos", "bos", "blank", "punctuations")}
    edges = named["bos"], named["eos"]
    if listed := given.get("vocab_dict"):
        if not isinstance(listed, list):
            raise _refused("characters.vocab_dict", f"a {type(listed).__name__} is no list of symbols")
        return [str(symbol) for symbol in listed], named["blank"], edges
    letters, phonemes = str(given.get("characters") or ""), str(given.get("phonemes") or "")
    if kind == "VitsCharacters":
        return [named["pad"], *named["punctuations"], *letters, *phonemes, _BLANK], _BLANK, edges
    if kind not in ("Graphemes", "IPAPhonemes", "BaseCharacters"):
        raise _refused("characters.characters_class", f"{kind} is not one that can be read")
    if kind == "IPAPhonemes" and phonemes:
        letters = phonemes
    table = list(dict.fromkeys(letters)) if given.get("is_unique") else list(letters)
    table = sorted(table) if given.get("is_sorted", True) else table
    special = [named[name] for name in ("pad", "eos", "bos", "blank") if named[name]]
    return [*special, *table, *named["punctuations"]], named["blank"], edges


def _distinct(table: list[str]) -> tuple[str, ...]:
    """The table with a name of its own for each symbol that a later one hides: the last of equals is the one used."""
    last = {symbol: i for i, symbol in enumerate(table)}
    return tuple(symbol if last[symbol] == i else f"<unused {i}>" for i, symbol in enumerate(table))


def _cleaner(name: object) -> Literal["none", "fold-case", "plain-marks", "plain-lower"]:
    if not name:
        return "none"
    found = _CLEANERS.get(str(name).removesuffix("_cleaners"))
    if found is None:
        raise _refused("text_cleaner", f"{name} is not one of {', '.join(sorted(_CLEANERS))} (_cleaners)")
    return found


def _refused(field: str, words: str) -> BundleError:
    return BundleError("bundle_mismatch", f"config.json: {field}: {words}", field=field)
