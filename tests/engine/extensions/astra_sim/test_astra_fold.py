"""ASTRA-sim's runs, folded, against every rank and every message."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError, Ring
from dimsweep.engine.extensions.astra_sim.program import simulate
from dimsweep.engine.formats.astra_sim import Network, Options
from dimsweep.engine.formats.chakra import CollectiveType, NodeType, TraceNode
from dimsweep.engine.formats.chakra.node import node_of
from tests.support.astra_runs import inputs, ring_of_four, traces
from tests.support.examples import examples


@examples(50)
@given(st.data())
def test_folding_changes_no_cycle(data: st.DataObject) -> None:
    given_inputs = data.draw(inputs())
    given_traces = data.draw(traces(given_inputs))
    try:
        whole = simulate(given_inputs, given_traces, folded=False)
    except DimsweepError:  # smallest first in several queues, see below
        with pytest.raises(DimsweepError, match="deadlock"):
            simulate(given_inputs, given_traces)
        return
    folded = simulate(given_inputs, given_traces)
    assert folded.cycles == whole.cycles
    assert folded.exposed == whole.exposed
    assert folded.communication == whole.communication
    assert not whole.compiled and whole.n_kinds == given_inputs.network.n_npus


def test_chunks_that_change_places_on_some_ranks_deadlock_folded_or_not() -> None:
    """Smallest first in several queues: what is tied on alike ranks need not end alike."""
    base = ring_of_four()
    rings = ("ring", "ring")
    algorithms = dict.fromkeys(base.system.algorithms, rings)
    system = replace(base.system, algorithms=algorithms, splits=3, intra_dimension="SCF")
    network = Network((Ring(), Ring()), (2, 4), (50.0, 50.0), (500.0, 500.0))
    given_inputs = replace(base, network=network, system=system, options=Options(2))
    kinds = (CollectiveType.ALL_GATHER, CollectiveType.ALL_REDUCE)
    nodes = [
        node_of(
            TraceNode(i, "", NodeType.COMM_COLL, (), (), 0, 0, {"comm_type": k, "comm_size": 4096})
        )
        for i, k in enumerate(kinds)
    ]
    for folded in (True, False):
        with pytest.raises(DimsweepError, match="deadlock: 8 of 8"):
            simulate(given_inputs, [nodes] * 8, folded=folded)
