"""Runs the flow kernel, and says what happened."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DimsweepError
from engine.kernels.flow.kernel import run
from engine.kernels.flow.shares import share_now
from engine.kernels.flow.tables import N_SHARINGS, new_tables
from engine.kernels.packet import Fabric, Flow
from engine.kernels.packet.inputs import check_flows
from engine.lower.program import Floats, Longs

_TICKS = 10**12  # a second


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


def simulate_flows(fabric: Fabric, flows: Sequence[Flow]) -> FlowRun:
    """Send every flow at its max-min fair share of the links on its way.

    Rates are found anew whenever a flow starts or has sent its last byte, which arrives after the
    links' delays.  Headers, ACKs, buffers, windows and marks do not exist here.  Raises
    :class:`DimsweepError` for what cannot be simulated, naming the flow or the link.
    """
    check_flows(fabric, flows)
    tables = new_tables(fabric, flows, _TICKS)
    if not run(tables):
        unended = np.flatnonzero(tables.flows["end"] < 0)
        named = ", ".join(map(str, unended[:5].tolist()))
        raise DimsweepError(
            f"{len(unended)} flows never end ({named}): they wait for flows that never end",
            where="flows",
        )
    starts, ends = tables.flows["start"].copy(), tables.flows["end"].copy()
    return FlowRun(starts, ends, int(tables.counts[N_SHARINGS]))


def fair_rates(fabric: Fabric, flows: Sequence[Flow]) -> Floats:
    """The rate of each flow (bytes a second) if all move at once.

    Raises :class:`DimsweepError` as :func:`simulate_flows`.
    """
    check_flows(fabric, flows)
    tables = new_tables(fabric, flows, _TICKS)
    share_now(tables)
    return tables.flows["rate"] * _TICKS
