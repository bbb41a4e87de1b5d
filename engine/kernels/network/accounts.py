"""What a rank does with its time: compute, exposed communication, by operator and by dimension."""

from engine.compiler import kernel
from engine.kernels.network.state import Accounts


@kernel
def book(a: Accounts, rank: int, now: int) -> None:
    """Book the rank's time since its last change, before anything changes.

    Communication is exposed while the rank computes nothing; an instant of it is shared equally
    among the operators in flight, and among the dimensions that serve the rank, or from which the
    last latencies of a flow pass.
    """
    r = a.ranks[rank]
    span = now - r.clock
    if span == 0:
        return
    r.clock = now
    n_dims = a.dims.shape[1] - 1
    n_serving = 0
    for d in range(n_dims):
        dim = a.dims[rank, d]
        if dim.serving:
            dim.busy += span
        if dim.serving or dim.late > 0:
            n_serving += 1
    if r.computing:
        r.compute += span
    elif r.in_flight:
        r.exposed += span
        _share(a, rank, span, n_serving)


@kernel
def _share(a: Accounts, rank: int, span: int, n_serving: int) -> None:
    """Whose exposed communication it is."""
    n_dims = a.dims.shape[1] - 1
    for i in range(a.tallies.shape[1]):
        tally = a.tallies[rank, i]
        if tally.in_flight > 0:
            tally.exposed += float(span * tally.in_flight) / a.ranks[rank].in_flight
    if n_serving == 0:
        a.dims[rank, n_dims].exposed += span
    for d in range(n_dims):
        if a.dims[rank, d].serving or a.dims[rank, d].late > 0:
            a.dims[rank, d].exposed += float(span) / n_serving
