"""What ranks do with their time (:mod:`engine.kernels.core.accounts`)."""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core import accounts
from dimsweep.engine.kernels.core.accounts import ENDS, change_flight, change_port
from dimsweep.engine.kernels.network.state import Accounts
from dimsweep.engine.lower.program import NodeKind, Table


@inlined
def _book(a: Accounts, rank: int, now: int) -> None:
    """Book the rank's time since its last change, before anything changes."""
    account = a.ranks[rank]
    if account.clock != now:
        accounts.book(account, account.computing > 0, now)


@kernel
def book_operator(a: Accounts, nodes: Table, number: int, change: int, now: int) -> None:
    """An operator BEGINS or ENDS to compute, or to be in flight."""
    node = nodes[number]
    account = a.ranks[node.rank]
    _book(a, node.rank, now)
    if node.kind == NodeKind.COMPUTE:
        account.computing += change
    elif node.kind != NodeKind.HOST:
        change_flight(account, a.exposed, node.rank, node.tally, change)


@kernel
def book_phase(a: Accounts, rank: int, dim: int, change: int, now: int) -> None:
    """A rank's port BEGINS or ENDS to serve a phase."""
    port = a.ports[rank, dim]
    if port.serving == (change == ENDS):  # the first one to begin, or the last one to end
        port.busy -= change * now
    port.serving += change
    book_latencies(a, rank, dim, change, now)


@kernel
def book_latencies(a: Accounts, rank: int, dim: int, change: int, now: int) -> None:
    """The last latencies of a flow BEGIN or END to pass from a rank's port."""
    _book(a, rank, now)
    change_port(a.ranks[rank], a.ports[rank, dim], change)
