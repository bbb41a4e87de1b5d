"""Which way a packet takes where a flow has several: by an entropy value, which switches hash.

A sender does not choose ways: it writes an entropy value into each packet, and the switches' hash
of it and of the flow leads somewhere among the ways that there are (ECMP).  What comes back with
ACKs and NACKs says which values lead to ways that are good.
"""

from enum import StrEnum

import numpy as np

from dimsweep.engine.kernels.packet.compile import inlined, kernel
from dimsweep.engine.kernels.packet.state import RECYCLED, Run


class Balance(StrEnum):
    """How a sender balances its load over ways, by what entropy values it writes.

    ``oblivious``: all in turn, shuffled anew each turn.  ``bitmap``: likewise, but those that
    came back with a mark or a NACK are passed over as many turns as :func:`answer` says.  ``reps``:
    those that came back unmarked again, else any (recycled entropy packet spraying: Bonato et al.,
    2024, arXiv:2407.21625, without its freezing).  ``mixed``: what came back unmarked, else as
    ``bitmap``.
    """

    OBLIVIOUS = "oblivious"
    BITMAP = "bitmap"
    REPS = "reps"
    MIXED = "mixed"


_OBLIVIOUS, _BITMAP, _REPS, _MIXED = range(4)  # in the order of Balance
_REPS_KEEPS = 8  # values, of which the oldest is forgotten (Bonato et al., section 3)
# What came back with a packet, and how many turns its value is then passed over, 15 at most: the
# bitmap of ultraethernet/uet-htsim.
GOOD, MARKED, REFUSED = range(3)
_MARK, _NACK, _MOST = 1, 4, 15


@inlined
def next_value(r: Run, flow: int) -> int:
    """The entropy value of the next packet."""
    u, keys = r.rud[flow], r.keys[0].rud
    if keys.balance >= _REPS and u.n_fresh > 0:
        keeps = _REPS_KEEPS if keys.balance == _REPS else RECYCLED
        at = u.head - u.n_fresh
        u.n_fresh -= 1
        return r.recycled[RECYCLED * flow + (at if at >= 0 else at + keeps)] + 0
    if keys.balance == _REPS:
        return _any(r)
    return _in_turn(r, flow)


@kernel
def _in_turn(r: Run, flow: int) -> int:
    """The next value of this turn that is not passed over; the first one loses a penalty."""
    u, keys = r.rud[flow], r.keys[0].rud
    first = keys.entropies * flow
    for i in range(keys.entropies + 1):
        value = (u.turn ^ u.mask) + 0
        u.turn += 1
        if u.turn == keys.entropies:
            u.turn = 0
            u.mask = _any(r)
        if keys.balance == _OBLIVIOUS or r.penalties[first + value] == 0:
            break
        if i == 0:
            r.penalties[first + value] -= 1
    return value


@inlined
def _any(r: Run) -> int:
    draw = r.counts[0].drawn + 0
    r.counts[0].drawn = draw + 1
    return int(r.draws[draw] * r.keys[0].rud.entropies)


@kernel
def answer(r: Run, flow: int, value: int, how: int) -> None:
    """A packet with this value came back GOOD, MARKED, or REFUSED."""
    u, keys = r.rud[flow], r.keys[0].rud
    if how == GOOD:
        keeps = _REPS_KEEPS if keys.balance == _REPS else RECYCLED
        if keys.balance >= _REPS:
            r.recycled[RECYCLED * flow + u.head] = value
            u.head = u.head + 1 if u.head + 1 < keeps else 0
            u.n_fresh = min(u.n_fresh + 1, keeps)
    elif keys.balance == _BITMAP or keys.balance == _MIXED:
        at = keys.entropies * flow + value
        penalty = r.penalties[at] + (_MARK if how == MARKED else _NACK)
        r.penalties[at] = min(penalty, _MOST)


@inlined
def hashed(r: Run, flow: int, value: int) -> int:
    """Which of the flow's ways its packets of this value take: a number that looks random
    (SplitMix64's finaliser; Steele et al., OOPSLA 2014)."""
    x = np.uint64(r.rud[flow].salt + (value << 40))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1)) % r.flows[flow].n_ways
