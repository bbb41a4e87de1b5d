"""A second event simulator, written to be read: what the phase kernel is held against.

It knows one class of ranks and takes the phases of every collective as given.  Its rules:

- An operator is ready when all it waits for have ended.  The compute unit runs one at a time, in
  the order in which they became ready, and in program order those that did at once.  A
  communication stream runs one at a time, in program order, whatever became ready first.
- A collective sends all its chunks to the dimension of their first phase.  A dimension serves one
  chunk at a time, for as long as the phase holds it; then the chunk moves on to the dimension of
  its next phase.  What its phases last beyond that passes when it has been through all of them.
- What ends at an instant ends together, in a round.  Then ready operators and moving chunks join
  their queues, the chunks by (operator, chunk); then whatever is idle takes the first of its queue.
- What takes no time ends in the next round of the instant in which it started.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import NamedTuple

from dimsweep.engine import Collective, Compute, Operator, Program
from dimsweep.engine.kernels.phase.batch import entrances_of_order
from dimsweep.engine.kernels.phase.kernel import MODEL
from dimsweep.engine.kernels.phase.phase_time import empty_phase_times


class Phase(NamedTuple):
    dim: int
    duration: int
    hold: int  # of it, the time for which the dimension is busy
    n_bytes: float  # held on entering it


class Served(NamedTuple):
    """A phase as it happened."""

    dim: int
    start: int
    end: int
    operator: int
    chunk: int


class Chunk(NamedTuple):
    operator: int
    number: int


class Late(NamedTuple):
    """A chunk that has been through all its phases, and makes up for being late."""

    chunk: Chunk


Ending = Chunk | Late | int  # an operator by its number
Phases = dict[int, list[list[Phase]]]  # by operator, then chunk by chunk


@dataclass
class Trace:
    """When every operator started and ended, and every phase that the dimensions served."""

    start: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    served: list[Served] = field(default_factory=list)
    through: dict[int, tuple[int, int]] = field(default_factory=dict)  # when, from which dimension

    @property
    def time(self) -> int:
        return max(self.end.values(), default=0)


def phases_of(program: Program) -> Phases:
    """Every collective's phases, chunk by chunk, as the program prices them."""
    structure = program.structure
    times = empty_phase_times(structure)
    entrances_of_order(MODEL.choose).time_phases(
        structure, program.bandwidth, program.latency, times
    )
    phases: Phases = {}
    for i, node in enumerate(structure.nodes):
        if node["flow"] < 0:
            continue
        form = structure.flows[node["flow"]]["form"]
        span, chunks = times.spans[form], structure.forms[form]["chunks"]
        phases[i] = []
        for chunk in range(chunks):
            start = span["start"] + (chunk * span["length"] if span["variants"] > 1 else 0)
            entries = times.phases[start : start + span["length"]][list(Phase._fields)].tolist()
            phases[i].append([Phase(*entry) for entry in entries if entry[0] >= 0])
    return phases


class Simulator:
    def __init__(
        self, operators: Sequence[Operator], phases: Phases, queue: str, streams: int
    ) -> None:
        self.operators, self.phases, self.queue_order = operators, phases, queue
        self.streams = streams  # that a group's collectives take in turn
        self.trace = Trace()
        self.now = 0
        self.coming: list[tuple[int, int, Ending]] = []  # heap: time, number, what ends
        self.numbers = count()
        self.waits = [set(operator.after) for operator in operators]
        self.ready = [i for i, after in enumerate(self.waits) if not after]
        self.moving: list[Chunk] = []
        self.at: dict[Chunk, int] = {}  # the phase a chunk is in
        self.chunks_left = {i: len(chunks) for i, chunks in phases.items()}
        self.unit_queue: dict[str, list[int]] = defaultdict(list)
        self.unit_runs: dict[str, int] = {}
        self.turns: dict[str, list[int]] = defaultdict(list)  # of streams: what is yet to end
        for i, operator in enumerate(operators):
            if not isinstance(operator.work, Compute):
                self.turns[self.unit(i)].append(i)
        self.dim_queue: dict[int, list[Chunk]] = defaultdict(list)
        self.dim_serves: dict[int, Chunk] = {}

    def run(self) -> Trace:
        while True:
            self.start_what_can()
            if not self.coming:
                return self.trace
            self.now = self.coming[0][0]
            ending = []
            while self.coming and self.coming[0][0] == self.now:
                ending.append(heapq.heappop(self.coming))
            for _, _, what in ending:
                if isinstance(what, Chunk):
                    self.end_phase(what)
                elif isinstance(what, Late):
                    self.end_chunk(what.chunk)
                else:
                    self.end_operator(what)

    def ends_at(self, time: int, what: Ending) -> None:
        heapq.heappush(self.coming, (time, next(self.numbers), what))

    def start_what_can(self) -> None:
        for i in sorted(self.ready):
            self.unit_queue[self.unit(i)].append(i)
        self.ready = []
        for unit, queue in self.unit_queue.items():
            first = (self.turns.get(unit) or queue)[:1]
            if unit not in self.unit_runs and first and first[0] in queue:
                queue.remove(first[0])
                self.unit_runs[unit] = first[0]
                self.start_operator(first[0])
        for chunk in sorted(self.moving):
            self.join(self.dim_queue[self.phase(chunk).dim], chunk)
        self.moving = []
        for dim, waiting in self.dim_queue.items():
            if waiting and dim not in self.dim_serves:
                chunk = self.dim_serves[dim] = waiting.pop(0)
                end = self.now + self.phase(chunk).hold
                self.trace.served.append(Served(dim, self.now, end, *chunk))
                self.ends_at(end, chunk)

    def unit(self, i: int) -> str:
        work = self.operators[i].work
        if isinstance(work, Compute):
            return "compute"
        name = work.stream or work.group
        before = [operator.work for operator in self.operators[:i]]
        turn = sum(not isinstance(w, Compute) and (w.stream or w.group) == name for w in before)
        return f"stream {name} {turn % self.streams}"

    def phase(self, chunk: Chunk) -> Phase:
        return self.phases[chunk.operator][chunk.number][self.at[chunk]]

    def join(self, waiting: list[Chunk], chunk: Chunk) -> None:
        if self.queue_order == "fifo":
            place = len(waiting)
        elif self.queue_order == "lifo":
            place = 0
        else:  # before the first that ranks after it
            mine = self.rank(chunk)
            later = (i for i, other in enumerate(waiting) if self.rank(other) > mine)
            place = next(later, len(waiting))
        waiting.insert(place, chunk)

    def rank(self, chunk: Chunk) -> float:
        if self.queue_order == "priority":
            return -self.operators[chunk.operator].work.priority
        return math.floor(self.phase(chunk).n_bytes * (1 + 2**-50) + 0.5)  # whole bytes

    def start_operator(self, i: int) -> None:
        self.trace.start[i] = self.now
        work = self.operators[i].work
        if isinstance(work, Compute):
            self.ends_at(self.now + work.duration, i)
        elif not any(self.phases[i]):  # a group of one
            self.ends_at(self.now, i)
        else:
            for number in range(len(self.phases[i])):
                self.at[Chunk(i, number)] = 0
                self.moving.append(Chunk(i, number))

    def end_operator(self, i: int) -> None:
        self.trace.end[i] = self.now
        del self.unit_runs[self.unit(i)]
        if self.unit(i) in self.turns:
            self.turns[self.unit(i)].remove(i)
        for j, after in enumerate(self.waits):
            if i in after:
                after.remove(i)
                if not after:
                    self.ready.append(j)

    def end_phase(self, chunk: Chunk) -> None:
        dim, phases = self.phase(chunk).dim, self.phases[chunk.operator][chunk.number]
        del self.dim_serves[dim]
        self.at[chunk] += 1
        if self.at[chunk] < len(phases):
            self.moving.append(chunk)
            return
        before = self.trace.through.get(chunk.operator, (0, 0))
        self.trace.through[chunk.operator] = max(before, (self.now, dim))
        late = late_by(phases)
        if late:
            self.ends_at(self.now + late, Late(chunk))
        else:
            self.end_chunk(chunk)

    def end_chunk(self, chunk: Chunk) -> None:
        self.chunks_left[chunk.operator] -= 1
        if self.chunks_left[chunk.operator] == 0:
            self.end_operator(chunk.operator)


def late_by(phases: list[Phase]) -> int:
    """What a chunk's phases last beyond the time for which they hold dimensions."""
    return sum(phase.duration - phase.hold for phase in phases)


class Exposed(NamedTuple):
    total: int
    by_dim: list[float]  # the last: no dimension serves


def exposed(operators: Sequence[Operator], trace: Trace, n_dims: int) -> Exposed:
    """Communication while nothing computes, every instant shared among the dimensions that serve.

    When all of a collective's chunks are through, the dimension that served the last one counts as
    serving until the collective ends.  Worked out afterwards from the trace, interval by interval.
    """
    changes: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for i, operator in enumerate(operators):
        kind = "collective" if isinstance(operator.work, Collective) else "compute"
        changes[trace.start[i]].append((kind, 1))
        changes[trace.end[i]].append((kind, -1))
    for phase in trace.served:
        changes[phase.start].append((f"dim {phase.dim}", 1))
        changes[phase.end].append((f"dim {phase.dim}", -1))
    for i, (through, dim) in trace.through.items():
        changes[through].append((f"dim {dim}", 1))
        changes[trace.end[i]].append((f"dim {dim}", -1))
    running: dict[str, int] = defaultdict(int)
    total, by_dim = 0, [0.0] * (n_dims + 1)
    for now, until in pairwise(sorted(changes)):
        for what, step in changes[now]:
            running[what] += step
        if running["compute"] or not running["collective"]:
            continue
        total += until - now
        serving = [d for d in range(n_dims) if running[f"dim {d}"]] or [n_dims]
        for d in serving:
            by_dim[d] += (until - now) / len(serving)
    return Exposed(total, by_dim)


def retimed(
    operators: Sequence[Operator],
    trace: Trace,
    before: Phases,
    after: Phases,
    queue: str,
    streams: int,
) -> int:
    """When the run of ``trace`` would end if the phases lasted as in ``after``, not ``before``, and
    every unit and every dimension kept to its order.

    Everything starts as soon as all that it waits for in that order has ended.
    """
    order = Simulator(operators, before, queue, streams)
    waits: dict[object, list[object]] = {}
    lasts: dict[object, int] = {}
    unit_before: dict[str, int] = {}
    for i in trace.start:  # in the order in which they started
        waits["start", i] = [("end", j) for j in operators[i].after]
        if order.unit(i) in unit_before:
            waits["start", i].append(("end", unit_before[order.unit(i)]))
        unit_before[order.unit(i)] = i
        waits["end", i] = [("start", i)]
        work = operators[i].work
        lasts["start", i], lasts["end", i] = 0, work.duration if isinstance(work, Compute) else 0
    dim_before: dict[int, object] = {}
    at: dict[tuple[int, int], int] = defaultdict(int)
    for served in trace.served:
        chunk = served.operator, served.chunk
        number = at[chunk]
        at[chunk] += 1
        phase = (*chunk, number)
        waits[phase] = [(*chunk, number - 1) if number else ("start", served.operator)]
        if served.dim in dim_before:
            waits[phase].append(dim_before[served.dim])
        dim_before[served.dim] = phase
        phases = after[served.operator][served.chunk]
        lasts[phase] = phases[number].hold
        if number == len(phases) - 1:
            waits["late", chunk], lasts["late", chunk] = [phase], late_by(phases)
            waits["end", served.operator].append(("late", chunk))
    ends: dict[object, int] = {}
    while len(ends) < len(waits):
        for what, others in waits.items():
            if what not in ends and all(other in ends for other in others):
                ends[what] = max((ends[other] for other in others), default=0) + lasts[what]
    return max(ends.values(), default=0)
