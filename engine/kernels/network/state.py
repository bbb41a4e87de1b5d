"""Everything that a run of the network kernel reads and changes, in typed arrays.

Words, beside those of :mod:`engine.kernels.messages`: an *entry* is a member's part of a chunk, or
a message from point to point; a *parcel* is a message, or a part of one, on its way; a *lane* is
what a port needs to serve one phase: where packets carry messages it may serve several at once.
Records of tables are in :mod:`engine.kernels.network.records`.  Times are ps.
"""

from typing import NamedTuple

from engine.kernels.flow.tables import Flows
from engine.kernels.messages.records import Io, Plans
from engine.kernels.packet.agenda import Agenda
from engine.lower.program import Ints, Longs, Table

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
ARRIVE = 14  # a member of a flow: the latencies behind its last chunk have passed
LANDED = 15  # a parcel that something else carries: it is there
SERVED = 16  # a node: the bytes of its access have moved, as was foreseen at some time
DEPARTED = 17  # a parcel that packets carry: its last byte has left its port
KIND_BITS = 5

# Entries of ``counts``.
# RING, RING_END: events of this instant.  N_*: how many.
# SENT, BEGUN: of those, how many have begun.  OVERDUE: something would happen after LONGEST.
# CROWDED: there are more messages than allowed.  UNDER_WAY: messages that are carried.
# NEXT: when something is planned to happen (ps).  UNSETTLED: whether servers serve others than
# they did.
# IN_LAST: phases that are served in the last lane.
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
    IN_LAST,
    N_COUNTS,
) = range(28)

# What a parcel is: of an exchange, from point to point, to or from a switch that reduces, a piece
# from or to an I/O controller.
EXCHANGED, CROSSING, SWITCHED, PIECE = range(4)


class Accounts(NamedTuple):
    """What ranks do with their time (:mod:`engine.kernels.reference.ranks`): R ranks, D dimensions,
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
    ordered: bool  # parcels of a lower precedence go first
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


# Rows of State.lists: nodes, streams, nodes, ports, ports whose message from point to point, or
# phase by a switch, begins, ports whose exchange begins, nodes whose accesses are in flight,
# entries that pass others, and the ports at which they do.
READY, OPENED, STARTING, TOUCHED, SENDING, BEGINNING, SERVING, PASSING, PASSED = range(9)
MOVING, SCRATCH = range(2)  # of State.jobs


class State(NamedTuple):
    """Everything that a run reads and changes."""

    wires: Wires
    plans: Plans
    accounts: Accounts
    lists: Ints  # (9, n) of numbers of what is to go on, as many as the counts say
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
