"""Parcels: how they are made and freed, what a link is told of them, and who goes first."""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core import pool
from dimsweep.engine.kernels.core.none import LONGEST
from dimsweep.engine.kernels.network.state import Wires
from dimsweep.engine.kernels.phase.phase_time import whole

CLASS_BITS = 32  # of a parcel's precedence: its messages' class is above them


@inlined
def precedence_of(of: int, began: int) -> int:
    """What a parcel is put in order by: its class, and then a number: whoever began first goes
    first.  Number 0 of a class is what was suspended."""
    return of << CLASS_BITS | began + 1


@kernel
def new_parcel(w: Wires) -> int:
    return pool.pop(w.clock.counts[0].parcels, w.parcels)


@kernel
def free_parcel(w: Wires, parcel: int) -> None:
    pool.push(w.clock.counts[0].parcels, w.parcels, parcel)


@kernel
def let_go(w: Wires, parcel: int) -> None:
    """One of the things has happened to a parcel on one link that somebody waits for: all of it
    has left, it has begun to arrive, or what it feeds needs it no longer."""
    p = w.parcels[parcel]
    p.leaving -= 1
    if p.leaving == 0:
        free_parcel(w, parcel)


@kernel
def whole_ps(picoseconds: float) -> int:
    """Whole picoseconds, or more than a run may last."""
    return int(min(whole(picoseconds), float(LONGEST)))


@kernel
def note_span(w: Wires, start: int, end: int, place: int, entry: int) -> None:
    """Record when something was held, and for what."""
    span = w.spans[w.clock.counts[0].n_spans]
    w.clock.counts[0].n_spans += 1
    span.start, span.end, span.place, span.entry = start, end, place, entry
