"""Who waits for whom, both ways round, and what follows from it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.lower.issue import Following, Waits
from dimsweep.engine.lower.program import NO_NODE, Lookahead
from dimsweep.engine.lower.tables import lookahead
from tests.support.examples import examples


@st.composite
def waiting(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """The nodes that each node waits for, and the one after which it has its turn."""
    n = draw(st.integers(1, 9))
    node = st.integers(0, n - 1)
    after = draw(st.lists(st.lists(node, max_size=4), min_size=n, max_size=n))
    return after, draw(st.lists(st.just(NO_NODE) | node, min_size=n, max_size=n))


@examples(100)
@given(waiting())
def test_followers_are_the_other_way_round(case: tuple) -> None:
    after, turn = case
    waits = Waits.from_lists(after)
    pairs = np.array([(i, b) for i, each in enumerate(after) for b in each][::-1]).reshape(-1, 2)
    again = Waits.from_pairs(pairs.astype(np.int64), len(after))
    assert again.start.tolist() == waits.start.tolist()
    nodes, start, counts = Following.from_waits(waits, np.array(turn, dtype=np.int32))
    all_after = [
        [*each, *([own] if own >= 0 else [])] for each, own in zip(after, turn, strict=True)
    ]
    for before in range(len(after)):
        expected = [i for i, each in enumerate(all_after) for b in each if b == before]
        assert nodes[start[before] : start[before + 1]].tolist() == expected
    assert counts.tolist() == [len(each) for each in all_after]


@examples(100)
@given(waiting(), st.data())
def test_the_end_is_felt_of_what_lets_something_start_that_is_felt(
    case: tuple, data: st.DataObject
) -> None:
    after, n = case[0], len(case[0])
    kinds = st.lists(st.sampled_from([*map(int, Lookahead)]), min_size=n, max_size=n)
    felt = data.draw(kinds)
    following = Following.from_waits(Waits.from_lists(after))
    found = lookahead(np.array(felt, dtype=np.int8), following).tolist()
    for node, own in enumerate(felt):
        followers = [felt[i] for i in range(n) if node in after[i]]
        soon = not followers or Lookahead.NONE in followers
        full = own == Lookahead.FULL
        assert found[node] == (Lookahead.UNTIL_END if full and soon else own)
