"""What a packet run says at its end: of flows and ports, and what it noted while it went on: ports
over time, and who paused whom because of what."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.packet.inputs import Fabric
from dimsweep.engine.kernels.packet.state import Run
from dimsweep.engine.lower.program import Ints, Longs


class PortAccount(NamedTuple):
    """What a port did.

    ``longest_queue`` is bytes; ``data``, ``marked`` and ``dropped`` are packets (dropped are those
    that came by this port, or were to leave by it where nobody pauses, with headers of those that
    were ``trimmed`` there); ``pauses`` and ``resumes``
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
    trimmed: int


class History(NamedTuple):
    """A port from each of ``times`` (ticks) on, whenever something changed.

    ``queue`` is the bytes of data and ACKs behind it (none at a host, whose flows keep what they
    cannot send), ``sent`` the bytes and ``marked`` the packets since the beginning, each counted as
    it begins to leave; ``paused`` is 1 while the port obeys a pause frame.
    """

    times: Longs
    queue: Ints
    sent: Longs
    marked: Longs
    paused: Ints

    def sent_by(self, times: Longs) -> Longs:
        """The bytes that had been sent by each of ``times``."""
        return np.append(0, self.sent)[np.searchsorted(self.times, times, side="right")]

    def longest_queues(self, times: Longs) -> Longs:
        """The most bytes behind the port from each of ``times``, which rise, up to the next."""
        queue = np.concatenate([[0], self.queue, [0]])  # nothing before the first change
        firsts = np.searchsorted(self.times, times[:-1], side="right")
        ends = np.searchsorted(self.times, times[1:], side="left") + 1
        longest: Longs = np.maximum.reduceat(queue, np.stack([firsts, ends], 1).ravel())[::2]
        return longest


class Pausing(NamedTuple):
    """A switch told ``port`` to pause, since a packet came by it that waits at the port ``queue``.

    Ports are pairs of nodes, from and to.  ``root`` is where the tree of pauses begins: ``queue``
    itself, or, if that was told to pause, the root of that.
    """

    time: int
    port: tuple[int, int]
    queue: tuple[int, int]
    root: tuple[int, int]


@dataclass(frozen=True)
class PacketRun:
    """Start, arrival and end of each flow: ticks, or -1 if it was not reached.

    The arrival is that of its last byte at the receiver, the end that of the last ACK at the
    sender.  ``timeouts`` is how often each flow's timer ran out, and ``resent`` how many
    packets it sent again, as transports do that send again (of TCP, these are not counted)."""

    starts: Longs
    arrivals: Longs
    ends: Longs
    timeouts: Longs
    resent: Longs
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
        _of_senders(tables, "timeouts", n),
        _of_senders(tables, "resent", n),
        tuple(_account(fabric, tables)),
        read_histories(fabric, tables),
        read_pausings(fabric, tables),
        int(tables.agenda.counts["numbers"][0]),
        cpu,
    )


def _of_senders(tables: Run, name: str, n: int) -> Longs:
    """What those count of each flow that send again; zeros where nobody does."""
    counted = [of[name][:n] for of in (tables.tcp, tables.rud) if name in (of.dtype.names or ())]
    return next((of.copy() for of in counted if len(of) == n), np.zeros(n, np.int64))


def _account(fabric: Fabric, tables: Run) -> list[PortAccount]:
    names = ["data", "data_bytes", "marked", "dropped", "pauses", "resumes"]
    names += ["paused_ticks", "trimmed"]
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


def read_histories(fabric: Fabric, tables: Run) -> dict[tuple[int, int], History]:
    """What each port did that was watched."""
    samples = tables.samples[: tables.counts["n_samples"][0]]
    found = {}
    for i, port in enumerate(fabric.ports):
        row = i * tables.settings.priorities
        if tables.ports["watched"][row]:
            own = samples[samples["port"] == row]
            columns = ("time", "queue", "sent", "marked", "paused")
            found[port.node, port.to] = History(*(own[name].copy() for name in columns))
    return found


def read_pausings(fabric: Fabric, tables: Run) -> tuple[Pausing, ...]:
    """All orders to pause, as they were given."""
    roots, found = dict[int, int](), []  # the roots of the rows that pause
    for time, row, queue in _orders(tables):
        if queue == NONE:
            roots.pop(row, None)
        else:
            roots[row] = roots.get(queue, queue)
            ends = _ends(fabric, tables, (row, queue, roots[row]))
            found.append(Pausing(time, *ends))
    return tuple(found)


def circle_of_pauses(fabric: Fabric, tables: Run) -> list[tuple[int, int]]:
    """Ports that are paused, each since packets wait at the next one, and at the first.

    If nothing that they wait for is paused, they are a chain and no circle.
    """
    waits_at: dict[int, int] = {}
    for _, row, queue in _orders(tables):
        waits_at.pop(row, None)
        if queue != NONE:
            waits_at[row] = queue
    way: list[int] = []
    row = next(iter(waits_at), NONE)
    while row in waits_at and row not in way:
        way.append(row)
        row = waits_at[row]
    return _ends(fabric, tables, way[way.index(row) :] if row in way else way)


def _orders(tables: Run) -> list[tuple[int, int, int]]:
    """When which row was told to pause, and where the packet waits because of which it was, or NONE
    if it was told to resume."""
    orders: list[tuple[int, int, int]] = tables.pausings[: tables.counts["n_pausings"][0]].tolist()
    return orders


def _ends(fabric: Fabric, tables: Run, rows: Iterable[int]) -> list[tuple[int, int]]:
    """The ports whose rows these are, each by its node and the one that it sends to."""
    ports = [fabric.ports[row // tables.settings.priorities] for row in rows]
    return [(port.node, port.to) for port in ports]
