"""What the checks of a consent and the list of protected voices are worth, by threshold.

    python -m benchmarks.consent_checks --corpus PATH

One clip of a person stands for the recorded statement, two others for what is enrolled; all are heard as an enrolment
is. A recogniser is asked for the words of clips whose text is known. Only training speakers of the corpus are used;
the clips of one person often come from one session, which flatters the figures.
"""

import argparse
import csv
import hashlib
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import conditions
from encoder.audio import Decoder
from encoder.engine import SpeakerEncoder
from encoder.errors import EncoderError
from encoder.reference import embed_clips

FloatArray = NDArray[np.float64]
CLIPS_PER_SPEAKER = 3
# As long as a statement of a sentence or two.
SECONDS = (3.0, 10.0)
VOICE_THRESHOLDS = tuple(round(0.56 + 0.02 * step, 2) for step in range(13))
PROTECTED_THRESHOLDS = tuple(round(0.70 + 0.02 * step, 2) for step in range(12))
CROWDS = (1, 10, 50)
WORD_LIMITS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_DRAWS = 20


def main() -> None:
    """Measures, and writes the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results/consent-checks.json"))
    options.add_argument("--speakers", type=int, default=80)
    options.add_argument("--transcripts", type=int, default=60)
    chosen = options.parse_args()
    people = read(chosen.corpus, chosen.speakers)
    with Decoder() as decoder:
        vectors = hear(people, decoder)
        words = recognised(people, decoder, chosen.transcripts)
    result = conditions("cpu") | {
        "encoder_id": SpeakerEncoder.load().encoder_id,
        "n_speakers": len(vectors),
        "voices": voices(vectors),
        "protected": protected(vectors),
        "words": words,
    }
    chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def read(corpus: Path, n_speakers: int) -> dict[str, list[tuple[bytes, str]]]:
    """Of so many training speakers three clips, each with its text, chosen by their hashes."""
    with (corpus / "manifest.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if _is_wanted(row)]
    by_speaker: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        by_speaker[row["speaker"]].append(row)
    enough = [name for name, found in by_speaker.items() if len(found) >= CLIPS_PER_SPEAKER]
    wanted = {
        row["path"]: row
        for name in sorted(enough, key=_hash)[:n_speakers]
        for row in sorted(by_speaker[name], key=lambda row: _hash(row["path"]))[:CLIPS_PER_SPEAKER]
    }
    people: dict[str, list[tuple[bytes, str]]] = defaultdict(list)
    for path, data in _members(corpus, {row["shard"] for row in wanted.values()}):
        if path in wanted:
            people[wanted[path]["speaker"]].append((data, wanted[path]["transcript"]))
    return people


def hear(people: Mapping[str, Sequence[tuple[bytes, str]]], decoder: Decoder) -> FloatArray:
    """The vectors of each person's clips. Shapes: float64 (people, clips, d)."""
    encoder, found = SpeakerEncoder.load(), []
    for clips in people.values():
        try:
            found.append([embed_clips([data], encoder, decoder).embedding.vector for data, _ in clips])
        except EncoderError:
            continue  # a clip with too little speech, which an enrolment refuses too
    return np.array(found, np.float64)


def voices(vectors: FloatArray) -> dict[str, Any]:
    """Recordings against clips: how often a person's own is refused, and a stranger's let pass."""
    cosines = np.einsum("id,jcd->ijc", vectors[:, 0], vectors[:, 1:])
    same = np.eye(len(vectors), dtype=bool)
    own, strangers = cosines[same].ravel(), cosines[~same].ravel()
    return {
        "n_own": len(own),
        "n_strangers": len(strangers),
        "own_mean": round(float(own.mean()), 3),
        "strangers_mean": round(float(strangers.mean()), 3),
        "thresholds": {
            f"{at:.2f}": {
                "false_rejects": _share(own < at),
                "people_refused": _share(cosines[same].min(axis=1) < at),
                "false_accepts": _share(strangers >= at),
            }
            for at in VOICE_THRESHOLDS
        },
    }


def protected(vectors: FloatArray) -> dict[str, Any]:
    """Clips against protected voices of two clips: how many are caught, and how many strangers with them."""
    random, means = np.random.default_rng(0), vectors[:, :2].mean(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = vectors[:, 2] @ means.T
    own, n = np.diag(cosines), len(cosines)
    others = cosines[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    nearest = {
        size: np.array([random.choice(row, size, replace=False).max() for row in others for _ in range(_DRAWS)])
        for size in CROWDS
    }
    return {
        f"{at:.2f}": {
            "caught": _share(own >= at),
            "strangers_refused_by_a_list_of": {str(size): _share(found >= at) for size, found in nearest.items()},
        }
        for at in PROTECTED_THRESHOLDS
    }


def recognised(people: Mapping[str, Sequence[tuple[bytes, str]]], decoder: Decoder, n_clips: int) -> dict[str, Any]:
    """Clips against their own text and against another's."""
    from api.consent_words import WordsChecker

    checker = WordsChecker(limit=1.0)
    clips = [found[0] for found in people.values()][:n_clips]
    heard = [checker.hear(decoder.decode(data).waveform.samples) for data, _ in clips]
    texts = [text for _, text in clips]
    own = np.array([checker.error_rate(text, words) for text, words in zip(texts, heard, strict=True)])
    other = np.array([checker.error_rate(text, heard[index - 1]) for index, text in enumerate(texts)])
    return {
        "n_clips": len(clips),
        "own_mean": round(float(own.mean()), 3),
        "own_median": round(float(np.median(own)), 3),
        "limits": {
            f"{at:.1f}": {"own_refused": _share(own > at), "other_text_accepted": _share(other <= at)}
            for at in WORD_LIMITS
        },
    }


def _members(corpus: Path, shards: set[str]) -> Iterator[tuple[str, bytes]]:
    for shard in sorted(shards):
        with tarfile.open(corpus / shard) as archive:
            for member in archive:
                if member.isfile() and (content := archive.extractfile(member)) is not None:
                    yield member.name, content.read()


def _is_wanted(row: Mapping[str, str]) -> bool:
    return row["split"] == "train" and SECONDS[0] <= float(row["seconds"]) <= SECONDS[1]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _share(found: "NDArray[np.bool_]") -> float:
    return round(float(found.mean()), 4)


if __name__ == "__main__":
    main()
