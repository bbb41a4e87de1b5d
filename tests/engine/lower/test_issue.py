"""Collectives of a stream run in the order of issue, which the graph then says."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimsweepError,
    GraphBuilder,
    Group,
    Operator,
    Program,
    Topology,
    Workload,
    lower,
    run_one,
)
from dimsweep.engine.lower.issue import Following, Waits, find_issue_order, find_turns
from tests.support.examples import examples
from tests.support.refused import refused

ALL_REDUCE = CollectiveKind.ALL_REDUCE
PAIR = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
GROUPS = {"g": Group((2,), (1,)), "h": Group((2,), (1,))}


@st.composite
def graphs(draw: st.DrawFn, *, in_order: bool) -> tuple[int, np.ndarray]:
    """How many nodes there are, and who waits for whom."""
    n = draw(st.integers(1, 12))
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    number = np.arange(n) if in_order else np.array(draw(st.permutations(range(n))))
    after = sorted((number[max(pair)], number[min(pair)]) for pair in pairs if pair[0] != pair[1])
    return n, np.array(sorted(set(after)), dtype=np.int64).reshape(-1, 2)


def graph_of(n: int, after: np.ndarray) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((before, node) for node, before in after.tolist())
    return graph


@examples(100)
@given(graphs(in_order=False))
def test_a_rank_issues_the_first_that_it_can(case: tuple) -> None:
    n, after = case
    issued = find_issue_order(Waits.from_pairs(after, n)).tolist()
    assert issued == list(nx.lexicographical_topological_sort(graph_of(n, after)))


@examples(100)
@given(graphs(in_order=True), st.data())
def test_turns_are_what_the_graph_does_not_say_yet(case: tuple, data: st.DataObject) -> None:
    n, after = case
    drawn = data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    stream, issued = np.array(drawn, dtype=np.int32), np.arange(n, dtype=np.int32)
    waits = Waits.from_pairs(after, n)
    turn = find_turns(waits, stream, issued)
    told = [[node, before] for node, before in enumerate(turn.tolist()) if before >= 0]
    graph = graph_of(n, np.array([*after.tolist(), *told]).reshape(-1, 2))
    for number in range(3):
        users = np.flatnonzero(stream == number).tolist()
        for before, node in pairwise(users):
            assert before in nx.ancestors(graph, node)
    for node, before in told:
        assert stream[node] == stream[before] >= 0
        assert before not in nx.ancestors(graph_of(n, after), node)
    nodes, start, counts = Following.from_waits(waits, turn)
    followers = [nodes[start[i] : start[i + 1]].tolist() for i in range(n)]
    assert followers == [sorted(graph.successors(i)) for i in range(n)]
    assert counts.tolist() == [graph.in_degree(i) for i in range(n)]


def program(*graphs: tuple[Operator, ...], streams: int = 1) -> Program:
    of_rank = np.array([0, 1]) if len(graphs) > 1 else None
    cluster = Cluster(PAIR, collectives=CollectiveModel(chunks=1, streams=streams))
    return lower(Workload(graphs, GROUPS, of_rank), cluster)


def ends(program: Program) -> dict[str, int]:
    """When each operator of the first rank ends, in us."""
    nodes = run_one(program).state.nodes
    of_first = range(int((program.structure.nodes["cls"] == 0).sum()))
    return {program.names.node[i]: int(nodes["end"][i]) // 10**6 for i in of_first}


def two_behind_computations(first: int, second: int, **stream: str) -> tuple[Operator, ...]:
    """A and B of 1 ms each over one group, behind what takes so many us on streams of their own."""
    builder = GraphBuilder()
    ready = builder.add("ready for B", Compute(duration=second * 10**6))
    later = builder.add("ready for A", Compute(duration=(first - second) * 10**6), [ready])
    builder.add("A", Collective(ALL_REDUCE, 1e6, "g", **stream), [later])
    builder.add("B", Collective(ALL_REDUCE, 1e6, "g"), [ready])
    return builder.build()


def test_what_is_ready_first_waits_for_its_turn() -> None:
    assert ends(program(two_behind_computations(300, 100)))["B"] == 300 + 2 * 1000


def test_other_streams_overlap() -> None:
    """A named stream is another communicator, over the same ranks."""
    alone = ends(program(two_behind_computations(300, 100, stream="other")))
    assert (alone["B"], alone["A"]) == (1600, 2100), "their phases take turns at the port"


def test_several_streams_of_a_group_take_its_collectives_in_turn() -> None:
    """The n-th begins when the one before it on its own stream has ended: the one k before it."""
    builder = GraphBuilder()
    slow = builder.add("slow", Compute(duration=5000 * 10**6))
    builder.add("0", Collective(ALL_REDUCE, 1e6, "g"), [slow])
    for number in range(1, 4):
        builder.add(str(number), Collective(ALL_REDUCE, 1e6, "g"))
    in_two = ends(program(builder.build(), streams=2))
    assert [in_two[str(number)] for number in range(4)] == [6000, 1000, 7000, 2000]
    in_one = ends(program(builder.build()))
    assert [in_one[str(number)] for number in range(4)] == [6000, 7000, 8000, 9000]


def test_a_list_in_no_order_runs() -> None:
    """A waits for B, which stands behind it: so B is issued first, and matched so on all ranks."""
    a, b = Collective(ALL_REDUCE, 1e6, "g"), Collective(ALL_REDUCE, 2e6, "g")
    odd = (Operator("A", a, (1,)), Operator("B", b))
    assert ends(program(odd)) == {"A": 3000, "B": 2000}
    usual = (Operator("B", b), Operator("A", a))
    assert ends(program(odd, usual)) == {"A": 3000, "B": 2000}
    with refused("workload", "mismatch", "rank 0 runs 'B'", "rank 1 runs 'A'"):
        program(odd, usual[::-1])


def test_a_deadlock_of_the_order_itself_names_ranks_and_operators() -> None:
    """Rank 0 issues A before B and waits for X first; on rank 1, X is issued behind B."""
    works = {name: Collective(ALL_REDUCE, 1e6, "g") for name in "AB"}
    works["X"] = Collective(ALL_REDUCE, 1e6, "h")
    one = (Operator("X", works["X"]), Operator("A", works["A"], (0,)), Operator("B", works["B"]))
    two = (Operator("A", works["A"]), Operator("B", works["B"]), Operator("X", works["X"], (1,)))
    with pytest.raises(DimsweepError) as error:
        run_one(program(one, two))
    assert error.value.problem.splitlines()[1:] == [
        "  rank 0: 'X' waits for rank 1 to join",
        "  rank 0: 'B' waits for its turn behind 'A'",
        "  rank 1: 'A' waits for rank 0 to join",
        "  rank 1: 'B' waits for its turn behind 'A'",
    ]
