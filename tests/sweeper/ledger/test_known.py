"""The table of keys: places in the order of arrival, whatever comes twice."""

import numpy as np

from sweeper.ledger.known import Known


def key(i: int) -> str:
    # Many begin, or end, alike, so that they want the same place in the table.
    return f"{i % 7:016x}{i % 11:016x}" if i < 50 else f"{i:032x}"


def test_a_key_has_one_place_however_often_it_comes() -> None:
    random, known, seen = np.random.default_rng(0), Known(1, 0), dict[str, int]()
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
    known = Known(1, 0)
    assert known.claim([key(99)], 0)[1].all()
    assert known.claim([key(99)], 1)[1].all()
    assert not known.claim([key(99)], 1)[1].any()
