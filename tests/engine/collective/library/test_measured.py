"""Collectives that take what was measured on the cluster."""

import dataclasses
import math

import pytest

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    Group,
    Result,
    Topology,
    Workload,
    lower,
    run_one,
)
from dimsweep.engine.cluster import Nccl, Timing, Timings
from dimsweep.engine.collective.library.measured import rows_for
from dimsweep.engine.rules import describe_unmeasured
from tests.support.refused import refused

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL = CollectiveKind
MICROSECOND = 10**6
SIZES = {1024: 20, 2**20: 60, 2**24: 300, 2**28: 3000}  # bytes: us
TIMINGS = Timings(
    tuple(
        Timing(kind, 16, 2, n, us * MICROSECOND)
        for kind in CollectiveKind
        for n, us in SIZES.items()
    ),
    "ours.txt",
)


def cluster(timings: Timings = TIMINGS, **told: object) -> Cluster:
    topology = Topology.build(
        "Switch(8)_Switch(2)", bandwidth=[450e9, 50e9], latency=[10**6, 10**6]
    )
    model = CollectiveModel(timings=timings, **told)  # type: ignore[arg-type]
    return Cluster(topology, collectives=model)


def workload(kind: CollectiveKind, n_bytes: float, sizes: tuple[int, int] = (8, 2)) -> Workload:
    builder = GraphBuilder()
    held = n_bytes / (math.prod(sizes) if kind is ALL_GATHER else 1)
    builder.add("c", Collective(kind, held, "g"))
    return Workload((builder.build(),), {"g": Group(sizes, (1, 1))})


def microseconds(kind: CollectiveKind, n_bytes: float) -> float:
    return Result(run_one(lower(workload(kind, n_bytes), cluster()))).time * 1e6


@pytest.mark.parametrize("kind", list(CollectiveKind))
@pytest.mark.parametrize("n_bytes", SIZES)
def test_what_was_measured_is_what_it_takes(kind: CollectiveKind, n_bytes: int) -> None:
    assert microseconds(kind, n_bytes) == pytest.approx(SIZES[n_bytes], abs=1e-4)


def test_times_in_between_below_and_above() -> None:
    """Straight in logarithms: at the geometric mean of two sizes that of their times."""
    assert microseconds(ALL_REDUCE, 2**22) == pytest.approx(math.sqrt(60 * 300), rel=1e-6)
    assert microseconds(ALL_REDUCE, 8) == pytest.approx(20, rel=1e-6)
    assert microseconds(ALL_REDUCE, 2**30) == pytest.approx(4 * 3000, rel=1e-6)


def test_the_mean_of_what_was_measured_twice() -> None:
    again = Timings((*TIMINGS.timings, Timing(ALL_REDUCE, 16, 2, 1024, 30 * MICROSECOND)), "x")
    assert rows_for(again, ALL_REDUCE, 16, 2)[0].duration == 25 * MICROSECOND


def test_every_port_is_busy_with_it_and_its_bandwidth_has_a_price() -> None:
    program = lower(workload(ALL_REDUCE, 2**28), cluster())
    result = Result(run_one(program))
    assert result.per_bandwidth is not None
    assert all(slope < 0 for slope in result.per_bandwidth.values())
    faster = Result(run_one(program.rebind(bandwidth=program.bandwidth * 2)))
    assert result.time / 2 < faster.time < 0.6 * result.time


def test_ranks_that_were_not_measured() -> None:
    elsewhere = workload(ALL_REDUCE, 2**20, (8, 1))
    with refused("collective.measured", "missing", "ours.txt", "all_reduce", "8 GPUs"):
        lower(elsewhere, cluster())
    known = lower(elsewhere, cluster(library=Nccl("h100")))
    assert Result(run_one(known)).time > 0
    (warning,) = describe_unmeasured(known)
    assert "NCCL's model" in warning


def test_rows_of_the_file_that_are_no_timings_are_told() -> None:
    timings = dataclasses.replace(TIMINGS, left_out="2 rows of broadcast")
    (warning,) = describe_unmeasured(lower(workload(ALL_REDUCE, 2**22), cluster(timings)))
    assert warning == f"{TIMINGS.source}: left out 2 rows of broadcast"


def test_sizes_that_were_not_measured_are_told() -> None:
    assert describe_unmeasured(lower(workload(ALL_REDUCE, 2**22), cluster())) == []
    (below,) = describe_unmeasured(lower(workload(ALL_REDUCE, 8), cluster()))
    assert "1.024 kB up" in below
    (above,) = describe_unmeasured(lower(workload(ALL_TO_ALL, 2**30), cluster()))
    assert "all_to_all among 16 GPUs on 2 nodes up to 268.435 MB" in above
