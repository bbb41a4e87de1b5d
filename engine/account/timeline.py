"""A run as a Chrome trace: a process a class of ranks, a thread a unit and a dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.errors import DimsweepError
from engine.lower.program import RECEIVE
from engine.run.batch import Run

_PER_MICROSECOND = 1e6  # picoseconds; Chrome traces count microseconds


def trace_events(run: Run) -> list[dict[str, Any]]:
    """Events in the Trace Event Format.  Raises :class:`DimsweepError` if nothing was recorded."""
    if not run.recorded and len(run.state.chunks) > 0:
        raise DimsweepError("the run was not recorded", hint="simulate with record=True")
    return [*_names(run), *_operators(run), *_phases(run)]


def _names(run: Run) -> Iterator[dict[str, Any]]:
    s, names = run.program.structure, run.program.names
    units = ("compute", *(f"stream {name}" for name in names.stream))
    dims = [f"dim {name}" for name in names.dims]
    for cls in range(s.shape.n_classes):
        ranks = f"{names.class_count[cls]} ranks like rank {names.class_first[cls]}"
        yield {"ph": "M", "name": "process_name", "pid": cls, "args": {"name": ranks}}
        for thread, name in enumerate((*units, "receives", *dims)):
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": cls,
                "tid": thread,
                "args": {"name": name},
            }


def _operators(run: Run) -> Iterator[dict[str, Any]]:
    s = run.program.structure
    for number, (node, state) in enumerate(zip(s.nodes, run.state.nodes, strict=True)):
        cls = int(node["cls"])
        if node["kind"] == RECEIVE:
            thread = s.shape.n_units
        else:
            thread = int(node["unit"]) - cls * s.shape.n_units
        duration = int(state["end"]) - int(state["start"])
        yield _event(run.program.names.node[number], cls, thread, int(state["start"]), duration)


def _phases(run: Run) -> Iterator[dict[str, Any]]:
    s, phases = run.program.structure, run.prices.phases
    for chunk in run.state.chunks:
        flow = s.flows[chunk["flow"]]
        name = run.program.names.node[s.members[flow["member_start"]]["node"]]
        for i in range(int(chunk["end"] - chunk["first"])):
            phase = phases[chunk["first"] + i]
            if phase["dim"] < 0:
                break
            start = int(run.state.phase_start[chunk["record"] + i])
            for member in s.members[flow["member_start"] : flow["member_end"]]:
                thread = s.shape.n_units + 1 + int(phase["dim"])
                yield _event(name, int(member["cls"]), thread, start, int(phase["duration"]))


def _event(name: str, process: int, thread: int, start: int, duration: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": start / _PER_MICROSECOND,
        "dur": duration / _PER_MICROSECOND,
    }
