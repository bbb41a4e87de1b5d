"""Max-min fair shares, by water filling (Bertsekas and Gallager, Data Networks, section 6.5.2).

Every flow's rate rises alike until a link is full; its flows then keep their rate, and the others'
rise on.  So links fill in the order of their shares: a pass for each, and one for all that are
equal.
"""

import numpy as np

from engine.kernels.flow.compile import compiled, kernel
from engine.kernels.flow.tables import N_FLOWS, N_MOVING, N_SHARINGS, Flows

_EQUAL = 1 + 1e-12  # shares that differ by less differ by rounding
_NO_RATE = -1.0


@compiled
def share_now(f: Flows) -> None:
    """Give all flows their rates, as if all moved."""
    for i in range(f.counts[N_FLOWS]):
        f.moving[i] = i
    f.counts[N_MOVING] = f.counts[N_FLOWS]
    share(f)


@kernel
def share(f: Flows) -> None:
    """Give every flow that moves its rate."""
    f.counts[N_SHARINGS] += 1
    n_used = _begin(f)
    left = f.counts[N_MOVING]
    while left > 0:
        lowest = np.inf
        for i in range(n_used):
            link = f.used[i]
            if f.sharing[link] > 0:
                lowest = min(lowest, f.room[link] / f.sharing[link])
        left -= _fix(f, lowest)


@kernel
def _begin(f: Flows) -> int:
    """All links empty, all rates open; returns how many links are in use."""
    n_used = 0
    for i in range(f.counts[N_MOVING]):
        flow = f.flows[f.moving[i]]
        for k in range(flow.route, flow.route_end):
            f.sharing[f.routes[k]] = 0
    for i in range(f.counts[N_MOVING]):
        flow = f.flows[f.moving[i]]
        flow.rate = _NO_RATE
        for k in range(flow.route, flow.route_end):
            link = f.routes[k]
            if f.sharing[link] == 0:
                f.used[n_used] = link
                n_used += 1
                f.room[link] = f.capacity[link]
            f.sharing[link] += 1
    return n_used


@kernel
def _fix(f: Flows, lowest: float) -> int:
    """Flows on a link that is full at the rate ``lowest`` keep it; returns how many they are."""
    fixed = 0
    for i in range(f.counts[N_MOVING]):
        flow = f.flows[f.moving[i]]
        if flow.rate == _NO_RATE and _is_full(f, flow.route, flow.route_end, lowest):
            flow.rate = -2.0 - lowest  # noted, so that this pass looks at all links alike
    for i in range(f.counts[N_MOVING]):
        flow = f.flows[f.moving[i]]
        if flow.rate < _NO_RATE:
            flow.rate = lowest
            fixed += 1
            for k in range(flow.route, flow.route_end):
                f.room[f.routes[k]] -= lowest
                f.sharing[f.routes[k]] -= 1
    return fixed


@kernel
def _is_full(f: Flows, start: int, end: int, lowest: float) -> bool:
    for k in range(start, end):
        link = f.routes[k]
        if f.room[link] <= f.sharing[link] * lowest * _EQUAL:
            return True
    return False
