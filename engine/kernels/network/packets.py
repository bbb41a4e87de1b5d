"""The packet kernel at work for the network kernel: they take turns, one instant each.

What the network kernel sends in an instant the packet kernel takes in together; it then goes on
until something has arrived, or until something is to happen elsewhere.
"""

from collections.abc import Collection

import numpy as np

from engine.kernels.carriers import PacketCarrier, Traffic, Ways, ways_between
from engine.kernels.message.transport import router_of
from engine.kernels.network import state as st
from engine.kernels.network.carried import land
from engine.kernels.network.tables import Tables
from engine.kernels.packet.agenda import NOW
from engine.lower.program import Program
from engine.network.graph import Network


class Packets:
    """The packets of a run; ``watch`` as in :class:`PacketCarrier`."""

    def __init__(
        self, program: Program, network: Network, tables: Tables, watch: Collection[int]
    ) -> None:
        model = program.cluster.network
        self._carrier = PacketCarrier(network, model, watch)
        self._router, self._spray = router_of(network, model), model.packets.spray
        self._ends = tables.ends
        self._ways: dict[int, Ways] = {}  # of routes
        self._n_sent = 0

    def go_on(self, wires: st.Wires) -> None:
        """Carry what has been sent until something arrives, at most to NEXT."""
        counts, messages = wires.clock.counts, wires.messages
        new = messages[self._n_sent : counts[st.N_MESSAGES]]
        now = int(wires.clock.agenda.counts[NOW])
        for route, n_bytes in zip(new["route"].tolist(), new["n_bytes"].tolist(), strict=True):
            self._carrier.send(self._between(route), n_bytes, now)
        self._n_sent += len(new)
        time, arrived = self._carrier.advance(int(counts[st.NEXT]))
        parcels = messages["parcel"][np.array(arrived, dtype=np.int64)]
        land(wires, time, np.ascontiguousarray(parcels))

    def traffic(self, operators: Collection[str]) -> Traffic:
        """What became of the messages."""
        return self._carrier.traffic(tuple(operators))

    def _between(self, route: int) -> Ways:
        if route not in self._ways:
            ends = self._ends[route]
            self._ways[route] = ways_between(self._router, *ends, spray=self._spray)
        return self._ways[route]
