"""Flows: collectives as chunks that go from phase to phase, and messages from point to point."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dimsweep.engine.kernels.messages.phases import Line, Phases
from dimsweep.engine.kernels.reference.exchange import Job, World
from dimsweep.engine.lower.program import POINT_TO_POINT, Program


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
        world: World,
        submit: Callable[[Job], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._program, self._world, self._submit, self._done = program, world, submit, done
        self._phases = Phases(program, world.transport.network, world.transport.plan)
        self._parts: dict[tuple[int, int], _Part] = {}  # by flow and rank
        # By flow, chunk, phase and the first rank of a line: who has come, and how late.
        self._gathering: dict[tuple[int, int, int, int], dict[int, int]] = defaultdict(dict)

    def start(self, flow: int) -> None:
        """Start a flow, all of whose members have arrived."""
        s = self._program.structure
        record = s.flows[flow]
        form = s.forms[record["form"]]
        ranks = s.members["cls"][record["member_start"] : record["member_end"]].tolist()
        if form["kind"] == POINT_TO_POINT:
            self._parts[flow, ranks[0]] = _Part(1)
            crossing, line = self._phases.crossing(flow), Line(tuple(ranks))
            done = partial(self._leave, flow, crossing.dim)
            order = int(record["key"]), 0
            self._submit(Job(crossing, line, self._name(flow), order, 0, {ranks[0]: 0}, done))
            return
        for rank in ranks:
            self._parts[flow, rank] = _Part(int(form["chunks"]))
        for chunk in range(form["chunks"]):
            for rank in ranks:
                self._enter(flow, chunk, 0, 0, rank, 0)

    def _enter(self, flow: int, chunk: int, number: int, dim: int, rank: int, late: int) -> None:
        """``rank``, which is ``late``, is ready for the chunk's phase ``number``; it comes from its
        port into ``dim``."""
        step = self._phases.step(flow, chunk, number, rank)
        if step is None:
            self._leave(flow, dim, rank, late)
            return
        phase, line = step
        place = flow, chunk, number, line.ranks[0]
        self._gathering[place][rank] = late
        if len(self._gathering[place]) < len(line.ranks):
            return
        s = self._program.structure
        record = s.flows[flow]
        self._submit(
            Job(
                phase,
                line,
                self._name(flow),
                order=(int(record["key"]), chunk),
                priority=int(s.forms[record["form"]]["priority"]),
                late=self._gathering.pop(place),
                done=partial(self._enter, flow, chunk, number + 1, phase.dim),
            )
        )

    def _leave(self, flow: int, dim: int, rank: int, late: int) -> None:
        """The rank's part of a chunk is through, by its port into ``dim``, and ``late``."""
        part, now = self._parts[flow, rank], self._world.clock.ps
        part.chunks -= 1
        part.through = max(part.through, (now, dim))
        part.due = max(part.due, now + late)
        if part.chunks:
            return
        if part.due == now:
            self._done(flow, rank)
            return
        account, (_, last) = self._world.accounts[rank], part.through
        account.book()
        account.late[last] += 1

        def arrive() -> None:
            account.book()
            account.late[last] -= 1
            self._done(flow, rank)

        self._world.clock.later(part.due - now, arrive)

    def _name(self, flow: int) -> str:
        s = self._program.structure
        return self._program.names.node[s.members["node"][s.flows["member_start"][flow]]]
