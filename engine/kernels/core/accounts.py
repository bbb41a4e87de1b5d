"""What a rank, or a class of ranks, does with its time: compute, or communication that no compute
hides.

Communication is exposed while nothing computes.  An instant of it is shared equally among the
operators in flight, and among the ports that serve.  An account adds up one such share from the
beginning; an operator's, or a port's, is what is added from when it begins to when it ends.  So
what an account of operators or a port says is valid while nothing of it is under way.
"""

from typing import Any

from dimsweep.engine.compiler import inlined
from dimsweep.engine.lower.program import Floats

ACCOUNT = {  # fields of the record of a rank or a class; times are ps
    "clock": "i8",  # accounted up to here
    "compute": "i8",
    "exposed": "i8",
    "end": "i8",
    "per_operator": "f8",  # of exposed communication: one operator's share so far
    "per_port": "f8",  # likewise
    "unserved": "f8",  # of it, in which no port served
    "in_flight": "i4",  # operators that communicate or access memory
    "serving": "i4",  # ports with something under way
}
OF_PORT = {  # fields of the record of one of its ports
    "exposed": "f8",  # ps
    "under_way": "i4",  # phases, and flows whose last latencies pass
}
BEGINS, ENDS = 1, -1


@inlined
def book(account: Any, computes: bool, now: int) -> None:
    """Book the time since the account last changed.  Call it before the account changes."""
    span = now - account.clock
    account.clock = now
    if computes:
        account.compute += span
    elif account.in_flight > 0:
        account.exposed += span
        account.per_operator += _share(span, account.in_flight)
        if account.serving > 0:
            account.per_port += _share(span, account.serving)
        else:
            account.unserved += span


@inlined
def _share(span: int, n: int) -> float:
    return float(span) if n == 1 else span / n  # division is slow, and n is nearly always 1


@inlined
def change_flight(account: Any, exposed: Floats, number: int, tally: int, change: int) -> None:
    """An operator BEGINS or ENDS to be in flight; ``exposed`` (accounts, tallies) is what is
    exposed of operators."""
    account.in_flight += change
    exposed[number, tally] -= change * account.per_operator


@inlined
def change_port(account: Any, port: Any, change: int) -> None:
    """Something BEGINS or ENDS to be under way at a port."""
    if port.under_way == (change == ENDS):  # the first one to begin, or the last one to end
        account.serving += change
        port.exposed -= change * account.per_port
    port.under_way += change
