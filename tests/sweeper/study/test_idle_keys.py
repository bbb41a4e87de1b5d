"""Keys that make no difference are told, and no key is told that makes one."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dimsweep.engine import DimsweepError, Fidelity, Program, Result, run_one
from dimsweep.engine.rules import KernelInputs, has_equal_inputs
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.schema import Config, Design
from dimsweep.sweeper.ledger.rows import single_row
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.study.idle import _UNCHECKED, _other_values, idle_keys

PLAN = (
    *("workload=gpt3_13b", "topology=dgx_h100", "topology.shape=Switch(8)_Switch(4)", "npu=h100"),
    *("workload.model.layers=2", "workload.plan.batch=64", "collective=nccl"),
)


def leaves(node: Mapping[str, Any], place: str = "") -> Iterator[str]:
    for name, value in node.items():
        key = f"{place}.{name}".removeprefix(".")
        if isinstance(value, dict) and value:
            yield from leaves(value, key)
        elif key.split(".")[0] in Design.model_fields and key not in _UNCHECKED:
            yield key


def figures(config: Config, program: Program) -> dict[str, Any]:
    """All that a row says."""
    row = single_row(config, Result(run_one(program)))
    return {name: str(value) for name, value in row.items() if name != "time_error"}


def first_that_can_be(config: Config, key: str) -> tuple[Config, Program, dict[str, Any]] | None:
    """The configuration with the first other value of a key that can be simulated, its program and
    figures."""
    for value in _other_values(config, key):
        try:
            changed = config.with_values({key: value})
            if changed.value(key) != config.value(key):
                program = build_program(changed)
                return changed, program, figures(changed, program)
        except DimsweepError:
            continue
    return None


@pytest.mark.long
@pytest.mark.parametrize(("words", "idle", "least"), [((), 28, 23), (PLAN, 34, 31)])
def test_most_idle_keys_are_told_and_no_other(
    words: tuple[str, ...], idle: int, least: int
) -> None:
    """Every key with another value, one at a time.  A hand-kept list told 18 to 24 of them."""
    composed = compose(words)
    own = figures(composed.config, build_program(composed.config))
    silent, told = set[str](), set[str]()
    for key in leaves(composed.config.text):
        found = first_that_can_be(composed.config, key)
        if found is None:
            continue
        config, program, other = found
        changed = ComposedConfig(composed.overrides, composed.choices, config)
        silent |= {key} if other == own else set()
        told |= idle_keys(changed, program, [key]).keys()
    assert told <= silent
    assert len(silent) >= idle and len(told) >= least


@pytest.mark.long
@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["workload.loop=overlap_gradients"], ["workload.loop"]),
        (["workload.weight_gradients_first=true"], ["workload.weight_gradients_first"]),
        (["workload.loop=overlap_gradients", "workload.weight_gradients_first=true"], []),
        (["collective.chunks=7", "topology.latency=3 us", "cost.npu=30 kUSD"], []),
        (["memory.kind=node", "memory.bandwidth=1 GB/s"], ["memory.kind"]),
        (["cost.electricity=0.1 USD/kWh"], ["cost.electricity"]),
        (["npu=h100", "workload=all_reduce"], ["npu"]),
        (["name=mine", "results=there", "fold=false", "search=tpe"], []),
    ],
)
def test_what_is_told_of_a_run(overrides: list[str], told: list[str]) -> None:
    """The last exchange of these gradients has nothing to run beside, unless weights go first."""
    composed = compose(overrides)
    found = idle_keys(composed, build_program(composed.config), composed.overridden)
    assert list(found) == told
    assert all(text.startswith(f"{key} has no effect: ") for key, text in found.items())


def test_an_axis_is_idle_if_it_is_in_all_cells(tmp_path: Path) -> None:
    """Themis orders nothing on one dimension, but it does on four."""
    grid = "+grid={topology: [one_switch, %s], collective.order: [baseline, themis]}"
    words = ["name=x", f"results={tmp_path}", "budget.trials=2", "topology.tiers=[]"]
    words += ["workload.layers=1", "collective.chunks=2", "search=random"]
    words += ["+roles={topology: scenario}"]  # of unlike sizes, which do unlike work
    told = plan_study(compose([*words, grid % "flat_1024"])).study.warnings
    assert [text for text in told if "order has no effect" in text]
    told = plan_study(compose([*words, grid % "libra_4d"])).study.warnings
    assert not [text for text in told if "order has no effect" in text]


def test_the_keys_of_a_studys_file_count() -> None:
    assert "workload.layers" in compose(["study=gpt3_64_by_message"]).set_in_study
    assert compose([]).set_in_study == []


def test_programs_are_told_apart_by_what_a_fidelity_reads() -> None:
    words = ["workload=all_reduce", "topology.shape=Ring(4)", "topology.tiers=[]"]
    words += ["topology.latency=1 us", "topology.bandwidth=1 GB/s", "collective.chunks=2"]
    differs = {"network.buffer=1 MB": "message", "network.packets.pmax=0.3": "packet"}
    for override, reads in differs.items():
        for fidelity in map(Fidelity, ("phase", "message", "packet")):
            configs = (
                compose([*words, f"fidelity={fidelity}", *more]).config for more in ([], [override])
            )
            one, other = (KernelInputs(build_program(config), fidelity) for config in configs)
            assert has_equal_inputs(one, one)
            assert has_equal_inputs(one, other) == (fidelity != reads)
