"""A run as a Chrome trace: a process a class of ranks, a thread a unit and a dimension.

A run message by message has a process for each rank, and one more with a thread for each link, and
with counters of the links that were watched.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import DimsweepError
from engine.kernels.phase.batch import Run
from engine.lower.program import NodeKind, Program

if TYPE_CHECKING:  # SimPy is imported by whoever simulates messages
    from engine.kernels.message.kernel import MessageRun
    from engine.kernels.packet import History

_STEPS = 1000  # of a run, over each of which a link's rate is averaged
_PER_MICROSECOND = 1e6  # picoseconds; Chrome traces count microseconds


def trace_events(run: "Run | MessageRun") -> list[dict[str, Any]]:
    """Events in the Trace Event Format.  Raises :class:`DimsweepError` if nothing was recorded."""
    if not run.recorded and len(run.program.structure.flows) > 0:
        raise DimsweepError("the run was not recorded", hint="simulate with record=True")
    if isinstance(run, Run):
        times = zip(run.state.nodes["start"], run.state.nodes["end"], strict=True)
        return [*_names(run.program), *_operators(run.program, times), *_class_phases(run)]
    operators, phases = _operators(run.program, run.operators), _rank_phases(run)
    return [*_names(run.program), *operators, *phases, *_links(run)]


def _names(program: Program) -> Iterator[dict[str, Any]]:
    s, names = program.structure, program.names
    streams = ("compute", *(f"stream {name}" for name in names.stream))
    dims = [f"dim {name}" for name in names.dims]
    for cls in range(s.shape.n_classes):
        count, first = names.class_count[cls], names.class_first[cls]
        yield _process(cls, f"{count} ranks like rank {first}" if count > 1 else f"rank {first}")
        for thread, name in enumerate((*streams, "receives", *dims)):
            yield _thread(cls, thread, name)


def _operators(program: Program, times: Iterable[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    s = program.structure
    for node, name, (start, end) in zip(s.nodes, program.names.node, times, strict=True):
        cls = int(node["cls"])
        if node["kind"] == NodeKind.RECEIVE:
            thread = s.shape.n_streams
        else:
            thread = int(node["stream"]) - cls * s.shape.n_streams
        yield _event(name, cls, thread, int(start), int(end) - int(start))


def _class_phases(run: Run) -> Iterator[dict[str, Any]]:
    s, phases = run.program.structure, run.times.phases
    for chunk in run.state.chunks:
        flow = s.flows[chunk["flow"]]
        name = run.program.names.node[s.members[flow["member_start"]]["node"]]
        for i in range(int(chunk["end"] - chunk["first"])):
            phase = phases[chunk["first"] + i]
            if phase["dim"] < 0:
                break
            start = int(run.state.phase_start[chunk["record"] + i])
            for member in s.members[flow["member_start"] : flow["member_end"]]:
                thread = s.shape.n_streams + 1 + int(phase["dim"])
                yield _event(name, int(member["cls"]), thread, start, int(phase["hold"]))


def _rank_phases(run: "MessageRun") -> Iterator[dict[str, Any]]:
    """In packets several phases of a port may be under way: those are on threads beside it."""
    shape, names = run.program.structure.shape, run.program.names.dims
    ends: dict[tuple[int, int], int] = {}  # of what is last on a rank's thread
    for rank, dim, start, end, name in sorted(run.phases, key=lambda span: span.start):
        threads = range(shape.n_streams + 1 + dim, sys.maxsize, shape.n_dims)
        thread = next(each for each in threads if ends.get((rank, each), 0) <= start)
        if thread != threads[0] and (rank, thread) not in ends:
            yield _thread(rank, thread, f"dim {names[dim]}, beside it")
        ends[rank, thread] = end
        yield _event(name, rank, thread, start, end - start)


def _links(run: "MessageRun") -> Iterator[dict[str, Any]]:
    process = run.program.n_npus
    yield _process(process, "links")
    for thread, (link, *_, spans) in enumerate(run.links):
        yield _thread(process, thread, link.name)
        for start, end, name in spans:
            yield _event(name, process, thread, start, end - start)
    end = int(run.measures.time[0])
    for number, history in run.traffic.histories.items() if run.traffic else ():
        yield from _counters(run.links[number].link.name, history, process, end)


def _counters(link: str, history: "History", process: int, end: int) -> Iterator[dict[str, Any]]:
    """What a watched link did: its queue, pauses and marks as they change, its rate in steps."""
    instants = np.arange(_STEPS + 1) * max(end // _STEPS, 1)
    sent = history.sent_by(instants)
    rates = np.diff(sent, append=sent[-1]) / instants[1] * 1e3  # bytes a ps to GB/s
    values = {
        "queue (bytes)": (history.times, history.queue),
        "paused": (history.times, history.paused),
        "packets marked": (history.times, history.marked),
        "rate (GB/s)": (instants, rates),
    }
    for name, (times, column) in values.items():
        changes = np.flatnonzero(np.diff(column, prepend=-1))
        for time, value in zip(times[changes].tolist(), column[changes].tolist(), strict=True):
            yield {
                "ph": "C",
                "name": f"{link}: {name}",
                "pid": process,
                "ts": time / _PER_MICROSECOND,
                "args": {"value": value},
            }


def _process(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}


def _thread(process: int, thread: int, name: str) -> dict[str, Any]:
    args = {"name": name}
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": args}


def _event(name: str, process: int, thread: int, start: int, duration: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": start / _PER_MICROSECOND,
        "dur": duration / _PER_MICROSECOND,
    }
