"""A batch of points is its points: order, size and neighbours change nothing."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    FINISHED,
    Cluster,
    CollectiveKind,
    DimsweepError,
    Measures,
    Program,
    Topology,
    lower,
    outcome_error,
    run_batch,
    run_one,
)
from tests.support.examples import examples
from tests.support.programs import clusters, one_collective, training, uneven
from tests.support.refused import refused

RING = Cluster(Topology.build("Ring(4)", bandwidth=[1e9], latency=[1000]))


def all_reduce(n_bytes: float = 4e6) -> Program:
    return lower(one_collective(CollectiveKind.ALL_REDUCE, n_bytes, (4,)), RING)


@examples(30)
@given(st.data())
def test_rows_do_not_depend_on_one_another(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=64))
    kind = data.draw(st.sampled_from([training, uneven]))
    workload = data.draw(kind(cluster.topology.sizes))
    program = lower(workload, cluster)
    n_dims = len(cluster.topology.dims)
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    bandwidth = random.uniform(1e8, 1e11, size=(5, n_dims))
    latency = random.integers(0, 10**6, size=(5, n_dims))

    batch = run_batch(program, bandwidth, latency)
    shuffled = random.permutation(5)
    other = run_batch(program, bandwidth[shuffled], latency[shuffled])
    for row in range(5):
        alone = run_one(program.rebind(bandwidth=bandwidth[row], latency=latency[row])).measures
        where = int(np.flatnonzero(shuffled == row)[0])
        for name, expected in columns(alone).items():
            found = columns(batch)[name][row]
            assert columns(other)[name][where].tolist() == found.tolist(), name
            # A batch runs chains of operators, which add bytes up in another order.
            within = 1e-12 if found.dtype == np.float64 else 0
            np.testing.assert_allclose(found, expected[0], rtol=within, err_msg=name)


def columns(measures: Measures) -> dict[str, np.ndarray]:
    assert measures.path is not None
    plain = {name: column for name, column in measures._asdict().items() if name != "path"}
    return plain | {f"path.{name}": column for name, column in measures.path._asdict().items()}


def test_without_latencies_the_programs_own_apply() -> None:
    program = all_reduce()
    points = np.array([[1e9], [2e9]])
    own = run_batch(program, points).time
    assert own.tolist() == run_batch(program, points, [[1000], [1000]]).time.tolist()
    assert (own > run_batch(program, points, [[0], [0]]).time).all()


def test_one_point_may_come_without_its_batch() -> None:
    program = all_reduce()
    assert run_batch(program, [1e9]).time.tolist() == run_one(program).measures.time.tolist()


def test_an_empty_batch_is_empty() -> None:
    assert run_batch(all_reduce(), np.zeros((0, 1))).time.shape == (0,)


@pytest.mark.parametrize("bandwidth", [[[0.0]], [[1e9], [-1.0]], [[float("nan")]], [[1e9, 1e9]]])
def test_impossible_bandwidths_are_refused(bandwidth: list[list[float]]) -> None:
    with pytest.raises(DimsweepError) as error:
        run_batch(all_reduce(), bandwidth)
    assert error.value.where == "bandwidth"


def test_a_point_that_takes_for_ever_spoils_only_itself() -> None:
    program = all_reduce(n_bytes=1e15)
    measures = run_batch(program, [[1e12], [1e-3], [1e12]])
    assert (measures.outcome == FINISHED).tolist() == [True, False, True]
    assert measures.time[1] == -1 and measures.time[0] == measures.time[2] > 0
    assert "longer than" in str(outcome_error(int(measures.outcome[1])))
    with refused("", "out-of-range", "longer than"):
        run_one(program.rebind(bandwidth=[1e-3]))


def test_nothing_is_to_be_compiled_where_numba_is_switched_off() -> None:
    command = "import dimsweep.engine; print(dimsweep.engine.is_compiled())"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
