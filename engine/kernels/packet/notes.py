"""What a run noted while it went on: ports over time, and who paused whom because of what."""

from typing import NamedTuple

import numpy as np

from engine.kernels.core.none import NONE
from engine.kernels.packet.inputs import Fabric
from engine.kernels.packet.state import PAUSE, Run
from engine.lower.program import Ints, Longs


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
    n, roots = tables.settings.priorities, dict[int, int]()  # of the ports' rows that pause
    found = []
    for time, port, kind, queue in tables.pausings[: tables.counts["n_pausings"][0]].tolist():
        if kind != PAUSE:
            roots.pop(port, None)
            continue
        roots[port] = roots.get(queue, queue)
        pausing = [fabric.ports[row // n] for row in (port, queue, roots[port])]
        found.append(Pausing(time, *((end.node, end.to) for end in pausing)))
    return tuple(found)


def circle_of_pauses(fabric: Fabric, tables: Run) -> list[tuple[int, int]]:
    """Ports that are paused, each since packets wait at the next one, and at the first.

    If nothing that they wait for is paused, they are a chain and no circle.
    """
    waits_at: dict[int, int] = {}
    for _, port, kind, queue in tables.pausings[: tables.counts["n_pausings"][0]].tolist():
        if kind == PAUSE:
            waits_at[port] = queue
        else:
            waits_at.pop(port, None)
    way: list[int] = []
    row = next(iter(waits_at), NONE)
    while row in waits_at and row not in way:
        way.append(row)
        row = waits_at[row]
    circle = way[way.index(row) :] if row in way else way
    ports = [fabric.ports[row // tables.settings.priorities] for row in circle]
    return [(port.node, port.to) for port in ports]
