"""Runs the packet kernel: a network of packets that takes in flows while it runs, or at once."""

from collections.abc import Collection, Sequence
from time import process_time
from typing import NamedTuple

import numpy as np

from dimsweep.engine.cluster.transports import Transport, transport_of
from dimsweep.engine.compiler import is_cached
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.agenda import EMPTY
from dimsweep.engine.kernels.core.none import NEVER
from dimsweep.engine.kernels.core.rows import in_bytes
from dimsweep.engine.kernels.packet.account import PacketRun, account, stuck
from dimsweep.engine.kernels.packet.flows import (
    Flow,
    KnownWays,
    Taken,
    check_segments,
    check_sizes,
    check_windows,
)
from dimsweep.engine.kernels.packet.inputs import (
    Fabric,
    Port,
    Settings,
    Stop,
    check_fabric,
    check_settings,
)
from dimsweep.engine.kernels.packet.kernel import ROOM, admit, run
from dimsweep.engine.kernels.packet.state import FULL, Run
from dimsweep.engine.kernels.packet.tables import (
    Draws,
    enlarged,
    new_flows,
    new_run,
    with_events,
    with_flows,
)
from dimsweep.engine.lower.program import Longs, Table


class Completed(NamedTuple):
    """Flows of which something has become known since the last look.

    ``arrived``: their last byte has come to the receiver; ``acknowledged``: their sender knows;
    ``departing``: their last byte leaves the sender at the tick ``departures``, which may be yet to
    come (only the packet kernel tells).
    """

    time: int  # tick
    arrived: Longs
    acknowledged: Longs
    departing: Longs = np.zeros(0, np.int64)
    departures: Longs = np.zeros(0, np.int64)  # ticks


class PacketNetwork:
    """A fabric whose state is kept: flows are added while it runs.

    ``watch`` names ports by their node and the one they send to, which are noted over time.
    Marks are drawn by ``draws``, a function that returns the next n random numbers of the run, or
    by a generator with ``seed``.  Raises :class:`DimsweepError` for what cannot be simulated.
    """

    def __init__(
        self,
        fabric: Fabric,
        settings: Settings | None = None,
        *,
        watch: Collection[tuple[int, int]] = (),
        seed: int = 0,
        draws: Draws | None = None,
    ) -> None:
        settings = settings or Settings()
        check_fabric(fabric)
        check_settings(fabric, settings)
        self._fabric = fabric
        self._draws = draws or np.random.default_rng(seed).random
        self._ways = KnownWays(fabric, settings.priorities, one_port=True)
        self._transport = transport_of(settings.transport)
        self._tables = new_run(fabric, settings, self._transport, self._draws)
        self._learnt = in_bytes(self._tables.flows[:0])
        self.now = 0  # the tick up to which everything has happened
        self._cpu = 0.0
        _watch(fabric, self._tables, watch)

    def add(self, flows: Sequence[Flow], at: int = 0) -> range:
        """Take in flows, whose beginning is the tick ``at``; returns their numbers.

        They are numbered as they come, and may wait for one another and for earlier ones.  Raises
        :class:`DimsweepError` naming the flow that cannot be simulated.
        """
        first = self._n_flows
        taken, new = self._checked(flows, first, at)
        return self._take_in(new, at, taken.after, taken.after_from)

    def learn(self, flows: Sequence[Flow]) -> range:
        """Remember flows but for their sizes, none of which waits; returns numbers for ``repeat``.

        Raises :class:`DimsweepError` naming the flow that cannot be simulated.
        """
        first = len(self._learnt)
        _, new = self._checked(flows, first, self.now)
        self._learnt = np.concatenate([self._learnt, in_bytes(new)])
        return range(first, len(self._learnt))

    def repeat(self, learnt: Longs, sizes: Longs, at: int = 0) -> range:
        """Take in flows like those that were learnt, of ``sizes`` bytes; else as ``add``."""
        first = self._n_flows
        check_sizes(sizes, first, at, self.now)
        self._check_segments(sizes, first)
        new: Table = self._learnt[learnt].view(self._tables.flows.dtype).ravel()
        new["size"] = sizes
        return self._take_in(new, at, np.zeros(0, np.int64), np.zeros(len(new) + 1, np.int64))

    @property
    def _n_flows(self) -> int:
        return int(self._tables.counts["n_flows"][0])

    def _check_segments(self, sizes: Longs, first: int) -> None:
        if self._transport.resends:
            check_segments(self._tables.settings.payload, sizes, first)

    def _checked(self, flows: Sequence[Flow], first: int, at: int) -> tuple[Taken, Table]:
        """Flows that are checked, and as the kernel has them."""
        taken = self._ways.take(flows, first, at, self.now)
        self._check_segments(taken.flows["size"], first)
        new = new_flows(self._tables, taken.flows, self._ways)
        check_windows(self._transport, new["line_rate"], taken.flows, first)
        return taken, new

    def _take_in(self, new: Table, at: int, after: Longs, after_from: Longs) -> range:
        first = self._n_flows
        tables = with_flows(self._tables, new, len(after), self._ways)
        n = self._n_flows
        self._tables = with_events(tables, ROOM + n)
        admit(self._tables, first, at, after, after_from)
        return range(first, n)

    def advance(self, until: int = NEVER, stop: Stop = Stop.ARRIVAL) -> Completed:
        """Simulate to the end of the next tick at which a flow completes, but not beyond ``until``.

        Nobody has completed if nothing is left to happen.  Raises :class:`DimsweepError` naming
        flows that never end: they wait for one another, for ports in a circle of pauses, or for
        packets that were dropped.
        """
        tables = self._tables
        counts = tables.counts[0]
        for name in ("n_arrived", "n_acknowledged", "n_departing"):
            counts[name] = 0
        clock = tables.agenda.counts[0]
        counts["stop"], clock["until"] = stop, until
        began = process_time()
        while (outcome := run(tables)) == FULL:
            self._tables = tables = enlarged(tables, self._draws)
        self._cpu += process_time() - began
        # Events stop at UNTIL, which a completion has set to its own tick.
        clock = tables.agenda.counts[0]
        self.now = int(clock["now"] if clock["until"] == NEVER else clock["until"])
        departing = tables.departing[: counts["n_departing"]].copy()
        completed = Completed(
            self.now,
            tables.arrived[: counts["n_arrived"]].copy(),
            tables.acknowledged[: counts["n_acknowledged"]].copy(),
            departing,
            tables.flows["departure"][departing],
        )
        if outcome == EMPTY and counts["n_ended"] < counts["n_flows"]:
            raise stuck(self._fabric, tables)
        return completed

    def account(self) -> PacketRun:
        """What has happened so far."""
        return account(self._fabric, self._tables, self._cpu)


def _watch(fabric: Fabric, tables: Run, watch: Collection[tuple[int, int]]) -> None:
    numbers = {(port.node, port.to): i for i, port in enumerate(fabric.ports)}
    for node, to in watch:
        if (node, to) not in numbers:
            raise DimsweepError(
                f"there is no port {node} - {to} to watch",
                where="watch",
                hint="name a node and the one to which its port sends",
            )
        first = numbers[node, to] * tables.settings.priorities
        tables.ports["watched"][first : first + tables.settings.priorities] = 1


def is_compiled(transport: Transport | str) -> bool:
    """Whether the kernel's code for a transport is on disk: RoCE's and TCP's share one, and each
    other transport has its own."""
    wire = Fabric([Port(0, 1, 10**9, 0), Port(1, 0, 10**9, 0)], {})
    transport = transport_of(transport)
    draws = np.random.default_rng(0).random
    return is_cached(run, new_run(wire, Settings(transport=transport), transport, draws))


def simulate_packets(
    fabric: Fabric,
    flows: Sequence[Flow],
    settings: Settings | None = None,
    *,
    watch: Collection[tuple[int, int]] = (),
    seed: int = 0,
    draws: Draws | None = None,
) -> PacketRun:
    """Send every packet of every flow.

    ``watch`` names ports by their node and the one they send to, whose queues are noted over time.
    Marks are drawn by ``draws``, a function that returns the next n random numbers of the run, or
    by a generator with ``seed``.  Raises :class:`DimsweepError` for what cannot be simulated, and
    naming the flows that never end if the fabric deadlocks.
    """
    settings = settings or Settings()
    network = PacketNetwork(fabric, settings, watch=watch, seed=seed, draws=draws)
    network.add(flows)
    network.advance(settings.until, Stop.NEVER)
    return network.account()
