"""A lower bound on the event-driven time, for all bandwidths of a linear space at once.

Assumptions: the phase kernel's, at the program's latencies.  The bound is the greatest of several,
each of which holds whatever the kernel's queues and orders decide:

1. *Paths.*  An operator starts after all that it waits for, and a flow after all its members, so
   no run is shorter than any path.  A collective of C chunks lasts no less than one chunk's phases
   one after another; and for any dimension, no less than its port takes to serve all C chunks, plus
   what the phases before that port and after it hold their ports for, and all latencies of the last
   chunk (see :mod:`engine.bound.work`; without these under Themis, whose chunks take different
   ways).
2. *Loads.*  A port serves one chunk at a time and a stream runs one operator at a time.  So of any
   set of operators, the time from the first start to the last end is no less than the sum of what
   they ask of one port, or than their durations on one stream.  The sets are those between two
   neighbouring *barriers* (operators that are before or after every other one): a load then stands
   for the stretch of the path between the two.  Before it comes the least way from the barrier to
   any of its operators, after it the least way on, both as at the greatest bandwidth of every
   dimension, which they cannot beat.

Where a library of collectives chooses by the bandwidths, a phase counts with the least latencies
and the least bytes over its share of all choices that may be made in the space, each by itself: no
choice asks for less of either.

Every one is fixed seconds plus bytes over bandwidths (or over sums of bandwidths, under Themis),
so their maximum is convex, and cutting planes minimise it: a longest path at given bandwidths is a
piece.  A cut costs a walk over the graph and one cone program.
"""

import numpy as np

from dimsweep.engine.bound.items import items_of
from dimsweep.engine.bound.loads import Loads
from dimsweep.engine.bound.optimum import Optimum, optimum
from dimsweep.engine.bound.paths import PathForm
from dimsweep.engine.bound.space import LinearSpace
from dimsweep.engine.bound.work import work_of
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.lower.program import Floats, Program, Structure

_ROUNDING = 1e-12  # relative, of the floats in the kernel's phase times and in the sums here


class EventBound:
    """A :class:`ConvexModel` that no run of ``program`` beats at any bandwidths of ``space``.

    Raises :class:`DimsweepError` for a program that deadlocks by its graph.
    """

    def __init__(self, program: Program, space: LinearSpace) -> None:
        low, most = space.box()
        work = work_of(_least_chosen(program, low, most), program.latency, most)
        self.sums = work.sums
        self._paths = PathForm(items_of(program.structure), tuple(work.pieces), work.sums)
        with np.errstate(divide="ignore"):
            seconds = self._paths.greatest(1 / np.concatenate([most, work.sums @ most]))[1]
        fastest = self._paths.durations(seconds)
        self._loads = Loads(program.structure, self._paths.items, work.load, fastest)

    def pieces(self, reciprocal: Floats) -> Floats:
        """The longest path (1, D + R + 1), with loads for its stretches where these are longer."""
        forms, seconds = self._paths.greatest(reciprocal)
        duration = self._paths.durations(seconds)
        path = self._paths.items.longest(duration)
        stretch, load = self._loads.longer(path, duration, forms, np.append(reciprocal, 1.0))
        path = path[~np.isin(self._loads.stretch[path], stretch)]
        return (1 - _ROUNDING) * (load.sum(axis=0) + self._paths.sum_of(path, forms))[None]


def _least_chosen(program: Program, low: Floats, most: Floats) -> Structure:
    """The structure whose phases ask for no more than whatever a library of collectives chooses in
    this box."""
    if program.chooser is None:
        return program.structure
    return program.chooser.least(program.structure, low, most)


def lower_bound(program: Program, space: LinearSpace, prices: Prices | None = None) -> Optimum:
    """The least time, or with ``prices`` time * cost, that any run over ``space`` can reach.

    ``bound`` of the result is the proven one; ``value`` is what :class:`EventBound` has at
    ``bandwidth``, where it is least (a good place to start a search).  Raises what
    :func:`optimum` raises.
    """
    return optimum(EventBound(program, space), space, prices)
