"""Spans: start and end of operators on streams and of chunks' phases at ports, in columns."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.phase.batch import Measures, Run, entrances_of
from dimsweep.engine.kernels.phase.path import Chain, empty_path, read_chain
from dimsweep.engine.lower.program import NO_DIM, Floats, Longs, NodeKind, Program, Table

if TYPE_CHECKING:  # SimPy is imported only to simulate messages
    from dimsweep.engine.kernels.messages import MessageRun

OPERATOR, ON_LINK, UNKNOWN = -1, -2, -3  # in the place of a phase's number


class Spans(NamedTuple):
    """N spans of time, each on one thread of one process; shapes (N,), times in picoseconds.

    A process is a class of ranks; links follow as further processes. The threads of a process are
    the class's streams, one thread for receives, and one for each dimension (see
    :func:`list_threads`). Overlapping spans move to additional threads, whose number is larger by
    the number of threads.
    """

    process: Longs
    thread: Longs
    start: Longs
    end: Longs
    node: Longs  # the operator, or whose chunk goes through the phase
    phase: Longs  # its number among all chunks' phases; else one of the constants above


def list_threads(program: Program) -> list[str]:
    """Return the names of the threads of a class of ranks: streams, receives and dimensions."""
    names = program.names
    streams = (f"stream {name}" for name in names.stream)
    return ["compute", *streams, "receives", *(f"dim {name}" for name in names.dims)]


def spans_of(run: "Run | MessageRun") -> Spans:
    """Return all spans of a run; raise :class:`DimsweepError` if the run was not recorded."""
    if not run.recorded and len(run.program.structure.flows) > 0:
        raise DimsweepError(
            "the run was not recorded", hint="simulate with record=True", code="missing"
        )
    if isinstance(run, Run):
        nodes = run.state.nodes
        parts = [_operators(run.program, nodes["start"], nodes["end"]), _class_phases(run)]
    else:
        times = np.array(run.operators, dtype=np.int64).reshape(-1, 2).T
        parts = [_operators(run.program, *times), *_messages(run)]
    joined = Spans(*map(np.concatenate, zip(*parts, strict=True)))
    return _separate_overlaps(joined, len(list_threads(run.program)))


def _operators(program: Program, start: Longs, end: Longs) -> Spans:
    s = program.structure
    cls = s.nodes["cls"].astype(np.int64)
    thread = s.nodes["stream"] - cls * s.shape.n_streams
    thread = np.where(s.nodes["kind"] == NodeKind.RECEIVE, s.shape.n_streams, thread)
    nodes = np.arange(len(s.nodes))
    return Spans(cls, thread, start.copy(), end.copy(), nodes, np.full(len(nodes), OPERATOR))


def _class_phases(run: Run) -> Spans:
    """Return the spans of all chunks' phases, one for each class that takes part in the chunk."""
    s, chunks = run.program.structure, run.state.chunks
    flow = np.repeat(chunks["flow"], chunks["end"] - chunks["first"])
    phases = run.times.phases[run.state.phase_of]
    number = np.flatnonzero(phases["dim"] != NO_DIM)
    flow = flow[number]
    first, last = s.flows["member_start"][flow], s.flows["member_end"][flow]
    each = np.repeat(np.arange(len(number)), last - first)
    place = np.arange(len(each)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    members, number = s.members[first[each] + place], number[each]
    start = run.state.phase_start[number]
    return Spans(
        members["cls"].astype(np.int64),
        s.shape.n_streams + 1 + phases["dim"][number].astype(np.int64),
        start,
        start + phases["hold"][number],
        members["node"].astype(np.int64),
        number,
    )


def _messages(run: "MessageRun") -> Iterator[Spans]:
    """Yield the spans of ranks' phases and of links in a run message by message.

    A span on a link has the name of its operator only.
    """
    s, names = run.program.structure, run.program.names.node
    own = dict(
        zip(zip(s.nodes["cls"].tolist(), names, strict=True), range(len(names)), strict=True)
    )
    some = {name: node for node, name in enumerate(names)}
    found = [
        (
            *(each.rank, s.shape.n_streams + 1 + each.dim, each.start, each.end),
            *(own[each.rank, each.name], UNKNOWN),
        )
        for each in run.phases
    ]
    found += [
        (run.program.n_npus, thread, span.start, span.end, some[span.name], ON_LINK)
        for thread, link in enumerate(run.links)
        for span in link.spans
    ]
    yield Spans(*np.array(found, dtype=np.int64).reshape(-1, 6).T)


def _separate_overlaps(spans: Spans, n_threads: int) -> Spans:
    """Return the spans with overlapping spans of a thread moved to additional threads.

    ``n_threads`` is the number of threads of a class.
    """
    order = np.lexsort((spans.end, spans.start, spans.thread, spans.process))
    place = spans.process[order] * (spans.thread.max(initial=0) + 1) + spans.thread[order]
    overlap = (place[1:] == place[:-1]) & (spans.start[order][1:] < spans.end[order][:-1])
    crowded = np.unique(place[1:][overlap])
    thread = spans.thread.copy()
    for each in crowded:
        ends: list[int] = []  # of the last span on each thread
        for i in order[place == each].tolist():
            start, end = int(spans.start[i]), int(spans.end[i])
            lane = next((n for n, last in enumerate(ends) if last <= start), len(ends))
            ends[lane : lane + 1] = [end]
            thread[i] += lane * n_threads if spans.phase[i] != ON_LINK else 0
    return spans._replace(thread=thread)


def density(start: Longs, end: Longs, edges: Floats, rate: Floats | float = 1.0) -> Floats:
    """Return the mean sum of the spans' rates in each interval between ascending ``edges``.

    A span adds its ``rate`` from ``start`` to ``end``. The sum of means times widths is exactly the
    sum of rates times durations.
    """
    change = np.broadcast_to(rate, len(start)).astype(float)
    times = np.concatenate([start, end]).astype(float)
    order = np.argsort(times, kind="stable")
    times = times[order]
    level = np.cumsum(np.concatenate([change, -change])[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    until = np.interp(edges, times, area) if len(times) else np.zeros(len(edges))
    found: Floats = np.maximum(np.diff(until) / np.diff(edges), 0.0)
    return found


def merge_spans(start: Longs, end: Longs) -> tuple[Longs, Longs]:
    """Return the starts and ends of the union of spans, as spans that neither overlap nor touch."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    begins = np.append(True, start[1:] > end[:-1])[: len(start)]
    return start[begins], end[np.append(begins[1:], True)[: len(end)]]


# --- along the critical path ----------------------------------------------------------------------


# Bottlenecks of computations on a critical path.
COMPUTE, MEMORY, REMOTE, HOST = "compute", "memory", "remote memory", "host"


class PathAccount(NamedTuple):
    """The critical path of one run by activity, in picoseconds that add up to the run's time.

    D dimensions, C classes of ranks. The path contains no waiting: while a rank waits, the path is
    at the rank that it waits for.
    """

    compute: dict[str, int]
    """Time of computations by their bottleneck: ``compute``, ``memory`` (bandwidth-bound kernels),
    ``remote memory`` (accesses), ``host``; bottlenecks without time are left out."""
    communication: dict[str, Longs]
    """By kind of collective and group, (D,) each: bytes, latencies, delays and reductions in each
    dimension.  Messages from point to point are their sender's."""
    by_class: Longs
    """(C,) where it leads through: collectives of several classes count for their first one."""


class ClassAccount(NamedTuple):
    """The time of an iteration at the ranks of a class, by activity, in picoseconds.

    ``compute + communication + waiting + idle`` is the time of the iteration.  ``communication`` is
    exposed: a dimension is in use and nothing computes.  ``waiting`` is exposed time with no
    dimension in use, accesses to remote memory included.  The class is ``idle`` while nothing is in
    flight, or only the host works.
    """

    ranks: int
    first: int  # the lowest rank
    compute: int
    communication: int
    waiting: int
    idle: int
    path: int | None  # time of the critical path in this class; None if unknown


def account_path(run: Run) -> PathAccount | None:
    """Return the critical path of ``run`` by activity.

    None if a second simulator (the program's witness) simulated the run, since it records no path.
    """
    path = run.measures.path
    if path is None or np.isnan(path.demand[0]).any():
        return None
    s, state = run.program.structure, run.state
    chain = read_chain(state)
    # A group of one has no phases, so its first record equals that of the next flow.
    chunk = np.searchsorted(state.chunks["record"], chain.phases, side="right") - 1
    first = s.flows["member_start"][state.chunks["flow"][chunk]]
    sender = s.members["node"][first]
    return PathAccount(
        _computation_times(s.nodes, chain.nodes, state.nodes["end"] - state.nodes["start"]),
        _communication_times(run, chain, s.nodes["tally"][sender]),
        _by_class(run, chain, s.nodes["cls"][sender]),
    )


def _computation_times(nodes: Table, on_path: Longs, lasted: Longs) -> dict[str, int]:
    kind = nodes["kind"][on_path]
    bound = np.where(kind == NodeKind.COMPUTE, nodes["memory"][on_path], 0)
    found = {
        COMPUTE: (lasted[on_path] - bound)[kind == NodeKind.COMPUTE].sum(),
        MEMORY: bound.sum(),
        REMOTE: lasted[on_path][kind == NodeKind.ACCESS].sum(),
        HOST: lasted[on_path][kind == NodeKind.HOST].sum(),
    }
    return {name: int(time) for name, time in found.items() if time or name == COMPUTE}


def _communication_times(run: Run, chain: Chain, tally: Longs) -> dict[str, Longs]:
    program = run.program
    tallies = np.unique(tally)
    path = empty_path(program.structure, len(tallies))
    labels = np.searchsorted(tallies, tally).astype(np.int64)
    add_phases = entrances_of(program).add_phases
    add_phases(program.structure, run.times, run.state, chain, labels, path)
    times = path.transfer + path.latency + path.endpoint
    return {program.names.tally[t]: times[i] for i, t in enumerate(tallies.tolist())}


def _by_class(run: Run, chain: Chain, cls: Longs) -> Longs:
    s, state = run.program.structure, run.state
    phases, phase = run.times.phases, state.phase_of[chain.phases]
    # A chunk that ended a flow brings the latencies of all its phases.
    late = np.where(chain.with_latencies, phases["late"][phase], 0)
    found = np.zeros(s.shape.n_classes, dtype=np.int64)
    np.add.at(found, cls, phases["hold"][phase] + late)
    lasted = state.nodes["end"] - state.nodes["start"]
    np.add.at(found, s.nodes["cls"][chain.nodes], lasted[chain.nodes])
    return found


def account_classes(
    program: Program, measures: Measures, path: PathAccount | None
) -> tuple[ClassAccount, ...]:
    """Return the time by activity of each class of ranks, for a run of one point."""
    time, found = int(measures.time[0]), list[ClassAccount]()
    names = zip(program.names.class_count, program.names.class_first, strict=True)
    for cls, (ranks, first) in enumerate(names):
        compute, exposed = int(measures.compute[0, cls]), int(measures.exposed[0, cls])
        waiting = min(round(float(measures.exposed_by_dim[0, cls, -1])), exposed)
        found.append(
            ClassAccount(
                ranks,
                first,
                compute,
                exposed - waiting,
                waiting,
                time - compute - exposed,
                None if path is None else int(path.by_class[cls]),
            )
        )
    return tuple(found)
