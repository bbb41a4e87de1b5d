"""Time accounts of ranks (or classes of ranks), and shared servers of memories.

**Accounts.**  At each instant a rank computes, or its communication is exposed (nothing computes
meanwhile), or it idles.  An instant of exposed communication is shared equally among the operators
in flight, and among the serving ports.  An account sums one such share from the beginning of the
run.  The share of one operator or port is the difference between the sum at its end and at its
begin, so its record is valid only while it is not in flight.

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
    """Add the time since the account's last change to its sums; call before each change."""
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
    """Record that an operator begins (BEGINS) or ends (ENDS) to be in flight.

    ``exposed``, shape (accounts, tallies), holds the exposed time (ps) per group of operators.
    """
    account.in_flight += change
    exposed[number, tally] -= change * account.per_operator


@inlined
def change_port(account: Any, port: Any, change: int) -> None:
    """Record that a phase or flow begins (BEGINS) or ends (ENDS) to occupy a port."""
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
    """The memory servers that each access uses, and the number of NPUs that each server serves."""

    services: Table  # as of the program's structure, and
    uses: Table  # as of the program's structure
    served: Longs  # NPUs that each server serves


def n_servers(s: Structure) -> int:
    """Return the number of memory servers that accesses of the program share."""
    return int(s.server_uses["server"].max(initial=-1)) + 1


@inlined
def begin_access(access: Any, now: int) -> None:
    """Reset an access: none of its bytes have moved."""
    access.left, access.duration, access.since = 1.0, -1.0, now


@kernel
def serve(servers: Servers, number: int, sign: int) -> None:
    """Count (``sign`` 1) or uncount (-1) an access at the servers that its service uses."""
    service = servers.services[number]
    for i in range(service.use_start, service.use_end):
        use = servers.uses[i]
        servers.served[use.server] += sign * use.npus


@kernel
def access_time(servers: Servers, number: int) -> float:
    """Return the duration (ps) of a whole access of a service at the servers' present load."""
    service = servers.services[number]
    slowest = service.own
    for i in range(service.use_start, service.use_end):
        use = servers.uses[i]
        slowest = max(slowest, servers.served[use.server] * use.alone)
    return slowest


@inlined
def continue_access(access: Any, takes: float, now: int) -> float:
    """Set a new duration ``takes`` of a whole access; return the ps until its bytes have moved."""
    if access.duration > 0.0:
        access.left -= (now - access.since) / access.duration
    access.since, access.duration = now, takes
    return max(access.left, 0.0) * takes
