"""Carriers in the network kernel: messages occupy links one at a time, or are flows or packets.

A carrier is three functions (:class:`CarrierFunctions`).  All carriers are compiled into one
kernel, which selects one at run time: separate kernels would triple the time to compile.

:mod:`engine.kernels.reference.transport` describes the model.  A *parcel* is a message, or a part
of one, in flight; the flow of a parcel has the parcel's number.  The packet kernel and the network
kernel alternate, one instant each: the packet kernel adds all messages that the network kernel
sends in an instant, and advances until a message arrives or leaves its sender, or until the network
kernel's next event.
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
from dimsweep.engine.kernels.flow.shares import join, leave, update_rates
from dimsweep.engine.kernels.messages.routes import router_of
from dimsweep.engine.kernels.messages.tables import Tables
from dimsweep.engine.kernels.network import links
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.clock import (
    ADVANCED,
    DEPARTED,
    ELSEWHERE,
    LANDED,
    advance_to_event,
    advance_to_next,
    current_time,
    plan_later,
    plan_now,
    set_time,
)
from dimsweep.engine.kernels.network.links import (
    free_parcel,
    new_parcel,
    register_message,
    unregister_message,
)
from dimsweep.engine.kernels.network.state import Wires
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.program import Ints, Longs, Program, Table
from dimsweep.engine.network.graph import Network


@kernel
def _hand_to_flow(w: Wires, parcel: int, route: int) -> None:
    """Start the flow of a parcel; its rate is computed when time advances."""
    p, flow = w.parcels[parcel], w.flows.flows[parcel]
    flow.left = max(np.rint(PARTS * p.n_bytes), 1.0)
    flow.route, flow.route_end = p.first, w.routes[route].limits
    flow.number = register_message(w, parcel, route)
    join(w.flows, parcel, current_time(w.clock))


@kernel
def _advance_flows(w: Wires) -> int:
    """Advance to the next instant with an event or the end of a flow; return ADVANCED or AT_END.

    The parcel of an ended flow arrives after all events planned earlier for that instant.
    """
    f = w.flows
    update_rates(f, current_time(w.clock))
    if f.planned[0] == 0:
        return advance_to_next(w.clock)
    tick = f.flows[f.planned[1]].due
    if advance_to_event(w.clock, tick) and current_time(w.clock) < tick:
        return ADVANCED
    set_time(w.clock, tick)
    while f.planned[0] > 0 and f.flows[f.planned[1]].due == tick:
        parcel = take_due(f.flows, f.planned)
        leave(f, parcel)
        plan_now(w.clock, LANDED, parcel)
    return ADVANCED


@kernel
def _land_flow(w: Wires, parcel: int) -> bool:
    """Remove an ended flow from its links and record its arrival; True: it leaves its port now."""
    unregister_message(w, parcel)
    arrival = current_time(w.clock) + w.parcels[parcel].way
    w.messages[w.flows.flows[parcel].number].arrival = arrival
    return True


@kernel
def _hand_to_packets(w: Wires, parcel: int, route: int) -> None:
    """Queue a message for the packet kernel, and count it as not yet departed at its port."""
    register_message(w, parcel, route)
    w.ports[w.ports[w.parcels[parcel].port].place].leaving += 1


@kernel
def _advance_packets(w: Wires) -> int:
    """Advance to the next event; return ELSEWHERE if the packet kernel must run first."""
    if w.clock.counts[0].under_way > 0:
        w.clock.counts[0].next = min(next_time(w.clock.agenda), LONGEST)
        return ELSEWHERE
    return advance_to_next(w.clock)


@kernel
def _land_packets(w: Wires, parcel: int) -> bool:
    """Remove an arrived message from its links; return False: it left its port earlier."""
    unregister_message(w, parcel)
    return False


@compiled
def resume_after_packets(
    wires: Wires, time: int, parcels: Ints, departing: Ints, departures: Longs
) -> None:
    """Advance to ``time``, let messages arrive, and plan the announced departures from ports."""
    w = by_reference(wires)
    # What leaves was known before whatever else happens at that time.
    for i in range(len(departing)):
        plan_later(w.clock, departures[i] - current_time(w.clock), DEPARTED, departing[i])
    advance_to_event(w.clock, time)
    if len(parcels) or len(departing) or time == LONGEST:
        set_time(w.clock, time)
    for parcel in parcels:
        plan_now(w.clock, LANDED, parcel)


class Packets:
    """The packet kernel that carries a run's messages; ``watch`` as in :class:`PacketCarrier`."""

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

    def carry(self, state: st.State) -> None:
        """Run the packet kernel until a message arrives or leaves, at most to ``counts.next``."""
        wires = state.wires
        counts, messages = wires.clock.counts[0], wires.messages
        new = messages[self._n_sent : counts["n_messages"]]
        if len(new):
            levels = state.flows["precedence"][state.entries["flow"][new["entry"]]]
            now = int(wires.clock.agenda.counts["now"][0])
            self._carrier.start(self._kinds(new["route"], levels), new["n_bytes"], now)
            self._n_sent += len(new)
        done, parcel = self._carrier.advance(int(counts["next"])), messages["parcel"]
        resume_after_packets(
            wires, done.time, parcel[done.arrived], parcel[done.departing], done.departures
        )

    def traffic(self, operators: Collection[str]) -> Traffic:
        """Return start and arrival of each message; ``operators`` names the operator of each."""
        return self._carrier.traffic(tuple(operators))

    def _kinds(self, routes: Table, precedences: Table) -> Longs:
        """Return the carrier's kind number for each message's route and precedence."""
        levels = np.minimum(precedences, self._numbers.shape[1] - 1)
        kinds: Longs = self._numbers[routes, levels]
        missing = kinds < 0
        if missing.any():
            unknown = np.unique([routes[missing], levels[missing]], axis=1)
            self._numbers[tuple(unknown)] = self._carrier.number_kinds(
                [
                    Kind(ways_between(self._router, *self._ends[route]), level)
                    for route, level in unknown.T.tolist()
                ]
            )
            kinds = self._numbers[routes, levels]
        return kinds


class CarrierFunctions(NamedTuple):
    """The three compiled functions that move parcels for one fidelity."""

    hand_over: Any  # (wires, parcel, route): a parcel sets out
    advance: Any  # (wires) -> to the next instant: WENT_ON, AT_END or ELSEWHERE
    land: Any  # (wires, parcel) -> a parcel is there; whether it has left only now


CARRIERS = {
    Fidelity.MESSAGE: CarrierFunctions(
        links.hand_to_links, links.advance_links, links.land_from_links
    ),
    Fidelity.FLOW: CarrierFunctions(_hand_to_flow, _advance_flows, _land_flow),
    Fidelity.PACKET: CarrierFunctions(_hand_to_packets, _advance_packets, _land_packets),
}
BY_LINKS, BY_FLOWS, BY_PACKETS = range(len(CARRIERS))  # Settings.carried


def _dispatch_by_carrier(by_link: Any, by_flow: Any, by_packet: Any) -> Any:
    """Return a function that calls one of three functions, by the fidelity of the run."""

    @kernel
    def of_carrier(w: Wires, *arguments: int) -> Any:
        if w.settings.carried == BY_LINKS:
            return by_link(w, *arguments)
        if w.settings.carried == BY_FLOWS:
            return by_flow(w, *arguments)
        return by_packet(w, *arguments)

    return of_carrier


hand_over, advance, land = (
    _dispatch_by_carrier(*each) for each in zip(*CARRIERS.values(), strict=True)
)


@kernel
def send(w: Wires, message: int) -> None:
    """Send a message over the route in ``first`` of its first parcel.

    The message is split into as many parcels as needed for two to fit the smallest buffer on the
    route.
    """
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
    p.n_bytes, p.tail, p.way = n_bytes / parts, current_time(w.clock), route.way
    p.first = p.hop = route.start
    p.last, p.message = route.end - 1, message
    p.leaving = p.arriving = parts
    for part in range(parts):
        parcel = message if part == 0 else new_parcel(w)
        if part > 0:
            w.parcels[parcel] = w.parcels[message]
        hand_over(w, parcel, number)
