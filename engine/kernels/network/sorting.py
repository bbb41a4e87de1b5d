"""In which order what is ready at one instant goes on: a stable merge sort of numbers by key."""

from engine.compiler import kernel
from engine.kernels.network.entries import chunk_of
from engine.kernels.network.state import READY, State
from engine.lower.program import Ints


@kernel
def sort_nodes(st: State, n: int) -> None:
    """Put the first ``n`` nodes that are ready in the order of the graphs."""
    _sort(st, st.lists[READY], n, True)


@kernel
def sort_jobs(st: State, n: int) -> None:
    """Put the first ``n`` jobs that move on in the order of their flows and chunks."""
    _sort(st, st.moving[:n], n, False)  # a view, as a row of a table is: one type


@kernel
def _key(st: State, item: int, nodes: bool) -> int:
    if nodes:
        return st.nodes[item].key << 32 | item
    return st.flows[st.entries[item].flow].key << 32 | chunk_of(st, item)


@kernel
def _sort(st: State, items: Ints, n: int, nodes: bool) -> None:
    """Merges from the bottom up, unless all is in order, which it mostly is."""
    at = 1
    while at < n and _key(st, items[at - 1], nodes) <= _key(st, items[at], nodes):
        at += 1
    width = 1 if at < n else n
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(st, items, start, min(start + width, n), min(start + 2 * width, n), nodes)
        width *= 2


@kernel
def _merge(st: State, items: Ints, start: int, middle: int, end: int, nodes: bool) -> None:
    for i in range(start, middle):
        st.scratch[i] = items[i]
    one, other, at = start, middle, start
    while one < middle:
        first = st.scratch[one]
        if other < end and _key(st, items[other], nodes) < _key(st, first, nodes):
            items[at] = items[other]
            other += 1
        else:
            items[at] = first
            one += 1
        at += 1
