"""Ties: whether it matters in which order what happens at one instant is done.

A folded run (:mod:`engine.kernels.network.run`) simulates one rank for many, so it cannot know
which of two ranks' messages would ask for a link first.  Within an instant, events come in
*generations*: what a generation plans for the same instant is the next one, for every rank alike.
So only what two steps of one generation do to the same thing is open, and only where it does not
come to the same either way: two ask for the same link, or one asks as the other releases it.  The
run is then given up.  What one step does is in order.
"""

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.network.state import Accounts, Clock


@inlined
def begin_step(c: Clock) -> None:
    """Count a step: an event, the begin of a phase, or settling."""
    c.counts[0].step += 1


@inlined
def begin_generation(c: Clock) -> None:
    """This step begins another generation."""
    c.counts[0].generation = c.counts[0].step


@inlined
def clash_with(c: Clock, other: int) -> None:
    """Note a clash if this step, and the one ``other`` that did the same, are of one generation."""
    if other >= c.counts[0].generation and other != c.counts[0].step:
        c.counts[0].clashed = 1


@inlined
def book_sent(c: Clock, a: Accounts, rank: int, dim: int, n_bytes: float) -> None:
    """Book bytes that a rank sends: unequal sizes must be added in a known order, since sums are
    rounded."""
    account = a.ports[rank, dim]
    account.bytes_sent += n_bytes
    if account.first_sent < c.counts[0].generation:
        account.first_sent = c.counts[0].step
    elif account.last_sent != n_bytes:
        account.unequal = c.counts[0].step
    account.last_sent = n_bytes
    if account.unequal >= c.counts[0].generation:
        clash_with(c, account.first_sent)
