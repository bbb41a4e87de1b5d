"""The tables of a run of the packet kernel: one record per port, flow and packet."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dimsweep.engine.compiler import Compiler
from dimsweep.engine.kernels.core.agenda import Agenda
from dimsweep.engine.kernels.core.queues import POOL, QUEUE
from dimsweep.engine.kernels.core.tables import LINE
from dimsweep.engine.kernels.packet.inputs import Settings
from dimsweep.engine.lower.program import Floats, Ints, Longs, Table
from dimsweep.engine.records import record

_packet = Compiler(checks_divisors=False)  # no divisor of the kernel can be zero
compiled, kernel, inlined = _packet.compiled, _packet.kernel, _packet.inlined


FULL = -3  # an outcome of a run beside EMPTY and LATER: enlarge the tables and go on
# Kinds of packets, those to receivers first.  TRIMMED: data whose payload a switch cut, which a
# NACK reports to the sender; REQUEST: a sender asks for the credit that CREDIT grants.
DATA, TRIMMED, REQUEST, ACK, NACK, CREDIT, PAUSE, RESUME = range(8)
# Kinds of events, in the lowest bits of ``what``; the rest says of which port or flow.
ARRIVE, SENT, WAKE, START, RETRANSMIT, TIMER = range(6)
KIND_BITS = 3
TIMERS = (1 << KIND_BITS) - TIMER  # that a transport has for each flow
HOPS = 5  # whose telemetry a packet carries
SACK_BLOCKS = 3  # that an ACK carries beside time stamps (RFC 2018, section 3)


def _line_record(**fields: DTypeLike) -> np.dtype[np.void]:
    """Return a record type of whole cache lines with the given fields."""
    packed: Any = record(**fields)
    return cache_line_record(dict(packed.fields), packed.itemsize)


def cache_line_record(fields: dict[str, tuple[Any, int]], n_bytes: int) -> np.dtype[np.void]:
    """Return a record type of whole cache lines, from the type and offset of each field."""
    of: Any = {
        "names": list(fields),
        "formats": [kind for kind, *_ in fields.values()],
        "offsets": [offset for _, offset, *_ in fields.values()],
        "itemsize": -(-n_bytes // LINE) * LINE,
    }
    return np.dtype(of)


# A row for each priority of a port, the highest first.  The first row has the link's state: when it
# is free, its wire and its pause frames, and the bytes that wait for it or were sent.
PORT = _line_record(
    # A cache line each: what every packet asks for, ...
    until="i8",  # when it is free
    number="i8",  # of the event that then frees it
    egress="i8",  # bytes of data and ACKs in its queue
    queue=QUEUE,  # data and ACKs that wait
    wire=QUEUE,  # the packets on its wire: the first one arrives next
    frames=QUEUE,  # pause frames that wait
    pairs="i4",  # a host's active queue pairs
    switch="i4",  # the switch it belongs to; -1 for a host's
    planned="i1",  # whether the event that frees it is planned, not just numbered
    paused="i1",
    watched="i1",  # whether each change of it is noted
    # ... what a packet asks that it sends, ...
    delay="i8",  # ticks
    last_size="i8",  # of a packet it sent lately, and
    last_time="i8",  # how long that took
    ack_time="i8",  # how long an ACK takes
    sent="i8",  # bytes since the beginning
    data="i8",  # packets
    data_bytes="i8",
    mark_from="i8",  # bytes; nothing is marked at or below
    # ... and what one asks that came by it.
    ingress="i8",  # bytes that arrived by it in the buffer, without those in the headroom
    over="i8",  # bytes in the headroom
    headroom="i8",  # bytes of buffer behind the threshold, for what arrives here
    most="i8",  # bytes that were in the queue
    marked="i8",  # packets
    rate="i8",  # bits a second
    back="i4",  # the port at the link's other end, whose packets arrive here
    shift="i1",  # the threshold is the free shared buffer / 2^shift
    pausing="i1",  # whether the peer is paused by this port
    first_pair="i8",  # its queue pairs in Run.pairs
    # The rest
    room="i8",  # bytes that may wait in its queue where switches do not pause
    served="i4",  # the place of the queue pair that was served last
    flows="i4",  # that it has ever had to send
    most_pairs="i4",  # room for queue pairs
    wake_time="i8",  # when it looks again whether one may send
    wake_number="i8",
    mark_all="i8",  # bytes; everything is marked above
    mark_most="f8",  # the probability of a mark at mark_all
    # Reported
    pauses="i8",
    resumes="i8",
    paused_since="i8",
    paused_ticks="i8",
    dropped="i8",  # packets
    trimmed="i8",  # packets
)
# The state of a flow; its transport adds more (:mod:`.tables`).
FLOW = record(
    # What a network card asks of every queue pair, in one cache line
    size="i8",  # bytes
    sent="i8",  # bytes
    acked="i8",  # bytes
    allowed="i8",  # bytes under way: what the window is at the present rate
    next_at="i8",  # when its rate lets it send again
    rate="i8",  # bits a second
    port="i4",  # the sender's
    host="i4",  # the receiver's port
    ways="i4",  # its first in Run.ways
    n_ways="i4",  # packets take them in turn
    # Fixed
    line_rate="i8",
    window="i8",  # bytes; 0 for none
    round_trip="i8",  # ticks
    turn="i8",  # which way the next packet takes
    received="i8",  # bytes, by the receiver
    after="i8",  # ticks from the last flow that it waits for, or the tick it starts at
    waits="i4",  # flows that are not done
    followers="i4",  # the first edge to those that wait for it, and
    last_follower="i4",  # the last one
    done="i1",  # whether those need wait no longer
    rank="i1",  # 0: the highest priority
    ack_rank="i1",
    start="i8",
    departure="i8",  # of its last byte, when it was first sent
    arrival="i8",  # of its last byte
    end="i8",  # when its sender knows
    last_size="i8",  # bytes of the packet sent last
)
PACKET = _line_record(
    time="i8",  # when it arrives, if it is on a wire
    number="i8",  # of that event
    # The bytes, or TCP's segments, that an ACK acknowledges; the segment that TCP's data are.
    upto="i8",
    stamp="i8",  # when its data were sent
    flow="i4",  # of a pause frame: the row of the port it pauses
    size="i4",  # bytes with headers
    hop="i4",  # its port, in Run.routes
    came="i4",  # the port by which it comes to the end of its wire
    next="i4",  # of its wire, of its queue, or of the free ones
    kind="i1",
    rank="i1",  # of its priority
    marked="i1",
    hops="i1",  # how many hops have written their telemetry
    # Of reliable unordered delivery; the answer returns them
    entropy="u2",
    asks="i1",  # for an ACK at once
    sendings="i1",  # how often it was sent before
    last_hop="i1",  # whether it was trimmed where it leaves for its receiver
)
TCP = record(
    # Windows are segments.
    cwnd="f8",
    threshold="f8",  # of slow start
    srtt="f8",  # smoothed round trip, ticks
    rtt_variation="f8",
    rto="i8",
    times_out_at="i8",  # -1 if no timer runs
    timer="i8",  # the number of its event, which looks
    timer_at="i8",  # at this tick
    first="i8",  # its segments in Run.segments
    n_segments="i4",
    expected="i4",  # the first segment that the receiver has not
    una="i4",  # the first that is not acknowledged
    next="i4",  # the first that was never sent
    pipe="i4",  # segments under way
    lost_upto="i4",  # below it, all losses are known
    n_sacked_above="i4",  # from there on
    n_lost="i4",  # that are to be sent again, from
    resend="i4",  # here on
    recovered_at="i4",  # recovery ends when this segment is acknowledged
    state="i1",
    limited="i1",  # whether the window holds it back
    # Reported
    timeouts="i8",
)
# What reliable unordered delivery keeps of a flow (:mod:`.rud`); bytes are with headers.
RUD = record(
    # The sender's
    first="i8",  # its packets in Run.segments and Run.sent_at
    n_packets="i4",
    una="i4",  # the first packet that is not acknowledged
    next="i4",  # the first that was never sent
    n_lost="i4",  # that are to be sent again, from
    resend="i4",  # here on
    in_flight="i8",  # bytes
    heard="i8",  # bytes that have come, as ACKs said
    timer="i8",  # the number of its event, or NONE
    # From the last ACK, for congestion control
    news="i8",  # bytes that have come since the one before
    rtt="i8",  # ticks, or NONE where that cannot be known
    # The receiver's
    expected="i4",  # the first packet that has not come
    n_early="i4",  # that have come beyond it
    got="i8",  # bytes
    unanswered="i8",  # bytes since the last ACK
    asked="i1",  # whether an ACK is due when nothing is out of order any more
    # Which entropy values come next (:mod:`.paths`)
    salt="i8",  # of the switches' hash for this flow
    turn="i4",
    mask="i4",  # by which the values are shuffled in this turn
    head="i4",  # where the next one that came back unmarked is put, and
    n_fresh="i4",  # how many of those were not used again yet
    # Reported
    resent="i8",  # packets
    timeouts="i8",
)
REPORT = record(  # by an ACK of reliable unordered delivery
    bits="u8",  # which of 64 packets have come
    base="i4",  # the first of them
    upto="i4",  # all packets before have come
    got="i8",  # bytes that have come
    credit="i8",  # beside ACKs: quanta since the beginning that data ask for, or that are granted
)
# Of a flow whose receiver gives credits (:mod:`.credits`), which are counted in quanta since the
# beginning.
CREDITS = record(
    # The sender's
    credit="i8",  # bytes that it may still send; less than 0 by what the last packet was larger
    most="i8",  # bytes
    heard="i8",  # what it knows to be granted
    target="i8",  # what it has asked for
    is_first="i1",  # whether nothing has been heard of the receiver yet
    asked="i1",  # whether nothing has been heard since it asked by a packet of its own
    starved="i4",  # time-outs that it has waited for credit with nothing under way
    # The receiver's
    wanted="i8",
    granted="i8",
)
TURN = record(next="i4", waits="i1")  # in a queue of flows that are to be given credit
PACER = record(  # of a receiver's port
    wanting=QUEUE,  # in Run.turns: flows that want credit, served first
    content=QUEUE,  # flows that have what they want
    number="i8",  # of the event that gives the next credit, or NONE
    # How far it goes below the rate of its link
    share="f8",
    marks="f8",  # the share of packets with a mark, smoothed
    looks_at="i8",  # when it looks again at what came since:
    came="i8",  # packets
    marked="i8",
    trimmed="i8",
    far="i8",  # of those, elsewhere than at this receiver's link
    rises="i4",  # in a row
)
RECYCLED = 128  # entropy values that a flow remembers at most
BLOCK = record(start="i4", end="i4")  # segments that have come
SWITCH = record(
    shared="i8",  # bytes that the ports share, beside headroom and reserves
    used="i8",  # of them
)
SAMPLE = record(
    time="i8",
    sent="i8",  # bytes since the beginning
    marked="i8",  # packets since the beginning
    port="i4",
    queue="i4",  # bytes
    paused="i1",
)
PAUSING = record(
    time="i8",  # when the frame was ordered
    port="i4",  # that is to pause or to resume
    queue="i4",  # the port to which the packet goes that made it so; NONE of a resume
)
COUNTS = record(
    packets=POOL,  # that nobody uses
    n_flows="i8",
    n_ended="i8",  # flows whose sender knows that all has arrived
    n_edges="i8",
    n_pairs="i8",
    n_segments="i8",
    n_samples="i8",
    n_pausings="i8",
    n_arrived="i8",
    n_acknowledged="i8",
    n_departing="i8",
    drawn="i8",  # random numbers
    stop="i8",  # a Stop
)
HOP = record(time="i8", bytes="i8", queue="i8", rate="i8")


class Run(NamedTuple):
    """All tables of a run of the packet kernel; tables that it does not use have no rows."""

    settings: Settings
    agenda: Agenda
    ports: Table
    switches: Table
    flows: Table
    packets: Table
    telemetry: Table  # (packets, HOPS) of HOP
    known: Table  # (flows, HOPS) of HOP: what the sender has last seen
    tcp: Table  # (flows,) of TCP
    blocks: Table  # (flows, SACK_BLOCKS) of BLOCK: what the receiver has out of order
    sacks: Table  # (packets, SACK_BLOCKS) of BLOCK: the blocks in an ACK
    rud: Table  # (flows,) of RUD, or of UNUSED: by which it is compiled for such runs only
    reports: Table  # (packets,) of REPORT
    credits: Table  # (flows,) of CREDITS, or of UNUSED, as ``rud``
    turns: Table  # (2 * flows,) of TURN: a flow's among those that want credit, and of the others
    pacers: Table  # (ports,) of PACER
    sent_at: Longs  # when each packet of a flow was last sent, beside Run.segments
    penalties: NDArray[np.uint8]  # (flows * entropies,): turns that a value is passed over
    recycled: NDArray[np.uint16]  # (RECYCLED * flows,): values that came back unmarked
    segments: NDArray[np.uint8]  # bits of each flow's segments, flow by flow
    skips: Ints  # how many sacked segments follow at least, for each
    ways: Table  # of WAY
    routes: Ints  # ports, one way after another, each up to a NONE; ACKs' behind their data's
    pairs: Longs  # active flows of each host's port
    edges: Table  # of EDGE: flows that wait for a flow
    arrived: Longs  # flows that have arrived since the last look, and
    acknowledged: Longs  # flows whose sender has learned of it, and
    departing: Longs  # flows whose last packet was sent for the first time
    samples: Table  # of SAMPLE, of the ports that are watched
    pausings: Table  # of PAUSING
    draws: Floats  # random numbers in [0, 1), in the order of their use
    timers: Longs  # (TIMERS * flows,): the numbers of the events that run them out, or NONE
    keys: Table  # (1,): by name; the keys of the run's transport and of TCP are filled in
    transport: int  # its number among those that are compiled together
    speaks_tcp: bool
    counts: Table  # (1,) of COUNTS
