"""Flows: collectives as chunks that go from phase to phase, and messages from point to point."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from engine.kernels.messages.phases import Line, Phases
from engine.kernels.messages.precedence import BETWEEN_STAGES, precedence_of
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.ports import Job
from engine.kernels.reference.ranks import RankAccount
from engine.lower.program import POINT_TO_POINT, Program
from engine.network.wafer import WaferPlan


class _Place(NamedTuple):
    """Where a chunk's phase takes place: the line's first member stands for it."""

    flow: int
    chunk: int
    phase: int
    first: int


@dataclass
class _Part:
    """What a rank has still to do for a flow."""

    chunks: int  # that are not through
    through: tuple[int, int] = (0, 0)  # when the last of the others was (ps), from which dimension
    due: int = 0  # when the latest of them has arrived (ps)


class Flows:
    """The flows of a program in which every rank is a class of its own.

    ``submit`` queues a job; ``done(flow, rank)`` is called when a rank has done its part of a flow:
    when the last of its chunks is through and the latencies behind it have passed.
    """

    def __init__(
        self,
        program: Program,
        clock: Clock,
        accounts: Sequence[RankAccount],
        plan: WaferPlan | None,
        submit: Callable[[Job], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._program, self._submit, self._done = program, submit, done
        self._clock, self._accounts = clock, accounts
        self._phases = Phases(program, plan)
        self._parts: dict[tuple[int, int], _Part] = {}  # of a flow, a rank's
        self._gathering: dict[_Place, dict[int, int]] = {}  # who has come, and how late

    def start(self, flow: int) -> None:
        """Start a flow, all of whose members have arrived."""
        s = self._program.structure
        record = s.flows[flow]
        form = s.forms[record["form"]]
        ranks = s.members["cls"][record["member_start"] : record["member_end"]].tolist()
        if form["kind"] == POINT_TO_POINT:
            line = Line(tuple(ranks))
            crossing = self._phases.crossing(flow)._replace(precedence=BETWEEN_STAGES)
            self._parts[flow, ranks[0]] = _Part(1)
            done = partial(self._leave, flow, crossing.dim)
            order, late = (int(record["key"]), 0), {ranks[0]: 0}
            self._submit(Job(crossing, line, self._name(flow), order, 0, late, done))
            return
        for rank in ranks:
            self._parts[flow, rank] = _Part(int(form["chunks"]))
        for chunk in range(form["chunks"]):
            for rank in ranks:
                self._enter(flow, chunk, 0, rank, 0)

    def _enter(self, flow: int, chunk: int, number: int, rank: int, late: int) -> None:
        """``rank``, which is ``late``, is ready for the chunk's phase ``number``."""
        record = self._program.structure.flows[flow]
        phases = self._phases.of_chunk(int(record["form"]), chunk)
        if number == len(phases):
            self._leave(flow, phases[-1].dim if phases else 0, rank, late)
            return
        group = self._program.names.flow_group[flow]
        phase = phases[number]._replace(precedence=precedence_of(group))
        line = self._phases.line(group, phase.dim, rank)
        phase = self._phases.on_line(phase, line)
        place = _Place(flow, chunk, number, line.ranks[0])
        gathered = self._gathering.setdefault(place, {})
        gathered[rank] = late
        if len(gathered) < len(line.ranks):
            return
        del self._gathering[place]
        self._submit(
            Job(
                phase,
                line,
                self._name(flow),
                order=(int(record["key"]), chunk),
                priority=int(self._program.structure.forms[record["form"]]["priority"]),
                late=gathered,
                done=partial(self._enter, flow, chunk, number + 1),
            )
        )

    def _leave(self, flow: int, dim: int, rank: int, late: int) -> None:
        """The rank's part of a chunk is through, by its port into ``dim``, and ``late``."""
        part, now = self._parts[flow, rank], self._clock.ps
        part.chunks -= 1
        part.through = max(part.through, (now, dim))
        part.due = max(part.due, now + late)
        if part.chunks:
            return
        if part.due == now:
            self._done(flow, rank)
            return
        account, last = self._accounts[rank], part.through[1]
        account.until(now)
        account.late[last] += 1

        def arrive() -> None:
            account.until(self._clock.ps)
            account.late[last] -= 1
            self._done(flow, rank)

        self._clock.later(part.due - now, arrive)

    def _name(self, flow: int) -> str:
        record = self._program.structure.flows[flow]
        node = self._program.structure.members["node"][record["member_start"]]
        return self._program.names.node[node]
