"""What is known of rows: places in the order of arrival, whatever comes twice."""

import numpy as np
import pytest

from dimsweep.sweeper.ledger.index import ResultIndex


def key(i: int) -> str:
    # Many begin, or end, alike, so that they want the same place in the table.
    return f"{i % 7:016x}{i % 11:016x}" if i < 50 else f"{i:032x}"


def test_a_key_has_one_place_however_often_it_comes() -> None:
    random, known, seen = np.random.default_rng(0), ResultIndex(1, 0), dict[str, int]()
    for _ in range(200):
        keys = [key(i) for i in random.integers(0, 5000, random.integers(1, 90)).tolist()]
        places, new = known.claim(keys, 0)
        for own, place, is_new in zip(keys, places.tolist(), new.tolist(), strict=True):
            assert is_new == (own not in seen)
            assert seen.setdefault(own, len(seen)) == place
    assert len(seen) > 3000, "the table has grown"
    assert (known.places(list(seen), 0) == -1).all(), "claimed, but no row has come"
    assert len(known) == 0


def test_a_key_is_another_one_in_another_cell() -> None:
    known = ResultIndex(1, 0)
    assert known.claim([key(99)], 0)[1].all()
    assert known.claim([key(99)], 1)[1].all()
    assert not known.claim([key(99)], 1)[1].any()


def test_no_keys_have_no_places() -> None:
    known = ResultIndex(1, 0)
    places, new = known.claim([], 0)
    assert (len(places), len(new), len(known.places([], 0))) == (0, 0, 0)


@pytest.mark.parametrize("batch", [1, 13, 400])
def test_keys_that_left_the_dictionary_are_found(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dimsweep.sweeper.ledger.index._RECENT", 100)
    random, known, seen = np.random.default_rng(1), ResultIndex(1, 0), dict[str, int]()
    for _ in range(4000 // batch):
        keys = [key(i) for i in random.integers(0, 3000, batch).tolist()]
        places, new = known.claim(keys, 0)
        assert new.tolist() == [
            own not in seen and own not in keys[:i] for i, own in enumerate(keys)
        ]
        assert [seen.setdefault(own, place) for own, place in zip(keys, places, strict=True)] == (
            places.tolist()
        )
    halves = known.keys(np.arange(len(seen)))
    values = np.arange(len(seen), dtype=float)[:, None]
    assert (known.add(halves, values, np.empty((len(seen), 0))) == np.arange(len(seen))).all()
    assert known.places([*seen, key(9999)], 0).tolist() == [*seen.values(), -1]
    assert known.values(known.places(list(seen), 0)).ravel().tolist() == list(seen.values())


def test_what_was_simulated_counts_before_what_failed() -> None:
    nan = np.nan
    for first, then in (([nan, 1.0], [2.0, nan]), ([nan, 1.0, 2.0, nan], [])):
        known = ResultIndex(1, 0)
        for values in (first, then):
            own = np.array([[0, 7], [0, 8], [0, 7], [0, 8]], dtype=np.uint64)[: len(values)]
            known.add(own, np.array(values).reshape(-1, 1), np.empty((len(values), 0)))
        assert known.values(np.arange(2)).ravel().tolist() == [2.0, 1.0]
        assert len(known) == 2
