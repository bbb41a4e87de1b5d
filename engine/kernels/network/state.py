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
    counts: Table  # one of COUNTS
    # Of what is suspended, what was planned may be given up (engine.kernels.network.suspension):
    plans: Table  # PLAN, two for each parcel, if messages may be suspended
    order: Ints  # of those that are planned (engine.kernels.core.heap)
    numbers: Longs  # of the events in ``ring``, as they were planned, if messages may be suspended


class Settings(NamedTuple):
    """The scalars of a run."""

    packet: float  # bytes after which a device passes a message on
    window: int  # 0 without limit
    carried: int  # by a CARRIER (engine.kernels.network.carrying)
    lanes: bool  # a port may serve several phases at once
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
    crossings: Table  # CROSSING, of the parcel of the same number, if messages may be suspended
    feeds: Table  # FEED
    begun: Ints  # what has begun to come to each gate, and to each of I/O: the first FEED, or NONE


# Rows of State.lists, and places in State.lengths: nodes, streams, nodes, ports, ports whose
# message from point to point, or phase by a switch, begins, ports whose exchange begins, nodes
# whose accesses are in flight, entries that pass others, and the ports at which they do.
READY, OPENED, STARTING, TOUCHED, SENDING, BEGINNING, SERVING, PASSING, PASSED = range(9)
MOVING = 9  # the length of State.moving


class State(NamedTuple):
    """Everything that a run reads and changes."""

    wires: Wires
    plans: Plans
    accounts: Accounts
    lists: Ints  # (9, n) of numbers of what is to go on ...
    lengths: Longs  # ... and how many they are
    moving: Ints  # entries that move on
    scratch: Ints  # room to sort
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
