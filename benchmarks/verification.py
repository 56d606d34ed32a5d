"""How well a clip tells a speaker from strangers: equal error rate, thresholds and calibration by length of the probe.

    python -m benchmarks.corpus_vectors --corpus PATH --out vectors.npz
    python -m benchmarks.verification --vectors vectors.npz

Only training speakers of the corpus are used. Thresholds and calibration come from one half of them and are tried on
the other; the clips of one speaker often come from one recording session, which flatters the figures.
"""

import argparse
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

FloatArray = NDArray[np.float64]
FALSE_ACCEPTS = {"balanced": None, "one_in_100": 0.01, "one_in_1000": 0.001}
WHOLE = 0.0
CROWDS = (10, 30, 100, 200)
# A flag that is always there is read by nobody: of a hundred strangers about one in a hundred gets a false one.
PAIRS_PER_FALSE_FLAG = 10_000


@dataclass(frozen=True, slots=True)
class Trials:
    """Cosines of probes to their own speaker's reference, and to those of strangers."""

    own: FloatArray
    strangers: FloatArray


@dataclass(frozen=True, slots=True)
class Corpus:
    """What `corpus_vectors` wrote."""

    speakers: NDArray[np.str_]
    clips: NDArray[np.str_]
    lengths_s: FloatArray
    vectors: FloatArray


def main() -> None:
    """Measures and writes the figures, and the calibration that the service reads."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--vectors", type=Path, required=True)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results/store-verification.json"))
    options.add_argument("--calibration", type=Path, default=Path("voices/verification"))
    chosen = options.parse_args()
    corpus = load(chosen.vectors)
    figures = {length: measure(corpus, length) for length in sorted(set(corpus.lengths_s.tolist()))}
    encoder_id = _encoder_id()
    names = np.unique(corpus.speakers)
    result = {
        "encoder_id": encoder_id,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_speakers": len(names),
        "probes": {_label(length): found for length, found in figures.items()},
        "duplicates_above": one_pair_in(corpus, PAIRS_PER_FALSE_FLAG),
        "duplicates": crowd_curve(corpus),
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    chosen.calibration.mkdir(parents=True, exist_ok=True)
    (chosen.calibration / f"{encoder_id}.json").write_text(json.dumps(calibration(figures, result), indent=1) + "\n")
    print(json.dumps(result, indent=1))


def load(path: Path) -> Corpus:
    with np.load(path) as file:
        return Corpus(*(file[name] for name in ("speakers", "clips", "lengths_s", "vectors")))


def measure(corpus: Corpus, length_s: float) -> dict[str, Any]:
    """The figures of probes of one length."""
    half = np.array([int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 for name in corpus.speakers])
    trials = {which: trials_of(corpus, length_s, half == which) for which in (0, 1)}
    tuned, tried = trials[0], trials[1]
    both = Trials(np.concatenate([tuned.own, tried.own]), np.concatenate([tuned.strangers, tried.strangers]))
    rate, at = equal_error(both)
    figures: dict[str, Any] = {
        "n_own": len(both.own),
        "n_strangers": len(both.strangers),
        "own_mean": round(float(both.own.mean()), 3),
        "strangers_mean": round(float(both.strangers.mean()), 3),
        "equal_error_rate": round(rate, 4),
        "equal_error_at": round(at, 3),
        "operating_points": {},
    }
    for name, share in FALSE_ACCEPTS.items():
        threshold = equal_error(tuned)[1] if share is None else float(np.quantile(tuned.strangers, 1 - share))
        figures["operating_points"][name] = {
            "threshold": round(threshold, 4),
            "false_accepts": round(float((tried.strangers >= threshold).mean()), 4),
            "false_rejects": round(float((tried.own < threshold).mean()), 4),
        }
    slope, offset = log_odds(tuned)
    figures["log_odds"] = {"slope": round(slope, 3), "offset": round(offset, 3)}
    return figures


def trials_of(corpus: Corpus, length_s: float, chosen: NDArray[np.bool_]) -> Trials:
    """A reference is the mean of the first half of a speaker's whole clips; the other clips are its probes."""
    references, owners, probes, askers = [], [], [], []
    for name in np.unique(corpus.speakers[chosen]):
        mine = corpus.speakers == name
        clips = sorted(set(corpus.clips[mine]))
        enrolled = clips[: max(1, len(clips) // 2)]
        whole = mine & (corpus.lengths_s == WHOLE) & np.isin(corpus.clips, enrolled)
        mean = corpus.vectors[whole].mean(axis=0)
        references.append(mean / np.linalg.norm(mean))
        owners.append(name)
        asked = mine & (corpus.lengths_s == length_s) & ~np.isin(corpus.clips, enrolled)
        probes.extend(corpus.vectors[asked])
        askers.extend([name] * int(asked.sum()))
    cosines = np.stack(probes).astype(np.float64) @ np.stack(references).T.astype(np.float64)
    same = np.array(askers)[:, None] == np.array(owners)[None]
    return Trials(cosines[same], cosines[~same])


def equal_error(trials: Trials) -> tuple[float, float]:
    """The rate at which as many strangers are accepted as own are refused, and the cosine there."""
    thresholds = np.unique(np.concatenate([trials.own, np.quantile(trials.strangers, np.linspace(0, 1, 5001))]))
    accepts = 1 - np.searchsorted(np.sort(trials.strangers), thresholds) / len(trials.strangers)
    rejects = np.searchsorted(np.sort(trials.own), thresholds) / len(trials.own)
    at = int(np.argmin(np.abs(accepts - rejects)))
    return float((accepts[at] + rejects[at]) / 2), float(thresholds[at])


def log_odds(trials: Trials) -> tuple[float, float]:
    """Slope and offset of the log odds that a cosine is the speaker's own, where both are equally likely before."""
    values = np.concatenate([trials.own, trials.strangers])[:, None]
    labels = np.concatenate([np.ones(len(trials.own)), np.zeros(len(trials.strangers))])
    model = LogisticRegression(class_weight="balanced", C=1e6, max_iter=1000).fit(values, labels)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def crowd_curve(corpus: Corpus) -> dict[str, Any]:
    """How often the nearest of N strangers passes a threshold, at enrolment: references against references."""
    random, cosines = np.random.default_rng(0), between_strangers(corpus)
    own = trials_of(corpus, WHOLE, np.ones(len(corpus.speakers), bool)).own
    curve = {}
    for threshold in (0.80, 0.85, 0.875, 0.90, 0.925):
        shares = {}
        for size in CROWDS:
            nearest = [row[random.choice(len(row), size, replace=False)].max() for row in cosines for _ in range(5)]
            shares[str(size)] = round(float((np.array(nearest) >= threshold).mean()), 4)
        curve[f"{threshold:.3f}"] = {
            "strangers_flagged_of": shares,
            "pair_rate": float(f"{(cosines[np.triu_indices(len(cosines), 1)] >= threshold).mean():.3g}"),
            "own_found": round(float((own >= threshold).mean()), 3),
        }
    return curve


def between_strangers(corpus: Corpus) -> FloatArray:
    """The cosine of every two speakers' mean vectors, -1 of one with itself."""
    whole = corpus.lengths_s == WHOLE
    names = np.unique(corpus.speakers)
    means = np.stack([corpus.vectors[(corpus.speakers == name) & whole].mean(axis=0) for name in names])
    means = means.astype(np.float64) / np.linalg.norm(means, axis=1, keepdims=True)
    cosines: FloatArray = means @ means.T
    np.fill_diagonal(cosines, -1)
    return cosines


def one_pair_in(corpus: Corpus, n_pairs: int) -> float:
    """The cosine that one pair of strangers in so many passes."""
    cosines = between_strangers(corpus)
    return round(float(np.quantile(cosines[np.triu_indices(len(cosines), 1)], 1 - 1 / n_pairs)), 3)


def calibration(figures: Mapping[float, dict[str, Any]], result: Mapping[str, Any]) -> dict[str, Any]:
    """What the service needs: for each length of probe the log odds and the operating points."""
    probes = [
        {
            "length_s": length,
            "log_odds": found["log_odds"],
            "equal_error_rate": found["equal_error_rate"],
            "operating_points": found["operating_points"],
        }
        for length, found in figures.items()
        if length != WHOLE
    ]
    head = {name: result[name] for name in ("encoder_id", "date", "n_speakers")}
    return head | {"duplicates_above": result["duplicates_above"], "probes": probes}


def _label(length_s: float) -> str:
    return "whole" if length_s == WHOLE else f"{length_s:g}"


def _encoder_id() -> str:
    from encoder.engine import SpeakerEncoder

    return SpeakerEncoder.load().encoder_id


if __name__ == "__main__":
    main()
