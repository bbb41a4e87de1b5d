"""The operators of a program as a graph of items, in which longest paths are found.

An item starts once and ends once: it is a computation, a receive, or a flow.  A flow starts when
the last of its members is ready, and ends for all of them at once.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import compiled
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Floats, Ints, NodeKind, Structure
from dimsweep.engine.units import PICOSECONDS


@dataclass(frozen=True)
class Items:
    """N items in an order in which each comes after all that it waits for.

    ``kind``: the form of a flow, -1 for others; ``fixed``: seconds of computation.  ``before``
    holds the items waited for, from ``start[i]`` to ``start[i + 1]``; ``of_node``: each node's
    item.
    """

    kind: Ints  # (N,)
    fixed: Floats  # (N,)
    start: Ints  # (N + 1,)
    before: Ints
    of_node: Ints

    def ends(self, duration: Floats) -> Floats:
        """When each item ends at the earliest, given how long each lasts (N,)."""
        return _ends(self.start, self.before, duration)[0]

    def tails(self, duration: Floats) -> Floats:
        """How long it takes at least from the end of each item to the end of all."""
        return _tails(self.start, self.before, duration)

    def longest(self, duration: Floats) -> Ints:
        """The items on a longest path, the last one first."""
        end, best = _ends(self.start, self.before, duration)
        path = []
        at = int(end.argmax()) if len(end) else -1
        while at >= 0:
            path.append(at)
            at = int(best[at])
        return np.array(path, dtype=np.int32)

    def barriers(self) -> NDArray[np.bool_]:
        """Whether each item has a path to, or from, every other item (N,).

        Such an item comes after all that stand before it in the order: among these and itself it
        is the only one that none of them waits for.  Backwards the same holds of what follows.
        """
        ahead = _lone_sinks(self.start, self.before)
        after, successors = _reversed(self.start, self.before)
        return ahead & _lone_sinks(after, successors)[::-1]


def items_of(s: Structure) -> Items:
    """The items of a structure; raises :class:`DimsweepError` when they wait in a circle."""
    # Flows first, then what is none.
    flow = s.nodes["flow"]
    alone = (s.nodes["flow"] < 0) | (s.nodes["kind"] == NodeKind.RECEIVE)
    item: Ints = np.where(alone, len(s.flows) + np.cumsum(alone) - 1, flow).astype(np.int32)
    n = len(s.flows) + int(alone.sum())
    source = np.repeat(item, s.nodes["next_end"] - s.nodes["next_start"])
    received = np.flatnonzero(s.nodes["kind"] == NodeKind.RECEIVE)
    source = np.concatenate([source, flow[received]])
    target = np.concatenate([item[s.following], item[received]])
    order = _ordered(*_by_first(source, target, n), np.bincount(target, minlength=n))
    if len(order) < n:
        raise DimsweepError("operators wait for one another in a circle", where="workload")
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n)
    fixed, kind = np.zeros(n), np.full(n, -1, dtype=np.int32)
    fixed[item[alone]] = s.nodes["duration"][alone] / PICOSECONDS
    kind[: len(s.flows)] = s.flows["form"]
    start, before = _by_first(np.take(place, target), np.take(place, source), n)
    return Items(kind[order], fixed[order], start, before, place[item])


def _by_first(first: Ints, second: Ints, n: int) -> tuple[Ints, Ints]:
    """Edges sorted by their first end: where those of each item start (n + 1,), and their second
    ends."""
    order = np.argsort(first, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=n))])
    return start.astype(np.int32), second[order].astype(np.int32)


def _reversed(start: Ints, before: Ints) -> tuple[Ints, Ints]:
    """The graph backwards: item i of N is item N - 1 - i of it."""
    n = len(start) - 1
    after = np.repeat(np.arange(n, dtype=np.int32), np.diff(start))
    return _by_first(n - 1 - before, n - 1 - after, n)


# Compiled: for 1.6 million items graphlib takes 50 s, and this less than one.
@compiled
def _ordered(start: Ints, following: Ints, waits: NDArray[np.int64]) -> Ints:
    """Items in an order in which each comes after all that it waits for, by Kahn's algorithm; what
    waits in a circle is left out.  ``waits``: for how many items each one waits; it is used up."""
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
    """When each item ends, and the item before it on the longest path to it, or -1."""
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
    """Whether all items before each one in the order are before it in the graph too."""
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
