"""Tables of English writing: what stands for what when it is read aloud."""

import unicodedata


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
CURRENCY_OF_SIGN = {
    "$": ("dollar", "dollars"),
    "£": ("pound", "pounds"),
    "€": ("euro", "euros"),
    "¥": ("yen", "yen"),
    "₹": ("rupee", "rupees"),
    "₩": ("won", "won"),
}
UNITS = {
    "m": ("meter", "meters"),
    "m^2": ("square meter", "square meters"),
    "m^3": ("cubic meter", "cubic meters"),
    "km^2": ("square kilometer", "square kilometers"),
    "cm^2": ("square centimeter", "square centimeters"),
    "cm^3": ("cubic centimeter", "cubic centimeters"),
    "m/s": ("meter per second", "meters per second"),
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "g": ("gram", "grams"),
    "μg": ("microgram", "micrograms"),
    "μm": ("micrometer", "micrometers"),
    "μs": ("microsecond", "microseconds"),
    "L": ("liter", "liters"),
    "l": ("liter", "liters"),
    "mL": ("milliliter", "milliliters"),
    "h": ("hour", "hours"),
    "V": ("volt", "volts"),
    "W": ("watt", "watts"),
    "dB": ("decibel", "decibels"),
    "kcal": ("kilocalorie", "kilocalories"),
    "Pa": ("pascal", "pascals"),
    "kPa": ("kilopascal", "kilopascals"),
    "hPa": ("hectopascal", "hectopascals"),
    "rpm": ("revolution per minute", "revolutions per minute"),
}
SPECIAL = {
    "e.g.": "for example",
    "E.g.": "For example",
    "i.e.": "that is",
    "I.e.": "That is",
    "ca.": "circa",
    "24/7": "twenty-four seven",
    "9/11": "nine eleven",
    "C++": "C plus plus",
    "C#": "C sharp",
    "F#": "F sharp",
    ".NET": "dot net",
    "CO2": "C O 2",
    "Gen X": "Jen X",
    "Gen Z": "Jen Z",
    "50/50": "fifty fifty",
    "10/10": "ten out of ten",
}
# The library takes these for abbreviations (no. = number, Sun. = Sunday) even where they end a sentence.
ABBREVIATIONS_THAT_ARE_WORDS = ("no", "Sun", "Sat", "fig", "Mar")
GREEK = {
    letter: unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
    for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"
}
# A full stop after these does not end a sentence, whatever follows.
TITLES = frozenset(
    _words(
        "mr mrs ms dr prof gen gov sen rep capt lt col sgt cmdr rev hon pres supt cpl maj adm fr "
        "msgr mme mlle vs eg ie e.g i.e cf viz ca approx"
    )
)
# After these it does when a word follows that often starts one.
ABBREVIATIONS = frozenset(
    _words(
        "st mt ft ave blvd rd ln hwy jr sr inc ltd co corp bros dept univ assn govt etc al est ed eds a.m p.m ph.d "
        "jan feb mar apr jun jul aug sept oct nov dec mon tue tues wed thu thurs fri vol ch pp"
    )
)
BEFORE_A_NUMBER = frozenset(
    _words("no nos vol fig ch p pp sec art para jan feb mar apr jun jul aug sep sept oct nov dec")
)
STARTERS = frozenset(
    _words(
        "The A An He She It We They I You This That These Those There Here But And So Or If When While In On "
        "At As Then Now Not No Yes What Who Why How Where After Before My His Her Our Their Its For To From "
        "With Please However Once Some All"
    )
)
