"""The phases of a program's collectives, the groups that run them, and message precedence.

On an interconnect's links, and in packets with priorities, tensor parallelism goes first, then
messages between pipeline stages, then all other messages, such as data parallelism (FRED, section
8).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from dimsweep.engine.collective.algorithms import Algorithm, InSwitch, RingAlgorithm, TwoLevelRings
from dimsweep.engine.collective.rounds import MemberRounds, SwitchRounds
from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.interconnect import InterconnectPlan
from dimsweep.engine.topology.coordinates import members_along

# Lower ones go first.
OF_TENSOR = 0
BETWEEN_STAGES = 1  # messages from point to point
OF_OTHERS = 2  # what goes through an interconnect's I/O controllers, too


def precedence_of(group: str) -> int:
    """Return the precedence of a group's messages (lower goes first); "": point-to-point."""
    return {"": BETWEEN_STAGES, "tensor": OF_TENSOR}.get(group, OF_OTHERS)


def may_suspend(program: Program) -> bool:
    """Return whether a message in flight may be suspended for another one.

    This needs an interconnect that preempts, and messages of different precedence.
    """
    interconnect = program.communication.network.interconnect
    if interconnect is None or not interconnect.preempts:
        return False
    found = set(map(precedence_of, program.names.flow_group))
    if len(program.communication.accesses):
        found.add(OF_OTHERS)
    return len(found) > 1


_FUSED_RING = TwoLevelRings(0, 0, reversed_half=False)  # which is one ring, of any number


class Line(NamedTuple):
    """The ranks that run a phase, by coordinate; ``circle``: they close a ring, used both ways."""

    ranks: tuple[int, ...]
    circle: bool = False


class Phase(NamedTuple):
    """A phase of a collective's chunk in dimension ``dim``.

    Each member enters it with ``n_bytes``, which is ``size`` in whole bytes.  Messages of a lower
    ``precedence`` go first: on an interconnect, or in packets with priorities.
    """

    dim: int
    kind: CollectiveKind
    algorithm: Algorithm
    n_bytes: float
    size: int
    precedence: int

    def rounds(self, line: Line) -> MemberRounds | SwitchRounds:
        """Return the rounds of messages with which the members of ``line`` run this phase."""
        return _rounds(self.algorithm, self.kind, len(line.ranks), line.circle)


class Crossing(NamedTuple):
    """A point-to-point message: it queues at the port into ``dim`` and crosses dims ``crosses``."""

    dim: int
    target: int
    n_bytes: float
    crosses: tuple[int, ...]
    precedence: int


class Phases:
    """The phases of each chunk, and the lines that run them, computed on demand.

    The order in which a chunk visits the dimensions, and the kinds of its phases, are taken from
    the phase kernel; durations are not.
    """

    def __init__(self, program: Program, network: Network, plan: InterconnectPlan | None) -> None:
        self._network, self._plan = network, plan
        self._program, self._communication = program, program.communication
        self._times = times_of(program)
        self._forms = program.structure.flows["form"].tolist()
        # Caches around the methods themselves would keep all programs for ever.
        self._of_chunk = lru_cache(maxsize=None)(self._read_chunk)
        self._line = lru_cache(maxsize=None)(self._find_line)

    def crossing(self, flow: int) -> Crossing:
        """Return the point-to-point message of flow ``flow``."""
        s = self._program.structure
        record = s.flows[flow]
        form, span = s.forms[record["form"]], self._times.spans[record["form"]]
        return Crossing(
            dim=int(self._times.phases[span["start"]]["dim"]),
            target=int(s.nodes[record["receiver"]]["cls"]),
            n_bytes=float(form["n_bytes"]),
            crosses=tuple(s.uses[form["use_start"] : form["use_end"]]["dim"].tolist()),
            precedence=BETWEEN_STAGES,
        )

    def step(self, flow: int, chunk: int, number: int, rank: int) -> tuple[Phase, Line] | None:
        """Return phase ``number`` of a flow's chunk, and the line on which ``rank`` runs it.

        Return None after the last phase.
        """
        group = self._program.names.flow_group[flow]
        phases = self._of_chunk(self._forms[flow], chunk, group)
        if number == len(phases):
            return None
        phase = phases[number]
        line = self._line(group, phase.dim, rank)
        of = phase.algorithm.adapt_to_members(self._network, line.ranks, phase.dim)
        algorithm = algorithm_on_line(of, phase.kind, line.ranks, self._plan)
        return phase._replace(algorithm=algorithm), line

    def _read_chunk(self, form: int, chunk: int, group: str) -> tuple[Phase, ...]:
        """Return the phases of chunk ``chunk`` of a collective, in order."""
        s, span = self._program.structure, self._times.spans[form]
        first = span["start"] + (chunk % span["variants"]) * span["length"]
        entries = self._times.phases[first : first + span["length"]]
        entries = entries[entries["dim"] >= 0]
        kinds = s.phase_steps["kind"][entries["steps"]].tolist()
        algorithms, precedence = self._communication.algorithms, precedence_of(group)
        return tuple(
            Phase(dim, kind, algorithms[dim].select_algorithm(kind), n_bytes, size, precedence)
            for (dim, n_bytes, size), kind in zip(
                entries[["dim", "n_bytes", "size"]].tolist(),
                map(CollectiveKind, kinds),
                strict=True,
            )
        )

    def _find_line(self, group_name: str, dim: int, rank: int) -> Line:
        """Return the members of the rank's group that differ from it in ``dim`` only."""
        group = self._communication.groups[group_name]
        ranks = members_along(group, rank, self._communication.topology.sizes, dim)
        return Line(tuple(ranks), self._communication.closes_ring(group, dim))


@lru_cache(maxsize=64)
def _rounds(
    algorithm: Algorithm, kind: CollectiveKind, p: int, circle: bool
) -> MemberRounds | SwitchRounds:
    """Return the rounds of ``algorithm`` for ``p`` members; cached, as all chunks share them."""
    return algorithm.rounds(kind, p, circle)


def algorithm_on_line(
    algorithm: Algorithm, kind: CollectiveKind, ranks: Sequence[int], plan: InterconnectPlan | None
) -> Algorithm:
    """Return the algorithm with which a line runs a collective.

    On an interconnect, a line that is decomposed (see :class:`InterconnectPlan`) runs rings instead
    of reducing in switches.
    """
    if plan is None or not isinstance(algorithm, InSwitch):
        return algorithm
    if frozenset(plan.places[rank] for rank in ranks) not in plan.decomposed:
        return algorithm
    return _FUSED_RING if kind is CollectiveKind.ALL_REDUCE else RingAlgorithm()


def interconnect_plan(program: Program) -> InterconnectPlan | None:
    """Return the interconnect's placement and schedule for the program's groups, or None.

    See :meth:`Interconnect.plan`.  The lines of a group that differ in one dimension run their
    collectives at the same time.
    """
    communication = program.communication
    interconnect, sizes = communication.network.interconnect, communication.topology.sizes
    if interconnect is None:
        return None
    sets = []
    for name in dict.fromkeys(program.names.flow_group):
        group = communication.groups.get(name)
        for dim, p in enumerate(group.sizes if group else ()):
            if group and p > 1:
                along = (members_along(group, i, sizes, dim) for i in range(program.n_npus))
                sets.append(sorted({tuple(line) for line in along}))
    return interconnect.plan(sets, sizes)
