"""Shared parts of the self-checks: findings, and the agreement of fidelities on a collective."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import islice
from typing import NamedTuple

from dimsweep.engine import simulate
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.collective.algorithms import algorithm_of_phase
from dimsweep.engine.collective.rounds import SwitchRounds
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind, Fidelity
from dimsweep.engine.topology.blocks import Block
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.topology.topology import Dimension, Topology
from dimsweep.engine.workload.graph import Collective, Workload

_MOST = 5  # reported findings: the first ones are the causes of the rest


def faults_of_copies(thing: object) -> Iterator[str]:
    """Yield a fault (in words) if a deep copy of ``thing`` is not equal to it."""
    if deepcopy(thing) != thing:
        yield "a copy of it, which another process gets, is not equal to it"


def raise_findings(findings: Iterable[str], where: str) -> None:
    """Raise :class:`DimsweepError` with the first of ``findings``, if there are any."""
    first = list(islice(findings, _MOST + 1))
    if not first:
        return
    more = ["and more"] if len(first) > _MOST else []
    raise DimsweepError("; ".join([*dict.fromkeys(first[:_MOST]), *more]), where=where)


_LINK = 1e12 / 256  # bytes/s of a link: 256 ps a byte
_LATENCY = 700_000  # ps of a link
SHARD = 72_000.0  # bytes: of whole packets, and dividing into halves, rows and columns
ROUNDING = 1e-4  # of the time: each message is rounded to a picosecond
# Packets carry headers, and as many ACKs come back on the same links: 1,000 bytes of payload are
# 1,048 and 60 more; filling and emptying the way adds some packets' times.
PACKETS = (1.0, 1.25)


class Case(NamedTuple):
    """A collective to test over all groups of ``p`` NPUs, ``stride`` apart, in a block of ``n``."""

    block: Block
    n: int
    p: int
    stride: int
    kind: CollectiveKind
    algorithm: str
    all_to_all: str

    def __str__(self) -> str:
        name = self.all_to_all if self.kind is CollectiveKind.ALL_TO_ALL else self.algorithm
        return f"{self.kind} by {name} of {self.p}, {self.stride} apart, in {self.label}"

    @property
    def label(self) -> str:
        """Name of the block with its number of NPUs."""
        return self.block.label(self.n)

    def time(self, fidelity: Fidelity) -> int:
        """Return the picoseconds that the collective takes when simulated with ``fidelity``.

        Raises :class:`DimsweepError` as :func:`simulate` does.
        """
        topology = topology_of(self.block, self.n)
        model = CollectiveModel(
            chunks=1, algorithms=(self.algorithm,), all_to_all=(self.all_to_all,)
        )
        collective = Collective(self.kind, SHARD * self.p, "all")
        workload = Workload.of_one(collective, Group((self.p,), (self.stride,)))
        return simulate(workload, Cluster(topology, collectives=model), fidelity=fidelity).time_ps


def topology_of(block: Block, n: int) -> Topology:
    """Return a topology of one dimension, a ``block`` of ``n`` NPUs."""
    return Topology((Dimension(block, n, _LINK * block.links(n), _LATENCY),))


def groups_of(n: int) -> list[tuple[int, int]]:
    """Return (number of members, stride) of all groups that divide a dimension of ``n`` NPUs."""
    return [
        (p, stride)
        for p in range(2, n + 1)
        for stride in range(1, n // p + 1)
        if n % (p * stride) == 0
    ]


def disagreements(case: Case) -> Iterator[str]:
    """Yield the differences (in words) between the times of a collective in all fidelities.

    Phases must take as long as messages or as flows: on shared links messages wait for one another,
    flows do not. No fidelity may be faster than phases.
    """
    by_phase = case.time(Fidelity.PHASE)
    others = {Fidelity.MESSAGE: case.time(Fidelity.MESSAGE)}
    if not _by_switches(case):
        others[Fidelity.FLOW] = case.time(Fidelity.FLOW)
    if abs(min(others.values()) - by_phase) > ROUNDING * by_phase:
        slower = " and ".join(f"{_ms(time)} by {name}s" for name, time in others.items())
        yield f"{case}: {_ms(by_phase)} by phases, {slower}"
    elif case.p == case.n and not _by_switches(case):
        ratio = case.time(Fidelity.PACKET) / by_phase
        if not PACKETS[0] <= ratio <= PACKETS[1]:
            yield f"{case}: packets take {ratio:.2f} times as long as phases"


def _by_switches(case: Case) -> bool:
    """Return whether the algorithm's switches reduce, so that flows and packets cannot run it."""
    algorithm = algorithm_of_phase(case.kind, case.block, case.algorithm, case.all_to_all)
    return isinstance(algorithm.rounds(case.kind, case.p, circle=False), SwitchRounds)


def _ms(picoseconds: int) -> str:
    return f"{picoseconds / 1e9:.6g} ms"
