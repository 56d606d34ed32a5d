"""What a cosine is worth, from the measured figures that ship with the encoder."""

import pytest

from api.errors import NotCalibrated, RequestRefused
from api.verification import Calibration, judge, load_calibration


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    from encoder.engine import SpeakerEncoder

    found = load_calibration(SpeakerEncoder.load().encoder_id)
    assert found is not None
    return found


def test_the_shipped_encoder_is_calibrated_on_hundreds_of_people(calibration: Calibration) -> None:
    assert calibration.n_speakers > 400
    assert [each.length_s for each in calibration.probes] == [1.6, 3.0, 5.0, 10.0]
    for probe in calibration.probes:
        assert 0 < probe.equal_error_rate < 0.05
        points = probe.operating_points
        assert points["one_in_1000"].threshold > points["one_in_100"].threshold
        assert points["one_in_1000"].false_accepts < 0.003


@pytest.mark.parametrize(("voiced_s", "measured_at_s"), [(1.0, 1.6), (1.6, 1.6), (4.99, 3.0), (60.0, 10.0)])
def test_the_figures_are_those_of_a_probe_that_is_not_longer(
    calibration: Calibration, voiced_s: float, measured_at_s: float
) -> None:
    assert judge(calibration, "id", 0.8, voiced_s, "balanced").measured_at_s == measured_at_s


def test_a_verdict_follows_threshold_and_odds(calibration: Calibration) -> None:
    cosines = [0.2, 0.6, 0.7, 0.75, 0.8, 0.95]
    verdicts = [judge(calibration, "id", cosine, 5.0, "one_in_100") for cosine in cosines]
    threshold = verdicts[0].operating_point.threshold
    assert [verdict.accepted for verdict in verdicts] == [cosine >= threshold for cosine in cosines]
    chances = [verdict.probability for verdict in verdicts]
    assert chances == sorted(chances) and chances[0] < 0.001 and chances[-1] > 0.999


def test_what_was_not_measured_is_refused(calibration: Calibration) -> None:
    assert load_calibration("another-encoder") is None
    with pytest.raises(NotCalibrated):
        judge(None, "id", 0.8, 5.0, "balanced")
    with pytest.raises(RequestRefused, match="give one of balanced"):
        judge(calibration, "id", 0.8, 5.0, "best")
