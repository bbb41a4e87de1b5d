"""The packet kernel at work for the network kernel: they take turns, one instant each.

What the network kernel sends in an instant the packet kernel takes in together; it then goes on
until something has arrived or leaves its sender, or until something is to happen elsewhere.
"""

from collections.abc import Collection

import numpy as np

from engine.kernels.carriers import Kind, PacketCarrier, Traffic, Ways, ways_between
from engine.kernels.messages.routes import router_of
from engine.kernels.messages.tables import Tables
from engine.kernels.network import state as st
from engine.kernels.network.carried import land
from engine.kernels.packet.agenda import NOW
from engine.lower.program import Longs, Program, Table
from engine.network.graph import Network


class Packets:
    """The packets of a run; ``watch`` as in :class:`PacketCarrier`."""

    def __init__(
        self, program: Program, network: Network, tables: Tables, watch: Collection[int]
    ) -> None:
        model = program.communication.network
        self._carrier = PacketCarrier(network, model, watch)
        self._router, self._spray = router_of(network, model), model.packets.spray
        self._ends = tables.ends
        # The carrier's number of each kind of message, by its route and its priority; -1: none yet.
        self._numbers = np.full((len(tables.ends), model.packets.priorities), -1, np.int64)
        self._n_sent = 0

    def go_on(self, state: st.State) -> None:
        """Carry what has been sent until something arrives or leaves, at most to NEXT."""
        wires = state.wires
        counts, messages = wires.clock.counts, wires.messages
        new = messages[self._n_sent : counts[st.N_MESSAGES]]
        if len(new):
            levels = state.flows["precedence"][state.entries["flow"][new["entry"]]]
            now = int(wires.clock.agenda.counts[NOW])
            self._carrier.start(self._kinds(new["route"], levels), new["n_bytes"], now)
            self._n_sent += len(new)
        done, parcel = self._carrier.advance(int(counts[st.NEXT])), messages["parcel"]
        land(wires, done.time, parcel[done.arrived], parcel[done.departing], done.departures)

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
                [Kind(self._between(route), level) for route, level in unknown.T.tolist()]
            )
            kinds = self._numbers[routes, levels]
        return kinds

    def _between(self, route: int) -> Ways:
        return ways_between(self._router, *self._ends[route], spray=self._spray)
