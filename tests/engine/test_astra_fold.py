"""ASTRA-sim's runs, folded and phase by phase, against every rank and every message."""

from __future__ import annotations

from astra_runs import inputs, traces
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.formats.astra_sim.simulate import simulate


@settings(max_examples=150)
@given(st.data())
def test_folding_and_phases_change_no_cycle(data: st.DataObject) -> None:
    given_inputs = data.draw(inputs())
    given_traces = data.draw(traces(given_inputs))
    folded = simulate(given_inputs, given_traces)
    whole = simulate(given_inputs, given_traces, folded=False)
    assert folded.cycles == whole.cycles
    assert folded.exposed == whole.exposed
    assert folded.communication == whole.communication
    assert not whole.by_phase and whole.n_kinds == given_inputs.network.n_npus


def test_most_runs_need_no_single_messages() -> None:
    """The quick way is taken where nothing ends at the same tick, and not where something does."""

    @settings(max_examples=80)
    @given(st.data())
    def count(data: st.DataObject) -> None:
        given_inputs = data.draw(inputs())
        quick.append(simulate(given_inputs, data.draw(traces(given_inputs))).by_phase)

    quick: list[bool] = []
    count()
    assert 0 < sum(quick) < len(quick)
