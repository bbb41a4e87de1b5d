"""Circles in a Chakra trace: found whatever their shape, and quickly."""

import re
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import NodeType, TraceNode
from dimsweep.engine.formats.chakra.trace import Places, check

PLACES = Places(Path("w.et"))
MANY = 50_000


def nodes(waits: list[list[int]], ids: list[int]) -> list[TraceNode]:
    """Nodes of which each waits for those at some places of the list, half of them for control."""
    return [
        TraceNode(
            node_id,
            "",
            NodeType.COMP,
            tuple(ids[i] for i in wait[::2]),
            tuple(ids[i] for i in wait[1::2]),
        )
        for node_id, wait in zip(ids, waits, strict=True)
    ]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    size = draw(st.integers(1, 12))
    ids = draw(st.lists(st.integers(0, 2**64 - 1), min_size=size, max_size=size, unique=True))
    wait = st.lists(st.integers(0, size - 1), max_size=2)
    return draw(st.lists(wait, min_size=size, max_size=size)), ids


@given(graphs())
def test_what_is_refused_is_a_circle_and_all_circles_are(graph) -> None:
    waits, ids = graph
    edges = nx.DiGraph([(ids[i], ids[j]) for i, wait in enumerate(waits) for j in wait])
    try:
        check(nodes(waits, ids), PLACES)
    except DimsweepError as error:
        assert not nx.is_directed_acyclic_graph(edges)
        circle = [int(number) for number in re.findall(r"id (\d+)", str(error))]
        if "more" not in error.problem:
            assert all(edges.has_edge(*edge) for edge in pairwise([*circle, circle[0]]))
    else:
        assert nx.is_directed_acyclic_graph(edges)


def test_a_long_chain_is_no_circle() -> None:
    check(nodes([[i + 1] for i in range(MANY - 1)] + [[]], list(range(MANY))), PLACES)


def test_a_long_circle_is_told_briefly() -> None:
    with pytest.raises(DimsweepError) as caught:
        check(nodes([[(i + 1) % MANY] for i in range(MANY)], list(range(MANY))), PLACES)
    assert str(caught.value) == (
        "w.et: node 1 (id 0): it waits for itself, by way of id 1, id 2, id 3, "
        f"{MANY - 5} more, id {MANY - 1}"
    )
