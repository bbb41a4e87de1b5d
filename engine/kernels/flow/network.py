"""The flow kernel: simulate flows at their max-min fair rates.

Flows may be added while the network runs, or all at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.core.agenda import plan_due, take_due
from dimsweep.engine.kernels.core.compiling import attribute_view, long
from dimsweep.engine.kernels.core.queues import link_followers
from dimsweep.engine.kernels.core.tables import NEVER
from dimsweep.engine.kernels.flow.shares import join, leave, update_rates
from dimsweep.engine.kernels.flow.tables import (
    ARRIVES,
    MOVES,
    STARTS,
    TICKS,
    Flows,
    FlowWays,
    add_flows,
    new_tables,
)
from dimsweep.engine.kernels.packet import Completed, Fabric, Flow, Stop
from dimsweep.engine.kernels.packet.inputs import KnownWays, check_fabric
from dimsweep.engine.kernels.packet.network import never_end_error
from dimsweep.engine.lower.program import Floats, Longs


@compiled
def admit(f: Flows, first: int, at: int, after: Longs, after_from: Longs) -> None:
    """Schedule the flows from ``first`` on; those without predecessors start after tick ``at``."""
    f.counts[0].n_edges = link_followers(
        f.flows, f.edges, f.counts[0].n_edges, first, after, after_from
    )
    for number in range(first, f.counts[0].n_flows):
        if f.flows[number].waits == 0:
            plan_due(f.flows, f.planned, number, at + f.flows[number].after)


@compiled
def rate_all_flows(f: Flows) -> None:
    """Compute the rates of all flows as if all were active at once."""
    for number in range(f.counts[0].n_flows):
        join(f, number, 0)
    update_rates(f, 0)


@compiled
def run(f: Flows) -> None:
    """Simulate until no flow is left, or the next event is after ``until``.

    Rates are recomputed when time advances, so flows may be added at the present tick.
    """
    counts = f.counts[0]
    while f.planned[0] + counts.n_changed > 0:
        if f.planned[0] == 0 or f.flows[f.planned[1]].due > counts.now:
            if counts.now >= counts.until:
                break
            if counts.n_changed > 0:
                update_rates(f, counts.now)
                continue
            if f.flows[f.planned[1]].due > counts.until:
                break
        counts.now = f.flows[f.planned[1]].due
        _dispatch(f, take_due(f.flows, f.planned), counts.now)


@kernel
def _dispatch(f: Flows, number: int, now: int) -> None:
    """Handle a flow's due event: start it, end its transfer, or record its arrival."""
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
    """Return the latency (ticks) of a flow's last byte, averaged over the flow's routes."""
    delay, of_shares = 0, 0.0
    for k in range(f.flows[number].route, f.flows[number].route_end):
        if len(f.shares):
            of_shares += f.links[f.routes[k]].delay * f.shares[k]
        else:
            delay += f.links[f.routes[k]].delay
    return delay + int(np.rint(of_shares))


@dataclass(frozen=True)
class FlowRun:
    """Results of a run: start and end of each flow (ps); the end is its last byte's arrival.

    ``sharings`` is the number of recomputations of rates.
    """

    starts: Longs
    ends: Longs
    sharings: int

    @property
    def completion_times(self) -> Longs:
        """Duration of each flow (ps)."""
        return self.ends - self.starts


class FlowNetwork:
    """A running simulation of flows on a fabric; flows may be added while it runs.

    Raises :class:`DimsweepError` for a fabric that cannot be simulated, naming the link.
    """

    def __init__(self, fabric: Fabric) -> None:
        check_fabric(fabric)
        self._known = KnownWays(fabric)
        self._ways = FlowWays(self._known)
        self._tables = new_tables(fabric.ports, self._ways.routes, self._ways.shares)
        self.now = 0  # the tick (ps) up to which everything has happened

    def add(self, flows: Sequence[Flow], at: int = 0) -> range:
        """Add flows that start from tick ``at`` on; return their numbers.

        Numbers are consecutive.  Flows may wait for one another and for earlier flows.  Raises
        :class:`DimsweepError` naming the flow that cannot be simulated.
        """
        first = int(self._tables.counts["n_flows"][0])
        taken = self._known.take(flows, first, at, self.now)
        self._tables = add_flows(self._tables, taken, self._ways)
        admit(attribute_view(self._tables), first, at, taken.after, taken.after_from)
        return range(first, int(self._tables.counts["n_flows"][0]))

    def advance(self, until: int = NEVER, stop: Stop = Stop.ARRIVAL) -> Completed:
        """Simulate to the end of the next tick at which a flow arrives, but not beyond ``until``.

        Returns the arrived flows; none if nothing is left to happen.  A sender knows of an arrival
        at once. Raises :class:`DimsweepError` naming flows that never end, because they wait for
        one another.
        """
        f = self._tables
        f.counts["n_arrived"][0], f.counts["stop"][0], f.counts["until"] = 0, stop, until
        run(attribute_view(f))
        if f.planned[0] == 0 and f.counts["n_ended"][0] < f.counts["n_flows"][0]:
            ends = f.flows["end"][: f.counts["n_flows"][0]]
            raise never_end_error(ends, "they wait for flows that never end")
        # Events stop at UNTIL, which an arrival has set to its own tick.
        self.now = int(f.counts["now" if f.counts["until"][0] == NEVER else "until"][0])
        arrived = f.arrived[: f.counts["n_arrived"][0]].copy()
        return Completed(self.now, arrived, arrived)

    def account(self) -> FlowRun:
        """Return the starts and ends of the flows so far."""
        flows = self._tables.flows[: self._tables.counts["n_flows"][0]]
        sharings = int(self._tables.counts["n_sharings"][0])
        return FlowRun(flows["start"].copy(), flows["end"].copy(), sharings)

    def fair_rates(self) -> Floats:
        """Return the rate of each flow (bytes/s) if all flows were active at once."""
        rate_all_flows(attribute_view(self._tables))
        return self._tables.flows["rate"][: self._tables.counts["n_flows"][0]] * TICKS


def simulate_flows(fabric: Fabric, flows: Sequence[Flow]) -> FlowRun:
    """Simulate flows at the max-min fair rates of the links on their routes.

    Rates are recomputed whenever a flow starts or has sent its last byte, which arrives after the
    links' delays (averaged over several routes).  Headers, ACKs, buffers, windows and marks are not
    modelled.  Raises :class:`DimsweepError`, naming the flow or the link, for invalid input.
    """
    network = FlowNetwork(fabric)
    network.add(flows)
    network.advance(stop=Stop.NEVER)
    return network.account()


def fair_rates(fabric: Fabric, flows: Sequence[Flow]) -> Floats:
    """Return the max-min fair rate of each flow (bytes/s) if all flows are active at once.

    Raises :class:`DimsweepError` as :func:`simulate_flows`.
    """
    network = FlowNetwork(fabric)
    network.add(flows)
    return network.fair_rates()
