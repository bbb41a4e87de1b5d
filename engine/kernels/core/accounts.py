"""Time accounts of ranks (or classes of ranks), and servers of shared memories.

**Accounts.**  A rank computes, or its communication is exposed (nothing computes meanwhile). An
instant of exposed communication is shared equally among the operators in flight, and among the
serving ports.  An account sums one such share from the beginning; the share of an operator or a
port is the difference between the account at its end and at its begin.  Therefore the account of an
operator or a port is valid only while none of them is in flight.

**Servers.**  A server of a memory serves all accesses in flight at once, each at an equal share
(processor sharing).  With n NPUs in flight, an access takes n times as long as in isolation, or as
long as its own path takes if that is longer; of several servers the slowest counts.  When an access
begins or ends, all others continue at their new share.  The latency of an access passes after its
bytes have moved, and keeps no server busy.
"""

from typing import Any, NamedTuple

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.lower.program import Floats, Longs, Structure, Table

ACCOUNT = {  # fields of the record of a rank or a class; times are ps
    "clock": "i8",  # accounted up to here
    "compute": "i8",
    "exposed": "i8",
    "end": "i8",
    "per_operator": "f8",  # of exposed communication: one operator's share so far
    "per_port": "f8",  # one port's share so far
    "unserved": "f8",  # of it, in which no port served
    "in_flight": "i4",  # operators that communicate or access memory
    "serving": "i4",  # ports with something under way
}
PORT_ACCOUNT = {  # fields of the record of one of its ports
    "exposed": "f8",  # ps
    "under_way": "i4",  # phases, and flows whose last latencies pass
}
BEGINS, ENDS = 1, -1


@inlined
def book(account: Any, computes: bool, now: int) -> None:
    """Book the time since the account last changed; call this before the account changes."""
    span = now - account.clock
    account.clock = now
    if computes:
        account.compute += span
    elif account.in_flight > 0:
        account.exposed += span
        account.per_operator += _divide_span(span, account.in_flight)
        if account.serving > 0:
            account.per_port += _divide_span(span, account.serving)
        else:
            account.unserved += span


@inlined
def _divide_span(span: int, n: int) -> float:
    return float(span) if n == 1 else span / n  # division is slow, and n is nearly always 1


@inlined
def change_flight(account: Any, exposed: Floats, number: int, tally: int, change: int) -> None:
    """Book that an operator BEGINS or ENDS to be in flight.

    ``exposed`` (accounts, tallies) holds the exposed time of operators.
    """
    account.in_flight += change
    exposed[number, tally] -= change * account.per_operator


@inlined
def change_port(account: Any, port: Any, change: int) -> None:
    """Book that a phase or flow BEGINS or ENDS at a port."""
    if port.under_way == (change == ENDS):  # the first one to begin, or the last one to end
        account.serving += change
        port.exposed -= change * account.per_port
    port.under_way += change


ACCESS = {  # fields of the record of an access
    "since": "i8",  # when its share last changed (ps)
    "left": "f8",  # the share of it that was to be moved then
    "duration": "f8",  # ps that all of it takes as its servers are since then; -1 before
}


class Servers(NamedTuple):
    """The servers that each access needs, and the number of NPUs that each server serves."""

    services: Table  # as of the program's structure, and
    uses: Table  # as of the program's structure
    served: Longs  # NPUs that each server serves


def n_servers(s: Structure) -> int:
    """Return the number of servers that accesses share."""
    return int(s.server_uses["server"].max(initial=-1)) + 1


@inlined
def begin_access(access: Any, now: int) -> None:
    """Reset an access: none of its bytes have moved."""
    access.left, access.duration, access.since = 1.0, -1.0, now


@kernel
def serve(servers: Servers, number: int, sign: int) -> None:
    """Add one access (``sign`` 1) to the servers of a service, or remove one (-1)."""
    service = servers.services[number]
    for i in range(service.use_start, service.use_end):
        use = servers.uses[i]
        servers.served[use.server] += sign * use.npus


@kernel
def access_time(servers: Servers, number: int) -> float:
    """Return the duration (ps) of a whole access at the servers' present load."""
    service = servers.services[number]
    slowest = service.own
    for i in range(service.use_start, service.use_end):
        use = servers.uses[i]
        slowest = max(slowest, servers.served[use.server] * use.alone)
    return slowest


@inlined
def continue_access(access: Any, takes: float, now: int) -> float:
    """Set a new total duration of an access; return the ps until its bytes have moved."""
    if access.duration > 0.0:
        access.left -= (now - access.since) / access.duration
    access.since, access.duration = now, takes
    return max(access.left, 0.0) * takes
