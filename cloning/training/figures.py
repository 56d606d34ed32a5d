"""Figures with 95 % confidence intervals from judged utterances, and the report that holds them."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cloning.training.evaluation import Utterance

RESAMPLES = 1000
SEED = 0
ALL = "all"

# A figure is a sum over utterances divided by another sum; None leaves an utterance out.
Part = tuple[float, float] | None
Figure = Callable[[Utterance], Part]


def figures_of(utterances: Sequence[Utterance]) -> dict[str, Figure]:
    """Every figure that these utterances allow, by name; names of cosines begin with the encoder's."""
    result: dict[str, Figure] = {
        "wer": lambda u: (u.hearing.word_errors, u.hearing.words),
        "cer": lambda u: (u.hearing.character_errors, u.hearing.characters),
        "failed": lambda u: (bool(u.hearing.failures), 1),
        "words_per_s": lambda u: (u.hearing.words, u.hearing.spoken_s) if u.hearing.spoken_s else None,
        "f0_hz": lambda u: _value(u.hearing.f0_hz),
        "f0_error_semitones": lambda u: _value(_f0_error(u)),
        "outside_share": lambda u: (u.hearing.outside_share, 1),
        "duration_s": lambda u: (u.hearing.duration_s, 1),
    }
    for name in sorted({name for u in utterances for name in u.hearing.opinions}):
        result[name] = lambda u, name=name: _value(u.hearing.opinions.get(name))  # type: ignore[misc]
    for encoder in sorted({name for u in utterances for name in u.likeness}, reverse=True):
        result |= _likeness_figures(encoder)
    return result


def _likeness_figures(encoder: str) -> dict[str, Figure]:
    def figure(field: str) -> Figure:
        return lambda u: _value(getattr(u.likeness[encoder], field)) if encoder in u.likeness else (0.0, 0.0)

    def first(field: str) -> Figure:
        # A sentence that was not spoken is nobody's.
        return lambda u: _value(getattr(u.likeness[encoder], field)) if encoder in u.likeness else (0.0, 1.0)

    return {
        f"{encoder}_enrolled": figure("enrolled"),
        f"{encoder}_held_out": figure("held_out"),
        f"{encoder}_others": figure("others"),
        f"{encoder}_rank1_enrolled": first("first_by_enrolled"),
        f"{encoder}_rank1_held_out": first("first_by_held_out"),
    }


def _value(value: float | bool | None) -> Part:
    return None if value is None or math.isnan(value) else (float(value), 1.0)


def _f0_error(utterance: Utterance) -> float | None:
    f0, reference = utterance.hearing.f0_hz, utterance.f0_reference_hz
    return abs(12 * math.log2(f0 / reference)) if f0 and reference else None


def estimate(groups: Sequence[Sequence[Utterance]], figure: Figure) -> dict[str, float | int] | None:
    """The figure over all groups, its interval by drawing whole groups (people) anew, and how many utterances count.

    None where no utterance counts.
    """
    parts = [[part for u in group if (part := figure(u)) is not None and part[1] > 0] for group in groups]
    sums = np.array([np.sum(p, axis=0) for p in parts if p], np.float64).reshape(-1, 2)
    if not len(sums):
        return None
    drawn = np.random.default_rng(SEED).integers(len(sums), size=(RESAMPLES, len(sums)))
    totals = sums[drawn].sum(axis=1)
    low, high = np.percentile(totals[:, 0] / totals[:, 1], (2.5, 97.5))
    value = sums[:, 0].sum() / sums[:, 1].sum()
    return {"value": _short(value), "low": _short(low), "high": _short(high), "n": sum(map(len, parts))}


def summarise(utterances: Sequence[Utterance]) -> dict[str, dict[str, Any]]:
    """All figures of some utterances, over all of them and by split."""
    figures = figures_of(utterances)
    splits = sorted({u.split for u in utterances})
    scopes = {ALL: utterances} | {s: [u for u in utterances if u.split == s] for s in splits}
    return {
        scope: {
            name: result
            for name, figure in figures.items()
            if (result := estimate(by_speaker(some), figure)) is not None
        }
        for scope, some in scopes.items()
    }


def by_speaker(utterances: Iterable[Utterance]) -> list[list[Utterance]]:
    """The utterances of each person."""
    groups: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        groups.setdefault(utterance.speaker, []).append(utterance)
    return list(groups.values())


def report(head: Mapping[str, Any], utterances: Sequence[Utterance]) -> dict[str, Any]:
    """The whole report as plain values: `head`, then the figures by number of clips, the people and the utterances."""
    counts = sorted({u.n_clips for u in utterances})
    spoken = {n: [u for u in utterances if u.n_clips == n and not u.recorded] for n in counts}
    recorded = {n: [u for u in utterances if u.n_clips == n and u.recorded] for n in counts}
    total = {str(n): summarise(spoken[n]) for n in counts}
    recordings = {str(n): summarise(recorded[n]) for n in counts}
    return {
        **head,
        "total": total,
        "recordings": recordings,
        "share_of_recordings": {n: _shares(total[n][ALL], recordings[n][ALL]) for n in total},
        "speakers": [_person(group) for n in counts for group in by_speaker(spoken[n] + recorded[n])],
        "utterances": [_plain(u) for n in counts for u in spoken[n] + (recorded[n] if n == counts[0] else [])],
    }


def _shares(voice: Mapping[str, Any], recordings: Mapping[str, Any]) -> dict[str, float]:
    names = [n for n in voice if n.endswith(("_enrolled", "_held_out")) and "_rank1_" not in n and n in recordings]
    return {name: _short(voice[name]["value"] / recordings[name]["value"]) for name in names}


def _person(group: Sequence[Utterance]) -> dict[str, Any]:
    first = group[0]
    parts = {"voice": [u for u in group if not u.recorded], "recordings": [u for u in group if u.recorded]}
    values = {
        part: {
            name: result["value"]
            for name, figure in figures_of(some).items()
            if (result := estimate([[u] for u in some], figure)) is not None
        }
        for part, some in parts.items()
    }
    return {
        "speaker": first.speaker, "split": first.split, "clips": first.n_clips, "used_clips": first.used_clips,
        "f0_reference_hz": _rounded(first.f0_reference_hz), **values,
    }  # fmt: skip


def _plain(utterance: Utterance) -> dict[str, Any]:
    plain: dict[str, Any] = _rounded(dataclasses.asdict(utterance))
    return plain


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else _short(value)
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list | tuple) else value


def _short(value: float) -> float:
    return round(float(value), 4)
