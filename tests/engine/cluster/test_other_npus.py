"""NPUs of several kinds in one cluster."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    Compute,
    Dimension,
    Npu,
    Operator,
    Receive,
    Result,
    Send,
    Switch,
    Topology,
    Workload,
    lower,
    run_one,
)
from dimsweep.engine.cluster import OtherNpus
from dimsweep.engine.errors import Code
from dimsweep.engine.network import Change, Selection
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training, training_footprint
from tests.support.examples import examples
from tests.support.refused import refused

FAST, SLOW = Npu(flops=4e12, memory_bandwidth=1e12), Npu(flops=1e12, memory_bandwidth=1e12)
MODEL = Transformer(hidden=64, layers=8, heads=4, sequence=64, vocabulary=512)


def cluster(n: int, at: tuple[int, ...] = (), **more: object) -> Cluster:
    topology = Topology((Dimension(Switch(), n, 100e9, 500_000),))
    others = (OtherNpus(SLOW, at),) if at else ()
    return dataclasses.replace(Cluster(topology, FAST, other_npus=others), **more)  # type: ignore[arg-type]


def summed(flops: float = 1e9, n_bytes: float = 1e6, n: int = 4) -> Workload:
    """Every rank computes, and all of them sum up."""
    graph = (
        Operator("compute", Compute(flops=flops)),
        Operator("sum", Collective(CollectiveKind.ALL_REDUCE, n_bytes, "all"), (0,)),
    )
    return Workload((graph,), {"all": Group((n,), (1,))})


def time(workload: Workload, on: Cluster, *, fold: bool = True) -> int:
    return Result(run_one(lower(workload, on, fold=fold))).time_ps


def test_all_wait_for_the_slowest() -> None:
    """1 GFLOP takes 250 us on 4 TFLOP/s and 1 ms on 1 TFLOP/s; the all-reduce is the same."""
    fast, mixed = time(summed(), cluster(4)), time(summed(), cluster(4, (2,)))
    assert mixed - fast == 750_000_000


def test_stages_in_turn_each_on_a_kind_of_its_own() -> None:
    """4 GFLOP, a message, 1 GFLOP: 1 ms and 1 ms where the first is the faster one, else 4 ms and
    0.25 ms; the message is the same."""
    first = (
        Operator("compute", Compute(flops=4e9)),
        Operator("send", Send(1e5, (1,)), (0,)),
    )
    second = (
        Operator("receive", Receive((-1,))),
        Operator("compute", Compute(flops=1e9), (0,)),
    )
    workload = Workload((first, second), graph_of_rank=np.arange(2))
    found = [time(workload, cluster(2, at)) for at in ((1,), (0,))]
    message = found[0] - 2_000_000_000
    assert found[1] == 4_250_000_000 + message
    assert 0 < message < 3_000_000


@examples(30)
@given(st.sets(st.integers(0, 7), max_size=8), st.floats(1e6, 1e10))
def test_folding_changes_nothing(slow: set[int], flops: float) -> None:
    own = cluster(8, tuple(sorted(slow)))
    whole = summed(flops, n=8)
    assert time(whole, own) == time(whole, own, fold=False)
    all_slow = dataclasses.replace(cluster(8), npu=SLOW)
    least, most = time(whole, cluster(8)), time(whole, all_slow)
    assert time(whole, own) == (most if slow else least)


def test_ranks_are_of_the_kind_of_their_npu() -> None:
    npus = cluster(6, (1, 4)).npus
    assert npus.of is not None
    assert [npus.kinds[kind] for kind in npus.of] == [FAST, SLOW, FAST, FAST, SLOW, FAST]
    assert npus.peak(1e12, {}) == 3e12
    assert cluster(6, tuple(range(6))).npus == ((SLOW,), None)
    assert cluster(6).npus == ((FAST,), None)


def test_a_slow_one_of_another_kind_is_slower_than_its_kind() -> None:
    own = cluster(4, (1, 2))
    broken = dataclasses.replace(own.network, degrade=(Change(npu=Selection("NPU 2"), speed=0.5),))
    npus = dataclasses.replace(own, network=broken).npus
    assert npus.of is not None
    assert [npus.kinds[kind] for kind in npus.of] == [
        *(FAST, SLOW, dataclasses.replace(SLOW, speed=0.5), FAST)
    ]


def test_axes_do_not_change_places_where_npus_differ() -> None:
    assert cluster(4).symmetric_dims == (True,)
    assert cluster(4, (1,)).symmetric_dims == (False,)


def test_each_stage_must_fit_its_own_npus() -> None:
    """The first stage has six of eight layers; an NPU that holds no more than the second stage may
    run the second, and not the first."""
    mesh = DeviceMesh.place({"pipeline": 2, "data": 2}, (4,))
    plan = ParallelPlan(batch=4, stage_layers=(6, 2))
    first, second = training_footprint(MODEL, plan, mesh).stages
    assert second.total < first.total == training_footprint(MODEL, plan, mesh).total
    large, small = (
        dataclasses.replace(npu, memory=need.total) for npu, need in ((FAST, first), (SLOW, second))
    )
    workload = training(MODEL, plan, mesh)
    for at, fits in (((1, 3), True), ((3,), True), ((0,), False), ((0, 2), False)):
        own = cluster(4, npu=large, other_npus=(OtherNpus(small, at),))
        if fits:
            assert time(workload, own) > 0
            continue
        with refused("other_npus", "infeasible", "pipeline stage 0"):
            lower(workload, own)


@pytest.mark.parametrize(
    ("others", "where", "code", "named"),
    [
        ([OtherNpus(SLOW, (4,))], "[0].at", "unknown-name", "NPU 4"),
        ([OtherNpus(SLOW, (-1,))], "[0].at", "unknown-name", "NPU -1"),
        ([OtherNpus(SLOW, ())], "[0].at", "missing", ""),
        ([OtherNpus(SLOW, (1, 1))], "[0].at", "duplicate", "NPU 1"),
        ([OtherNpus(SLOW, (1,)), OtherNpus(FAST, (0, 1))], "[1].at", "duplicate", "NPU 1"),
        (
            [OtherNpus(Npu(flops=1e12, reduce_bandwidth=1e9), (1,))],
            "[0].npu.reduce_bandwidth",
            "conflict",
            "",
        ),
    ],
)
def test_bad_other_npus_are_refused(
    others: list[OtherNpus], where: str, code: Code, named: str
) -> None:
    with refused(f"other_npus{where}", code, named):
        _ = cluster(4, other_npus=tuple(others)).npus
