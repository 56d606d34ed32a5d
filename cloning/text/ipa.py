"""The International Phonetic Alphabet, as people write it, to the symbols of ours."""

from cloning.text.symbols import STRESSES, VOWELS

_IPA = {
    **{symbol: symbol for symbol in ("d͡ʒ", "t͡ʃ", "aɪ", "aʊ", "eɪ", "oʊ", "ɔɪ", *"bdfhjklmnpstvwzðŋɡɹʃʒθiuæɑɔəɚɛɪʊʌ")},
    **{"dʒ": "d͡ʒ", "ʤ": "d͡ʒ", "tʃ": "t͡ʃ", "ʧ": "t͡ʃ", "ai": "aɪ", "au": "aʊ", "ei": "eɪ", "əʊ": "oʊ", "oi": "ɔɪ"},
    **{"ɜr": "ɚ", "ɜɹ": "ɚ", "ər": "ɚ", "əɹ": "ɚ", "ɝ": "ɚ", "ɜ": "ɚ", "ɐ": "ə", "ᵊ": "ə", "ᵻ": "ɪ", "ɒ": "ɑ"},
    **{"a": "ɑ", "e": "ɛ", "o": "oʊ", "r": "ɹ", "g": "ɡ", "ɾ": "t", "ʔ": "t", "ɫ": "l", "ʍ": "w"},
}
_IPA_LONGEST = max(len(letters) for letters in _IPA)
_IPA_SILENT = frozenset("ː.ˑ‿͜\u0329\u0325 ")


def symbols_of_ipa(ipa: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The alphabet's symbols for an IPA string, and the letters of it that have none."""
    ipa = "".join(letter for letter in ipa if letter not in _IPA_SILENT)
    symbols: list[str] = []
    unknown: list[str] = []
    stress, at = "", 0
    while at < len(ipa):
        letters = _longest_known(ipa, at)
        at += len(letters) or 1
        if letters:
            sound = _IPA[letters]
            is_vowel = sound in VOWELS
            symbols.append(stress + sound if is_vowel else sound)
            stress = "" if is_vowel else stress
        elif ipa[at - 1] in STRESSES:
            stress = ipa[at - 1]
        else:
            unknown.append(ipa[at - 1])
    return tuple(symbols), tuple(unknown)


def _longest_known(ipa: str, at: int) -> str:
    sizes = range(_IPA_LONGEST, 0, -1)
    return next((ipa[at : at + size] for size in sizes if ipa[at : at + size] in _IPA), "")
