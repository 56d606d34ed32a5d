"""A picture of vectors never shows two of them farther apart than they are, and is always the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.projection import project


@given(n=st.integers(2, 40), width=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_distances_only_shrink_and_the_picture_stays(n: int, width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((n, width)).astype(np.float32)
    plane = project(vectors)
    shown = np.linalg.norm(plane.points[:, None] - plane.points[None], axis=2)
    real = np.linalg.norm(vectors[:, None].astype(np.float64) - vectors[None], axis=2)
    assert (shown <= real + 1e-6).all()
    assert 0 <= plane.explained[1] <= plane.explained[0] <= 1 + 1e-9
    assert sum(plane.explained) <= 1 + 1e-9
    again = project(vectors)
    np.testing.assert_array_equal(again.points, plane.points)
