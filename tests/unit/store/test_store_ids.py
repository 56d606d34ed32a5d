"""Ids without an object for each: the same answers as a dictionary, however they are held."""

import uuid

import numpy as np
import pytest
from store_samples import new_speaker

from store.ids import IdTable, SpeakerIds
from store.index import SpeakerIndex
from store.rows import Shelf
from store.service import Store


def name(number: int) -> str:
    # Half of them differ in their first half alone, half in the second.
    return str(uuid.UUID(int=number << 64 if number % 2 else number))


def test_ids_read_as_the_strings_that_they_were() -> None:
    spelt = [str(uuid.uuid4()) for _ in range(50)]
    ids = SpeakerIds.of(spelt)
    assert list(ids) == spelt and ids[7] == spelt[7] and list(ids[3:9]) == spelt[3:9] and spelt[4] in ids
    assert list(SpeakerIds.from_bytes(ids.to_bytes())) == spelt and list(SpeakerIds.of([])) == []
    with pytest.raises(ValueError, match="UUID"):
        SpeakerIds.of([spelt[0], "short"])


@pytest.mark.parametrize("same_hash", [False, True])
def test_a_table_finds_what_a_dictionary_does(same_hash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if same_hash:
        monkeypatch.setattr("store.ids.hashed", lambda keys: keys[:, 0] % np.uint64(3))
    every = SpeakerIds.of([name(number) for number in range(200)])
    held, numbers = every.keys[:120], np.arange(120) * 10
    table = IdTable()
    table.sort(held, numbers)
    table.add(every.keys[100:140], np.arange(1000, 1040))
    table.forget(every.keys[130:140])
    expected = [*numbers[:100].tolist(), *range(1000, 1030), *[-1] * 70]
    assert table.find(every.keys).tolist() == expected


@pytest.mark.parametrize("min_sorted", [0, 5, 10**6])
def test_an_index_holds_what_was_left_in_it(min_sorted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.ids._MIN_SORTED", min_sorted)
    random, index, model = np.random.default_rng(1), SpeakerIndex(), dict[str, int]()
    for step in range(60):
        chosen = [name(number) for number in random.permutation(150)[: random.integers(1, 60)].tolist()]
        if random.random() < 0.5:
            vectors = random.standard_normal((len(chosen), 4)).astype(np.float32)
            shelf = f"encoder {step % 3}"
            # As the follower does with a voice that moves to another encoder.
            index.apply([Shelf(shelf, chosen, np.full(len(chosen), step), vectors)])
            model |= dict.fromkeys(chosen, step)
        else:
            index.apply([], chosen)
            for each in chosen:
                model.pop(each, None)
        assert index.revisions() == model
        ids, revisions = SpeakerIds.of(list(model)), np.array(list(model.values()), np.int64)
        assert index.holds(ids, revisions)
        assert not model or not index.holds(ids, revisions + 1)
        assert not model or not index.holds(ids[1:], revisions[1:])


def test_columns_are_read_in_several_texts_as_in_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    speakers = [store.enrol(new_speaker(f"voice {number}", [number])) for number in range(7)]
    for speaker in speakers[:3]:
        store.delete(speaker.id)
    expected = {speaker.id: speaker.revision for speaker in speakers[3:]}
    for rows_per_text in (1, 2, 4, 100):
        monkeypatch.setattr("store.packing._ROWS_PER_TEXT", rows_per_text)
        ids, revisions = store._database.read(lambda queries: queries.revisions())
        assert dict(zip(ids, revisions.tolist(), strict=True)) == expected and len(ids) == 4
        gone, last = store._database.read(lambda queries: queries.removed_since(8))
        assert set(gone) == {speaker.id for speaker in speakers[1:3]} and last == 10
        gone, last = store._database.read(lambda queries: queries.removed_since(10))
        assert list(gone) == [] and last == 0
