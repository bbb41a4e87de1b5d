"""Folding alike ranks into classes changes the cost of a simulation and nothing else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import FINISHED, Cluster, NetworkModel, Workload, lower, run_batch, run_one
from dimsweep.engine.network import Change, Selection
from tests.support.examples import examples
from tests.support.programs import clusters, pipelines, tangles, training, uneven

SMALL = {"max_npus": 32}


def check_folding(workload: Workload, cluster: Cluster) -> int:
    """Every rank's account is its class's; returns the number of classes."""
    folded, unfolded = (lower(workload, cluster, fold=fold) for fold in (True, False))
    few, all_ranks = (run_batch(program, program.bandwidth) for program in (folded, unfolded))
    assert few.outcome[0] == all_ranks.outcome[0] == FINISHED
    assert few.time[0] == all_ranks.time[0]

    ranks = list(folded.names.class_first)
    for name in ("compute", "exposed", "busy"):
        of_classes, of_ranks = getattr(few, name)[0], getattr(all_ranks, name)[0]
        assert of_classes.tolist() == of_ranks[ranks].tolist(), name
        # Not only the first rank of each class: as many ranks as it counts have these values.
        repeated = np.repeat(of_classes, folded.names.class_count, axis=0)
        assert sorted(repeated.tolist()) == sorted(of_ranks.tolist()), name
    for name in ("exposed_by_dim", "exposed_by_tally", "bytes_sent"):
        # Sums of floats, perhaps in another order.
        of_classes, of_ranks = getattr(few, name)[0], getattr(all_ranks, name)[0]
        assert of_classes == pytest.approx(of_ranks[ranks], rel=1e-12, abs=1e-6), name
    return len(ranks)


@examples(40)
@given(st.data())
def test_training_iterations(data: st.DataObject) -> None:
    cluster = data.draw(clusters(**SMALL))
    workload = data.draw(training(cluster.topology.sizes))
    assert check_folding(workload, cluster) == 1


@examples(40)
@given(st.data())
def test_tangles_of_operators(data: st.DataObject) -> None:
    cluster = data.draw(clusters(**SMALL))
    workload = data.draw(tangles(cluster.topology.sizes))
    assert check_folding(workload, cluster) == 1


@examples(40)
@given(st.data())
def test_ranks_that_compute_unevenly(data: st.DataObject) -> None:
    cluster = data.draw(clusters(**SMALL))
    workload = data.draw(uneven(cluster.topology.sizes))
    check_folding(workload, cluster)


@examples(40)
@given(st.data(), st.sampled_from([training, pipelines]))
def test_slow_npus_are_unlike_the_others(data: st.DataObject, of: Any) -> None:
    cluster = data.draw(clusters(**SMALL))
    workload = data.draw(of(cluster.topology.sizes))
    n = cluster.topology.n_npus
    whole = run_one(lower(workload, cluster)).measures
    npus = Selection(draw=data.draw(st.integers(1, n)), seed=data.draw(st.integers(0, 9)))
    network = NetworkModel(degrade=(Change(npu=npus, speed=0.5),))
    slow = replace(cluster, network=network)
    check_folding(workload, slow)
    measures = run_one(lower(workload, slow, fold=False)).measures
    assert measures.compute.max() == 2 * whole.compute.max() or npus.draw < n


@examples(40)
@given(st.data())
def test_pipelines_with_messages(data: st.DataObject) -> None:
    cluster = data.draw(clusters(**SMALL))
    workload = data.draw(pipelines(cluster.topology.sizes))
    check_folding(workload, cluster)
