"""Everything that a run of the phase kernel changes: allocated once, reset for each point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.jit import inlined
from engine.kernels.phase.phase_time import PhaseTimes
from engine.lower.program import Floats, Ints, Longs, Structure, Table

NEVER = int(np.iinfo(np.int64).max)
# Outcomes of a run.
FINISHED, STUCK, TOO_LONG = range(3)
# States of a node.
WAITING, QUEUED, RUNNING, DONE = range(4)

NODE_STATE = np.dtype(
    [
        ("state", "i4"),
        ("waits", "i4"),
        ("next", "i4"),  # in its stream's queue
        ("busy_next", "i4"),  # among the communication in flight on its class
        ("busy_before", "i4"),
        ("start", "i8"),
        ("end", "i8"),
        ("cause", "i4"),  # the interval that made it ready; once it runs, start; then, end
        ("exposed", "f8"),  # ps of exposed communication
    ],
    align=True,
)
STREAM = np.dtype(
    [
        ("head", "i4"),
        ("tail", "i4"),
        ("node", "i4"),  # what runs, or -1
        ("cause", "i4"),  # the interval that freed it last
        ("freed", "i8"),  # when
    ],
    align=True,
)
FLOW_STATE = np.dtype(
    [
        ("arrived", "i4"),  # members
        ("left", "i4"),  # chunks
        ("cause", "i4"),  # the interval that released the last member
    ]
)
CHUNK = np.dtype(
    [
        ("at", "i4"),  # its phases in PhaseTimes.phases: current, end, first
        ("end", "i4"),
        ("first", "i4"),
        ("entry", "i4"),  # its first queue entry; one a member
        ("members", "i4"),
        ("member_start", "i4"),  # as its flow has it
        ("cls", "i4"),  # the first member's class
        ("flow", "i4"),
        ("record", "i4"),  # number of its first phase among all chunks' phases
        ("order", "i8"),  # among chunks that move at the same time: (flow key, number)
    ],
    align=True,
)
PORT = np.dtype(
    [
        ("head", "i4"),
        ("tail", "i4"),
        ("entry", "i4"),  # what it serves, or -1
        ("cause", "i4"),  # the phase that freed it last
        ("freed", "i8"),  # when
        ("busy", "i8"),  # ps
    ],
    align=True,
)
ENTRY = np.dtype([("next", "i4"), ("chunk", "i4")])
CLASS = np.dtype(
    [
        ("busy", "i4"),  # first communication in flight
        ("outer", "i4"),  # operators ready or begun whose lookahead is OUTER
        ("clock", "i8"),  # accounted up to here
        ("compute", "i8"),
        ("exposed", "i8"),
        ("end", "i8"),
    ],
    align=True,
)
# Fill of the work lists of a round, the number of nodes done, and the interval that ended last.
READY, OPEN, STARTING, ENDING, MOVING, TOUCHED, N_DONE, LAST = range(8)


class State(NamedTuple):
    """Everything that a run changes; allocated once for a batch, reset for each point."""

    nodes: Table  # NODE_STATE
    streams: Table  # STREAM
    flows: Table  # FLOW_STATE
    chunks: Table  # CHUNK
    ports: Table  # PORT
    entries: Table  # ENTRY
    classes: Table  # CLASS
    dim_exposed: Floats  # (C, D + 1) ps; the last for communication that no dimension serves
    phase_start: Longs  # when each phase of each chunk started; empty unless recorded
    phase_of: Ints  # each phase of each chunk in PhaseTimes.phases
    released: Ints  # the interval that let each phase of each chunk, then each node, start
    visits: Ints  # how often each of PhaseTimes.phases is on the critical path
    due: Longs  # when the compute stream of each class, each port, each class's memory stream ends
    # Work lists of a round.
    ready: Ints
    open_streams: Ints
    starting: Ints
    ending: Ints
    moving: Longs
    touched: Ints
    counts: Ints


def empty_state(s: Structure, times: PhaseTimes, *, record: bool = False) -> State:
    """Room to run ``s``.  With ``record`` the start of every phase is kept (for a timeline)."""
    n, ports = len(s.nodes), s.shape.n_classes * s.shape.n_dims
    chunks, entries = _chunks_and_entries(s, times)
    length = chunks["end"] - chunks["first"]
    n_phases = int(length.sum())
    return State(
        nodes=np.zeros(n, dtype=NODE_STATE),
        streams=np.zeros(s.shape.n_classes * s.shape.n_streams, dtype=STREAM),
        flows=np.zeros(len(s.flows), dtype=FLOW_STATE),
        chunks=chunks,
        ports=np.zeros(ports, dtype=PORT),
        entries=entries,
        classes=np.zeros(s.shape.n_classes, dtype=CLASS),
        dim_exposed=np.zeros((s.shape.n_classes, s.shape.n_dims + 1)),
        phase_start=np.zeros(n_phases if record else 0, dtype=np.int64),
        phase_of=np.arange(n_phases, dtype=np.int32)
        + np.repeat(chunks["first"] - chunks["record"], length),
        released=np.zeros(n_phases + n, dtype=np.int32),
        visits=np.zeros(len(times.phases), dtype=np.int32),
        due=np.zeros(
            s.shape.n_classes * (2 if s.shape.memory_stream else 1) + ports, dtype=np.int64
        ),
        ready=np.zeros(n + 1, dtype=np.uint32),
        open_streams=np.zeros(2 * n + 1, dtype=np.uint32),
        starting=np.zeros(n + 1, dtype=np.uint32),
        ending=np.zeros(n + 1, dtype=np.uint32),
        moving=np.zeros(len(chunks) + 1, dtype=np.int64),
        touched=np.zeros(2 * len(entries) + ports + 1, dtype=np.uint32),
        counts=np.zeros(8, dtype=np.int32),
    )


def _chunks_and_entries(s: Structure, times: PhaseTimes) -> tuple[Table, Table]:
    n_chunks = int(s.flows["chunk_end"].max(initial=0))
    chunks = np.zeros(n_chunks, dtype=CHUNK)
    members = s.flows["member_end"] - s.flows["member_start"]
    chunks["flow"] = np.repeat(
        np.arange(len(s.flows)), s.flows["chunk_end"] - s.flows["chunk_start"]
    )
    flow = chunks["flow"]
    number = np.arange(n_chunks) - s.flows["chunk_start"][flow]
    chunks["entry"] = s.flows["entry_start"][flow] + number * members[flow]
    chunks["members"] = members[flow]
    chunks["member_start"] = s.flows["member_start"][flow]
    chunks["cls"] = s.members["cls"][s.flows["member_start"]][flow]
    chunks["order"] = (s.flows["key"][flow].astype(np.int64) << 32) | np.arange(n_chunks)
    spans = times.spans[s.flows["form"][flow]]
    chunks["first"] = spans["start"] + np.where(spans["variants"] > 1, number * spans["length"], 0)
    chunks["end"] = chunks["first"] + spans["length"]
    chunks["record"] = np.cumsum(spans["length"]) - spans["length"]
    entries = np.zeros(int(members[flow].sum()), dtype=ENTRY)
    entries["chunk"] = np.repeat(np.arange(n_chunks), members[flow])
    return chunks, entries


@inlined
def append(entries: Ints, counts: Ints, which: int, value: int) -> None:
    entries[counts[which]] = value
    counts[which] += 1
