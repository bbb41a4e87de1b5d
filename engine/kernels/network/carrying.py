"""Who carries messages: links, one at a time, or flows or packets, which share links.

A carrier is three functions (:class:`Carrying`).  All carriers are compiled into one kernel, which
asks at run time whose turn it is: by type there would be three kernels, each of which takes as long
to compile as this one.

See :mod:`engine.kernels.reference.transport` for the model.  The flow of a parcel has the parcel's
number.  The packet kernel and the network kernel take turns, one instant each: the packet kernel
takes in together what the network kernel sends in an instant, and continues until a message arrives
or leaves its sender, or until the network kernel's next event.
"""

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.carriers import Kind, PacketCarrier, Traffic, ways_between
from dimsweep.engine.kernels.carriers.carrier import PARTS
from dimsweep.engine.kernels.core.agenda import next_time, take_due
from dimsweep.engine.kernels.core.compiling import by_reference, long
from dimsweep.engine.kernels.core.tables import LONGEST
from dimsweep.engine.kernels.flow.shares import join, leave, share
from dimsweep.engine.kernels.messages.routes import router_of
from dimsweep.engine.kernels.messages.tables import Tables
from dimsweep.engine.kernels.network import links
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.clock import (
    DEPARTED,
    ELSEWHERE,
    LANDED,
    WENT_ON,
    at_once,
    go_to,
    go_to_next,
    later,
    next_instant,
    now_of,
)
from dimsweep.engine.kernels.network.links import end_on_links, free_parcel, new_parcel, set_out
from dimsweep.engine.kernels.network.state import Wires
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.program import Ints, Longs, Program, Table
from dimsweep.engine.network.graph import Network


@kernel
def _hand_to_flow(w: Wires, parcel: int, route: int) -> None:
    """A parcel's flow begins; its rate is found when time goes on."""
    p, flow = w.parcels[parcel], w.flows.flows[parcel]
    flow.left = max(np.rint(PARTS * p.n_bytes), 1.0)
    flow.route, flow.route_end = p.first, w.routes[route].limits
    flow.number = set_out(w, parcel, route)
    join(w.flows, parcel, now_of(w.clock))


@kernel
def _advance_flows(w: Wires) -> int:
    """Go to the next instant at which something happens, or a flow ends.

    What has ended is there when all that was planned for the instant before has happened.
    """
    f = w.flows
    share(f, now_of(w.clock))
    if f.planned[0] == 0:
        return go_to_next(w.clock)
    tick = f.flows[f.planned[1]].due
    if next_instant(w.clock, tick) and now_of(w.clock) < tick:
        return WENT_ON
    go_to(w.clock, tick)
    while f.planned[0] > 0 and f.flows[f.planned[1]].due == tick:
        parcel = take_due(f.flows, f.planned)
        leave(f, parcel)
        at_once(w.clock, LANDED, parcel)
    return WENT_ON


@kernel
def _land_flow(w: Wires, parcel: int) -> bool:
    """The last byte of a flow is there, but for its latencies, and has left only now."""
    end_on_links(w, parcel)
    arrival = now_of(w.clock) + w.parcels[parcel].way
    w.messages[w.flows.flows[parcel].number].arrival = arrival
    return True


@kernel
def _hand_to_packets(w: Wires, parcel: int, route: int) -> None:
    """A message is to leave its port, whose next phase may have to wait for that."""
    set_out(w, parcel, route)
    w.ports[w.ports[w.parcels[parcel].port].place].leaving += 1


@kernel
def _advance_packets(w: Wires) -> int:
    """Have the packet kernel go on, to what is planned here at most, if it has something to do."""
    if w.clock.counts[0].under_way > 0:
        w.clock.counts[0].next = min(next_time(w.clock.agenda), LONGEST)
        return ELSEWHERE
    return go_to_next(w.clock)


@kernel
def _land_packets(w: Wires, parcel: int) -> bool:
    """A message is there; it has left its port before."""
    end_on_links(w, parcel)
    return False


@compiled
def go_on_with_packets(
    wires: Wires, time: int, parcels: Ints, departing: Ints, departures: Longs
) -> None:
    """Go on to ``time``, at which the messages of some parcels are there, and it is known when
    those of others leave their ports."""
    w = by_reference(wires)
    # What leaves was known before whatever else happens at that time.
    for i in range(len(departing)):
        later(w.clock, departures[i] - now_of(w.clock), DEPARTED, departing[i])
    next_instant(w.clock, time)
    if len(parcels) or len(departing) or time == LONGEST:
        go_to(w.clock, time)
    for parcel in parcels:
        at_once(w.clock, LANDED, parcel)


class Packets:
    """The packets of a run; ``watch`` as in :class:`PacketCarrier`."""

    def __init__(
        self, program: Program, network: Network, tables: Tables, watch: Collection[int]
    ) -> None:
        model = program.communication.network
        self._carrier = PacketCarrier(network, model, watch)
        self._router = router_of(network, model)
        self._ends = tables.ends
        # The carrier's number of each kind of message, by its route and its priority; -1: none yet.
        self._numbers = np.full((len(tables.ends), model.packets.priorities), -1, np.int64)
        self._n_sent = 0

    def go_on(self, state: st.State) -> None:
        """Carry what has been sent until something arrives or leaves, at most to NEXT."""
        wires = state.wires
        counts, messages = wires.clock.counts[0], wires.messages
        new = messages[self._n_sent : counts["n_messages"]]
        if len(new):
            levels = state.flows["precedence"][state.entries["flow"][new["entry"]]]
            now = int(wires.clock.agenda.counts["now"][0])
            self._carrier.start(self._kinds(new["route"], levels), new["n_bytes"], now)
            self._n_sent += len(new)
        done, parcel = self._carrier.advance(int(counts["next"])), messages["parcel"]
        go_on_with_packets(
            wires, done.time, parcel[done.arrived], parcel[done.departing], done.departures
        )

    def traffic(self, operators: Collection[str]) -> Traffic:
        """What became of the messages."""
        return self._carrier.traffic(tuple(operators))

    def _kinds(self, routes: Table, precedences: Table) -> Longs:
        """The carrier's numbers of kinds of messages."""
        levels = np.minimum(precedences, self._numbers.shape[1] - 1)
        kinds: Longs = self._numbers[routes, levels]
        missing = kinds < 0
        if missing.any():
            unknown = np.unique([routes[missing], levels[missing]], axis=1)
            self._numbers[tuple(unknown)] = self._carrier.numbers(
                [
                    Kind(ways_between(self._router, *self._ends[route]), level)
                    for route, level in unknown.T.tolist()
                ]
            )
            kinds = self._numbers[routes, levels]
        return kinds


class Carrying(NamedTuple):
    """The compiled functions of a carrier."""

    hand_over: Any  # (wires, parcel, route): a parcel sets out
    advance: Any  # (wires) -> to the next instant: WENT_ON, AT_END or ELSEWHERE
    land: Any  # (wires, parcel) -> a parcel is there; whether it has left only now


CARRIERS = {
    Fidelity.MESSAGE: Carrying(links.hand_to_links, links.advance_links, links.land_from_links),
    Fidelity.FLOW: Carrying(_hand_to_flow, _advance_flows, _land_flow),
    Fidelity.PACKET: Carrying(_hand_to_packets, _advance_packets, _land_packets),
}
BY_LINKS, BY_FLOWS, BY_PACKETS = range(len(CARRIERS))  # Settings.carried


def _chosen(by_link: Any, by_flow: Any, by_packet: Any) -> Any:
    """A function of whichever carrier a run has."""

    @kernel
    def of_carrier(w: Wires, *arguments: int) -> Any:
        if w.settings.carried == BY_LINKS:
            return by_link(w, *arguments)
        if w.settings.carried == BY_FLOWS:
            return by_flow(w, *arguments)
        return by_packet(w, *arguments)

    return of_carrier


hand_over, advance, land = (_chosen(*each) for each in zip(*CARRIERS.values(), strict=True))


@kernel
def send(w: Wires, message: int) -> None:
    """Send a message, which its first parcel describes, over the route that this names, in as many
    parts as fit the smallest room on its way twice."""
    counts, p = w.clock.counts[0], w.parcels[message]
    number = long(p.first)
    route, n_bytes, parts = w.routes[number], p.n_bytes, 1
    if route.room >= 0:
        parts = max(1, math.ceil(2 * n_bytes / route.room))
    if not counts.crowded:
        counts.n_messages += parts
        counts.crowded = counts.n_messages > w.settings.max_messages
    if counts.crowded:
        free_parcel(w, message)
        return
    p.n_bytes, p.tail, p.way = n_bytes / parts, now_of(w.clock), route.way
    p.first = p.hop = route.start
    p.last, p.whole = route.end - 1, message
    p.leaving = p.coming = parts
    for part in range(parts):
        parcel = message if part == 0 else new_parcel(w)
        if part > 0:
            w.parcels[parcel] = w.parcels[message]
        hand_over(w, parcel, number)
