"""The pool of hot vectors."""

import numpy as np
from store_samples import unit_vector

from store.vectors import VectorPool

ONE = 32 * 4


def put(pool: VectorPool, speaker_id: str, revision: int = 1) -> None:
    with pool.hold((speaker_id, revision), unit_vector(revision).copy()):
        pass


def test_the_least_recently_used_goes_first() -> None:
    pool = VectorPool(2 * ONE)
    put(pool, "a")
    put(pool, "b")
    assert pool.get(("a", 1)) is not None
    put(pool, "c")
    assert [pool.get((speaker_id, 1)) is not None for speaker_id in "abc"] == [True, False, True]
    assert pool.usage().n_bytes == 2 * ONE


def test_what_is_held_stays_beyond_the_capacity_and_goes_after() -> None:
    pool = VectorPool(ONE)
    with pool.hold(("a", 1), unit_vector(1).copy()) as held:
        put(pool, "b")
        assert pool.get(("a", 1)) is held and pool.held() == {"a"}
        with pool.hold(("c", 1), unit_vector(2).copy()):
            assert pool.usage().n_bytes == 2 * ONE and pool.held() == {"a", "c"}
    assert pool.usage().n_bytes == ONE and pool.held() == frozenset()


def test_a_new_revision_is_another_vector() -> None:
    pool = VectorPool(10 * ONE)
    put(pool, "a", 1)
    assert pool.get(("a", 2)) is None
    put(pool, "a", 2)
    np.testing.assert_array_equal(pool.get(("a", 2)), unit_vector(2))
    pool.drop("a")
    assert pool.usage().n_bytes == pool.usage().n_vectors == 0


def test_a_pool_without_room_still_serves() -> None:
    pool = VectorPool(0)
    with pool.hold(("a", 1), unit_vector(1).copy()) as vector:
        np.testing.assert_array_equal(vector, unit_vector(1))
    assert pool.usage().n_vectors == 0


def test_a_vector_dropped_while_held_is_released_once() -> None:
    pool = VectorPool(10 * ONE)
    with pool.hold(("a", 1), unit_vector(1).copy()) as vector:
        pool.drop("a")
        np.testing.assert_array_equal(vector, unit_vector(1))
        assert pool.held() == {"a"}
    assert pool.usage().n_bytes == 0 and pool.held() == frozenset()
