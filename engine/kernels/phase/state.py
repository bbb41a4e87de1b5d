"""The tables that a run of the phase kernel changes, allocated once and reset for each point."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import ACCESS, ACCOUNT, PORT_ACCOUNT, Servers, n_servers
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.queues import QUEUE, Worklist
from dimsweep.engine.kernels.core.tables import NEVER, NONE
from dimsweep.engine.kernels.phase.phase_time import PhaseTimes
from dimsweep.engine.lower.program import POINT_TO_POINT, Floats, Ints, Longs, Structure, Table
from dimsweep.engine.records import new_table, record
from dimsweep.engine.topology.blocks import ENTRANCES

BEGINNING = -1  # the critical predecessor of what starts the run
# Outcomes of a run.  TIED: the order of two events at one instant matters and is not known.
FINISHED, STUCK, TOO_LONG, TIED = range(4)

# An *interval* is a phase that is served, by its number among all chunks' phases, or a computation
# or access, by its node's number behind them.  A field ``critical`` names the interval that ended
# last before something could happen.  A phase that let another one start is named by its transfer
# (see transfer_of); one that ended a flow stands for its transfer and all latencies of its chunk.

NODE_STATE = record(
    state="i4",
    waits="i4",
    next="i4",  # in its stream's queue; valid while QUEUED
    critical="i4",  # of its readiness; once it runs, of its start; then, of its end
    start="i8",  # valid from RUNNING on
    end="i8",  # valid when DONE
)
STREAM = record(
    head="i4",  # of its queue
    tail="i4",  # valid while there is a head
    node="i4",  # what runs
    critical="i4",  # what freed it last; valid from then on
    freed="i8",  # when; -1 before
)
FLOW_STATE = record(
    arrived="i4",  # members
    left="i4",  # chunks
    critical="i4",  # of the last member's arrival; valid once all have arrived
    last="i4",  # the last phase of the chunk that is due last; valid while due
    next="i4",  # behind it among the flows of its class that wait for latencies only
    port="i4",  # of each member class, from which that last phase came; valid then
    due="i8",  # when the latest of the chunks that are through has arrived; -1 before
)
CHUNK = record(
    at="i4",  # its phases in PhaseTimes.phases: current, end, first
    end="i4",
    first="i4",
    entry="i4",  # its first queue entry; one a member
    members="i4",
    member_start="i4",  # as its flow has it
    cls="i4",  # the first member's class
    flow="i4",
    record="i4",  # number of its first phase among all chunks' phases
    order="i8",  # among chunks that move at the same time: (flow key, number)
)
PORT = record(
    head="i4",  # of its queue
    tail="i4",  # valid while there is a head
    serving="i4",  # chunks that it is busy with
    touched="i4",  # whether it is among State.touched
    critical="i4",  # the phase, or its transfer, that left it last; valid from then on
    freed="i8",  # when; -1 before
    busy="i8",  # ps, of all its places together
    **PORT_ACCOUNT,
)
ENTRY = record(next="i4", chunk="i4")
# A link of a class into a dimension on which messages come from several others, one at a time.
ENTRANCE = record(
    until="i8",  # when the bytes of those that have started have come
    critical="i4",  # the transfer of the last of them; valid then
)
CLASS = record(
    **ACCOUNT,
    bound="i4",  # operators ready or begun that have no lookahead
    felt="i4",  # operators begun whose lookahead ends with them
    late=QUEUE,  # its flows that wait for latencies only, by their due
    pauses="i4",  # whether a chain runs of which nothing computes just now
    mark="i4",  # of the chain that runs: the next one
    mark_due="i8",  # NEVER if no chain runs
)
# What one point makes of the chains, their links, and the marks at which links begin and end.
CHAIN_STATE = record(
    duration="i8",
    longest="f8",  # all its links, one after another
    visits="f8",  # how often the critical path goes through it
)
LINK_STATE = record(
    start="i8",  # after its chain's
    end="i8",
    busy="i8",  # ps that it keeps its port busy
    critical="i4",  # the link whose end let it start
    on_path="i4",  # whether it is on the chain's critical path
)
MARK = record(
    due="i8",  # after the chain's start
    link="i4",
    begins="i4",  # or ends
)
ACCESS_STATE = record(node="i4", **ACCESS)  # that shared servers serve; the node is NONE if none is
# An access begins or ends to be served.
SHIFT = record(
    node="i4",
    sign="i4",  # 1: begins, -1: ends
    weight="f8",  # by how much the run's end moves with this (see the room's path)
)
COUNTS = record(
    done="i4",  # nodes
    last="i4",  # the interval that ended last
    shifts="i4",  # how many accesses have begun or ended to be served
    unsettled="i4",  # whether some have since shares were settled
)


class State(NamedTuple):
    """All tables that a run of the phase kernel changes; reset for each point of a batch."""

    counts: Table  # (1,) COUNTS
    nodes: Table  # NODE_STATE
    streams: Table  # STREAM
    flows: Table  # FLOW_STATE
    ports: Table  # PORT
    entrances: Table  # ENTRANCE, ENTRANCES a port; none if there are no messages
    classes: Table  # CLASS
    tally_exposed: Floats  # (C, L) ps; valid when nothing is in flight
    accesses: Table  # ACCESS_STATE, one a class; none if no class shares servers with another
    servers: Servers
    due: Longs  # when what each slot is for ends, or NEVER (see engine.kernels.phase.classes)
    tree: Longs
    filled: Longs  # how many numbers each worklist has
    block: Longs  # all of these side by side, and
    fresh: Longs  # as they are before a run
    chunks: Table  # CHUNK, of which only ``at`` changes
    # What need not be reset.
    served: Ints  # the chunk in each slot of a place, while due; of several members the first one's
    entries: Table  # ENTRY
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
    shifts: Table  # SHIFT, in order
    left_at: Ints  # the shift with which each node ended to be served; empty if none shares servers
    # Of a round.
    ready: Worklist  # nodes
    freed: Worklist  # streams that have become idle, or have got a first one that waits
    starting: Worklist  # nodes
    ending: Worklist  # nodes
    moving: Worklist  # chunks in their order, see CHUNK
    touched: Worklist  # ports
    passing: Worklist  # entries
    entering: Worklist  # messages that started: chunks in their order
    scratch: Longs  # room to sort nodes


class Rules(NamedTuple):
    """The replaceable rules of a simulation, as compiled functions; ``sim`` is the :class:`Sim`.

    Another order of dimensions, or a replica of another simulator, replaces some of the model's
    rules. The kernel is compiled for each set of rules.
    """

    message_time: Any  # (sim, steps, step, held, d) -> ps of one step's messages in dimension d
    latency_after: Any  # () -> whether a phase's latencies pass when its ports are free already
    choose: Any  # (sim, f, chunk): in which order a chunk of a form visits the dimensions
    begin: Any  # (sim): the run begins
    send_off: Any  # (sim, node, flow, now): a flow's last member has arrived
    expect: Any  # (sim, node, send, now): a receive starts whose message has come
    occupy: Any  # (sim, slot): a chunk begins to be served
    in_turn: Any  # (sim, cls, now) -> whether what ends in the class now does so for itself
    end_due: Any  # (sim, first, last, now) -> how many of the nodes that end do so; < 0: not known


class Sim(NamedTuple):
    """All data of one simulation: program, phase times, state, rules, and the rules' notes."""

    s: Structure
    times: PhaseTimes
    st: State
    rules: Rules
    own: Any  # what these rules note; nothing for the model's


def empty_state(s: Structure, times: PhaseTimes, *, record: bool = False) -> State:
    """Allocate the state to run ``s``; with ``record``, also the start time of every phase."""
    n, n_ports = len(s.nodes), s.shape.n_classes * s.shape.n_ports
    block, changed = _pack_tables(_initial_tables(s, times))
    flows, accesses = s.flows, int((s.nodes["service"] != NONE).sum())
    chunks = (flows["chunk_end"] - flows["chunk_start"]).astype(np.int64)
    n_chunks, n_phases = int(chunks.sum()), int(chunks @ times.spans["length"][flows["form"]])
    n_entries = int(chunks @ (flows["member_end"] - flows["member_start"]))
    filled = changed["filled"]
    servers = Servers(s.services, s.server_uses, changed.pop("servers"))
    rooms = (n, 2 * n, n, n, n_chunks, n_ports, n_ports, n_ports * s.shape.places)
    names = ("ready", "freed", "starting", "ending", "moving", "touched", "passing", "entering")
    lists: dict[str, Any] = {
        name: Worklist(np.zeros(room, dtype=np.int64), filled[i : i + 1])
        for i, (name, room) in enumerate(zip(names, rooms, strict=True))
    }
    return State(
        **changed,
        **lists,
        servers=servers,
        block=block,
        fresh=block.copy(),
        chunks=np.zeros(n_chunks, dtype=CHUNK),
        served=np.zeros(len(changed["due"]), dtype=np.int32),
        entries=np.zeros(n_entries, dtype=ENTRY),
        scratch=np.zeros(n, dtype=np.int64),
        phase_start=np.zeros(n_phases if record else 0, dtype=np.int64),
        phase_of=np.zeros(n_phases, dtype=np.int32),
        phase_critical=np.zeros(n_phases, dtype=np.int32),
        node_critical=np.zeros(n, dtype=np.int32),
        visits=np.zeros(len(times.phases)),
        transfers=np.zeros(len(times.phases)),
        chains=np.zeros(len(s.chains), dtype=CHAIN_STATE),
        links=np.zeros(len(s.links), dtype=LINK_STATE),
        marks=np.zeros(2 * len(s.links), dtype=MARK),
        chain_bytes=np.zeros((len(s.chains), s.shape.n_dims)),
        shifts=np.zeros(2 * accesses, dtype=SHIFT),
        left_at=np.zeros(n if accesses else 0, dtype=np.int32),
    )


def _initial_tables(s: Structure, times: PhaseTimes) -> dict[str, NDArray[Any]]:
    """Return the tables that are reset for each point, by name, with their initial values."""
    shape = s.shape
    n_ports, messages = shape.n_classes * shape.n_ports, (s.forms["kind"] == POINT_TO_POINT).any()
    late = np.zeros(shape.n_classes, dtype=QUEUE)
    late["head"] = NONE
    n_streams, n_accesses = shape.n_classes * shape.n_streams, shape.n_classes * (n_servers(s) > 0)
    left = s.flows["chunk_end"] - s.flows["chunk_start"]
    return {
        "counts": new_table(1, COUNTS, last=BEGINNING),
        "nodes": new_table(len(s.nodes), NODE_STATE, waits=s.nodes["waits"]),
        "streams": new_table(n_streams, STREAM, head=NONE, node=NONE, freed=-1),
        "flows": new_table(len(s.flows), FLOW_STATE, left=left, due=-1),
        "ports": new_table(n_ports, PORT, head=NONE, freed=-1),
        "entrances": np.zeros(n_ports * ENTRANCES * int(messages), dtype=ENTRANCE),
        "classes": new_table(shape.n_classes, CLASS, late=late, mark_due=NEVER),
        "tally_exposed": np.zeros((shape.n_classes, shape.n_tallies)),
        "accesses": new_table(n_accesses, ACCESS_STATE, node=NONE),
        "servers": np.zeros(n_servers(s), dtype=np.int64),
        "due": np.full(n_ports * shape.places + shape.n_classes * (shape.n_timed + 1), NEVER),
        "tree": np.full(2 * 2 ** (shape.n_classes - 1).bit_length(), NEVER),
        "filled": np.zeros(8, dtype=np.int64),
    }


def _pack_tables(tables: dict[str, NDArray[Any]]) -> tuple[Longs, dict[str, Any]]:
    """Copy tables into one block of 64-bit words; return the block and its views by name."""
    words = [-(-table.nbytes // 8) for table in tables.values()]
    block, start, placed = np.zeros(sum(words), dtype=np.int64), 0, {}
    for (name, table), n in zip(tables.items(), words, strict=True):
        room = block[start : start + n].view(np.uint8)[: table.nbytes]
        placed[name] = room.view(table.dtype).reshape(table.shape)
        placed[name][:] = table
        start += n
    return block, placed


@kernel
def lay_out_chunks(sim: Sim) -> None:
    """Fill in the constant fields of chunks, queue entries and phase numbers."""
    s, st, spans = sim.s, sim.st, sim.times.spans
    record = long(0)
    for f in range(len(s.flows)):
        flow, span = s.flows[f], spans[s.flows[f].form]
        members, first = flow.member_end - flow.member_start, long(span.start)
        for c in range(flow.chunk_start, flow.chunk_end):
            chunk = st.chunks[c]
            number = c - flow.chunk_start
            chunk.flow, chunk.members, chunk.member_start = f, members, flow.member_start
            chunk.cls = s.members[flow.member_start].cls
            chunk.entry = flow.entry_start + number * members
            chunk.order = (long(flow.key) << 32) | c
            chunk.first, chunk.end, chunk.record = first, first + span.length, record
            for entry in range(chunk.entry, chunk.entry + members):
                st.entries[entry].chunk = c
            for i in range(span.length):
                st.phase_of[record + i] = first + i
            record += span.length
            if span.variants > 1:
                first += span.length


@inlined
def transfer_of(phase: int) -> int:
    """Convert a phase's number to the code of its transfer (without latencies), or back."""
    return -2 - phase
