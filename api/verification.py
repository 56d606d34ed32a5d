"""What a cosine is worth: measured operating points and log odds, by length of the probe. Knows nothing of HTTP."""

import math
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from api.errors import NotCalibrated, RequestRefused


class OperatingPoint(BaseModel):
    """A threshold, and how often it was wrong on speakers that it was not chosen by."""

    model_config = ConfigDict(frozen=True)

    threshold: float
    false_accepts: float
    false_rejects: float


class LogOdds(BaseModel):
    """A line from a cosine to log odds."""

    model_config = ConfigDict(frozen=True)

    slope: float
    offset: float


class ProbeFigures(BaseModel):
    """What was measured with probes of one length."""

    model_config = ConfigDict(frozen=True)

    length_s: float
    log_odds: LogOdds
    equal_error_rate: float
    operating_points: dict[str, OperatingPoint]


class Calibration(BaseModel):
    """What was measured for one encoder; made by `benchmarks/verification.py`."""

    model_config = ConfigDict(frozen=True)

    encoder_id: str
    date: str
    n_speakers: int
    duplicates_above: float
    probes: list[ProbeFigures]

    def for_probe(self, voiced_s: float) -> ProbeFigures:
        """The figures of the longest measured probe that is not longer than this one."""
        return max((each for each in self.probes if each.length_s <= voiced_s), key=_length, default=self._shortest)

    @cached_property
    def _shortest(self) -> ProbeFigures:
        return min(self.probes, key=_length)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a clip is of a speaker. `probability` holds where both answers were equally likely before."""

    speaker_id: str
    cosine: float
    probability: float
    accepted: bool
    point: str
    operating_point: OperatingPoint
    voiced_s: float
    measured_at_s: float
    equal_error_rate: float


def load_calibration(encoder_id: str) -> Calibration | None:
    """What was measured for this encoder, None if nothing was."""
    path = Path(str(files("voices"))) / "verification" / f"{encoder_id}.json"
    return Calibration.model_validate_json(path.read_bytes()) if path.is_file() else None


def judge(calibration: Calibration | None, speaker_id: str, cosine: float, voiced_s: float, point: str) -> Verdict:
    """The verdict at this operating point. Raises: NotCalibrated, RequestRefused (bad_field)."""
    if calibration is None:
        message = "nothing was measured for this speaker encoder: run benchmarks/verification.py with it"
        raise NotCalibrated("not_calibrated", message)
    figures = calibration.for_probe(voiced_s)
    if point not in figures.operating_points:
        known = ", ".join(figures.operating_points)
        raise RequestRefused("bad_field", f"point is unknown: give one of {known}", field="point")
    chosen = figures.operating_points[point]
    return Verdict(
        speaker_id=speaker_id,
        cosine=cosine,
        probability=1 / (1 + math.exp(-(figures.log_odds.slope * cosine + figures.log_odds.offset))),
        accepted=cosine >= chosen.threshold,
        point=point,
        operating_point=chosen,
        voiced_s=voiced_s,
        measured_at_s=figures.length_s,
        equal_error_rate=figures.equal_error_rate,
    )


def _length(figures: ProbeFigures) -> float:
    return figures.length_s
