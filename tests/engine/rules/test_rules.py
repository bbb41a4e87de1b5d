"""Design rules: dimensions provisioned for one another, and what cannot matter."""

from typing import Any

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
    DimensionOrder,
    GraphBuilder,
    Npu,
    Operator,
    Program,
    QueueOrder,
    Topology,
    Workload,
    lower,
    place,
    run_batch,
)
from dimsweep.engine.kernels.phase.batch import entrances_of
from dimsweep.engine.rules import (
    crosses_dimensions,
    is_measured,
    list_crossed_pairs,
    list_silent_dimensions,
    maximum_lone_chunks,
    queue_matters,
)
from tests.support.examples import examples

GB = 1e9


def program(
    shape: str,
    axes: dict[str, object],
    kind: str = "all_reduce",
    work: Compute | None = None,
    **model: object,
) -> Program:
    n = shape.count("(")
    topology = Topology.build(shape, bandwidth=[100 * GB] * n, latency=[0] * n)
    graph = GraphBuilder()
    if work is not None:
        graph.add("work", work)
    for name in axes:
        graph.add(name, Collective(CollectiveKind(kind), 2**24, name))
    workload = Workload((graph.build(),), place(axes, topology.sizes))  # type: ignore[arg-type]
    return lower(workload, Cluster(topology, collectives=CollectiveModel(**model)))  # type: ignore[arg-type]


def test_themis_rule_in_the_limit_of_large_dimensions() -> None:
    (pair,) = list_crossed_pairs(program("Switch(64)_Switch(64)", {"data": "rest"}))
    assert (pair.group, pair.inner, pair.outer) == ("data", 0, 1)
    assert pair.balance == pytest.approx(64, rel=1e-12)  # equal dimensions: the rule as it is
    assert pair.provision(np.array([64 * GB, GB])) == pytest.approx(1)
    assert pair.provision(np.array([64 * GB, 2 * GB])) == pytest.approx(2)


def test_small_groups_and_the_links_that_they_have() -> None:
    # 2 of a FullyConnected(8) have a seventh of its links; (p - 1)/p is 1/2, then 3/4 of a half.
    pairs = list_crossed_pairs(
        program("FullyConnected(8)_Switch(4)", {"tensor": [4, 1], "data": "rest"})
    )
    assert [pair.group for pair in pairs] == ["data"]
    assert pairs[0].balance == pytest.approx(7 * (1 / 2) / (3 / 4 / 2), rel=1e-12)


@examples(25)
@given(
    st.sampled_from(["all_reduce", "reduce_scatter", "all_gather"]),
    st.tuples(*[st.sampled_from([2, 4, 8])] * 3),
)
def test_where_all_pairs_are_just_enough_all_dimensions_are_used(
    kind: str, sizes: tuple[int, int, int]
) -> None:
    shape = "_".join(f"Switch({n})" for n in sizes)
    lowered = program(shape, {"data": "rest"}, kind, chunks=512)
    pairs = {(pair.inner, pair.outer): pair for pair in list_crossed_pairs(lowered)}
    assert set(pairs) == {(0, 1), (0, 2), (1, 2)}
    balanced = 100 * GB / np.array([1, pairs[0, 1].balance, pairs[0, 2].balance])
    assert all(pair.provision(balanced) == pytest.approx(1) for pair in pairs.values())

    # Baseline order: more bandwidth in a single dimension gains next to nothing, less costs.
    def seconds(factors: list[float]) -> float:
        return float(run_batch(lowered, balanced * factors).time[0])

    enough = seconds([1, 1, 1])
    for d in range(3):
        factors = [1.0, 1.0, 1.0]
        factors[d] = 2.0
        assert seconds(factors) > 0.97 * enough
        factors[d] = 0.5
        assert seconds(factors) > 1.9 * enough


def test_all_to_all_has_no_pairs() -> None:
    assert list_crossed_pairs(program("Switch(4)_Switch(4)", {"data": "rest"}, "all_to_all")) == []


def test_a_dimension_that_no_byte_crosses() -> None:
    topology = Topology.build("Ring(4)_Switch(4)", bandwidth=[GB] * 2, latency=[0] * 2)
    graph = GraphBuilder()
    graph.add("sum", Collective(CollectiveKind.ALL_REDUCE, 2**20, "tensor"))
    groups = place({"tensor": 4, "data": "rest"}, topology.sizes)
    lowered = lower(Workload((graph.build(),), groups), Cluster(topology))
    assert list_silent_dimensions(lowered) == [1]
    assert list_silent_dimensions(program("Ring(4)_Switch(4)", {"data": "rest"})) == []


def test_chunks_of_one_dimension() -> None:
    one = program("Ring(4)_Switch(4)", {"tensor": 4, "data": "rest"}, chunks=8)
    assert not crosses_dimensions(one) and maximum_lone_chunks(one) == 8
    both = program("Ring(4)_Switch(4)", {"data": "rest"}, chunks=8)
    assert crosses_dimensions(both) and maximum_lone_chunks(both) == 0


def test_measured_durations() -> None:
    assert is_measured(program("Ring(4)", {"data": "rest"}))
    assert is_measured(program("Ring(4)", {"data": "rest"}, work=Compute(duration=5)))
    topology = Topology.build("Ring(4)", bandwidth=[GB], latency=[0])
    workload = Workload(((Operator("work", Compute(flops=1e9)),),))
    assert not is_measured(lower(workload, Cluster(topology, Npu(flops=1e12))))


def test_queues_matter_only_where_something_waits() -> None:
    shape, smallest = "Switch(4)_Switch(4)", {"queue": QueueOrder.SMALLEST_FIRST, "chunks": 4}
    assert not queue_matters(program(shape, {"data": "rest"}, **smallest))
    assert queue_matters(program(shape, {"tensor": 2, "data": "rest"}, **smallest))
    assert not queue_matters(program(shape, {"tensor": 2, "data": "rest"}, chunks=4))


def test_rules_compile_nothing_of_their_own() -> None:
    """The kernel of a program as it was lowered runs what they change of it, too."""
    lowered = program("Ring(4)_Switch(4)", {"data": "rest"}, queue=QueueOrder.LIFO, chunks=4)
    run_batch(lowered, lowered.bandwidth)
    kernel: Any = entrances_of(lowered).run_points
    known = len(kernel.signatures)
    queue_matters(lowered)
    list_crossed_pairs(lowered)
    assert len(kernel.signatures) == known


def test_the_order_in_force_does_not_change_the_rule() -> None:
    baseline, themis = (
        list_crossed_pairs(program("Ring(4)_Switch(8)", {"data": "rest"}, order=order))
        for order in DimensionOrder
    )
    assert baseline == themis
