"""Running sums of shares against the witness, which adds up every instant's."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.compiler import compiled
from dimsweep.engine.kernels.core.accounts import (
    ACCOUNT,
    PORT_ACCOUNT,
    book,
    change_flight,
    change_port,
)
from dimsweep.engine.kernels.reference.exchange import RankAccount
from dimsweep.engine.lower.program import Floats, Longs, Table
from dimsweep.engine.records import record
from tests.support.examples import examples

_N = 3  # operators, and ports
_COMPUTES, _FLIES, _SERVES = range(3)


@compiled
def _book_all(account: Table, ports: Table, exposed: Floats, steps: Longs) -> None:
    now, computes = 0, False
    for i in range(len(steps)):
        span, what, which, change = steps[i]
        now += span
        book(account[0], computes, now)
        if what == _COMPUTES:
            computes = change > 0
        elif what == _FLIES:
            change_flight(account[0], exposed, 0, which, change)
        else:
            change_port(account[0], ports[which], change)


def _toggled(changes: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Each change begins what is not under way, and ends what is; at last all ends."""
    steps, under_way = [], dict[tuple[int, int], bool]()
    for span, what, which in changes:
        thing = (what, which * (what != _COMPUTES))
        under_way[thing] = not under_way.get(thing, False)
        steps.append((span, *thing, 1 if under_way[thing] else -1))
    return steps + [(5, *thing, -1) for thing, still in under_way.items() if still]


@examples(60)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 2), st.integers(0, _N - 1)), max_size=20
    )
)
def test_each_share_is_what_the_witness_adds_up(changes: list[tuple[int, int, int]]) -> None:
    steps = _toggled(changes)
    account, ports = np.zeros(1, record(**ACCOUNT)), np.zeros(_N, record(**PORT_ACCOUNT))
    exposed = np.zeros((1, _N))
    _book_all(account, ports, exposed, np.array(steps, dtype=np.int64).reshape(-1, 4))

    clock: Any = SimpleNamespace(ps=0)
    witness = RankAccount(clock, _N, _N)
    for span, what, which, change in steps:
        clock.ps += span
        witness.book()
        if what == _COMPUTES:
            witness.computing = change > 0
        else:
            (witness.in_flight if what == _FLIES else witness.serving)[which] += change
    assert (account["compute"][0], account["exposed"][0]) == (witness.compute, witness.exposed)
    assert exposed[0] == pytest.approx(witness.exposed_by_tally, rel=1e-12, abs=1e-6)
    by_port = [*ports["exposed"], account["unserved"][0]]
    assert by_port == pytest.approx(witness.exposed_by_dim, rel=1e-12, abs=1e-6)
