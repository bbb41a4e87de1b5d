"""ASTRA-sim's inputs as a program of the phase kernel: its cycles at every point of a sweep."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import FINISHED, Cluster, DimsweepError, account, run_batch, run_one
from dimsweep.engine.extensions.astra_sim.fold import fold
from dimsweep.engine.extensions.astra_sim.program import lower_for_sweep
from dimsweep.engine.extensions.astra_sim.workload import interpret
from dimsweep.engine.formats.astra_sim import Inputs, topology_of
from dimsweep.engine.formats.chakra.node import Node
from tests.support.astra_runs import inputs, ring_of_four, traces
from tests.support.examples import examples
from tests.support.refused import refused


def cycles(
    given_inputs: Inputs, given_traces: list[list[Node]], gigabytes: list[float]
) -> tuple[int, int]:
    """Of the last rank to finish, by single NPUs and messages: its end, and what its GPU did."""
    network = replace(given_inputs.network, gigabytes=tuple(gigabytes))
    there = replace(given_inputs, network=network)
    found = interpret(there, given_traces, fold(there, given_traces))
    return max(found.cycles), max(found.gpu)


@examples(40)
@given(st.data())
def test_every_point_has_astra_sims_cycles(data: st.DataObject) -> None:
    given_inputs = data.draw(inputs())
    given_traces = data.draw(traces(given_inputs))
    network = given_inputs.network
    n = len(network.sizes)
    program = lower_for_sweep(given_inputs, given_traces, Cluster(topology_of(network)))
    rates = st.lists(st.sampled_from([20.0, 33.3, 50.0, 100.0]), min_size=n, max_size=n)
    points = data.draw(st.lists(rates, min_size=1, max_size=3))
    bandwidth = np.array(points) * np.array(network.links) * 2.0**30
    try:
        expected = [cycles(given_inputs, given_traces, gigabytes) for gigabytes in points]
    except DimsweepError:  # chunks of two collectives in another order on either side
        with pytest.raises(DimsweepError, match="deadlock"):
            run_batch(program, bandwidth)
        return
    measures = run_batch(program, bandwidth)
    breakdown = account(program, bandwidth, measures)
    path = measures.path
    assert path is not None
    for i, (end, compute) in enumerate(expected):
        assert (measures.outcome[i], measures.time[i]) == (FINISHED, end * 1000)
        assert breakdown.compute[i] <= compute * 1000
        assert breakdown.compute[i] + breakdown.exposed[i] <= measures.time[i]
        if not np.isnan(path.demand[i]).any():
            parts = (path.transfer[i] + path.latency[i] + path.endpoint[i]).sum()
            assert path.compute[i] + path.memory[i] + parts == measures.time[i]


def all_reduce(n: int = 4, size: int = 2**20) -> list[list[Node]]:
    from tests.engine.extensions.astra_sim.test_astra_kernel import collective, on_all

    return on_all(collective(0, size=size)) * (n // 4)


@pytest.mark.parametrize("change", ["themis", "aware"])
def test_what_the_kernel_leaves_open_is_answered_point_by_point(change: str) -> None:
    given_inputs = ring_of_four()
    if change == "aware":
        given_inputs = replace(given_inputs, options=replace(given_inputs.options, aware=True))
    else:
        system = replace(given_inputs.system, inter_dimension="themis")
        given_inputs = replace(given_inputs, system=system)
    network = given_inputs.network
    program = lower_for_sweep(given_inputs, all_reduce(), Cluster(topology_of(network)))
    assert len(program.structure.nodes) == 0
    gigabytes = [[50.0], [20.0]]
    measures = run_batch(program, np.array(gigabytes) * 2 * 2.0**30)
    expected = [cycles(given_inputs, all_reduce(), g)[0] * 1000 for g in gigabytes]
    assert measures.time.tolist() == expected
    assert run_one(program).measures.time.tolist() == expected[:1]


def test_the_shadow_price_is_the_slope() -> None:
    given_inputs = ring_of_four()
    network = given_inputs.network
    program = lower_for_sweep(given_inputs, all_reduce(size=2**30), Cluster(topology_of(network)))
    bandwidth = program.bandwidth * np.array([[1.0], [1.001]])
    measures = run_batch(program, bandwidth)
    slope = account(program, bandwidth, measures).per_bandwidth
    assert slope is not None
    difference = (measures.time[1] - measures.time[0]) / 1e12
    assert difference == pytest.approx(slope[0, 0] * (bandwidth[1, 0] - bandwidth[0, 0]), rel=2e-3)


def test_another_topology_is_refused() -> None:
    given_inputs = ring_of_four()
    small = replace(given_inputs.network, sizes=(2,))
    with refused("topology", "mismatch", "network.yml"):
        lower_for_sweep(given_inputs, all_reduce(), Cluster(topology_of(small)))
