import numpy as np
import pytest

from encoder.declipping import declip

RATE = 16_000


def cut(samples: np.ndarray, share: float) -> tuple[np.ndarray, float]:
    ceiling = float(np.quantile(np.abs(samples), 1 - share))
    return samples.clip(-ceiling, ceiling), ceiling


def distance_db(found: np.ndarray, wanted: np.ndarray) -> float:
    return 10 * np.log10(np.sum(wanted**2) / np.sum((found - wanted) ** 2))


@pytest.mark.parametrize(("share", "gain_db"), [(0.05, 4), (0.3, 4)])
def test_what_was_cut_comes_nearer_to_what_it_was(woman, share, gain_db):
    clipped, _ = cut(woman, share)
    assert distance_db(declip(clipped, RATE), woman) > distance_db(clipped, woman) + gain_db


def test_what_was_not_cut_stays_and_what_was_rises(man):
    clipped, ceiling = cut(man, 0.1)
    found = declip(clipped, RATE)
    assert found.shape == clipped.shape and found.dtype == np.float32
    below = np.abs(clipped) < 0.9 * ceiling
    np.testing.assert_allclose(found[below], clipped[below], atol=1e-5)
    assert np.abs(found).max() > 1.5 * ceiling


@pytest.mark.parametrize("n_samples", [1, 700, 5_000])
@pytest.mark.parametrize("sign", [1, -1, 0])
def test_any_length_and_sign_keeps_its_length(n_samples, sign):
    found = declip(np.full(n_samples, sign, np.float32), RATE)
    assert len(found) == n_samples and np.isfinite(found).all()
