"""Bounds on the time of a program: LIBRA's closed form, and a bound on the event-driven time.

The latter holds for all bandwidths of a linear space at once, under the assumptions of the phase
kernel, at the program's latencies.  It is the greatest of several bounds. Each holds for any order
in which the kernel serves its queues:

1. *Paths.*  An operator starts after all operators that it waits for, and a flow after all its
   members, so no run is shorter than any path.  A collective of C chunks lasts at least as long as
   one chunk's phases in sequence. For any dimension it also lasts at least as long as its port
   takes to serve all C chunks, plus the port times of the phases before and after that dimension,
   and all latencies of the last chunk (see :mod:`engine.bound.work`; without these under Themis,
   whose chunks visit the dimensions in different orders).
2. *Loads.*  A port serves one chunk at a time and a stream runs one operator at a time.  So for any
   set of operators, the time from the first start to the last end is at least the sum of their
   demands on one port, or of their durations on one stream.  The sets are between two neighbouring
   *barriers* (operators that are before or after every other one). A load then replaces the stretch
   of the path between the two barriers.  Before the load is the shortest path from the barrier to
   any of its operators, and after it the shortest path to the next barrier, both at the greatest
   bandwidth of every dimension.

If a library of collectives chooses algorithms by the bandwidths, a phase counts with the minimum
latencies and the minimum bytes over its share of all choices that are possible in the space, each
taken separately: no choice is faster.

Every bound is fixed seconds plus bytes over bandwidths (or over sums of bandwidths, under Themis),
so their maximum is convex, and cutting planes minimise it: a longest path at given bandwidths is a
piece.  A cut costs a traversal of the graph and one cone program.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.bound.optimum import Optimum, optimum
from dimsweep.engine.bound.space import LinearSpace
from dimsweep.engine.bound.work import work_of
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.compiler import compiled
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.lower.program import Floats, Ints, Longs, NodeKind, Program, Structure, Table
from dimsweep.engine.units import PICOSECONDS

# --- the closed form ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClosedForm:
    """The closed-form model that LIBRA optimises: T(b) = compute + sum_k max_d demand_kd / b_d.

    Chunks are taken to pipeline perfectly, so that a collective lasts as long as its busiest
    dimension.  Latency, chunk count and congestion do not enter (Won et al., LIBRA, ISPASS 2024).
    """

    compute: float  # seconds
    demand: Floats  # (K, D): each collective's bytes over the share that its group can use

    def time(self, bandwidth: Floats) -> Floats:
        """Return seconds at bandwidths of shape (..., D) in bytes/s."""
        return self.compute + (self.demand / bandwidth[..., None, :]).max(axis=-1).sum(axis=-1)

    @property
    def sums(self) -> Floats:
        """Sums of bandwidths that pieces divide by: none (see :class:`ConvexModel`)."""
        return np.zeros((0, self.demand.shape[1]))

    def pieces(self, reciprocal: Floats) -> Floats:
        """Return the greatest pieces at 1/b (see :class:`ConvexModel`): computation, and each kind.

        The piece of a kind of collective is its busiest dimension's.
        """
        kinds = self.kinds
        n, n_dims = kinds.shape
        busiest = (kinds * reciprocal).argmax(axis=1)
        result = np.zeros((n + 1, n_dims + 1))
        result[np.arange(n), busiest] = kinds[np.arange(n), busiest]
        result[n, n_dims] = self.compute
        return result

    @cached_property
    def kinds(self) -> Floats:
        """Demand (K, D) of the collectives, with proportional rows added up.

        Collectives with proportional demands have the same busiest dimension.
        """
        used = self.demand[self.demand.any(axis=1)]
        shares = np.round(used / used.sum(axis=1, keepdims=True), 12)
        _, kind = np.unique(shares, axis=0, return_inverse=True)
        total = np.zeros((int(kind.max(initial=-1)) + 1, self.demand.shape[1]))
        np.add.at(total, kind.ravel(), used)
        return total


def closed_form(program: Program) -> ClosedForm:
    """Return LIBRA's closed form of a program with one class of ranks and no overlap."""
    s, first = program.structure, _flows_of_first_class(program)
    compute = s.nodes["duration"][s.nodes["cls"] == 0].sum()
    return ClosedForm(float(compute) / PICOSECONDS, demand_of(program)[s.flows["form"][first]])


def demand_of(program: Program) -> Floats:
    """Return each form's bytes over its share of the dimension's bandwidth, (F, D)."""
    return times_of(program).demand


def traffic(program: Program) -> Floats:
    """Return the bytes (D,) that an NPU of the first class sends by dimension in an iteration."""
    first = _flows_of_first_class(program)
    return times_of(program).bytes_sent[program.structure.flows["form"][first]].sum(axis=0)


def _flows_of_first_class(program: Program) -> NDArray[np.bool_]:
    s = program.structure
    return s.members["cls"][s.flows["member_start"]] == 0


# --- items ----------------------------------------------------------------------------------------
# The operators of a program as a graph of items, in which longest paths are found.
#
# An item starts once and ends once: it is a computation, a receive, or a flow.  A flow starts when
# the last of its members is ready, and ends for all of them at once.


@dataclass(frozen=True)
class Items:
    """The N items of a program in topological order, with the items that each waits for.

    An item is a computation, a receive or a flow.
    """

    kind: Ints  # (N,)
    fixed: Floats  # (N,)
    start: Ints  # (N + 1,)
    before: Ints
    of_node: Ints

    def ends(self, duration: Floats) -> Floats:
        """Return the earliest end of each item in seconds (N,), given the durations (N,)."""
        return _ends(self.start, self.before, duration)[0]

    def tails(self, duration: Floats) -> Floats:
        """Return the minimum seconds (N,) from the end of each item to the end of the program."""
        return _tails(self.start, self.before, duration)

    def longest_path(self, duration: Floats) -> Ints:
        """Return the indices of the items on a longest path, the last item first."""
        end, best = _ends(self.start, self.before, duration)
        path = []
        at = int(end.argmax()) if len(end) else -1
        while at >= 0:
            path.append(at)
            at = int(best[at])
        return np.array(path, dtype=np.int32)

    def barriers(self) -> NDArray[np.bool_]:
        """Return, for each item, whether all other items precede or follow it in the graph, (N,).

        All items before a barrier in the order are its predecessors: among them and itself, the
        barrier is the only item without a successor.  The items after it are its successors.
        """
        ahead = _lone_sinks(self.start, self.before)
        after, successors = _reverse_graph(self.start, self.before)
        return ahead & _lone_sinks(after, successors)[::-1]


def items_of(s: Structure) -> Items:
    """Return the items of a structure; raise :class:`DimsweepError` for circular dependencies."""
    # Flows first, then the other operators.
    flow = s.nodes["flow"]
    alone = (s.nodes["flow"] < 0) | (s.nodes["kind"] == NodeKind.RECEIVE)
    item: Ints = np.where(alone, len(s.flows) + np.cumsum(alone) - 1, flow).astype(np.int32)
    n = len(s.flows) + int(alone.sum())
    source = np.repeat(item, s.nodes["next_end"] - s.nodes["next_start"])
    received = np.flatnonzero(s.nodes["kind"] == NodeKind.RECEIVE)
    source = np.concatenate([source, flow[received]])
    target = np.concatenate([item[s.following], item[received]])
    order = _sort_topologically(*_sort_edges(source, target, n), np.bincount(target, minlength=n))
    if len(order) < n:
        raise DimsweepError(
            "operators wait for one another in a circle", where="workload", code="stalled"
        )
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n)
    fixed, kind = np.zeros(n), np.full(n, -1, dtype=np.int32)
    fixed[item[alone]] = s.nodes["duration"][alone] / PICOSECONDS
    kind[: len(s.flows)] = s.flows["form"]
    start, before = _sort_edges(np.take(place, target), np.take(place, source), n)
    return Items(kind[order], fixed[order], start, before, place[item])


def _sort_edges(first: Ints, second: Ints, n: int) -> tuple[Ints, Ints]:
    """Return edges sorted by ``first``: the start of each item's edges (n + 1,), and other ends."""
    order = np.argsort(first, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=n))])
    return start.astype(np.int32), second[order].astype(np.int32)


def _reverse_graph(start: Ints, before: Ints) -> tuple[Ints, Ints]:
    """Return the graph with all edges reversed; item i of N becomes item N - 1 - i."""
    n = len(start) - 1
    after = np.repeat(np.arange(n, dtype=np.int32), np.diff(start))
    return _sort_edges(n - 1 - before, n - 1 - after, n)


# Compiled: for 1.6 million items graphlib takes 50 s, and this less than one.
@compiled
def _sort_topologically(start: Ints, following: Ints, waits: NDArray[np.int64]) -> Ints:
    """Return the items in topological order (Kahn's algorithm), without items in circles.

    ``waits`` is the number of items that each one waits for. Consumes ``waits``.
    """
    order = np.empty(len(waits), dtype=np.int32)
    n = 0
    for i in range(len(waits)):
        if waits[i] == 0:
            order[n] = i
            n += 1
    done = 0
    while done < n:
        i = order[done]
        done += 1
        for after in following[start[i] : start[i + 1]]:
            waits[after] -= 1
            if waits[after] == 0:
                order[n] = after
                n += 1
    return order[:n]


@compiled
def _ends(start: Ints, before: Ints, duration: Floats) -> tuple[Floats, Ints]:
    """Return the earliest end of each item, and the item before it on the longest path, or -1."""
    end, best = np.zeros(len(duration)), np.full(len(duration), -1, dtype=np.int32)
    for i in range(len(duration)):
        for j in before[start[i] : start[i + 1]]:
            if best[i] < 0 or end[j] > end[best[i]]:
                best[i] = j
        end[i] = duration[i]
        if best[i] >= 0:
            end[i] += end[best[i]]
    return end, best


@compiled
def _tails(start: Ints, before: Ints, duration: Floats) -> Floats:
    tail = np.zeros(len(duration))
    for i in range(len(duration) - 1, -1, -1):
        for j in before[start[i] : start[i + 1]]:
            tail[j] = max(tail[j], duration[i] + tail[i])
    return tail


@compiled
def _lone_sinks(start: Ints, before: Ints) -> NDArray[np.bool_]:
    """Return, for each item, whether all items before it in the order precede it in the graph."""
    n = len(start) - 1
    waited, lone = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    sinks = 0
    for i in range(n):
        sinks += 1
        for j in before[start[i] : start[i + 1]]:
            if not waited[j]:
                waited[j] = True
                sinks -= 1
        lone[i] = sinks == 1
    return lone


# --- paths ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathForm:
    """A :class:`ConvexModel`: the longest path, on which a flow takes its form's greatest piece.

    ``forms`` holds the pieces (n, D + R + 1) of each form; ``sums`` (R, D) is the model's.
    """

    items: Items
    forms: tuple[Floats, ...]
    sums: Floats

    def pieces(self, reciprocal: Floats) -> Floats:
        """Return the sum of the pieces on the longest path at 1/b, shape (1, D + R + 1)."""
        forms, seconds = self.greatest_pieces(reciprocal)
        return self.sum_path(self.items.longest_path(self.durations(seconds)), forms)[None]

    def greatest_pieces(self, reciprocal: Floats) -> tuple[Floats, Floats]:
        """Return each form's greatest piece at 1/b (F, D + R + 1), and its seconds (F,)."""
        at = np.append(reciprocal, 1.0)
        rows = np.zeros((len(self.forms), len(at)))
        for form, pieces in enumerate(self.forms):
            rows[form] = pieces[(pieces @ at).argmax()]
        return rows, rows @ at

    def durations(self, seconds: Floats) -> Floats:
        """Return the seconds of each item, (N,), given the seconds of each form (F,)."""
        kind = self.items.kind
        return self.items.fixed + np.where(kind >= 0, np.append(seconds, 0.0)[kind], 0.0)

    def sum_path(self, path: Ints, forms: Floats) -> Floats:
        """Return the sum (D + R + 1,) of the pieces of the items on ``path``.

        ``forms`` (F, D + R + 1) holds each form's piece.
        """
        kind = self.items.kind[path]
        piece: Floats = np.bincount(kind[kind >= 0], minlength=len(forms)) @ forms
        piece[-1] += self.items.fixed[path].sum()
        return piece


def overlap_form(program: Program) -> PathForm:
    """Return LIBRA's closed form for overlapping operators: sums and maxima as in the graph.

    A collective lasts max_d a_kd / b_d, as in :func:`closed_form`, and independent operators run
    concurrently at full speed. Without overlap it equals the closed form. Raises
    :class:`DimsweepError` if operators wait in a circle.
    """
    n_dims = program.structure.shape.n_dims
    demand = demand_of(program)
    forms = tuple(np.hstack([np.diag(row), np.zeros((n_dims, 1))]) for row in demand)
    return PathForm(items_of(program.structure), forms, np.zeros((0, n_dims)))


# --- loads ----------------------------------------------------------------------------------------


class Loads:
    """The loads of a program's ports and streams between barriers (see :mod:`engine.bound.event`).

    ``stretch`` (N,) counts the barriers before each item, and is -1 for barriers themselves.
    ``load`` (F, E, E + 1) is each form's demand on a port, ``duration`` (N,) the items' seconds at
    the greatest bandwidths.
    """

    def __init__(self, s: Structure, items: Items, load: Floats, duration: Floats) -> None:
        barrier = items.barriers()
        self.stretch = np.where(barrier, -1, np.cumsum(barrier))
        self._n = int(barrier.sum()) + 1
        head, tail = _barrier_distances(items, barrier, duration, self.stretch)
        jobs = np.flatnonzero((s.nodes["stream"] >= 0) & (self.stretch[items.of_node] >= 0))
        nodes, item = s.nodes[jobs], items.of_node[jobs]
        self._streams = _Streams(nodes, item, self.stretch, items, head, tail, len(load))
        flows = nodes["flow"] >= 0
        self._ports = _port_loads(nodes[flows], item[flows], self.stretch, items, load, head, tail)

    def exceeding_loads(
        self, path: Ints, duration: Floats, forms: Floats, at: Floats
    ) -> tuple[Longs, Floats]:
        """Return the stretches (S,) in which a load exceeds ``path``, and these loads (S, E + 1).

        A stretch is between two barriers. ``forms`` (F, E + 1) holds each form's greatest piece at
        ``at`` (E + 1,) = (1/b, 1).
        """
        stretch = np.concatenate([self._streams.stretch, self._ports[0]])
        loads = np.vstack([self._streams.rows(forms), self._ports[1]])
        seconds = loads @ at
        # A load that is longer only by rounding says nothing new.
        inner = self.stretch[path] >= 0
        least = np.bincount(self.stretch[path[inner]], duration[path[inner]], self._n)
        order = np.argsort(seconds, kind="stable")
        greatest = np.full(self._n, -1)
        greatest[stretch[order]] = order
        found = np.flatnonzero(greatest >= 0)
        found = found[seconds[greatest[found]] > least[found] * (1 + 1e-12)]
        return found, loads[greatest[found]]


class _Streams:
    """Loads of streams; a stream runs one operator at a time."""

    def __init__(
        self,
        nodes: Table,
        item: Ints,
        stretch: Longs,
        items: Items,
        head: Floats,
        tail: Floats,
        n_forms: int,
    ) -> None:
        at, self.stretch, fixed = _group_jobs(
            stretch[item], nodes["stream"], head[item], tail[item]
        )
        kind = items.kind[item]
        kept = at >= 0
        self._fixed = fixed + np.bincount(at[kept], items.fixed[item[kept]], len(fixed))
        flows = kept & (kind >= 0)
        pairs, self._count = np.unique(
            at[flows].astype(np.int64) * n_forms + kind[flows], return_counts=True
        )
        self._load, self._form = np.divmod(pairs, max(n_forms, 1))

    def rows(self, forms: Floats) -> Floats:
        """Return the load of each stream (L, E + 1), given each form's piece (F, E + 1)."""
        rows = np.zeros((len(self._fixed), forms.shape[1]))
        rows[:, -1] = self._fixed
        np.add.at(rows, self._load, self._count[:, None] * forms[self._form])
        return rows


def _port_loads(
    nodes: Table,
    item: Ints,
    stretch: Longs,
    items: Items,
    load: Floats,
    head: Floats,
    tail: Floats,
) -> tuple[Longs, Floats]:
    """Return the loads of ports; a port serves one chunk at a time.

    They are the stretches (L,) between barriers, and the loads (L, E + 1).
    """
    n_dims = load.shape[1]
    stretches, rows = [np.zeros(0, dtype=np.int64)], [np.zeros((0, n_dims + 1))]
    for dim in range(n_dims):
        used: NDArray[np.bool_] = np.any(load[:, dim], axis=1)[items.kind[item]]
        here = item[used]
        at, where, fixed = _group_jobs(stretch[here], nodes["cls"][used], head[here], tail[here])
        row = np.zeros((len(where), n_dims + 1))
        kept = at >= 0
        np.add.at(row, at[kept], load[items.kind[here[kept]], dim])
        row[:, -1] += fixed
        stretches.append(where)
        rows.append(row)
    return np.concatenate(stretches), np.vstack(rows)


def _group_jobs(
    stretch: Longs, owner: Ints, head: Floats, tail: Floats
) -> tuple[Longs, Longs, Floats]:
    """Group the jobs (operators) that have one owner, a stream or port, in one stretch.

    Return each job's group (-1 for a single job, which its path bounds as much), and each group's
    stretch and seconds: the shortest path to any of its jobs, plus the shortest path on.
    """
    key = stretch.astype(np.int64) * (int(owner.max(initial=0)) + 1) + owner
    _, first, inverse, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    kept = count > 1
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    group, n = number[inverse], int(kept.sum())
    ways = np.full((2, n), np.inf)
    for way, each in zip(ways, (head, tail), strict=True):
        np.minimum.at(way, group[group >= 0], each[group >= 0])
    return group, stretch[first[kept]].astype(np.int64), ways.sum(axis=0)


def _barrier_distances(
    items: Items, barrier: NDArray[np.bool_], duration: Floats, stretch: Longs
) -> tuple[Floats, Floats]:
    """Return the minimum seconds from the last barrier to each item, and on to the next barrier."""
    end, tail = items.ends(duration), items.tails(duration)
    # Before the first barrier and after the last there is nothing.
    left = np.concatenate([[0.0], end[barrier]])
    right = np.concatenate([(tail + duration)[barrier], [0.0]])
    head = end - duration - left[stretch]
    return np.maximum(head, 0.0), np.maximum(tail - right[stretch], 0.0)


_ROUNDING = 1e-12  # relative, of the floats in the kernel's phase times and in the sums here


class EventBound:
    """A :class:`ConvexModel`: a lower bound on the simulated time at all bandwidths of ``space``.

    Raises :class:`DimsweepError` for a program that deadlocks by its graph.
    """

    def __init__(self, program: Program, space: LinearSpace) -> None:
        low, most = space.box()
        work = work_of(_minimum_structure(program, low, most), program.latency, most)
        self.sums = work.sums
        self._paths = PathForm(items_of(program.structure), tuple(work.pieces), work.sums)
        with np.errstate(divide="ignore"):
            seconds = self._paths.greatest_pieces(1 / np.concatenate([most, work.sums @ most]))[1]
        fastest = self._paths.durations(seconds)
        self._loads = Loads(program.structure, self._paths.items, work.load, fastest)

    def pieces(self, reciprocal: Floats) -> Floats:
        """Return the greatest bound at 1/b, shape (1, D + R + 1).

        It is the longest path, with loads instead of the stretches in which they take longer.
        """
        forms, seconds = self._paths.greatest_pieces(reciprocal)
        duration = self._paths.durations(seconds)
        path = self._paths.items.longest_path(duration)
        stretch, load = self._loads.exceeding_loads(
            path, duration, forms, np.append(reciprocal, 1.0)
        )
        path = path[~np.isin(self._loads.stretch[path], stretch)]
        return (1 - _ROUNDING) * (load.sum(axis=0) + self._paths.sum_path(path, forms))[None]


def _minimum_structure(program: Program, low: Floats, most: Floats) -> Structure:
    """Return the structure whose phases are no slower than any choice of the library's in a box."""
    if program.chooser is None:
        return program.structure
    return program.chooser.relax(program.structure, low, most)


def lower_bound(program: Program, space: LinearSpace, prices: Prices | None = None) -> Optimum:
    """Return a lower bound on the time of any run with bandwidths of ``space``.

    Parameters
    ----------
    program
        The lowered workload.
    space
        The possible bandwidths.
    prices
        If given, the bound is on time * cost.

    Raises
    ------
    DimsweepError
        As :func:`optimum` does.

    Returns
    -------
    Optimum
        ``bound`` is proven. ``value`` is the minimum of :class:`EventBound`, at ``bandwidth``,
        which is a good start for a search.
    """
    return optimum(EventBound(program, space), space, prices)
