"""What a packet run says at its end."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet.inputs import Fabric
from dimsweep.engine.kernels.packet.notes import (
    History,
    Pausing,
    circle_of_pauses,
    read_histories,
    read_pausings,
)
from dimsweep.engine.kernels.packet.state import Run
from dimsweep.engine.lower.program import Longs


class PortAccount(NamedTuple):
    """What a port did.

    ``longest_queue`` is bytes; ``data``, ``marked`` and ``dropped`` are packets (dropped are those
    that came by this port, or were to leave by it where nobody pauses); ``pauses`` and ``resumes``
    are frames that it obeyed, ``paused`` ticks.  All priorities are counted together, but
    ``longest_queue`` is that of one of them.
    """

    node: int
    to: int
    longest_queue: int
    data: int
    data_bytes: int
    marked: int
    dropped: int
    pauses: int
    resumes: int
    paused: int


@dataclass(frozen=True)
class PacketRun:
    """Start, arrival and end of each flow: ticks, or -1 if it was not reached.

    The arrival is that of its last byte at the receiver, the end that of the last ACK at the
    sender.  ``timeouts`` is how often each flow's timer ran out (TCP only; others have none)."""

    starts: Longs
    arrivals: Longs
    ends: Longs
    timeouts: Longs
    ports: tuple[PortAccount, ...]
    histories: dict[tuple[int, int], History]  # of the ports that were watched
    pausings: tuple[Pausing, ...]
    events: int
    cpu: float  # seconds of the simulation itself, without its set-up

    @property
    def completion_times(self) -> Longs:
        """Ticks of each flow from its start to its end, or -1 if it did not end."""
        return np.where(self.ends < 0, -1, self.ends - self.starts)

    @property
    def pauses(self) -> int:
        """Pause frames that were obeyed."""
        return sum(port.pauses for port in self.ports)

    @property
    def dropped(self) -> int:
        """Packets that found no room in a switch."""
        return sum(port.dropped for port in self.ports)


def account(fabric: Fabric, tables: Run, cpu: float) -> PacketRun:
    """What has happened so far."""
    n = int(tables.counts["n_flows"][0])
    flows = tables.flows[:n]
    return PacketRun(
        flows["start"].copy(),
        flows["arrival"].copy(),
        flows["end"].copy(),
        tables.tcp["timeouts"][:n].copy() if tables.speaks_tcp else np.zeros(n, np.int64),
        tuple(_account(fabric, tables)),
        read_histories(fabric, tables),
        read_pausings(fabric, tables),
        int(tables.agenda.counts["numbers"][0]),
        cpu,
    )


def _account(fabric: Fabric, tables: Run) -> list[PortAccount]:
    names = ("data", "data_bytes", "marked", "dropped", "pauses", "resumes", "paused_ticks")
    ports = tables.ports.reshape(-1, tables.settings.priorities)
    columns = [ports["most"].max(1), *(ports[name].sum(1) for name in names)]
    rows = zip(fabric.ports, *(column.tolist() for column in columns), strict=True)
    return [PortAccount(port.node, port.to, *row) for port, *row in rows]


def stuck(fabric: Fabric, tables: Run) -> DimsweepError:
    """Flows that wait for one another, packets that were dropped, or ports that stay paused."""
    dropped = int(tables.ports["dropped"].sum())
    if dropped:
        why = f"{dropped} packets found no room in a buffer, and nobody sends them again"
    elif (tables.ports["paused"] > 0).any():
        circle = ", ".join(f"{node} - {to}" for node, to in circle_of_pauses(fabric, tables))
        why = f"the ports {circle} wait for one another to resume: a deadlock of pauses"
    else:
        why = "they wait for flows that never end"
    return never_end(tables.flows["end"][: tables.counts["n_flows"][0]], why)


def never_end(ends: Longs, why: str) -> DimsweepError:
    """Why the flows without an end have none."""
    unended = np.flatnonzero(ends < 0)
    named = ", ".join(map(str, unended[:5].tolist()))
    return DimsweepError(f"{len(unended)} flows never end ({named}): {why}", where="flows")
