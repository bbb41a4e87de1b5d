"""Everything that a run of the phase kernel changes: allocated once, reset for each point."""

from typing import NamedTuple

import numpy as np

from engine.cluster.blocks import ENTRANCES
from engine.compiler import inlined
from engine.kernels.phase.phase_time import PhaseTimes
from engine.lower.program import (
    NO_SERVICE,
    POINT_TO_POINT,
    Floats,
    Indices,
    Ints,
    Longs,
    Structure,
    Table,
)

BEGINNING = -1  # the critical predecessor of what starts the run
# Outcomes of a run.  TIED: the order of two events at one instant matters and is not known.
FINISHED, STUCK, TOO_LONG, TIED = range(4)
# States of a node.
WAITING, QUEUED, RUNNING, DONE = range(4)

# An *interval* is a phase that is served, by its number among all chunks' phases, or a computation
# or access, by its node's number behind them (see State.n_phases).  A field ``critical`` names the
# interval that ended last before something could happen.  Where latencies pass after all transfers
# (Shape.latency_after), a phase that let another one start is named by its transfer (see
# transfer_of), and one that ended a flow stands for its transfer and all latencies of its chunk.

NODE_STATE = np.dtype(
    [
        ("state", "i4"),
        ("waits", "i4"),
        ("next", "i4"),  # in its stream's queue; valid while QUEUED
        ("critical", "i4"),  # of its readiness; once it runs, of its start; then, of its end
        ("start", "i8"),  # valid from RUNNING on
        ("end", "i8"),  # valid when DONE
    ],
    align=True,
)
STREAM = np.dtype(
    [
        ("head", "i4"),  # of its queue
        ("tail", "i4"),  # valid while there is a head
        ("node", "i4"),  # what runs
        ("critical", "i4"),  # what freed it last; valid from then on
        ("freed", "i8"),  # when; -1 before
    ],
    align=True,
)
FLOW_STATE = np.dtype(
    [
        ("arrived", "i4"),  # members
        ("left", "i4"),  # chunks
        ("critical", "i4"),  # of the last member's arrival; valid once all have arrived
        ("last", "i4"),  # the last phase of the chunk that is due last; valid while due
        ("next", "i4"),  # behind it among the flows of its class that wait for latencies only
        ("port", "i4"),  # of each member class, from which that last phase came; valid then
        ("due", "i8"),  # when the latest of the chunks that are through has arrived; -1 before
    ],
    align=True,
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
        ("head", "i4"),  # of its queue
        ("tail", "i4"),  # valid while there is a head
        ("serving", "i4"),  # chunks that it is busy with
        ("touched", "i4"),  # whether it is among State.touched
        ("under_way", "i4"),  # these, and flows whose last latencies pass
        ("critical", "i4"),  # the phase, or its transfer, that left it last; valid from then on
        ("freed", "i8"),  # when; -1 before
        ("busy", "i8"),  # ps, of all its places together
        ("exposed", "f8"),  # ps; valid while it serves nothing (see booking)
    ],
    align=True,
)
# A place at a port.  A chunk with several members keeps the time at its first member's port.
PLACE = np.dtype(
    [
        ("chunk", "i4"),  # valid while due
        ("serial", "i8"),  # how many starts were before this one
    ],
    align=True,
)
ENTRY = np.dtype([("next", "i4"), ("chunk", "i4")])
# A link of a class into a dimension on which messages come from several others, one at a time.
ENTRANCE = np.dtype(
    [
        ("until", "i8"),  # when the bytes of those that have started have come
        ("critical", "i4"),  # the transfer of the last of them; valid then
    ],
    align=True,
)
CLASS = np.dtype(
    [
        ("in_flight", "i4"),  # communication and accesses
        ("serving", "i4"),  # ports with phases under way
        ("bound", "i4"),  # operators ready or begun that have no lookahead
        ("felt", "i4"),  # operators begun whose lookahead ends with them
        ("late", "i4"),  # the first of its flows that wait for latencies only, by their due
        ("clock", "i8"),  # accounted up to here
        ("compute", "i8"),
        ("exposed", "i8"),
        ("per_operator", "f8"),  # ps of exposed communication: one operator's share so far
        ("per_port", "f8"),  # likewise
        ("unserved", "f8"),  # ps of it in which no port served
        ("end", "i8"),
        ("pauses", "i4"),  # whether a chain runs of which nothing computes just now
        ("mark", "i4"),  # of the chain that runs: the next one
        ("mark_due", "i8"),  # NEVER if no chain runs
        ("marked", "i8"),  # when something that had begun before ended last; ends ONE_BY_ONE
    ],
    align=True,
)
# What one point makes of the chains, their links, and the marks at which links begin and end.
CHAIN_STATE = np.dtype(
    [
        ("duration", "i8"),
        ("longest", "f8"),  # all its links, one after another
        ("visits", "f8"),  # how often the critical path goes through it
    ],
    align=True,
)
LINK_STATE = np.dtype(
    [
        ("start", "i8"),  # after its chain's
        ("end", "i8"),
        ("busy", "i8"),  # ps that it keeps its port busy
        ("critical", "i4"),  # the link whose end let it start
        ("on_path", "i4"),  # whether it is on the chain's critical path
    ],
    align=True,
)
MARK = np.dtype(
    [
        ("due", "i8"),  # after the chain's start
        ("link", "i4"),
        ("begins", "i4"),  # or ends
    ]
)
# The access of a class that shared servers serve.
ACCESS_STATE = np.dtype(
    [
        ("node", "i4"),  # or NONE
        ("left", "f8"),  # the share of it that was to be moved ...
        ("since", "i8"),  # ... then
        ("lasts", "f8"),  # ps that all of it takes as its servers are since then
    ],
    align=True,
)
# An access begins or ends to be served.
SHIFT = np.dtype(
    [
        ("node", "i4"),
        ("sign", "i4"),  # 1: begins, -1: ends
        (
            "weight",
            "f8",
        ),  # by how much the run's end moves with this (see engine.kernels.phase.path)
    ],
    align=True,
)
# Fill of the work lists of a round, the number of nodes done, the interval that ended last, how
# many things have started, whether ends have tied, how many accesses have begun or ended to be
# served, whether some have since shares were settled, and how many messages have started.
READY, OPEN, STARTING, ENDING, MOVING, TOUCHED, N_DONE, LAST, STARTED, IN_TIE = range(10)
SHIFTS, UNSETTLED, ENTERING, N_COUNTS = range(10, 14)


class State(NamedTuple):
    """Everything that a run changes; allocated once for a batch, reset for each point."""

    nodes: Table  # NODE_STATE
    streams: Table  # STREAM
    flows: Table  # FLOW_STATE
    chunks: Table  # CHUNK
    ports: Table  # PORT
    places: Table  # PLACE
    entries: Table  # ENTRY
    entrances: Table  # ENTRANCE, ENTRANCES a port; none if there are no messages
    classes: Table  # CLASS
    tally_exposed: Floats  # (C, L) ps; valid when nothing is in flight (see booking)
    phase_start: Longs  # when each phase of each chunk started; empty unless recorded
    phase_of: Ints  # each phase of each chunk in PhaseTimes.phases
    phase_critical: Ints  # what let each phase of each chunk start
    node_critical: Ints  # what let each computation and access start
    visits: Floats  # how often each of PhaseTimes.phases is on the critical path
    transfers: Floats  # how often its transfer alone is
    chains: Table  # CHAIN_STATE
    links: Table  # LINK_STATE
    marks: Table  # MARK, two a link, in order; those of a chain whose first link is l from 2 l on
    chain_bytes: Floats  # (chains, D) that an NPU sends
    accesses: Table  # ACCESS_STATE, one a class; none if no class shares servers with another
    servers: Longs  # how many NPUs each server serves
    shifts: Table  # SHIFT, in order
    left_at: Ints  # the shift with which each node ended to be served; empty if none shares servers
    # When something ends, or NEVER (see engine.kernels.phase.agenda).
    stream_due: Longs  # what a timed stream runs
    place_due: Longs  # what keeps a place busy: a phase, or its transfer
    flight_due: Longs  # the first flow of a class that waits for latencies only
    tree: Longs
    # Work lists of a round.
    ready: Indices
    open_streams: Indices
    starting: Indices
    ending: Indices
    moving: Longs
    touched: Indices
    passing: Indices
    entering: Longs  # messages that started: chunks in their order, see CHUNK
    counts: Ints


def empty_state(s: Structure, times: PhaseTimes, *, record: bool = False) -> State:
    """Room to run ``s``.  With ``record`` the start of every phase is kept (for a timeline)."""
    n, n_ports = len(s.nodes), s.shape.n_classes * s.shape.n_ports
    n_streams, n_places = s.shape.n_classes * s.shape.n_streams, n_ports * s.shape.places
    chunks, entries = _chunks_and_entries(s, times)
    length = chunks["end"] - chunks["first"]
    n_phases = int(length.sum())
    served = int((s.nodes["service"] != NO_SERVICE).sum())
    messages = bool((s.forms["kind"] == POINT_TO_POINT).any())
    starts = np.repeat(chunks["first"] - chunks["record"], length)
    return State(
        nodes=np.zeros(n, dtype=NODE_STATE),
        streams=np.zeros(n_streams, dtype=STREAM),
        flows=np.zeros(len(s.flows), dtype=FLOW_STATE),
        chunks=chunks,
        ports=np.zeros(n_ports, dtype=PORT),
        places=np.zeros(n_places, dtype=PLACE),
        entries=entries,
        entrances=np.zeros(n_ports * ENTRANCES if messages else 0, dtype=ENTRANCE),
        classes=np.zeros(s.shape.n_classes, dtype=CLASS),
        tally_exposed=np.zeros((s.shape.n_classes, s.shape.n_tallies)),
        phase_start=np.zeros(n_phases if record else 0, dtype=np.int64),
        phase_of=np.arange(n_phases, dtype=np.int32) + starts.astype(np.int32),
        phase_critical=np.zeros(n_phases, dtype=np.int32),
        node_critical=np.zeros(n, dtype=np.int32),
        visits=np.zeros(len(times.phases)),
        transfers=np.zeros(len(times.phases)),
        chains=np.zeros(len(s.chains), dtype=CHAIN_STATE),
        links=np.zeros(len(s.links), dtype=LINK_STATE),
        marks=np.zeros(2 * len(s.links), dtype=MARK),
        chain_bytes=np.zeros((len(s.chains), s.shape.n_dims)),
        accesses=np.zeros(s.shape.n_classes if served else 0, dtype=ACCESS_STATE),
        servers=np.zeros(int(s.server_uses["server"].max(initial=-1)) + 1, dtype=np.int64),
        shifts=np.zeros(2 * served, dtype=SHIFT),
        left_at=np.zeros(n if served else 0, dtype=np.int32),
        stream_due=np.zeros(s.shape.n_classes * s.shape.n_timed, dtype=np.int64),
        place_due=np.zeros(n_places, dtype=np.int64),
        flight_due=np.zeros(s.shape.n_classes, dtype=np.int64),
        tree=np.zeros(2 * 2 ** (s.shape.n_classes - 1).bit_length(), dtype=np.int64),
        ready=np.zeros(n + 1, dtype=np.uint32),
        open_streams=np.zeros(2 * n + 1, dtype=np.uint32),
        starting=np.zeros(n + 1, dtype=np.uint32),
        ending=np.zeros(n + 1, dtype=np.uint32),
        moving=np.zeros(len(chunks) + 1, dtype=np.int64),
        touched=np.zeros(n_ports, dtype=np.uint32),
        passing=np.zeros(n_ports, dtype=np.uint32),
        entering=np.zeros(n_places if messages else 0, dtype=np.int64),
        counts=np.zeros(N_COUNTS, dtype=np.int32),
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
def append(entries: Indices, counts: Ints, which: int, value: int) -> None:
    entries[counts[which]] = value
    counts[which] += 1


@inlined
def transfer_of(phase: int) -> int:
    """The transfer of a chunk's phase as a critical predecessor; of that, the phase again."""
    return -2 - phase


@inlined
def long(number: int) -> int:
    """``number`` as 64 bits: Numba compiles once what is given one type only."""
    return number + 0
