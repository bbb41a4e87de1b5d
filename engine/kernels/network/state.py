"""Everything that a run of the network kernel reads and changes, in typed arrays.

Words, beside those of :mod:`engine.kernels.messages`: an *entry* is a member's part of a chunk, or
a message from point to point; a *parcel* is a message, or a part of one, on its way; a *lane* is
what a port needs to serve one phase: where packets carry messages it may serve several at once.
Records of tables are in :mod:`engine.kernels.network.records`.  Times are ps.
"""

from typing import NamedTuple

from dimsweep.engine.kernels.core.agenda import Agenda
from dimsweep.engine.kernels.core.servers import Servers
from dimsweep.engine.kernels.core.worklist import Worklist
from dimsweep.engine.kernels.flow.tables import Flows
from dimsweep.engine.kernels.messages.records import Io, Plans
from dimsweep.engine.lower.program import Floats, Ints, Longs, Table

# What a parcel is: of an exchange, from point to point, to or from a switch that reduces, a piece
# from or to an I/O controller.
EXCHANGED, CROSSING, SWITCHED, PIECE = range(4)


class Accounts(NamedTuple):
    """What ranks do with their time (:mod:`engine.kernels.network.accounts`): R ranks, D
    dimensions, L tallies."""

    ranks: Table  # (R,) of RANK
    ports: Table  # (R, D) of RANK_PORT
    exposed: Floats  # (R, L) ps of operators; valid when nothing is in flight


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
    begun: Ints  # what has begun to arrive at each gate: the first FEED, or NONE


class State(NamedTuple):
    """Everything that a run reads and changes."""

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
