"""A study over ASTRA-sim's own inputs: its cycles at every trial."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from dimsweep import load
from dimsweep.engine.extensions.astra_sim.fold import fold
from dimsweep.engine.extensions.astra_sim.workload import interpret
from dimsweep.engine.formats.astra_sim import read_inputs, read_ranks
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.questions.plan import plan_study
from tests.support.studies import run

TRACES = Path("studies/traces/astra_sim")


def test_every_trial_has_the_cycles_of_single_messages(tmp_path: Path) -> None:
    study = ["study=astra_sim_split", "budget.trials=6", f"results={tmp_path}"]
    plan = plan_study(compose(study))
    run(plan)
    inputs = read_inputs(TRACES / "system.json", TRACES / "network.yml")
    traces = read_ranks([TRACES / "all_reduce.et"] * inputs.network.n_npus)
    table = load(plan.folder).to_pandas()
    assert len(table) >= 5
    for _, row in table.iterrows():
        bandwidth = np.array([round(row[f"bandwidth_{d}_GBps"] * 2) / 2 for d in range(3)]) * 1e9
        gigabytes = bandwidth / np.array(inputs.network.links) / 2.0**30
        network = replace(inputs.network, gigabytes=tuple(gigabytes.tolist()))
        there = replace(inputs, network=network)
        cycles = interpret(there, traces, fold(there, traces)).cycles
        assert row["time_ps"] == max(cycles) * 1000
