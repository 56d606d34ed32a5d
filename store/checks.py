"""What the store accepts: names, labels, vectors, clips and cursors, cleaned or refused before any SQL."""

import base64
import binascii
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from store.errors import BadArgument, BadName, BadVector
from store.tables import ENCODER_ID_CHARACTERS, TENANT_CHARACTERS
from store.types import ClipRecord, FloatArray

NAME_CHARACTERS = 200
MAX_LABELS = 64
LABEL_CHARACTERS = 500
NORM_TOLERANCE = 1e-3
MAX_LIMIT = 1000

_SPEAKER_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TENANT = re.compile(rf"[A-Za-z0-9._-]{{1,{TENANT_CHARACTERS}}}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DROPPED = frozenset({"Cc", "Cs", "Zl", "Zp"})
_INVISIBLE = frozenset({"Cf", "Zs", "Mn"})
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def clean_text(text: str) -> str:
    """The text in NFC, without control characters, with single spaces."""
    spaced = "".join(
        " " if character.isspace() else character
        for character in text
        if character.isspace() or (unicodedata.category(character) not in _DROPPED and character not in _BIDIRECTIONAL)
    )
    return unicodedata.normalize("NFC", " ".join(spaced.split()))


def clean_name(name: str) -> str:
    """The name as it is stored. Raises: BadName."""
    cleaned = clean_text(name)
    if not is_visible(cleaned):
        raise BadName("bad_name", "name has no visible character: give 1 to 200 characters", limit=NAME_CHARACTERS)
    if len(cleaned) > NAME_CHARACTERS:
        message = f"name has {len(cleaned)} characters: give at most {NAME_CHARACTERS}"
        raise BadName("bad_name", message, limit=NAME_CHARACTERS, measured=len(cleaned))
    if as_speaker_id(cleaned) is not None:
        # Such a name could answer for a deleted speaker's id.
        raise BadName("bad_name", "name has the form of a speaker id: choose another name")
    return cleaned


def is_visible(text: str) -> bool:
    """Whether any character of the text can be seen."""
    return any(unicodedata.category(character) not in _INVISIBLE for character in text)


def name_key(name: str) -> str:
    """The name folded: those that differ only in case, normal form or invisible characters are equal."""
    visible = "".join(character for character in clean_text(name) if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", visible).casefold())


def as_speaker_id(text: str) -> str | None:
    """The canonical speaker id that the text spells, None if it spells none."""
    lowered = text.strip().lower()
    return lowered if _SPEAKER_ID.fullmatch(lowered) else None


def check_tenant(tenant: str) -> str:
    """The tenant, "" for the one without a name. Raises: ValueError."""
    if tenant and not _TENANT.fullmatch(tenant):
        raise ValueError(f"tenant must have 1 to {TENANT_CHARACTERS} letters, digits, dots, dashes and underscores")
    return tenant


def clean_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels as they are stored. Raises: BadArgument (bad_labels)."""
    if len(labels) > MAX_LABELS:
        message = f"labels has {len(labels)} entries: give at most {MAX_LABELS}"
        raise BadArgument("bad_labels", message, limit=MAX_LABELS, measured=len(labels))
    cleaned = {}
    for key, value in labels.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise BadArgument("bad_labels", "labels must map strings to strings")
        pair = clean_text(key), clean_text(value)
        if not pair[0] or max(map(len, pair)) > LABEL_CHARACTERS:
            message = f"labels need keys of 1 to {LABEL_CHARACTERS} characters and values of at most {LABEL_CHARACTERS}"
            raise BadArgument("bad_labels", message, limit=LABEL_CHARACTERS)
        cleaned[pair[0]] = pair[1]
    return cleaned


def plain_json(value: object) -> object:
    """The value in types that JSON and both databases hold; what JSON cannot say (NaN, infinity) becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain_json(item) for item in value]
    if value is None or isinstance(value, str | int):
        return value
    raise BadArgument("bad_clip", f"report holds a {type(value).__name__}, which JSON cannot hold")


def clean_report(report: Mapping[str, object]) -> dict[str, object]:
    """The enrolment report as it is stored. Raises: BadArgument."""
    return {str(key): plain_json(value) for key, value in report.items()}


def check_encoder_id(encoder_id: str) -> str:
    """The encoder id. Raises: BadVector (wrong_encoder)."""
    if not (0 < len(encoder_id) <= ENCODER_ID_CHARACTERS and encoder_id.isprintable()):
        message = f"encoder_id must have 1 to {ENCODER_ID_CHARACTERS} printable characters"
        raise BadVector("wrong_encoder", message, limit=ENCODER_ID_CHARACTERS)
    return encoder_id


def check_vector(vector: FloatArray, field: str = "vector") -> FloatArray:
    """The vector as contiguous float32. Shapes: vector float (d,), L2 norm 1. Raises: BadVector."""
    array = np.asarray(vector)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind != "f":
        message = f"{field} must be a float array of shape (d,), but is {array.dtype} of shape {array.shape}"
        raise BadVector("bad_vector", message)
    if not np.isfinite(array).all():
        raise BadVector("bad_vector", f"{field} holds NaN or infinity: embed the clip again")
    norm = float(np.linalg.norm(array.astype(np.float64)))
    if abs(norm - 1.0) > NORM_TOLERANCE:
        message = f"{field} has L2 norm {norm:.4g}: it must be 1 within {NORM_TOLERANCE:g}"
        raise BadVector("bad_vector", message, limit=NORM_TOLERANCE, measured=norm)
    return np.ascontiguousarray(array, dtype=np.float32)


def check_clips(clips: Sequence[ClipRecord]) -> tuple[ClipRecord, ...]:
    """The clips, each sha256 once, all of one width. Raises: BadArgument (bad_clip), BadVector."""
    if not clips:
        raise BadArgument("bad_clip", "clips is empty: give at least one clip")
    checked = {clip.sha256: _check_clip(clip, f"clips[{index}]") for index, clip in reversed(list(enumerate(clips)))}
    widths = {len(clip.vector) for clip in checked.values()}
    if len(widths) > 1:
        raise BadVector("bad_vector", f"clips have vectors of different widths: {sorted(widths)}")
    return tuple(reversed(checked.values()))


def _check_clip(clip: ClipRecord, field: str) -> ClipRecord:
    if not _SHA256.fullmatch(clip.sha256):
        raise BadArgument("bad_clip", f"{field}.sha256 must be 64 lower-case hexadecimal digits")
    for name in ("duration_s", "voiced_s", "n_partials"):
        value = getattr(clip, name)
        if not (math.isfinite(value) and value >= 0):
            raise BadArgument("bad_clip", f"{field}.{name} is {value}: it must be finite and not negative")
    snr_db = clip.snr_db if clip.snr_db is not None and math.isfinite(clip.snr_db) else None
    return replace(clip, vector=check_vector(clip.vector, f"{field}.vector"), snr_db=snr_db)


def mean_vector(vectors: Sequence[FloatArray]) -> FloatArray:
    """The plain mean of the vectors, L2-normalised. Shapes: n times float32 (d,) -> float32 (d,). Raises: BadVector."""
    mean = np.mean(np.stack(vectors), axis=0, dtype=np.float64)
    norm = float(np.linalg.norm(mean))
    if norm < NORM_TOLERANCE:
        raise BadVector("bad_vector", "the clips' vectors cancel each other: they are not one voice", measured=norm)
    return np.asarray(mean / norm, dtype=np.float32)


def check_limit(value: int, field: str) -> int:
    """A count of results. Raises: BadArgument (bad_limit)."""
    if not 1 <= value <= MAX_LIMIT:
        message = f"{field} is {value}: give 1 to {MAX_LIMIT}"
        raise BadArgument("bad_limit", message, limit=MAX_LIMIT, measured=value)
    return value


def write_cursor(created_at: datetime, speaker_id: str) -> str:
    """An opaque, URL-safe mark of one place in the order of (created_at, id)."""
    return base64.urlsafe_b64encode(f"{created_at.isoformat()} {speaker_id}".encode()).decode()


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """The place that a cursor marks. Raises: BadArgument (bad_cursor)."""
    try:
        when, speaker_id = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii").split(" ")
        created_at = datetime.fromisoformat(when)
    except (ValueError, binascii.Error) as error:
        raise BadArgument("bad_cursor", "cursor is not one that a page gave: start without it") from error
    if created_at.tzinfo is None or as_speaker_id(speaker_id) is None:
        raise BadArgument("bad_cursor", "cursor is not one that a page gave: start without it")
    return created_at, speaker_id
