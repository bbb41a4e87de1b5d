"""Packets as carriers: the packet kernel and the network kernel take turns, one instant each.

What the network kernel sends in an instant the packet kernel takes in together; it then goes on
until something has arrived or leaves its sender, or until something is to happen elsewhere.
"""

from collections.abc import Collection

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.carriers import Kind, PacketCarrier, Traffic, ways_between
from dimsweep.engine.kernels.core.agenda import next_time
from dimsweep.engine.kernels.core.by_reference import by_reference
from dimsweep.engine.kernels.core.none import LONGEST
from dimsweep.engine.kernels.messages.routes import router_of
from dimsweep.engine.kernels.messages.tables import Tables
from dimsweep.engine.kernels.network import state as st
from dimsweep.engine.kernels.network.clock import (
    at_once,
    go_to,
    go_to_next,
    later,
    next_instant,
    now_of,
)
from dimsweep.engine.kernels.network.events import DEPARTED, ELSEWHERE, LANDED
from dimsweep.engine.kernels.network.parcels import end_on_links, set_out
from dimsweep.engine.kernels.network.state import Wires
from dimsweep.engine.lower.program import Ints, Longs, Program, Table
from dimsweep.engine.network.graph import Network


@kernel
def hand_over(w: Wires, parcel: int, route: int) -> None:
    """A message is to leave its port, whose next phase may have to wait for that."""
    set_out(w, parcel, route)
    w.ports[w.ports[w.parcels[parcel].port].place].leaving += 1


@kernel
def advance(w: Wires) -> int:
    """Have the packet kernel go on, to what is planned here at most, if it has something to do."""
    if w.clock.counts[0].under_way > 0:
        w.clock.counts[0].next = min(next_time(w.clock.agenda), LONGEST)
        return ELSEWHERE
    return go_to_next(w.clock)


@kernel
def land(w: Wires, parcel: int) -> bool:
    """A message is there; it has left its port before."""
    end_on_links(w, parcel)
    return False


@compiled
def go_on(wires: Wires, time: int, parcels: Ints, departing: Ints, departures: Longs) -> None:
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
        go_on(wires, done.time, parcel[done.arrived], parcel[done.departing], done.departures)

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
