"""What a program's collectives do: the phases of their chunks, and the lines that run them."""

from functools import lru_cache
from typing import NamedTuple

from engine.collective.algorithms import (
    Algorithm,
    InSwitch,
    RingAlgorithm,
    TwoLevelRings,
)
from engine.kernels.phase.phase_time import empty_phase_times, time_phases
from engine.kinds import CollectiveKind
from engine.lower.program import Program
from engine.network.wafer import WaferPlan
from engine.workload.coordinates import members_along

_FUSED_RING = TwoLevelRings(0, 0, reversed_half=False)  # which is one ring, of any number


class Line(NamedTuple):
    """The members of a phase by their coordinate; in a ``circle`` they send both ways round."""

    ranks: tuple[int, ...]
    circle: bool = False


class Phase(NamedTuple):
    """A phase of a collective; ``n_bytes`` is what a member holds on entering it."""

    dim: int
    kind: CollectiveKind
    algorithm: Algorithm
    n_bytes: float
    precedence: int = 0  # a lower one goes first: on a wafer, or in packets with priorities


class Crossing(NamedTuple):
    """A message from point to point: queues at the port into ``dim``, crosses ``crosses``."""

    dim: int
    target: int
    n_bytes: float
    crosses: tuple[int, ...]
    precedence: int = 0  # a lower one goes first: on a wafer, or in packets with priorities


class Phases:
    """Phases and lines of a program at its point, worked out when first asked for.

    The order in which a chunk visits the dimensions, and the kinds of its phases, are the phase
    kernel's; durations are not taken from it.  Lines that are decomposed on a wafer (see
    :class:`WaferPlan`) run rings in the place of what its switches would do for them.
    """

    def __init__(self, program: Program, plan: WaferPlan | None) -> None:
        self._plan = plan
        self._program, self._communication = program, program.communication
        self._times = empty_phase_times(program.structure)
        time_phases(program.structure, program.bandwidth, program.latency, self._times)
        # A cache around the method itself would keep all programs for ever.
        self.of_chunk = lru_cache(maxsize=None)(self._of_chunk)
        self.line = lru_cache(maxsize=None)(self._line)

    def crossing(self, flow: int) -> Crossing:
        """A message from point to point, of a program in which every rank is a class."""
        s = self._program.structure
        record = s.flows[flow]
        form, span = s.forms[record["form"]], self._times.spans[record["form"]]
        return Crossing(
            dim=int(self._times.phases[span["start"]]["dim"]),
            target=int(s.nodes[record["receiver"]]["cls"]),
            n_bytes=float(form["n_bytes"]),
            crosses=tuple(s.uses[form["use_start"] : form["use_end"]]["dim"].tolist()),
        )

    def _of_chunk(self, form: int, chunk: int) -> tuple[Phase, ...]:
        """The phases that a chunk of a collective's form goes through."""
        s, span = self._program.structure, self._times.spans[form]
        first = span["start"] + (chunk % span["variants"]) * span["length"]
        entries = self._times.phases[first : first + span["length"]]
        entries = entries[entries["dim"] >= 0]
        kinds = s.phase_steps["kind"][entries["steps"]].tolist()
        places = entries[["dim", "n_bytes"]].tolist()
        return tuple(
            self._phase(dim, CollectiveKind(kind), n_bytes)
            for (dim, n_bytes), kind in zip(places, kinds, strict=True)
        )

    def _phase(self, dim: int, kind: CollectiveKind, n_bytes: float) -> Phase:
        return Phase(dim, kind, self._communication.algorithms[dim].of(kind), n_bytes)

    def on_line(self, phase: Phase, line: Line) -> Phase:
        """The phase as ``line`` runs it."""
        if self._plan is None or not isinstance(phase.algorithm, InSwitch):
            return phase
        if frozenset(self._plan.places[rank] for rank in line.ranks) not in self._plan.decomposed:
            return phase
        fused = phase.kind is CollectiveKind.ALL_REDUCE
        return phase._replace(algorithm=_FUSED_RING if fused else RingAlgorithm())

    def _line(self, group_name: str, dim: int, rank: int) -> Line:
        """The members of the rank's group that differ from it in ``dim`` only."""
        group = self._communication.groups[group_name]
        ranks = members_along(group, rank, self._communication.topology.sizes, dim)
        return Line(tuple(ranks), self._communication.circles(group, dim))


def wafer_plan(program: Program) -> WaferPlan | None:
    """What the program's wafer, if it has one, makes of its groups (see :meth:`Wafer.plan`); the
    lines of a group that differ in one dimension run their collectives at once."""
    communication = program.communication
    wafer, sizes = communication.network.wafer, communication.topology.sizes
    if wafer is None:
        return None
    sets = []
    for name in dict.fromkeys(program.names.flow_group):
        group = communication.groups.get(name)
        for dim, p in enumerate(group.sizes if group else ()):
            if group and p > 1:
                along = (members_along(group, i, sizes, dim) for i in range(program.n_npus))
                sets.append(sorted({tuple(line) for line in along}))
    return wafer.plan(sets, sizes)
