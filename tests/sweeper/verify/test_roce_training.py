"""Congestion control for whole iterations: what its points look at, and a small case of it."""

from dataclasses import replace

import pytest

from engine import simulate
from sweeper.verify import roce_training
from sweeper.verify.roce import TRAINING, cluster
from sweeper.verify.roce_training import ANSWERED, COLLIDING, RUNS, Run, points, simulated

AS_FOUND = dict.fromkeys(RUNS, 1.0) | {
    run: time
    for run in RUNS
    for time in (
        {"sprayed": 0.5, "DCQCN, sprayed": 0.6, "DCTCP": 1.04, "HPCC": 1.1}.get(run.variant),
    )
    if time
}


def failed(changed: dict[Run, float]) -> list[str]:
    """The points that fail when times are changed."""
    return [point.name for point in points(AS_FOUND | changed) if not point.holds]


@pytest.mark.parametrize(
    ("run", "time", "point"),
    [
        (Run("DLRM", "ring", "TIMELY"), 1.06, "DLRM, ring: DCQCN, DCTCP, TIMELY"),
        (Run("GPT-3 13B", "ring", "HPCC"), 1.14, "GPT-3 13B: HPCC"),
        (Run("DLRM", COLLIDING, "sprayed"), 1.1, "DLRM, halving-doubling: collisions of"),
        (Run("ResNet-50", COLLIDING, "DCQCN, sprayed"), 1.1, "ResNet-50, halving-doubling: coll"),
        (Run("ResNet-50", COLLIDING, "window"), 0.9, "ResNet-50, halving-doubling: the window"),
    ],
)
def test_each_point_looks_at_its_own_times(run: Run, time: float, point: str) -> None:
    assert failed({}) == []
    (name,) = failed({run: time})
    assert name.startswith(point)


def test_a_smaller_iteration_on_faster_npus_is_as_many_times_shorter() -> None:
    """Its computation is, and its collectives move as many times less."""
    run, variant, scale = Run("ResNet-50", "hierarchical", "PFC alone"), ANSWERED["PFC alone"], 4096
    small = simulated(run, variant, racks=2, scale=scale)
    on = replace(cluster(TRAINING[run.case], variant, racks=2), npu=roce_training._npu(run.model))
    full = simulate(roce_training._workload(run.model, on), on)
    assert small.compute * scale == pytest.approx(full.compute, rel=1e-4)
    assert small.bytes_by_dim == {
        dim: pytest.approx(n_bytes / scale) for dim, n_bytes in full.bytes_by_dim.items()
    }
