"""Flows: collectives as chunks that go from phase to phase, and messages from point to point."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from engine.kernels.message.exchange import Line
from engine.kernels.message.phases import Phases
from engine.kernels.message.ports import Job
from engine.lower.program import POINT_TO_POINT, Program


class _Place(NamedTuple):
    """Where a chunk's phase takes place: the line's first member stands for it."""

    flow: int
    chunk: int
    phase: int
    first: int


class Flows:
    """The flows of a program in which every rank is a class of its own.

    ``submit`` queues a job; ``done(flow, rank)`` is called when a rank has done its part of a flow.
    """

    def __init__(
        self,
        program: Program,
        submit: Callable[[Job], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._program, self._submit, self._done = program, submit, done
        self._phases = Phases(program)
        self._chunks_left: dict[tuple[int, int], int] = {}  # of a flow, on a rank
        self._gathering: dict[_Place, int] = {}  # members that have not come yet

    def start(self, flow: int) -> None:
        """All members have arrived."""
        s = self._program.structure
        record = s.flows[flow]
        form = s.forms[record["form"]]
        ranks = s.members["cls"][record["member_start"] : record["member_end"]].tolist()
        if form["kind"] == POINT_TO_POINT:
            line = Line(tuple(ranks))
            done = partial(self._done, flow)
            order = (int(record["key"]), 0)
            crossing = self._phases.crossing(flow)
            self._submit(Job(crossing, line, self._name(flow), order, priority=0, done=done))
            return
        for rank in ranks:
            self._chunks_left[flow, rank] = int(form["chunks"])
        for chunk in range(form["chunks"]):
            for rank in ranks:
                self._enter(flow, chunk, 0, rank)

    def _enter(self, flow: int, chunk: int, number: int, rank: int) -> None:
        """``rank`` is ready for the chunk's phase ``number``."""
        record = self._program.structure.flows[flow]
        phases = self._phases.of_chunk(int(record["form"]), chunk)
        if number == len(phases):
            self._chunks_left[flow, rank] -= 1
            if not self._chunks_left[flow, rank]:
                self._done(flow, rank)
            return
        phase = phases[number]
        line = self._phases.line(self._program.names.flow_group[flow], phase.dim, rank)
        place = _Place(flow, chunk, number, line.ranks[0])
        missing = self._gathering.pop(place, len(line.ranks)) - 1
        if missing:
            self._gathering[place] = missing
            return
        self._submit(
            Job(
                phase,
                line,
                self._name(flow),
                order=(int(record["key"]), chunk),
                priority=int(self._program.structure.forms[record["form"]]["priority"]),
                done=partial(self._enter, flow, chunk, number + 1),
            )
        )

    def _name(self, flow: int) -> str:
        record = self._program.structure.flows[flow]
        node = self._program.structure.members["node"][record["member_start"]]
        return self._program.names.node[node]
