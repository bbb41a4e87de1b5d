"""A network of flows that takes in more while it runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DimsweepError
from engine.kernels.core.none import NEVER
from engine.kernels.flow.kernel import admit, run, share_now
from engine.kernels.flow.tables import (
    TICKS,
    Flows,
    new_tables,
    with_flows,
)
from engine.kernels.packet import Completed, Fabric, Flow, FlowColumns, Stop
from engine.kernels.packet.flows import check_priorities
from engine.kernels.packet.inputs import check_fabric
from engine.kernels.packet.ways import KnownWays
from engine.lower.program import Floats, Longs


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
        self._ways = KnownWays(fabric)
        self._tables = new_tables(fabric.ports)
        self._now = 0

    @property
    def now(self) -> int:
        """The tick (ps) up to which everything has happened."""
        return self._now

    def add(self, flows: Sequence[Flow] | FlowColumns, at: int = 0) -> range:
        """Take in flows, whose beginning is the tick ``at``; returns their numbers.

        They are numbered as they come, and may wait for one another and for earlier ones.  Raises
        :class:`DimsweepError` naming the flow that cannot be simulated.
        """
        first = int(self._tables.counts["n_flows"][0])
        columns, choices = self._ways.take(flows, first, at, self.now)
        check_priorities(1, columns, first)
        ways = self._ways.table[choices["first"]]
        self._tables = with_flows(self._tables, columns, ways, self._ways.routes)
        admit(self._tables, first, at, columns.after, columns.after_from)
        return range(first, int(self._tables.counts["n_flows"][0]))

    def advance(self, until: int = NEVER, stop: Stop = Stop.ARRIVAL) -> Completed:
        """Simulate to the end of the next tick at which a flow arrives, but not beyond ``until``.

        Nobody has arrived if nothing is left to happen.  A sender knows of it at once.  Raises
        :class:`DimsweepError` naming flows that never end, since they wait for one another.
        """
        f = self._tables
        f.counts["n_arrived"][0], f.counts["stop"][0], f.counts["until"] = 0, stop, until
        run(f)
        if f.planned[0] == 0 and f.counts["n_ended"][0] < f.counts["n_flows"][0]:
            raise _stuck(f)
        # Events stop at UNTIL, which an arrival has set to its own tick.
        self._now = int(
            f.counts["now"][0] if f.counts["until"][0] == NEVER else f.counts["until"][0]
        )
        arrived = f.arrived[: f.counts["n_arrived"][0]].copy()
        return Completed(self.now, arrived, arrived)

    def account(self) -> FlowRun:
        """What has happened so far."""
        flows = self._tables.flows[: self._tables.counts["n_flows"][0]]
        sharings = int(self._tables.counts["n_sharings"][0])
        return FlowRun(flows["start"].copy(), flows["end"].copy(), sharings)

    def fair_rates(self) -> Floats:
        """The rate of each flow (bytes a second) if all moved at once."""
        share_now(self._tables)
        return self._tables.flows["rate"][: self._tables.counts["n_flows"][0]] * TICKS


def _stuck(f: Flows) -> DimsweepError:
    unended = np.flatnonzero(f.flows["end"][: f.counts["n_flows"][0]] < 0)
    named = ", ".join(map(str, unended[:5].tolist()))
    return DimsweepError(
        f"{len(unended)} flows never end ({named}): they wait for flows that never end",
        where="flows",
    )
