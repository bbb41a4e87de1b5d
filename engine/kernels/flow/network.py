"""The flow kernel: simulate flows at their fair shares.

A network of flows takes in more flows while it runs, or all at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.core.agenda import plan_due, take_due
from dimsweep.engine.kernels.core.compiling import in_python, long
from dimsweep.engine.kernels.core.queues import link_followers
from dimsweep.engine.kernels.core.tables import NEVER
from dimsweep.engine.kernels.flow.shares import join, leave, share
from dimsweep.engine.kernels.flow.tables import (
    ARRIVES,
    MOVES,
    STARTS,
    TICKS,
    Flows,
    FlowWays,
    new_tables,
    with_flows,
)
from dimsweep.engine.kernels.packet import Completed, Fabric, Flow, Stop
from dimsweep.engine.kernels.packet.inputs import KnownWays, check_fabric
from dimsweep.engine.kernels.packet.network import never_end
from dimsweep.engine.lower.program import Floats, Longs


@compiled
def admit(f: Flows, first: int, at: int, after: Longs, after_from: Longs) -> None:
    """Take in the flows from ``first`` on; those that wait for none start from ``at`` on."""
    f.counts[0].n_edges = link_followers(
        f.flows, f.edges, f.counts[0].n_edges, first, after, after_from
    )
    for number in range(first, f.counts[0].n_flows):
        if f.flows[number].waits == 0:
            plan_due(f.flows, f.planned, number, at + f.flows[number].after)


@compiled
def share_now(f: Flows) -> None:
    """Give all flows their rates, as if all moved."""
    for number in range(f.counts[0].n_flows):
        join(f, number, 0)
    share(f, 0)


@compiled
def run(f: Flows) -> None:
    """Simulate until nothing moves, or what happens next is after UNTIL.

    Rates are found anew when time goes on, so that flows may be added after what has happened.
    """
    counts = f.counts[0]
    while f.planned[0] + counts.n_changed > 0:
        if f.planned[0] == 0 or f.flows[f.planned[1]].due > counts.now:
            if counts.now >= counts.until:
                break
            if counts.n_changed > 0:
                share(f, counts.now)
                continue
            if f.flows[f.planned[1]].due > counts.until:
                break
        counts.now = f.flows[f.planned[1]].due
        _happen(f, take_due(f.flows, f.planned), counts.now)


@kernel
def _happen(f: Flows, number: int, now: int) -> None:
    """A planned flow starts, has sent its last byte, or this arrives."""
    flow = f.flows[number]
    if flow.stage == STARTS:
        flow.start = now
        join(f, number, now)
        return
    if flow.stage == MOVES:
        leave(f, number)
        flow.stage = ARRIVES
        plan_due(f.flows, f.planned, number, now + _delay(f, number))
        return
    flow.end = now
    flow.done = 1
    f.counts[0].n_ended += 1
    f.arrived[f.counts[0].n_arrived] = number
    f.counts[0].n_arrived += 1
    if f.counts[0].stop:
        f.counts[0].until = now
    edge = long(flow.followers)
    while edge >= 0:
        follower = long(f.edges[edge].follower)
        f.flows[follower].waits -= 1
        if f.flows[follower].waits == 0:
            plan_due(f.flows, f.planned, follower, now + f.flows[follower].after)
        edge = long(f.edges[edge].next)


@kernel
def _delay(f: Flows, number: int) -> int:
    """Ticks that the last byte of a flow travels, in the mean over its ways."""
    delay, of_shares = 0, 0.0
    for k in range(f.flows[number].route, f.flows[number].route_end):
        if len(f.shares):
            of_shares += f.links[f.routes[k]].delay * f.shares[k]
        else:
            delay += f.links[f.routes[k]].delay
    return delay + int(np.rint(of_shares))


@dataclass(frozen=True)
class FlowRun:
    """Start and end of each flow (ps; the end is the arrival of its last byte).

    ``sharings`` is how often rates were found anew.
    """

    starts: Longs
    ends: Longs
    sharings: int

    @property
    def completion_times(self) -> Longs:
        """Picoseconds of each flow."""
        return self.ends - self.starts


class FlowNetwork:
    """A fabric whose flows have their max-min fair shares; more are added while it runs.

    Raises :class:`DimsweepError` for a fabric that cannot be simulated, naming the link.
    """

    def __init__(self, fabric: Fabric) -> None:
        check_fabric(fabric)
        self._known = KnownWays(fabric)
        self._ways = FlowWays(self._known)
        self._tables = new_tables(fabric.ports, self._ways.routes, self._ways.shares)
        self.now = 0  # the tick (ps) up to which everything has happened

    def add(self, flows: Sequence[Flow], at: int = 0) -> range:
        """Take in flows, whose beginning is the tick ``at``; returns their numbers.

        They are numbered as they come, and may wait for one another and for earlier ones.  Raises
        :class:`DimsweepError` naming the flow that cannot be simulated.
        """
        first = int(self._tables.counts["n_flows"][0])
        taken = self._known.take(flows, first, at, self.now)
        self._tables = with_flows(self._tables, taken, self._ways)
        admit(in_python(self._tables), first, at, taken.after, taken.after_from)
        return range(first, int(self._tables.counts["n_flows"][0]))

    def advance(self, until: int = NEVER, stop: Stop = Stop.ARRIVAL) -> Completed:
        """Simulate to the end of the next tick at which a flow arrives, but not beyond ``until``.

        Nobody has arrived if nothing is left to happen.  A sender knows of it at once.  Raises
        :class:`DimsweepError` naming flows that never end, since they wait for one another.
        """
        f = self._tables
        f.counts["n_arrived"][0], f.counts["stop"][0], f.counts["until"] = 0, stop, until
        run(in_python(f))
        if f.planned[0] == 0 and f.counts["n_ended"][0] < f.counts["n_flows"][0]:
            ends = f.flows["end"][: f.counts["n_flows"][0]]
            raise never_end(ends, "they wait for flows that never end")
        # Events stop at UNTIL, which an arrival has set to its own tick.
        self.now = int(f.counts["now" if f.counts["until"][0] == NEVER else "until"][0])
        arrived = f.arrived[: f.counts["n_arrived"][0]].copy()
        return Completed(self.now, arrived, arrived)

    def account(self) -> FlowRun:
        """What has happened so far."""
        flows = self._tables.flows[: self._tables.counts["n_flows"][0]]
        sharings = int(self._tables.counts["n_sharings"][0])
        return FlowRun(flows["start"].copy(), flows["end"].copy(), sharings)

    def fair_rates(self) -> Floats:
        """The rate of each flow (bytes a second) if all moved at once."""
        share_now(in_python(self._tables))
        return self._tables.flows["rate"][: self._tables.counts["n_flows"][0]] * TICKS


def simulate_flows(fabric: Fabric, flows: Sequence[Flow]) -> FlowRun:
    """Send every flow at its max-min fair share of the links on its way.

    Rates are found anew whenever a flow starts or has sent its last byte, which arrives after the
    links' delays (of several ways in the mean).  Headers, ACKs, buffers, windows and marks do not
    exist here.  Raises :class:`DimsweepError` for what cannot be simulated, naming the flow or the
    link.
    """
    network = FlowNetwork(fabric)
    network.add(flows)
    network.advance(stop=Stop.NEVER)
    return network.account()


def fair_rates(fabric: Fabric, flows: Sequence[Flow]) -> Floats:
    """The rate of each flow (bytes a second) if all move at once.

    Raises :class:`DimsweepError` as :func:`simulate_flows`.
    """
    network = FlowNetwork(fabric)
    network.add(flows)
    return network.fair_rates()
