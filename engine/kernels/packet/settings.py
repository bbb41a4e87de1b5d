"""What a person chooses for a run of the packet kernel."""

from enum import IntEnum
from typing import NamedTuple


class Transport(IntEnum):
    """How senders answer to congestion.  ``STATIC``: not at all, beyond the window and pauses."""

    STATIC = 0
    DCQCN = 1
    DCTCP = 2
    TIMELY = 3
    HPCC = 4
    SWIFT = 5
    RENO = 6
    CUBIC = 7


class Wake(IntEnum):
    """Which queue pairs a network card waits for when none may send by its rate.

    ``ABLE``: those whose window is open; ``UNSENT``: all with bytes left; ``ALL``: all that it
    serves.  With the last two the card may miss a turn, as some real simulators do.
    """

    ABLE = 0
    UNSENT = 1
    ALL = 2


class Stop(IntEnum):
    """What stops a run, in bits: nothing, a flow that has arrived, or also that its sender knows,
    or also that its last packet begins to leave."""

    NEVER = 0b000
    ARRIVAL = 0b001
    ACKNOWLEDGED = 0b011
    DEPARTURE = 0b101


class Dcqcn(NamedTuple):
    """Intervals in ticks (the defaults: picoseconds), rates in bits a second.

    The defaults are those of the RoCE study of training clusters (Khan et al., HotI 2022), as its
    configuration files give them.
    """

    gain: float = 1 / 256  # of alpha
    alpha_every: int = 1_000_000
    cut_every: int = 4_000_000
    after_alpha: int = 1_000  # so much later than alpha is the first look at a cut
    raise_every: int = 900_000_000
    recoveries: int = 1  # rises to the target before the target rises
    add: int = 50_000_000
    add_fast: int = 100_000_000
    least: int = 100_000_000


class Dctcp(NamedTuple):
    """Rates in bits a second; the defaults as in Khan et al. (HotI 2022)."""

    gain: float = 1 / 256  # of alpha
    add: int = 1_000_000_000
    least: int = 100_000_000


class Timely(NamedTuple):
    """Times in ticks (the defaults: picoseconds), rates in bits a second.

    The defaults are those of the authors' reference code, as Khan et al. (HotI 2022) used them.
    """

    weight: float = 0.875  # of the newest difference of two round trips
    beta: float = 0.8
    low: int = 50_000_000
    high: int = 500_000_000
    least_round_trip: int = 20_000_000
    add: int = 50_000_000
    add_fast: int = 100_000_000
    least: int = 100_000_000
    stamped: bool = True  # whether ACKs echo when the data were sent; 0 if not


class Hpcc(NamedTuple):
    """Rates in bits a second; the defaults as in Khan et al. (HotI 2022).

    What a hop writes is rounded down to units and wraps around at 2^bits of them (0: never).
    """

    eta: float = 0.95  # the utilisation aimed at
    add: int = 50_000_000
    least: int = 100_000_000
    stages: int = 0  # additions before the rate is multiplied although the path is not full
    react_fast: bool = True  # to every ACK, not only once a round trip
    byte_unit: int = 1
    byte_bits: int = 0
    queue_unit: int = 1
    queue_bits: int = 0
    time_bits: int = 0


class Swift(NamedTuple):
    """Times in ticks (the defaults: picoseconds).

    ``add`` packets a round trip, ``beta`` and ``most_cut`` are the paper's (Kumar et al., SIGCOMM
    2020, section 3.1).  The target is the flow's own round trip, ``base`` for queues, and up to
    ``flow_range`` more as its window falls from ``wide`` to ``narrow`` packets (section 3.5).
    """

    add: float = 1.0
    beta: float = 0.8
    most_cut: float = 0.5
    least: float = 0.01  # packets
    base: int = 20_000_000
    flow_range: int = 100_000_000
    narrow: float = 0.1
    wide: float = 100.0


class Tcp(NamedTuple):
    """Times in ticks (the defaults: picoseconds), for Reno and CUBIC."""

    first_window: float = 10.0  # segments (RFC 6928)
    duplicates: int = 3  # ACKs or sacked segments that tell of a loss (RFC 5681, RFC 6675)
    first_rto: int = 10**12  # before a round trip is known (RFC 6298, 2.1)
    least_rto: int = 10**12  # (RFC 6298, 2.4); operating systems take less
    most_rto: int = 60 * 10**12  # (RFC 6298, 2.5)
    granularity: int = 10**9  # of its clock (G of RFC 6298, which wants 100 ms or less)


class Cubic(NamedTuple):
    """The defaults are RFC 9438's (sections 4.6 and 5.1), as RFC 8312's before."""

    c: float = 0.4  # segments / second^3
    beta: float = 0.7  # what a loss leaves of the window


class Settings(NamedTuple):
    """What holds for a whole run; sizes in bytes."""

    transport: int = Transport.STATIC
    ticks: int = 10**12  # a second
    payload: int = 1000  # of a full packet
    data_header: int = 48
    ack_size: int = 60
    frame_size: int = 64
    pauses: bool = True  # whether switches pause who sends; if not, they drop what has no room
    priorities: int = 1  # of flows; each has its own queues, reserves, headroom and pauses
    ack_priority: int = -1  # of all ACKs; below 0: that of their flow
    reserve: int = 4096  # of each port's ingress, in each priority, that do not count
    resume_below: int = 3072  # the threshold
    vary_window: bool = True  # with the rate
    wake: int = Wake.ABLE
    after_arrival: bool = True  # flows wait until others have arrived; else until senders know
    until: int = 1 << 62  # tick after which nothing happens any more
    draws_per_frame: int = 0  # random numbers that a pause frame uses up
    dcqcn: Dcqcn = Dcqcn()
    dctcp: Dctcp = Dctcp()
    timely: Timely = Timely()
    hpcc: Hpcc = Hpcc()
    swift: Swift = Swift()
    tcp: Tcp = Tcp()
    cubic: Cubic = Cubic()
