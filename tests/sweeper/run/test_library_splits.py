"""A collective library chooses by the bandwidths: every row of a search is what its split gives."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dimsweep import load
from dimsweep.engine import simulate
from dimsweep.engine.bound import EventBound, time_of
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.rows import single_row
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.reproduce import reproduce
from dimsweep.sweeper.simulation.program import build_cluster, build_program, build_workload
from dimsweep.sweeper.study.restore import format_split
from tests.support.refused import refused
from tests.support.studies import SMALL, run

Small = Callable[..., StudyPlan]
# Sizes around which NCCL goes over from one algorithm or protocol to another.
SIZES = ("64 KiB", "1 MiB", "4 MiB", "16 MiB", "128 MiB")
LAYERS = ", ".join(
    f"{{name: l{i}, "
    f"input_grad: {{duration: 3 us, collective: {kind}, size: {size}, group: {group}}}, "
    f"weight_grad: {{duration: 2 us, collective: all_reduce, size: {size}, group: data}}}}"
    for i, (size, kind, group) in enumerate(
        zip(
            SIZES,
            ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_reduce"),
            ("model", "data", "data", "data", "model"),
            strict=True,
        )
    )
)
MODEL = (
    "workload=all_reduce",
    f"workload.layers=[{LAYERS}]",
    "workload.parallel={model: 4, data: 8}",
    "profile=native",
    "topology.shape=Switch(8)_Switch(4)",
    "topology.tiers=[package, pod]",
    "cost=dgx_h100",
    "collective.subgroup_bandwidth=physical",
    "topology.bandwidth=[450 GB/s, 50 GB/s]",
    "topology.latency=[0 ns, 1 us]",
    "space.bandwidth={total: 500 GB/s, min: 5 GB/s}",
    "search=random",
    "budget.trials=33",  # three splits that are worth knowing, and thirty
    "what_if=null",
)
NCCL = ("collective=nccl", "collective.gpu=h100")


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[bool], tuple[str, ...]]:
    """What was measured on a cluster: everything, or all-reduces alone, and NCCL's model for the
    rest."""

    def words(everything: bool) -> tuple[str, ...]:
        kinds = ["all_reduce"] + ["all_gather", "reduce_scatter", "alltoall"] * everything
        places = [(gpus, nodes) for gpus in (2, 4, 8, 32) for nodes in (1, 2, 4) if nodes <= gpus]
        rows = [
            f"{kind},{gpus},{nodes},{n},{10 + nodes + n / 4e4}"
            for kind in kinds
            for gpus, nodes in places
            for n in (2**10, 2**20, 2**27)
        ]
        file = tmp_path / f"{len(kinds)}.csv"
        file.write_text("\n".join(["op,gpus,nodes,bytes,time_us", *rows]) + "\n")
        then = "collective.measured_bandwidth=[450 GB/s, 50 GB/s]"
        return (f"collective.measured={file}", then, *(() if everything else NCCL))

    return words


def splits(rows: pd.DataFrame) -> np.ndarray:
    return rows[[name for name in rows if name.startswith("bandwidth_")]].to_numpy() * 1e9


def check_by_hand(plan: StudyPlan, rows: pd.DataFrame) -> None:
    """Every row is what the configuration with its split in it gives, lowered for that alone."""
    for _, row in rows.iterrows():
        own = [row[name] for name in rows if name.startswith("bandwidth_")]
        text = format_split([each * 1e9 for each in own])
        config = plan.cells[0].config.with_values({"topology.bandwidth": text})
        cluster = build_cluster(config)
        told = single_row(config, simulate(build_workload(config, cluster), cluster))
        told.pop("exposed_by_collective_s")
        assert {name: row[name] for name in told} == told


def bound_of(plan: StudyPlan) -> EventBound:
    split = plan.cells[0].space.split
    assert split is not None
    return EventBound(build_program(plan.cells[0].config), split.linear())


@pytest.mark.long
@pytest.mark.parametrize("library", ["nccl", "measured", "both"])
def test_a_row_is_what_its_split_gives(
    small: Small, measured: Callable[[bool], tuple[str, ...]], library: str
) -> None:
    told = NCCL if library == "nccl" else measured(library == "measured")
    plan = small(*MODEL, *told)
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert len(rows) == 33 and (rows["state"] == "complete").all()
    check_by_hand(plan, rows)
    program = build_program(plan.cells[0].config)
    groups = program.group_by_choice(splits(rows))
    assert (len(groups) == 1) == (library == "measured")
    bound = bound_of(plan)
    times = [time_of(bound, split) for split in splits(rows)]
    assert (np.array(times) <= rows["time_ps"] / 1e12).all()
    assert plan.cells[0].bound is not None
    assert 0 < plan.cells[0].bound <= rows["time_ps"].min() / 1e12
    assert not reproduce(plan.folder).differ


class Slices(InlineExecutor):
    """Pieces of a few trials."""

    def __init__(self, plan: StudyPlan, size: int) -> None:
        cells = [cell.cell for cell in plan.cells]
        super().__init__(Setup(plan.config.executor, cells, plan.schema, print))
        self._SLICE = size


@pytest.mark.long
def test_the_rows_are_the_same_however_they_are_simulated(small: Small) -> None:
    """One by one, and stopped and resumed; by a search that learns from slopes."""
    words = (*MODEL, *NCCL, "search=descent", "search.batch=7", "executor=inline")
    whole = small(*words, results="whole")
    run(whole)
    expected = load(whole.folder)
    plan = small(*words, results="one by one")
    run(plan, Slices(plan, 1))
    assert load(plan.folder).equals(expected)
    run(small(*words, "budget.trials=13", results="parts"))
    rest = small(*words, results="parts")
    assert run(rest).reused >= 13
    assert load(rest.folder).equals(expected)


@pytest.mark.parametrize("axis", ["topology.bandwidth", "topology.latency"])
def test_a_searched_key_is_what_it_gives(small: Small, axis: str) -> None:
    values = {
        "topology.bandwidth": "[[56.25 GB/s, 50 GB/s], [450 GB/s, 50 GB/s], [450 GB/s, 5 GB/s]]",
        "topology.latency": "[0 ns, 1 us, 30 us]",
    }
    words = [word for word in MODEL if not word.startswith("space")]
    space = (
        f"space={{bandwidth: {{total: null}}, parameters: {{{axis}: {{values: {values[axis]}}}}}}}"
    )
    plan = small(*words, *NCCL, space, "search=grid")
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert len(rows) == 3
    for _, row in rows.iterrows():
        known = plan.cells[0].space.parameters[axis].all_values() or ()
        (value,) = (each for each in known if str(each) == row[axis])
        config = plan.cells[0].config.with_values({axis: value})
        cluster = build_cluster(config)
        assert row["time_s"] == simulate(build_workload(config, cluster), cluster).time


def test_measured_collectives_at_other_bandwidths(
    small: Small, measured: Callable[[bool], tuple[str, ...]]
) -> None:
    """It must be said at which bandwidths they were measured; other ones scale them from there."""
    file, then = measured(True)
    with refused("collective.measured", "missing", "collective.measured_bandwidth"):
        small(*MODEL, file)
    with refused("collective.measured_bandwidth", "missing", "collective.measured"):
        small(*MODEL, then)
    with refused("collective.measured_bandwidth", "mismatch", "3 values for 2 dimensions"):
        small(*MODEL, file, "collective.measured_bandwidth=[1 GB/s, 1 GB/s, 1 GB/s]")
    times = []
    for known in ((), (then,)):
        for link in ("450 GB/s", "45 GB/s"):
            here = f"topology.bandwidth=[{link}, 50 GB/s]"
            config = compose([*SMALL, *MODEL, file, *known, here]).config
            cluster = build_cluster(config)
            times.append(simulate(build_workload(config, cluster), cluster).time)
    assert times[0] == times[2] < times[3]  # at the bandwidths that were measured, and slower ones
    assert times[1] == pytest.approx(times[0])  # the file is of the cluster at hand


def test_bandwidths_at_which_nothing_was_measured_are_no_what_if(
    small: Small, measured: Callable[[bool], tuple[str, ...]]
) -> None:
    """What was measured would be claimed to gain nothing from more bandwidth."""
    words = [word for word in MODEL if not word.startswith(("space", "what_if", "search"))]
    words += ["space.bandwidth.total=null", "+grid={npu.efficiency: [0.9]}", "what_if=default"]
    file, then = measured(True)
    for known in ((), (then,)):
        plan = small(*words, file, *known, results=f"known {len(known)}")
        run(plan)
        changes = load(plan.folder)["change"].to_pylist()
        found = [change for change in changes if change and change.startswith("dim ")]
        assert len(found) == 2 * len(known)
