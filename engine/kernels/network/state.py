"""The typed tables that a run of the network kernel reads and changes.

Terms, in addition to :mod:`engine.kernels.messages`:

- An *entry* is one member's part of a chunk, or a point-to-point message.
- A *parcel* is a message, or a part of one, in flight.
- A *lane* is the record with which a port serves one phase.  Where packets carry messages, a port
  may serve several phases at once, each in a lane.

Times are ps.
"""

from typing import NamedTuple

from dimsweep.engine.kernels.core.accounts import ACCESS, ACCOUNT, PORT_ACCOUNT, Servers
from dimsweep.engine.kernels.core.agenda import Agenda
from dimsweep.engine.kernels.core.queues import POOL, QUEUE, Worklist
from dimsweep.engine.kernels.flow.tables import Flows
from dimsweep.engine.kernels.messages.records import Io, Plans
from dimsweep.engine.lower.program import Floats, Ints, Longs, Table
from dimsweep.engine.records import record

# What a parcel is: of an exchange, from point to point, to or from a switch that reduces, a piece
# from or to an I/O controller.
EXCHANGED, CROSSING, SWITCHED, PIECE = range(4)

COUNTS = record(
    ring="i8",  # events of this instant in Clock.ring: from here ...
    ring_end="i8",  # ... to here
    settling="i8",  # whether operators and ports settle at the end of this instant
    n_messages="i8",
    n_spans="i8",
    sent="i8",  # of the phases in the list ``sending``, those that have begun
    begun="i8",  # the same of ``beginning``
    overdue="i8",  # whether something would happen after LONGEST
    crowded="i8",  # whether there are more messages than allowed
    under_way="i8",  # messages that something else than links carries
    next="i8",  # when something is planned to happen (ps)
    unsettled="i8",  # whether servers serve others than they did
    in_last="i8",  # phases that are served in the last lane
    # For ties (engine.kernels.network.clock):
    step="i8",  # the number of the present step
    generation="i8",  # the number of the first step of its generation
    generation_end="i8",  # where the generation ends in the ring
    clashed="i8",  # whether two steps of a generation have
    parcels=POOL,
    feeds=POOL,
)
LINK = record(
    per_byte="f8",  # ps
    latency="i8",
    room="i8",  # bytes that its far end has room for, -1 without limit
    left="i8",  # of it
    n_bytes="f8",
    busy="i8",
    holder="i4",  # a parcel
    before="i4",  # the link that the holder comes from, or NONE
    held="i4",  # 1 while it is somebody's
    waits="i4",  # a parcel that waits for room
    head="i4",  # of its queue
    tail="i4",
    queue="i4",  # how many wait, or share it
    longest="i4",
    asked="i8",  # the last step that asked for it ...
    released="i8",  # ... that released it ...
    filled="i8",  # ... and that took room at its far end or gave some back
)
PARCEL = record(
    n_bytes="f8",
    tail="i8",  # when its last byte comes to where it is
    late="i8",  # how late it left
    way="i8",  # the latencies on its way
    precedence="i8",  # of lower ones go first
    first="i4",  # of its hops, in Wires.hops; before it sets out, its route
    hop="i4",  # where it is
    last="i4",
    kind="i4",
    port="i4",  # of the sender; NONE for a switch
    strand="i4",  # of the receiver
    slot="i4",  # of the receiver; of what is SWITCHED or a PIECE, its LAUNCH
    message="i4",  # the parcel that counts the parts
    leaving="i4",  # parts that have not left; of one on one link only, see parcels.let_go
    arriving="i4",  # parts that have not arrived
    next="i4",  # in a queue, a slot, or among the free ones
    entry="i4",  # that it belongs to; of a PIECE, ~ the node
)
# A parcel on a link where it may be suspended (engine.kernels.network.links); it is another
# parcel on the next one.  Progress is counted in ps of the transfer.
SUSPENDABLE = record(
    transfer="i8",  # of all of it
    head="i8",  # of as much as the far end waits for
    sent="i8",  # progress, as counted ...
    at="i8",  # ... at this time
    since="i8",  # when it was given the link; NONE: it does not hold it
    end="i8",  # when its last byte is on the link, as planned; NONE: not known
    precedence="i8",  # of its message, whether it was suspended or not
    feeds="i4",  # the first FEED of those that feed it, or NONE
    followers=QUEUE,  # the FEEDs of those that wait for its bytes
    further="i4",  # whether it was passed on
)
FEED = record(
    parcel="i4",  # that feeds ...
    follower="i4",  # ... another one
    other="i4",  # the next FEED of the follower, or of a gate
    next="i4",  # the next one of what feeds, or of the free ones
)
PLAN = record(due="i8", number="i8", at="i4")
MESSAGE = record(  # that is carried, in the order in which they are sent
    n_bytes="f8",
    start="i8",
    arrival="i8",  # if flows carry it
    route="i4",
    parcel="i4",
    entry="i4",
)
# Ports in their order, each as its lane 0.  In packets a port may serve several phases at once,
# each in a lane, which is another record, behind those of all ports; a line is served in the same
# lane at all its ports.  Queue, window, newest and leaving are those of lane 0.
PORT = record(
    n_bytes="f8",  # a member's on entering the phase that is served
    late="i8",  # of the entry that is served
    started="i8",
    place="i4",  # the port itself
    newest="i4",  # the lane's record that it was last given, until it is free; or NONE
    leaving="i4",  # messages that have not left it yet, in packets
    serving="i4",  # an entry
    plan="i4",  # of the exchange that is served, a MEMBER_PLAN
    ways="i4",  # of its pairs, from here on
    open="i4",  # strands to end and messages to get rid of
    head="i4",  # of its queue of entries
    tail="i4",
    last_message="i4",  # the last one from point to point in it, which go first
    touched="i4",
    strands="i4",  # its own, from here on
    slots="i4",  # its own, from here on
    in_window="i4",
    window=QUEUE,  # of parcels that wait for a place in it
    asked="i8",  # the last step that asked for a place in its window ...
    released="i8",  # ... and that gave one back
)
STRAND = record(
    late="i8",
    received="i8",  # the latest lateness of a round's arrived messages
    port="i4",
    number="i4",
    round="i4",
    end="i4",
    missing="i4",
)
SLOT = record(
    missing="i4",
    head="i4",  # of the parcels that arrived early; where messages are asked for, of those
    tail="i4",  # that wait for it
    asks="i4",  # 1 if a message is asked for that has not set out
    late="i8",  # how late it was asked for
    filled="i8",  # the last step in which a message arrived early
)
ENTRY = record(
    late="i8",
    order="i8",  # in which entries that move on at the same time go on
    flow="i4",
    chunk="i4",  # of its flow
    member="i4",  # whose part it is, in State.parts
    phase="i4",  # that it is in, or queues for: 0 is its chunk's first
    next="i4",  # in a port's queue
)
NODE = record(  # the constants and the state of the program's nodes
    duration="i8",
    start="i8",
    end="i8",
    order="i8",  # in which nodes that become ready at the same time go on
    kind="i4",
    rank="i4",
    stream="i4",
    key="i4",
    flow="i4",
    tally="i4",
    service="i4",
    io="i4",  # of an access over an interconnect's links, its IO_MEMBER; or NONE
    following="i4",  # in State.following, from here ...
    following_end="i4",
    state="i4",  # as in the phase kernel
    waits="i4",
    next="i4",  # in its stream's queue
)
# An access of a node to a memory that serves others, too; it is due when its bytes have moved, as
# servers are now; NONE before and afterwards.
NODE_ACCESS = record(due="i8", **ACCESS)
STREAM = record(node="i4", head="i4", tail="i4", freed="i4")  # whether it is in State.freed
PART = record(  # a member of a flow, and what it has still to do
    due="i8",  # when the latest of the chunks that are through has arrived
    through="i8",  # when the last of them was ...
    dim="i4",  # ... from which dimension
    chunks="i4",  # that are not through
    rank="i4",
    node="i4",
)
PHASE = record(n_bytes="f8", size="i8", dim="i4", kind="i4")
TURN = record(
    round="i4",
    passing="i4",  # the number of the present turn
    under_way="i4",
    head="i4",  # of the reductions that wait
    tail="i4",
)
SPAN = record(start="i8", end="i8", place="i4", entry="i4")
RANK = record(**ACCOUNT, computing="i4")  # operators
RANK_PORT = record(
    **PORT_ACCOUNT,
    busy="i8",
    bytes_sent="f8",
    last_sent="f8",  # of them
    first_sent="i8",  # the step of this generation that first sent some ...
    unequal="i8",  # ... and the last one that sent another number of bytes
    serving="i4",  # phases
)


class Accounts(NamedTuple):
    """Time accounts of all ranks: R ranks, D dimensions, L tallies (groups of operators)."""

    ranks: Table  # (R,) of RANK
    ports: Table  # (R, D) of RANK_PORT
    exposed: Floats  # (R, L) ps of operators; valid when nothing is in flight


class Clock(NamedTuple):
    """The planned events of a run: calendar, ring of the present instant, and heap."""

    agenda: Agenda
    ring: Ints  # events of this instant; a power of two
    counts: Table  # one of COUNTS
    # Plans of suspendable parcels may be cancelled (engine.kernels.network.links):
    plans: Table  # PLAN, two for each parcel, if messages may be suspended
    order: Ints  # of those that are planned (engine.kernels.core.agenda)
    numbers: Longs  # of the events in ``ring``, as they were planned, if messages may be suspended


class Settings(NamedTuple):
    """The constant numbers of a run, such as the packet size at which links forward."""

    packet: float  # bytes after which a device passes a message on
    window: int  # 0 without limit
    carried: int  # by a CARRIER (engine.kernels.network.carrying)
    lanes: bool  # a port may serve several phases at once
    shares: bool  # messages from point to point do not wait for one another at a port
    ordered: bool  # parcels of a lower precedence go first
    suspends: bool  # and those under way make way for them
    max_messages: int
    record: bool
    folded: bool  # one rank stands for all that are alike
    need: int  # parcels that one step may take
    burst: int  # events that a step may plan
    n_dims: int
    by_key: bool  # whether an idle stream starts the operator of the lowest key
    queue: int  # a QueueOrder
    endpoint_delay: int
    reduce_time: float  # ps a byte


class Wires(NamedTuple):
    """The links, routes and ports of a run, and the parcels in flight."""

    clock: Clock
    settings: Settings
    links: Table  # LINK
    flows: Flows  # a parcel's flow has the parcel's number
    messages: Table  # MESSAGE
    parcels: Table  # PARCEL
    ports: Table  # PORT
    routes: Table  # ROUTE
    hops: Ints  # links
    spans: Table  # SPAN; the place of a port is ~ its number
    crossings: Table  # SUSPENDABLE, of the parcel of the same number, if messages may be suspended
    feeds: Table  # FEED
    begun: Ints  # the first FEED that has begun to arrive at each gate, or NONE


class State(NamedTuple):
    """All tables that a run reads and changes."""

    wires: Wires
    plans: Plans
    accounts: Accounts
    # Of an instant:
    ready: Worklist  # nodes
    freed: Worklist  # streams that have become idle, or have got a first one that waits
    starting: Worklist  # nodes
    moving: Worklist  # entries that move on
    touched: Worklist  # ports
    passing: Worklist  # entries that pass others
    sending: Worklist  # ports whose message from point to point, or phase by a switch, begins
    beginning: Worklist  # ports whose exchange begins
    served: Worklist  # nodes whose accesses are in flight
    scratch: Longs  # room to sort
    nodes: Table  # NODE
    following: Ints
    streams: Table  # STREAM
    flows: Table  # FLOW
    parts: Table  # PART
    uses: Ints  # dimensions
    phases: Table  # PHASE
    entries: Table  # ENTRY
    gathered: Ints
    strands: Table  # STRAND
    slots: Table  # SLOT
    line_ports: Ints  # as Plans.line_ranks, the port of each into the line's dimension
    reductions: Table  # REDUCTION
    launches: Table  # LAUNCH
    gates: Table  # GATE
    turns: Table  # TURN
    passed: Ints  # the last turn in which a line has passed
    servers: Servers
    accesses: Table  # NODE_ACCESS, of nodes
    io: Io
