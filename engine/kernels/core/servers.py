"""Servers of memories: accesses in flight share them.

A server serves all NPUs that have an access in flight at once, each at an equal share (processor
sharing).  So with n NPUs in flight an access takes n times what it would take alone, or what its
own path takes if that is longer; of several servers the slowest counts.  Whenever somebody begins
or ends to be served, all others go on with the share that is then theirs, from what is left of
their accesses.  An access's latency passes when its bytes have moved, and keeps no server busy.
"""

from typing import Any, NamedTuple

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.lower.program import Longs, Structure, Table

ACCESS = {  # fields of the record of an access
    "since": "i8",  # when its share last changed (ps)
    "left": "f8",  # the share of it that was to be moved then
    "lasts": "f8",  # ps that all of it takes as its servers are since then; -1 before
}


class Servers(NamedTuple):
    """Which servers an access needs, and whom they serve."""

    services: Table  # as of the program's structure, and
    uses: Table  # likewise
    served: Longs  # NPUs that each server serves


def n_servers(s: Structure) -> int:
    """How many servers accesses share."""
    return int(s.server_uses["server"].max(initial=-1)) + 1


@inlined
def begin(access: Any, now: int) -> None:
    """Nothing of the access has been moved yet."""
    access.left, access.lasts, access.since = 1.0, -1.0, now


@kernel
def serve(servers: Servers, number: int, sign: int) -> None:
    """The servers of a service serve one access more (1), or fewer (-1)."""
    service = servers.services[number]
    for i in range(service.use_start, service.use_end):
        use = servers.uses[i]
        servers.served[use.server] += sign * use.npus


@kernel
def lasts(servers: Servers, number: int) -> float:
    """Picoseconds that a whole access would take if the servers of its service went on as they
    are."""
    service = servers.services[number]
    slowest = service.own + 0.0
    for i in range(service.use_start, service.use_end):
        use = servers.uses[i]
        slowest = max(slowest, servers.served[use.server] * use.alone)
    return slowest


@inlined
def go_on(access: Any, takes: float, now: int) -> float:
    """The whole access takes this long from now on; picoseconds until the rest of it is moved."""
    if access.lasts > 0.0:
        access.left -= (now - access.since) / access.lasts
    access.since, access.lasts = now, takes
    return max(access.left, 0.0) * takes
