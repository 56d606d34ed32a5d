"""How long texts may be."""

from cloning.errors import TextRefused

# One character can fold to eighteen, and a lexicon can put a hundred for one.
MOST_GROWTH = 4


def check_length(text: str, limit: int, field: str) -> None:
    """Lengths are in code points. Raises: TextRefused (`text_too_long`, `bad_lexicon`)."""
    if len(text) > limit:
        code = {"text": "text_too_long", "lexicon": "bad_lexicon"}[field]
        written_out = "" if field == "text" else " with its lexicon"
        message = f"text{written_out} has {len(text)} characters; the limit is {limit}. Send it in parts"
        raise TextRefused(code, message, field=field, limit=limit, length=len(text))
