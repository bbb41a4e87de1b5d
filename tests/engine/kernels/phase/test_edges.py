"""Inputs at the edge of what makes sense: an answer or an error, never garbage."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimensionOrder,
    DimsweepError,
    GraphBuilder,
    Group,
    Npu,
    Topology,
    Workload,
    lower,
    run_batch,
    simulate,
    units,
)
from dimsweep.engine.formats import read_astra1_layers
from tests.support.refused import refused

RING2 = Cluster(Topology.build("Ring(2)", bandwidth=[1e12], latency=[0]))
PASSES = {"forward": "a", "input_grad": "a", "weight_grad": "a"}


def one(work: Any, sizes: tuple[int, ...] = (2,)) -> Workload:
    builder = GraphBuilder()
    builder.add("only", work)
    return Workload((builder.build(),), {"g": Group(sizes, (1,) * len(sizes))})


ALL_REDUCE = Collective(CollectiveKind.ALL_REDUCE, 8e6, "g")


@pytest.mark.parametrize("order", list(DimensionOrder))
def test_a_group_of_one_takes_no_time(order: DimensionOrder) -> None:
    cluster = Cluster(RING2.topology, collectives=CollectiveModel(order=order))
    result = simulate(one(ALL_REDUCE, (1,)), cluster, record=True)
    assert result.time_ps == 0
    assert result.timeline()["traceEvents"]


@pytest.mark.parametrize("latency", [np.zeros((2, 1), int), np.zeros((6, 2), int)])
def test_latencies_must_match_the_points(latency: Any) -> None:
    with refused("latency", "mismatch"):
        run_batch(lower(one(ALL_REDUCE), RING2), np.full((6, 1), 1e12), latency)


def test_one_latency_serves_all_points() -> None:
    program = lower(one(ALL_REDUCE), RING2)
    times = run_batch(program, np.full((6, 1), 1e12), [1000]).time
    assert len(set(times.tolist())) == 1
    assert times[0] > run_batch(program, [[1e12]]).time[0]


def test_a_batch_has_two_dimensions() -> None:
    with pytest.raises(DimsweepError, match="bandwidth"):
        run_batch(lower(one(ALL_REDUCE), RING2), np.full((2, 2, 1), 1e12))


def test_a_program_is_rebound_to_one_point() -> None:
    with pytest.raises(DimsweepError, match="one point"):
        lower(one(ALL_REDUCE), RING2).rebind(bandwidth=[[1e9], [2e9]])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "work",
    [
        Compute(duration=2**63),
        Compute(duration=1.5),  # type: ignore[arg-type]
        Compute(flops=float("nan")),
        Compute(n_bytes=float("inf")),
    ],
)
def test_endless_or_broken_work_is_refused(work: Compute) -> None:
    with pytest.raises(DimsweepError, match="'only'"):
        simulate(one(work), RING2)


def test_endless_latency_is_refused() -> None:
    with pytest.raises(DimsweepError, match="latency"):
        Topology.build("Ring(2)", bandwidth=[1e9], latency=[2**63])
    with pytest.raises(DimsweepError, match="53 days"):
        units.parse_time("1e300 s")


def test_long_latency_on_many_hops_is_noticed() -> None:
    """Hops times latency overflow an integer here; the run must say so, not come out short."""
    topology = Topology.build("Ring(1000)", bandwidth=[1e12], latency=[2**61])
    with refused("", "out-of-range", "longer than"):
        simulate(one(ALL_REDUCE, (1000,)), Cluster(topology))


@pytest.mark.parametrize("key", ["flops", "memory_bandwidth", "reduce_bandwidth"])
@pytest.mark.parametrize("rate", [-1e12, 0.0, float("nan"), float("inf")])
def test_rates_are_positive(key: str, rate: float) -> None:
    with pytest.raises(DimsweepError, match=key):
        Npu(**{key: rate})


def test_nan_flops_are_not_free() -> None:
    with pytest.raises(DimsweepError, match="must be finite"):
        Npu(flops=1e12).duration(Compute(float("nan")))


@pytest.mark.parametrize("text", ["DATA\n\u00b2\n", "DATA\n0\n"])
def test_headers_of_astra_sim_text(text: str, tmp_path: Path) -> None:
    file = tmp_path / "m.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DimsweepError, match=r"m\.txt"):
        read_astra1_layers(file, PASSES)


def test_a_workload_has_a_graph() -> None:
    with pytest.raises(DimsweepError, match="graph"):
        simulate(Workload(()), RING2)
