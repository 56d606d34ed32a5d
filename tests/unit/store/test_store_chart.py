"""All speakers on a plane."""

import numpy as np
import pytest
from store_samples import ENCODER, clip, new_speaker

from store.errors import BadArgument, SpeakerNotFound
from store.projection import project
from store.service import Store
from store.types import NewSpeaker, Owner


def test_the_plane_is_the_one_on_which_vectors_differ_most() -> None:
    corners = np.zeros((4, 5), np.float32)
    corners[:, 3] = (3, 3, -3, -3)
    corners[:, 1] = (1, -1, 1, -1)
    plane = project(corners + 7)
    np.testing.assert_allclose(plane.points, corners[:, [3, 1]], atol=1e-6)
    assert plane.explained == pytest.approx((0.9, 0.1))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_and_equal_vectors_have_a_place_too(n: int) -> None:
    same = project(np.ones((n, 4), np.float32))
    np.testing.assert_array_equal(same.points, np.zeros((n, 2)))
    assert same.explained == (0.0, 0.0)


def test_everybody_of_the_encoder_is_on_the_chart_with_the_cosine_to_the_chosen_one(store: Store) -> None:
    speakers = [store.enrol(new_speaker(f"s{number}", [number])) for number in range(5)]
    store.enrol(NewSpeaker("other", "another-encoder", (clip(9, width=16),)))
    plain = store.chart(ENCODER, 100)
    assert {(point.speaker_id, point.name) for point in plain.points} == {(each.id, each.name) for each in speakers}
    assert {point.cosine for point in plain.points} == {None}
    chosen = speakers[2]
    # The encoder is that of the chosen speaker, whatever was asked for.
    chart = store.chart("another-encoder", 100, chosen.id)
    assert (chart.encoder_id, chart.total) == (ENCODER, 5)
    assert [(point.x, point.y) for point in chart.points] == [(point.x, point.y) for point in plain.points]
    vectors = {each.id: each.vector for each in speakers}
    for point in chart.points:
        assert point.cosine == pytest.approx(float(vectors[point.speaker_id] @ chosen.vector), abs=1e-6)


def test_a_large_store_is_sampled_the_same_way_each_time_and_the_chosen_one_is_there(store: Store) -> None:
    ids = sorted(store.enrol(new_speaker(f"s{number}", [number])).id for number in range(6))
    assert [point.speaker_id for point in store.chart(ENCODER, 3).points] == ids[:3]
    chart = store.chart(ENCODER, 3, ids[5])
    assert [point.speaker_id for point in chart.points] == [*ids[:2], ids[5]]
    assert chart.total == 6


def test_a_tenant_s_chart_shows_and_counts_nobody_else(store: Store) -> None:
    own = store.seen_by(Owner(tenant="theirs")).enrol(new_speaker("own", [1]))
    other = store.seen_by(Owner(tenant="")).enrol(new_speaker("other", [2]))
    chart = store.seen_by(Owner(tenant="theirs")).chart(ENCODER, 10)
    assert (chart.total, [point.speaker_id for point in chart.points]) == (1, [own.id])
    with pytest.raises(SpeakerNotFound):
        store.seen_by(Owner(tenant="theirs")).chart(ENCODER, 10, other.id)
    assert store.chart(ENCODER, 10).total == 2


def test_what_cannot_be_charted_is_said(store: Store) -> None:
    assert store.chart(ENCODER, 10).points == ()
    with pytest.raises(SpeakerNotFound):
        store.chart(ENCODER, 10, "nobody")
    with pytest.raises(BadArgument) as refused:
        store.chart(ENCODER, 1001)
    assert refused.value.details["limit"] == 1000
