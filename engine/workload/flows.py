"""Workloads from lists of flows (sender, receiver, bytes, start), as packet simulators use them."""

import math
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.topology.coordinates import offset_between
from dimsweep.engine.workload.graph import Compute, GraphBuilder, Receive, Send, Workload

FLOW, ARRIVAL = "flow", "arrival"  # the names of operators that send and receive flows


class ListedFlow(NamedTuple):
    """One entry of a flow list: ``n_bytes`` that one host sends to another host."""

    source: int
    target: int
    n_bytes: int
    start: int = 0
    after: tuple[int, ...] = ()
    where: str = ""


class FlowList(NamedTuple):
    """The flows that a file lists, in the order of the file."""

    flows: tuple[ListedFlow, ...]
    n_hosts: int | None = None
    is_by_node: bool = False


def flows_workload(flows: Sequence[ListedFlow], sizes: Sequence[int], name: str) -> Workload:
    """Return a workload that sends ``flows`` between the ranks of a topology of ``sizes``.

    ``sizes`` are the NPUs of each dimension.  Time counts from the first start of a flow.  All
    flows of a rank share its links.  A flow can wait for another flow only if its sender sends or
    receives that flow.

    Raises :class:`DimsweepError` with the flow's line for a wait for any other flow, for missing
    ranks, and for flows that wait for one another in a circle.
    """
    n = math.prod(sizes)
    for flow in flows:
        if (strange := max(flow.source, flow.target)) >= n:
            problem = f"host {strange}; it must be 0 to {n - 1:,}"
            hint = "give a topology.shape with more NPUs"
            raise DimsweepError(problem, where=flow.where, hint=hint, code="out-of-range")
        _check_ends(flow, flows)
    ranks = [_Rank() for _ in range(n)]
    for number, flow in enumerate(flows):
        receive = Receive(offset_between(flow.target, flow.source, sizes), number)
        ranks[flow.target].receive(number, receive)
    first = min((flow.start for flow in flows if not flow.after), default=0)
    for number in _sort_flows(flows):
        flow = flows[number]._replace(start=flows[number].start - first)
        ranks[flow.source].send(number, flow, offset_between(flow.source, flow.target, sizes))
    graphs = tuple(rank.builder.build() for rank in ranks)
    return Workload(graphs, {}, np.arange(n), name=name, shares_ports=True)


def _check_ends(flow: ListedFlow, flows: Sequence[ListedFlow]) -> None:
    for before in flow.after:
        if flow.source not in flows[before][:2]:
            raise DimsweepError(
                f"a flow from host {flow.source} waits for a flow from {flows[before].source} to "
                f"{flows[before].target}",
                where=flow.where,
                code="conflict",
                hint="a flow can wait for flows that its own source sends or receives",
            )


def _sort_flows(flows: Sequence[ListedFlow]) -> list[int]:
    """Return flow indices: timed flows by start, then each other flow after its awaited flows."""
    waits = {number: flow.after for number, flow in enumerate(flows) if flow.after}
    try:
        after = [number for number in TopologicalSorter(waits).static_order() if number in waits]
    except CycleError as error:
        circle = error.args[1]
        problem = f"{len(circle) - 1} flows wait for each other in a circle"
        raise DimsweepError(problem, where=flows[min(circle)].where, code="invalid") from None
    timed = [number for number in range(len(flows)) if number not in waits]
    return sorted(timed, key=lambda number: flows[number].start) + after


class _Rank:
    def __init__(self) -> None:
        self.builder = GraphBuilder()
        self._ends: dict[int, int] = {}  # the operator that ends each flow here, by its number
        self._n_sent = self._clock = 0
        self._waited: tuple[int, ...] = ()  # the operator that ends at the time of the clock

    def receive(self, number: int, receive: Receive) -> None:
        self._ends[number] = self.builder.add(ARRIVAL, receive)

    def send(self, number: int, flow: ListedFlow, offset: tuple[int, ...]) -> None:
        """Send ``flow`` on a new stream, so the flows of a rank do not wait for one another."""
        after = tuple(self._ends[before] for before in flow.after)
        if not after:
            if flow.start > self._clock:
                delay = Compute(duration=flow.start - self._clock, on_host=True)
                self._waited = (self.builder.add("start", delay, self._waited),)
                self._clock = flow.start
            after = self._waited
        work = Send(flow.n_bytes, offset, number, f"{FLOW} {self._n_sent}")
        self._n_sent += 1
        self._ends[number] = self.builder.add(FLOW, work, after)
