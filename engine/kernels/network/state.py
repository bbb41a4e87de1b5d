"""Everything that a run of the network kernel reads and changes, in typed arrays.

Words, beside those of :class:`engine.lower.program.Structure`: a *port* leads from a rank into a
dimension; an *entry* is a member's part of a chunk, or a message from point to point; a *line* is
the members of a group that differ in one dimension only; a *plan* is what the members of a line do
in a phase, as *strands* of *rounds* (:mod:`engine.collective.rounds`); a *pair* is a member and one
to whom it sends; a *slot* is where a strand's messages from one sender come in; a *parcel* is a
message, or a part of one, on its way.  Times are ps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.kernels.flow.tables import Flows
from engine.kernels.packet.agenda import Agenda
from engine.lower.program import Ints, Longs, Table

NONE = -1
LONGEST = 2**62  # as engine.kernels.phase.phase_time
# Outcomes of a run, those of the phase kernel first.  FULL: arrays must be enlarged, then it goes
# on.  TOO_MANY: more messages than allowed.
# CARRY: packets are to go on, to NEXT at most.
FINISHED, STUCK, TOO_LONG, TIED, FULL, TOO_MANY, CARRY = range(7)

# Events: what happens, and to which of its kind.
FREE = 0  # a link: the last byte of what holds it is on it
THROUGH = 1  # a link: likewise, and it is the last one
PASS = 2  # a parcel: the far end may pass it on
GRANTED = 3  # a parcel: it heads the queue of a free link
ROOMY = 4  # a parcel: it has found room at the link's far end
RELEASED = 5  # a link: free for the next one
GIVE = 6  # a parcel that gives room back
GAVE = 7  # a link: there is more room at its far end
ADMITTED = 8  # a parcel: its port's window has room
CLOSE = 9  # a port: a parcel leaves its window
CLOSED = 10  # a port: its window has room
COMPLETE = 11  # a strand: all that it waits for is there
REDUCED = 12  # a strand: and reduced
OPERATOR = 13  # a node ends
ARRIVE = 14  # a member of a flow has made up for being late
LANDED = 15  # a parcel that something else carries: it is there
SERVED = 16  # a node: the bytes of its access have moved, as was foreseen at some time
KIND_BITS = 5

# Entries of ``counts``.
# RING, RING_END: events of this instant.  N_*: how many.
# SENT, BEGUN: of those, how many have begun.  OVERDUE: something would happen after LONGEST.
# CROWDED: there are more messages than allowed.  UNDER_WAY: messages that are carried.
# NEXT: when something is planned to happen (ps).  UNSETTLED: whether servers serve others than
# they did.
# For ties (engine.kernels.network.ties): STEP: the number of the present step.  GENERATION: of the
# first one of its generation.  GENERATION_END: where that ends in the ring.  CLASHED: two steps of
# one have.
(
    RING,
    RING_END,
    SETTLING,
    N_MESSAGES,
    FREE_PARCEL,
    PARCELS_LEFT,
    N_READY,
    N_OPEN,
    N_STARTING,
    N_MOVING,
    N_TOUCHED,
    N_SENDING,
    SENT,
    N_BEGINNING,
    BEGUN,
    N_SPANS,
    OVERDUE,
    CROWDED,
    UNDER_WAY,
    NEXT,
    N_SERVING,
    UNSETTLED,
    STEP,
    GENERATION,
    GENERATION_END,
    CLASHED,
    N_COUNTS,
) = range(27)

LINK = np.dtype(
    [
        ("per_byte", "f8"),  # ps
        ("latency", "i8"),
        ("room", "i8"),  # bytes that its far end has room for, -1 without limit
        ("left", "i8"),  # of it
        ("n_bytes", "f8"),
        ("busy", "i8"),
        ("holder", "i4"),  # a parcel
        ("before", "i4"),  # the link that the holder comes from, or NONE
        ("held", "i4"),  # 1 while it is somebody's
        ("waits", "i4"),  # a parcel that waits for room
        ("head", "i4"),  # of its queue
        ("tail", "i4"),
        ("queue", "i4"),  # how many wait, or share it
        ("longest", "i4"),
        ("asked", "i8"),  # the last step that asked for it ...
        ("released", "i8"),  # ... that released it ...
        ("filled", "i8"),  # ... and that took room at its far end or gave some back
    ],
    align=True,
)
# What a parcel is: of an exchange, from point to point, to or from a switch that reduces, a piece
# from or to an I/O controller.
EXCHANGED, CROSSING, SWITCHED, PIECE = range(4)
PARCEL = np.dtype(
    [
        ("n_bytes", "f8"),
        ("tail", "i8"),  # when its last byte comes to where it is
        ("late", "i8"),  # how late it left
        ("way", "i8"),  # the latencies on its way
        ("rank", "i8"),  # of lower ones go first
        ("first", "i4"),  # of its hops, in Plans.hops
        ("hop", "i4"),  # where it is
        ("last", "i4"),
        ("what", "i4"),
        ("port", "i4"),  # of the sender; NONE for a switch
        ("strand", "i4"),  # of the receiver; of a SWITCHED one, the gate that it goes to
        # of the receiver; of a SWITCHED one, the port that it goes to; of a PIECE, its hop
        ("slot", "i4"),
        ("whole", "i4"),  # the parcel that counts the parts; of a SWITCHED one, its reduction
        ("leaving", "i4"),  # parts that have not left; of one on one link only, see links.let_go
        ("coming", "i4"),  # parts that have not come
        ("next", "i4"),  # in a queue, a slot, or among the free ones
        ("entry", "i4"),  # that it belongs to; of a PIECE, ~ the node
    ],
    align=True,
)
ROUTE = np.dtype(
    [
        ("start", "i4"),
        ("end", "i4"),
        ("room", "i8"),  # the least at a far end on its way; -1 without limit
        ("way", "i8"),  # latencies
        ("n_ways", "i4"),  # that a message takes at once; their hops are one after another
    ],
    align=True,
)
MESSAGE = np.dtype(  # that is carried, in the order in which they are sent
    [
        ("n_bytes", "f8"),
        ("start", "i8"),
        ("arrival", "i8"),  # if flows carry it
        ("route", "i4"),
        ("parcel", "i4"),
        ("entry", "i4"),
    ],
    align=True,
)
PORT = np.dtype(
    [
        ("n_bytes", "f8"),  # a member's on entering the phase that is served
        ("late", "i8"),  # of the entry that is served
        ("started", "i8"),
        ("serving", "i4"),  # an entry
        ("plan", "i4"),  # of the exchange that is served, a MEMBER_PLAN
        ("ways", "i4"),  # of its pairs, from here on
        ("open", "i4"),  # strands to end and messages to get rid of
        ("head", "i4"),  # of its queue of entries
        ("tail", "i4"),
        ("last_message", "i4"),  # the last one from point to point in it, which go first
        ("touched", "i4"),
        ("strands", "i4"),  # its own, from here on
        ("slots", "i4"),  # likewise
        ("in_window", "i4"),
        ("window_head", "i4"),
        ("window_tail", "i4"),
        ("asked", "i8"),  # the last step that asked for a place in its window ...
        ("released", "i8"),  # ... and that gave one back
    ],
    align=True,
)
STRAND = np.dtype(
    [
        ("late", "i8"),
        ("came", "i8"),  # how late what has come of a round is
        ("port", "i4"),
        ("number", "i4"),
        ("round", "i4"),
        ("end", "i4"),
        ("missing", "i4"),
    ],
    align=True,
)
SLOT = np.dtype(
    [
        ("missing", "i4"),
        ("head", "i4"),
        ("tail", "i4"),
        ("came", "i8"),
        ("filled", "i8"),  # the last step in which a message came early
    ],
    align=True,
)
ENTRY = np.dtype([("late", "i8"), ("flow", "i4"), ("phase", "i4"), ("next", "i4")], align=True)
NODE = np.dtype(  # what is read of the program's nodes, and what has become of them
    [
        ("duration", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("kind", "i4"),
        ("rank", "i4"),
        ("stream", "i4"),
        ("key", "i4"),
        ("flow", "i4"),
        ("tally", "i4"),
        ("service", "i4"),
        ("io", "i4"),  # of an access over a wafer's links, its IO_MEMBER; or NONE
        ("following", "i4"),  # in State.following, from here ...
        ("following_end", "i4"),
        ("state", "i4"),  # as in the phase kernel
        ("waits", "i4"),
        ("next", "i4"),  # in its stream's queue
    ],
    align=True,
)
ACCESS = np.dtype(  # of a node, to a memory that serves others, too
    [
        ("since", "i8"),
        ("takes", "f8"),  # ps, of all of it, since then
        ("left", "f8"),  # a share of it
        ("due", "i8"),  # when its bytes have moved, as servers are now; NONE before and afterwards
    ]
)
STREAM = np.dtype([("node", "i4"), ("head", "i4"), ("tail", "i4"), ("open", "i4")])
FLOW = np.dtype(
    [
        ("n_bytes", "f8"),  # of a chunk
        ("key", "i4"),
        ("receiver", "i4"),
        ("member", "i4"),  # its members in State.parts, from here on
        ("n_members", "i4"),
        ("arrived", "i4"),  # of them
        ("entry", "i4"),  # its entries, chunk * members + member, from here on
        ("chunks", "i4"),
        ("priority", "i4"),
        ("phase", "i4"),  # its phases in State.phases, from here on
        ("n_phases", "i4"),  # of a chunk
        ("variants", "i4"),  # one, or one a chunk
        ("use", "i4"),  # the dimensions that a message crosses in State.uses, from here ...
        ("use_end", "i4"),
        ("group", "i4"),  # its number; NONE from point to point
        ("gather", "i4"),  # its counts of who has come in State.gathered, from here on
        ("route", "i4"),  # from point to point
        ("rank", "i4"),  # of lower ones go first
    ],
    align=True,
)
PART = np.dtype(  # a member of a flow, and what it has still to do
    [
        ("due", "i8"),  # when the latest of the chunks that are through has arrived
        ("through", "i8"),  # when the last of them was ...
        ("dim", "i4"),  # ... from which dimension
        ("chunks", "i4"),  # that are not through
        ("rank", "i4"),
        ("node", "i4"),
    ],
    align=True,
)
PHASE = np.dtype([("n_bytes", "f8"), ("dim", "i4"), ("kind", "i4")], align=True)

# --- plans ---------------------------------------------------------------------------------------

WAY = np.dtype([("route", "i4"), ("strand", "i4"), ("slot", "i4")])  # of a pair, on a line
MEMBER_PLAN = np.dtype(
    [
        ("strands", "i4"),  # its strands in State.plan_strands, from here ...
        ("n_strands", "i4"),
        ("n_slots", "i4"),
        ("open", "i4"),
        ("pairs", "i4"),  # its pairs among those of the plan, from here on
    ]
)
PLAN_STRAND = np.dtype([("start", "i4"), ("end", "i4")])  # its rounds
ROUND = np.dtype(
    [
        ("reduce", "f8"),
        ("receive", "i4"),  # slots, in State.receives, from here ...
        ("receive_end", "i4"),
        ("send", "i4"),  # likewise in State.sends
        ("send_end", "i4"),
    ],
    align=True,
)
SEND = np.dtype([("fraction", "f8"), ("pair", "i4")], align=True)
LINE = np.dtype([("start", "i4"), ("size", "i4")])  # its ranks, in State.line_ranks
LINE_PLAN = np.dtype(
    [
        ("members", "i4"),  # its MEMBER_PLANs, from here on
        ("ways", "i4"),  # likewise its WAYs
        ("reductions", "i4"),  # its REDUCTIONs, from here ...
        ("reductions_end", "i4"),
    ]
)
REDUCTION = np.dtype(
    [
        ("risen", "i8"),  # how late the latest of its sources is
        ("launch", "i4"),  # what the sources send in State.launches, from here ...
        ("launch_end", "i4"),
        ("n_messages", "i4"),
        ("phase", "i4"),  # that it is of, in State.phases; members may be done with it before all
        ("entry", "i4"),
        ("missing", "i4"),  # targets that have not got theirs
        ("n_targets", "i4"),
        ("turn", "i4"),  # whose rounds it waits for, or NONE
        ("round", "i4"),
        ("line", "i4"),  # among those that take turns
        ("next", "i4"),  # that waits, too
    ],
    align=True,
)
TURN = np.dtype(
    [
        ("round", "i4"),
        ("passing", "i4"),  # the number of the present turn
        ("under_way", "i4"),
        ("head", "i4"),  # of the reductions that wait
        ("tail", "i4"),
    ]
)
LAUNCH = np.dtype(
    [
        ("up", "f8"),  # what sources send, a share of what a member holds
        ("down", "f8"),  # what targets get, likewise
        ("way", "i8"),  # latencies of all the way, for a target
        ("copies", "i4"),  # targets for whom it is; 0 on the way up
        ("parts", "i4"),  # in which it goes side by side
        ("hop", "i4"),
        ("gate", "i4"),  # to which it goes, or NONE
        ("port", "i4"),  # of the source, or NONE
        ("target", "i4"),  # its port, or NONE
        ("reduction", "i4"),
    ],
    align=True,
)
GATE = np.dtype(
    [
        ("tail", "i8"),  # the latest of what has begun to come
        ("expected", "i4"),
        ("come", "i4"),
        ("launch", "i4"),  # what it launches then, from here ...
        ("launch_end", "i4"),
    ],
    align=True,
)
# What goes through a wafer's I/O controllers (see engine.kernels.message.io_plan).
TRANSFER = np.dtype(
    [
        ("n_bytes", "f8"),  # of a piece
        ("missing", "i8"),  # pieces that the controllers have not got
        ("member", "i4"),  # its IO_MEMBERs, from here ...
        ("member_end", "i4"),
        ("arrived", "i4"),  # of them
        ("train", "i4"),  # its TRAINs, from here ...
        ("train_end", "i4"),
        ("store", "i4"),
        ("n_pieces", "i8"),
        ("n_messages", "i8"),
    ],
    align=True,
)
IO_MEMBER = np.dtype(
    [
        ("late", "i8"),  # latency before its last piece
        ("missing", "i8"),  # pieces
        ("transfer", "i4"),
        ("node", "i4"),
    ],
    align=True,
)
TRAIN = np.dtype(
    [
        ("first", "i4"),  # the hops that begin a piece, in Io.hops, from here ...
        ("first_end", "i4"),
        ("pieces", "i4"),
        ("ends", "i4"),  # that a piece goes to
        ("left", "i4"),  # pieces to begin
        ("missing", "i4"),  # ends that have not got the present piece
        ("transfer", "i4"),  # under way
    ]
)
IO_HOP = np.dtype(
    [
        ("hop", "i4"),  # in Plans.hops
        ("gate", "i4"),  # a GATE whose launches are hops; or NONE
        ("stored", "i4"),
        ("gets", "i4"),  # the place, among the members or behind them, of who gets it; or NONE
        ("train", "i4"),
    ]
)
PLACE = np.dtype([("line", "i4"), ("coordinate", "i4")])  # of a rank in a group's dimension
SPAN = np.dtype([("start", "i8"), ("end", "i8"), ("place", "i4"), ("entry", "i4")], align=True)
RANK = np.dtype(
    [
        ("clock", "i8"),
        ("compute", "i8"),
        ("exposed", "i8"),
        ("end", "i8"),
        ("computing", "i4"),
        ("in_flight", "i4"),  # operators
    ],
    align=True,
)
RANK_DIM = np.dtype(
    [
        ("busy", "i8"),
        ("exposed", "f8"),
        ("bytes_sent", "f8"),
        ("last_sent", "f8"),  # of them
        ("first_sent", "i8"),  # the step of this generation that first sent some ...
        ("unequal", "i8"),  # ... and the last one that sent another number of bytes
        ("serving", "i4"),
        ("late", "i4"),  # flows from which the last latencies pass
    ],
    align=True,
)
RANK_TALLY = np.dtype([("exposed", "f8"), ("in_flight", "i8")])


class Accounts(NamedTuple):
    """What ranks do with their time (:mod:`engine.kernels.message.ranks`): R ranks, D dimensions,
    L tallies."""

    ranks: Table  # (R,) of RANK
    dims: Table  # (R, D + 1) of RANK_DIM; the last: no dimension serves
    tallies: Table  # (R, L) of RANK_TALLY


class Clock(NamedTuple):
    """What happens when."""

    agenda: Agenda
    ring: Ints  # events of this instant; a power of two
    counts: Longs


class Settings(NamedTuple):
    """The scalars of a run."""

    packet: float  # bytes after which a device passes a message on
    window: int  # 0 without limit
    carried: int  # one of those below
    ordered: bool  # parcels of a lower rank go first
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


# Who carries messages: links, one at a time, flows, which share them, or packets.
BY_LINKS, BY_FLOWS, BY_PACKETS = range(3)


class Wires(NamedTuple):
    """Links, and what travels on them."""

    clock: Clock
    settings: Settings
    links: Table  # LINK
    flows: Flows  # those of parcels have their numbers
    messages: Table  # MESSAGE
    parcels: Table  # PARCEL
    ports: Table  # PORT
    routes: Table  # ROUTE
    hops: Ints  # links
    spans: Table  # SPAN; the place of a port is ~ its number


class Plans(NamedTuple):
    """What the members of lines do, and where they are."""

    members: Table  # MEMBER_PLAN
    strands: Table  # PLAN_STRAND
    rounds: Table  # ROUND
    receives: Ints
    sends: Table  # SEND
    of: Table  # (lines, kinds) of LINE_PLAN
    ways: Table  # WAY
    places: Table  # (groups, D + 1, R) of PLACE; the last: in the whole group
    lines: Table  # LINE
    line_ranks: Ints


class Io(NamedTuple):
    """What goes through a wafer's I/O controllers."""

    transfers: Table  # TRANSFER
    members: Table  # IO_MEMBER
    trains: Table  # TRAIN
    hops: Table  # IO_HOP
    gates: Table  # GATE


# Rows of State.lists: nodes, streams, nodes, ports, ports whose message from point to point, or
# phase by a switch, begins, ports whose exchange begins, nodes whose accesses are in flight.
READY, OPENED, STARTING, TOUCHED, SENDING, BEGINNING, SERVING = range(7)
MOVING, SCRATCH = range(2)  # of State.jobs


class State(NamedTuple):
    """A run."""

    wires: Wires
    plans: Plans
    accounts: Accounts
    lists: Ints  # (7, n) of numbers of what is to go on, as many as the counts say
    jobs: Ints  # (2, n): entries that move on, and room to sort
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
    reductions: Table  # REDUCTION
    launches: Table  # LAUNCH
    gates: Table  # GATE
    turns: Table  # TURN
    passed: Ints  # the last turn in which a line has passed
    services: Table  # as of the program's structure, and
    server_uses: Table  # likewise
    servers: Longs  # NPUs that each serves
    accesses: Table  # ACCESS, of nodes
    io: Io


def records(rows: Sequence[tuple[float, ...]], dtype: np.dtype[np.void]) -> Table:
    """Rows as records."""
    return np.array(rows, dtype=dtype) if rows else np.zeros(0, dtype=dtype)
