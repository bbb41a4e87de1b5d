"""Runs the packet kernel, and says what happened."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

import numpy as np

from engine.errors import DimsweepError
from engine.kernels.packet.agenda import NUMBERS
from engine.kernels.packet.inputs import Fabric, Flow, check
from engine.kernels.packet.kernel import begin, run
from engine.kernels.packet.notes import Pausing, Queue, read_pausings, read_queues
from engine.kernels.packet.settings import Settings
from engine.kernels.packet.state import FULL, STUCK, Run
from engine.kernels.packet.tables import Draws, enlarged, new_run
from engine.lower.program import Floats, Longs


class PortAccount(NamedTuple):
    """What a port did.

    ``longest_queue`` is bytes; ``data``, ``marked`` and ``dropped`` (on arrival by this port) are
    packets; ``pauses`` and ``resumes`` are frames that it obeyed, ``paused`` ticks.
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
    """Start and end of each flow: ticks, or -1 if it was not reached.

    The end is the arrival of the last ACK at the sender."""

    starts: Longs
    ends: Longs
    ports: tuple[PortAccount, ...]
    queues: dict[tuple[int, int], Queue]  # of the ports that were watched
    pausings: tuple[Pausing, ...]
    events: int
    cpu: float  # seconds of the simulation itself, without its set-up

    @property
    def completion_times(self) -> Longs:
        """Ticks of each flow, or -1 if it did not end."""
        return np.where(self.ends < 0, -1, self.ends - self.starts)

    @property
    def pauses(self) -> int:
        """Pause frames that were obeyed."""
        return sum(port.pauses for port in self.ports)


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
    Marks are drawn by ``draws``, a function that returns the first n random numbers of the run, or
    by a generator with ``seed``.  Raises :class:`DimsweepError` for what cannot be simulated, and
    naming the flows that never end if the fabric deadlocks.
    """
    settings = settings or Settings()
    check(fabric, flows, settings)
    draws = draws or _seeded(seed)
    tables = new_run(fabric, flows, settings, draws)
    _watch(fabric, tables, watch)
    begin(tables)
    cpu = -process_time()
    while (outcome := run(tables)) == FULL:
        cpu += process_time()
        tables = enlarged(tables, draws)
        cpu -= process_time()
    cpu += process_time()
    if outcome == STUCK:
        raise _stuck(tables)
    return PacketRun(
        tables.flows["start"].copy(),
        tables.flows["end"].copy(),
        tuple(_account(fabric, tables)),
        read_queues(fabric, tables),
        read_pausings(fabric, tables),
        int(tables.agenda.counts[NUMBERS]),
        cpu,
    )


def _watch(fabric: Fabric, tables: Run, watch: Collection[tuple[int, int]]) -> None:
    numbers = {(port.node, port.to): i for i, port in enumerate(fabric.ports)}
    for node, to in watch:
        if (node, to) not in numbers or node not in fabric.buffers:
            raise DimsweepError(
                f"there is no switch's port {node} - {to} to watch",
                where="watch",
                hint="name a switch and the node to which its port sends",
            )
        tables.ports["watched"][numbers[node, to]] = 1


def _seeded(seed: int) -> Draws:
    def draws(n: int) -> Floats:
        return np.random.default_rng(seed).random(n)

    return draws


def _account(fabric: Fabric, tables: Run) -> list[PortAccount]:
    names = ("most", "data", "data_bytes", "marked", "dropped", "pauses", "resumes", "paused_ticks")
    rows = zip(*(tables.ports[name].tolist() for name in names), strict=True)
    return [
        PortAccount(port.node, port.to, *row) for port, row in zip(fabric.ports, rows, strict=True)
    ]


def _stuck(tables: Run) -> DimsweepError:
    """Flows that wait for one another, packets that were dropped, or ports that stay paused."""
    unended = np.flatnonzero(tables.flows["end"] < 0)
    dropped = int(tables.ports["dropped"].sum())
    paused = int((tables.ports["paused"] > 0).sum())
    named = ", ".join(map(str, unended[:5].tolist()))
    if dropped:
        why = f"{dropped} packets found no room in a buffer, and nobody sends them again"
    elif paused:
        why = f"{paused} ports wait for one another to resume: a deadlock of pauses"
    else:
        why = "they wait for flows that never end"
    return DimsweepError(f"{len(unended)} flows never end ({named}): {why}", where="flows")
