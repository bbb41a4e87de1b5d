"""Gradients of embedding tables are sparse: what is kept, exchanged and updated of them."""

import dataclasses
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Collective, CollectiveKind, Compute, Workload
from dimsweep.engine.workload.models import Dlrm
from dimsweep.engine.workload.plan import (
    DeviceMesh,
    GradientExchange,
    Optimizer,
    ParallelPlan,
    training,
)

# The preset's: 64 tables of a million vectors of 64 values, 80 lookups of a sample in each.
MODEL = Dlrm((512, 512, 256, 64), (512, 1024, 1024, 512, 1), 64, 1_000_000, 64, 80)
PLAN = ParallelPlan(
    batch=1, micro_batch=512, value=4.0, gradient_value=4.0, optimizer=Optimizer.SGD, bucket=1e12
)


def iteration(
    n: int, expert: int, *, model: Dlrm = MODEL, micro_batches: int = 1, **plan: object
) -> Workload:
    mesh = DeviceMesh.place({"expert": expert, "data": "rest"}, (n,))
    own = dataclasses.replace(PLAN, **plan)  # type: ignore[arg-type]
    batch = n * own.micro_batch * micro_batches
    return training(model, dataclasses.replace(own, batch=batch), mesh)


def exchanged(workload: Workload) -> dict[CollectiveKind, float]:
    """Bytes on entry of the collectives among copies of the same tables."""
    moved: dict[CollectiveKind, float] = defaultdict(float)
    for operator in workload.graphs[0]:
        work = operator.work
        if isinstance(work, Collective) and work.group == "expert_replicas":
            moved[work.kind] += work.n_bytes
    return dict(moved)


def moved_by(workload: Workload, kernel: str) -> float:
    """Bytes of all kernels of this name."""
    works = [o.work for o in workload.graphs[0] if isinstance(o.work, Compute)]
    return sum(k.n_bytes for w in works for k in w.kernels if k.name == kernel)


def updated(workload: Workload) -> float:
    return moved_by(workload, "optimizer")


DENSE = sum((a + 1) * b for a, b in [(512, 512), (512, 256), (256, 64)]) + sum(
    (a + 1) * b for a, b in [(64 + 65 * 32, 1024), (1024, 1024), (1024, 512), (512, 1)]
)
UPDATE = 20  # bytes a value: gradient read, momentum and weight read and written


@pytest.mark.parametrize(
    ("n", "expert", "own_rows", "all_rows"),
    [
        # One rank's 512 samples look up 40,960 vectors of a table at most, 16 ranks' 655,360.
        (2, 1, 512 * 80, 2 * 512 * 80),
        (64, 16, 16 * 512 * 80, 1_000_000),
        (1024, 64, 1_000_000, 1_000_000),
    ],
)
def test_copies_exchange_the_rows_that_were_looked_up(n, expert, own_rows, all_rows) -> None:
    row, tables = 64 * 4, 64 // expert
    workload = iteration(n, expert)
    if own_rows == all_rows:
        assert exchanged(workload) == {CollectiveKind.ALL_REDUCE: tables * all_rows * row}
    else:
        assert exchanged(workload) == {
            CollectiveKind.REDUCE_SCATTER: tables * own_rows * row,
            CollectiveKind.ALL_GATHER: pytest.approx(tables * all_rows * row / (n // expert)),
        }
    assert updated(workload) == UPDATE * (DENSE + tables * all_rows * 64)
    need = workload.footprint
    assert need is not None
    assert need.gradients == 4 * (DENSE + tables * all_rows * 64)
    assert need.weights == 4 * (DENSE + tables * 1_000_000 * 64), "tables are whole"


def test_four_tables_exchange_42_megabytes_of_512_samples() -> None:
    """In the place of 1.02 GB, where a rank's tables serve its own samples alone."""
    moved = exchanged(iteration(2, 1, model=dataclasses.replace(MODEL, tables=4)))
    assert moved[CollectiveKind.REDUCE_SCATTER] == pytest.approx(42e6, rel=0.01)
    assert 4 * 1_000_000 * 64 * 4 == 1.024e9


def test_a_smaller_batch_updates_less() -> None:
    """Sixteen ranks of 16 samples each look up 20,480 of the million rows."""
    assert updated(iteration(16, 16, micro_batch=16)) == UPDATE * (DENSE + 4 * 16 * 16 * 80 * 64)


@pytest.mark.parametrize("overlap_gradients", [False, True])
@pytest.mark.parametrize("bucket", [1e6, 25e6, 1e12])
def test_buckets_hold_all_rows(bucket: float, overlap_gradients: bool) -> None:
    whole = exchanged(iteration(32, 16))
    cut = iteration(32, 16, bucket=bucket, overlap_gradients=overlap_gradients)
    assert exchanged(cut) == pytest.approx(whole)


@pytest.mark.parametrize("zero", [1, 2])
def test_divided_state_is_updated_and_gathered_where_there_are_gradients(zero: int) -> None:
    n, expert, micro_batches = 4, 1, 2
    batch = 512 * 80 * 64 * 64  # values of all tables that a rank's micro-batch reaches
    workload = iteration(n, expert, zero=zero, micro_batches=micro_batches)
    moved = exchanged(workload)
    assert moved == {
        CollectiveKind.REDUCE_SCATTER: micro_batches * batch * 4,
        CollectiveKind.ALL_GATHER: micro_batches * batch * 4,  # a quarter of what four ranks reach
    }
    assert updated(workload) == UPDATE * (DENSE / n + micro_batches * batch)


def test_parameter_servers_get_rows() -> None:
    served = iteration(4, 1, gradient_exchange=GradientExchange.PARAMETER_SERVER)
    values = 512 * 80 * 64 * 64
    assert exchanged(served) == {
        CollectiveKind.ALL_TO_ALL: values * 4,
        CollectiveKind.ALL_GATHER: values * 4,
    }
    assert moved_by(served, "sum of gradients") == 4 * (DENSE + values), "a quarter of four copies"


@pytest.mark.parametrize("micro_batches", [2, 3])
def test_a_micro_batchs_rows_are_added_to_those_before(micro_batches: int) -> None:
    workload = iteration(2, 1, micro_batches=micro_batches, fused_sums=False)
    several = moved_by(workload, "sum of gradients")
    assert several == micro_batches * 12 * (DENSE + 512 * 80 * 64 * 64)


@given(
    rows=st.integers(1, 10**6),
    lookups=st.integers(1, 100),
    samples=st.integers(1, 64),
    micro_batches=st.integers(1, 3),
    expert=st.sampled_from([1, 2, 4]),
    copies=st.sampled_from([1, 2, 4]),
)
def test_no_more_rows_than_there_are_nor_than_lookups(
    rows, lookups, samples, micro_batches, expert, copies
) -> None:
    model = Dlrm((8, 16), (8, 1), 4, rows, 16, lookups)
    workload = iteration(
        expert * copies, expert, model=model, micro_batch=samples, micro_batches=micro_batches
    )
    looked_up = expert * samples * micro_batches * lookups
    values, tables = 16, 4 // expert
    own, summed = min(rows, looked_up), min(rows, looked_up * copies)
    moved = exchanged(workload)
    if copies == 1:
        assert not moved
    elif own == summed:
        assert moved == {CollectiveKind.ALL_REDUCE: tables * own * values * 4}
    else:
        assert moved[CollectiveKind.REDUCE_SCATTER] == tables * own * values * 4
        assert moved[CollectiveKind.ALL_GATHER] == tables * summed * values * 4 / copies
    dense = (8 + 1) * 16 + (16 + 10 + 1) * 1  # five vectors have ten pairs
    assert updated(workload) == pytest.approx(UPDATE * (dense + tables * summed * values))


@pytest.mark.parametrize(("optimizer", "each"), [(Optimizer.SGD, 20), (Optimizer.PLAIN_SGD, 12)])
def test_plain_sgd_has_no_state(optimizer: Optimizer, each: int) -> None:
    """In fp32 the gradient is read, and the weight read and written; SGD's momentum, too."""
    workload = iteration(1, 1, model=Dlrm((8, 16), (8, 1), 1, 1, 16), optimizer=optimizer)
    assert updated(workload) == each * ((8 + 1) * 16 + (16 + 1 + 1) + 16)
