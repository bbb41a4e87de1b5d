"""Tables of a run of the flow kernel: flows, links, and the routes of flows."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from dimsweep.engine.kernels.core.queues import EDGE
from dimsweep.engine.kernels.core.tables import NONE, grow_table
from dimsweep.engine.kernels.packet import Port
from dimsweep.engine.kernels.packet.inputs import CheckedFlows, KnownWays
from dimsweep.engine.lower.program import Floats, Ints, Longs, Table
from dimsweep.engine.records import record


class FlowWays:
    """The routes that flows have used: a list of links per flow, in one array.

    ``shares`` are the fractions of a flow's rate on these links, empty as long as each flow takes
    one route.  A flow of n routes has 1/n of its rate on each, so k/n on a link that k of them use.
    """

    def __init__(self, known: KnownWays) -> None:
        self._known, self._n = known, 0
        self._at: dict[int, tuple[int, int]] = {}  # by the number of the flow's first way
        self.routes: Ints = np.zeros(0, np.int32)
        self.shares: Floats = np.zeros(0)

    def take(self, taken: CheckedFlows) -> tuple[Longs, Longs]:
        """Register the routes of checked flows; return start and end in ``routes`` of each flow."""
        ways, n_ways = taken.flows["ways"], taken.flows["n_ways"]
        numbers, first, which = np.unique(ways, return_index=True, return_inverse=True)
        for number, n in zip(numbers.tolist(), n_ways[first].tolist(), strict=True):
            if number not in self._at:
                self._add(number, n)
        found = np.array([self._at[number] for number in numbers.tolist()], np.int64)
        at = found.reshape(-1, 2)[which]
        return at[:, 0], at[:, 1]

    def _add(self, number: int, n: int) -> None:
        ways = self._known.table[number : number + n]
        spans = zip(ways["data"].tolist(), (ways["ack"] - 1).tolist(), strict=True)
        passed = Counter(chain(*(self._known.routes[start:end].tolist() for start, end in spans)))
        start, self._n = self._n, self._n + len(passed)
        self._at[number] = start, self._n
        self.routes = grow_table(self.routes, self._n)
        self.routes[start : self._n] = [*passed]
        if n > 1 and not len(self.shares):
            self.shares = np.ones(len(self.routes))
        if len(self.shares):
            self.shares = grow_table(self.shares, self._n)
            self.shares[start : self._n] = [count / n for count in passed.values()]


TICKS = 10**12  # a second
# What is planned of a flow: that it starts, sends its last byte, or that this arrives.
STARTS, MOVES, ARRIVES = range(3)

FLOW = record(
    left="f8",  # bytes, at the tick ``since``
    rate="f8",  # bytes a tick, from then on
    most="f8",  # that links allow which it has to itself, while shares are found
    alone="f8",  # that those allow on which it is the only one, and
    alone_on="i4",  # which of them allows the least
    # These stand beside its rate, with which they are read most often.
    full="i4",  # the link that limits it
    looked="i4",  # whether its rate is found anew
    since="i8",
    due="i8",  # the tick of what is planned
    number="i8",  # of two that are due at once the lower one is first
    after="i8",  # ticks from the last flow that it waits for, or the tick it starts at
    start="i8",
    end="i8",
    route="i4",  # its links in Flows.routes: from here ...
    route_end="i4",  # ... to here
    hops="i4",  # a HOP for each of them in Flows.hops, from here on
    at="i4",  # its place in Flows.planned, or NONE
    stage="i4",
    waits="i4",  # flows that have not ended
    followers="i4",  # the first edge to those that wait for it, and
    last_follower="i4",  # the last one
    done="i4",  # whether those need wait no longer
)
HOP = record(flow="i4", before="i4", next="i4")  # of a link's, or NONE
LINK = record(
    capacity="f8",  # bytes a tick
    room="f8",  # of it, while shares are found
    beside="f8",  # of it, beside the flows that keep their rates
    load="f8",  # what those whose rates are found anew have of theirs on it, added up,
    weight="f8",  # and of these those whose rate is not found yet
    fastest="f8",  # the rate of the fastest flow that keeps its own,
    slowest="f8",  # and of the slowest one of these that it limits
    delay="i8",  # ticks
    head="i4",  # the first HOP of the flows on it
    n="i4",  # how many they are,
    looked="i4",  # how many of their rates are found anew
    weighed="i4",  # and how many were when ``beside`` and ``load`` were worked out
    one="i4",  # the HOP of one of those
    sharing="i4",  # flows on it whose rate is not found yet
    mark="i4",  # where the search for shares is
    changed="i4",  # whether flows have come or gone since shares were found
)
COUNTS = record(
    now="i8",  # the tick up to which everything has happened
    until="i8",  # the last tick that is simulated
    n_flows="i8",
    n_edges="i8",
    n_hops="i8",
    n_changed="i8",  # links on which flows have come or gone since shares were found
    n_ended="i8",  # flows
    n_arrived="i8",  # of them since the last look
    n_sharings="i8",  # how often rates were found anew
    stop="i8",  # whether an arrival stops the run
)


class Flows(NamedTuple):
    """All tables of a run of the flow kernel: flows, links, and working space for rates."""

    flows: Table  # of FLOW
    links: Table  # of LINK
    hops: Table  # of HOP
    routes: Ints  # links, one way after another
    shares: Floats  # of a flow's rate on each of these; empty where each flow takes one way
    edges: Table  # of EDGE: flows that wait for a flow
    planned: Ints  # (flows + 1,): by what is due (engine.kernels.core.agenda)
    arrived: Longs  # (flows,): those that have arrived since the last look, at the front
    found: Ints  # (flows,): those whose rates are being found, and
    before: Floats  # (flows,): what they were
    used: Ints  # (links,): the links of those
    changed: Ints  # (links,): those on which flows have come or gone
    counts: Table  # one of COUNTS


def new_tables(
    ports: Sequence[Port], routes: Ints, shares: Floats, n: int = 0, longest: int = 0
) -> Flows:
    """Return tables with room for ``n`` flows whose routes have at most ``longest`` links."""
    links = np.zeros(len(ports), LINK)
    links["capacity"] = [port.rate / (8 * TICKS) for port in ports]
    links["delay"] = [port.delay for port in ports]
    links["head"] = NONE
    return Flows(
        _slots(0, n, longest),
        links,
        np.zeros(n * longest, HOP),
        routes,
        shares,
        np.zeros(0, EDGE),
        np.zeros(n + 1, np.int32),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
        np.zeros(n),
        np.zeros(len(ports), np.int32),
        np.zeros(len(ports), np.int32),
        np.zeros(1, COUNTS),
    )


def add_slots(f: Flows, n: int) -> Flows:
    """Return tables with room for ``n`` flows."""
    before = len(f.flows)
    longest = len(f.hops) // before
    flows = np.concatenate([f.flows, _slots(before, n, longest)])
    return _grow_tables(f._replace(flows=flows), n, n * longest)


def _grow_tables(f: Flows, n: int, n_hops: int) -> Flows:
    """Return tables with room for ``n`` flows and ``n_hops`` hops."""
    return f._replace(
        hops=grow_table(f.hops, n_hops),
        planned=grow_table(f.planned, n + 1),
        arrived=grow_table(f.arrived, n),
        found=grow_table(f.found, n),
        before=grow_table(f.before, n),
    )


def _slots(first: int, end: int, longest: int) -> Table:
    flows = np.zeros(end - first, FLOW)
    flows["hops"], flows["at"] = longest * np.arange(first, end), NONE
    return flows


def add_flows(f: Flows, taken: CheckedFlows, ways: FlowWays) -> Flows:
    """Return tables with the flows ``taken`` added."""
    flows = taken.flows
    first, n_hops = int(f.counts["n_flows"][0]), int(f.counts["n_hops"][0])
    n = first + len(flows)
    f.counts["n_flows"] = n
    table = grow_table(f.flows, n)
    new = table[first:n]
    new["left"], new["after"] = flows["size"], flows["start"]
    new["number"] = np.arange(first, n)
    new["route"], new["route_end"] = ways.take(taken)
    ends = n_hops + np.cumsum(new["route_end"] - new["route"])
    new["hops"] = ends - (new["route_end"] - new["route"])
    f.counts["n_hops"] = ends[-1] if len(ends) else n_hops
    for name in ("start", "end", "followers", "at"):
        new[name] = NONE
    edges = grow_table(f.edges, int(f.counts["n_edges"][0]) + len(taken.after))
    larger = f._replace(flows=table, routes=ways.routes, shares=ways.shares, edges=edges)
    return _grow_tables(larger, n, int(f.counts["n_hops"][0]))
