"""A study is the same however it is run: inline, on actors, interrupted, resumed."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dimsweep import load
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.run.executor.evaluate import Job
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.space.trials import Trial, Trials
from tests.support.plugged import plugged
from tests.support.studies import SMALL, TINY, planned, run
from tests.support.waiting import LONG, until

Small = Callable[..., StudyPlan]
SAMPLERS = ["auto", "random", "qmc", "tpe", "cmaes", "nsga2", "descent"]


def test_another_seed_gives_another_study(small: Small) -> None:
    one, other = (
        small("search=random", results="a"),
        small("search=random", "search.seed=1", results="b"),
    )
    run(one)
    run(other)
    assert not load(one.folder).equals(load(other.folder))


@pytest.mark.long
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_resumed_study_is_the_whole_one(small: Small, sampler: str) -> None:
    """The same seed gives the same rows: run to 40 trials at once, and to 13 and then on."""
    whole = small(f"search={sampler}", results="whole")
    run(whole)
    run(small(f"search={sampler}", "budget.trials=13", results="parts"))
    rest = small(f"search={sampler}", results="parts")
    progress = run(rest)
    assert progress.reused >= 13 or sampler == "nsga2"
    assert load(rest.folder).equals(load(whole.folder))


def test_a_finished_study_simulates_nothing_again(small: Small) -> None:
    plan = small()
    run(plan)
    before = load(plan.folder)
    assert run(plan).engine_seconds == 0
    assert load(plan.folder).equals(before)


def test_known_trials_come_first(small: Small) -> None:
    plan = small("space.bandwidth.known=[[300 GB/s,100 GB/s,60 GB/s,40 GB/s]]")
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert rows.origin[:4].tolist() == ["equal", "proportional", "bound", "known"]
    assert rows.loc[0, [f"bandwidth_{d}_GBps" for d in range(4)]].tolist() == [125] * 4
    assert rows.loc[3, [f"bandwidth_{d}_GBps" for d in range(4)]].tolist() == [300, 100, 60, 40]


@pytest.mark.parametrize("objective", ["time", "perf_per_cost"])
def test_no_row_beats_the_bound(small: Small, objective: str) -> None:
    plan = small(f"objective={objective}", "search=random", "budget.trials=200")
    run(plan)
    (cell,) = read_study(plan.folder).cells
    rows = load(plan.folder).to_pandas()
    if objective == "time":
        assert cell.bound <= rows.time_s.min() <= 1.01 * cell.bound
    else:
        assert cell.bound >= rows.perf_per_cost.max() >= 0.99 * cell.bound


@pytest.mark.parametrize(
    "words",
    [
        ["+space.parameters={collective.chunks: {values: [8, 16]}}"],
        ["objective=cost"],
    ],
)
def test_studies_without_a_bound(small: Small, words: list[str]) -> None:
    """Other keys too, or cost alone."""
    assert small(*words).study.cells[0].bound is None


def test_every_row_says_what_its_time_is_made_of(small: Small) -> None:
    plan = small("search=random")
    run(plan)
    rows = load(plan.folder).to_pandas()
    parts = rows.filter(regex=r"^path_(compute|memory|transfer_\d|latency_\d|endpoint_\d)_s$")
    assert parts.shape[1] == 2 + 3 * 4
    assert parts.sum(axis=1).tolist() == pytest.approx(rows.time_s.tolist(), rel=1e-12)
    prices = rows.filter(regex=r"^ms_per_GBps").to_numpy()
    with np.errstate(invalid="ignore"):  # 0 / 0 where a dimension is not on the path
        usd_per_gbps = prices / rows.filter(regex=r"^ms_per_usd").to_numpy()
    assert (prices <= 0).all()
    assert (prices.min(axis=1) < 0).all()
    bandwidth = rows.filter(regex=r"^bandwidth_").to_numpy()
    paid = (bandwidth * np.nanmean(usd_per_gbps, axis=0)).sum(axis=1)
    assert paid.tolist() == pytest.approx(rows.cost_usd.tolist(), rel=1e-9)


def test_every_row_obeys_the_space(small: Small) -> None:
    plan = small("search=random", "budget.trials=500", "space.bandwidth.constraints=['b0 >= b1']")
    run(plan)
    rows = load(plan.folder).to_pandas()
    split = rows[[f"bandwidth_{d}_GBps" for d in range(4)]]
    assert (split.sum(axis=1) - 500).abs().max() < 1e-9
    assert (split.min(axis=1) >= 1).all()
    assert (rows.bandwidth_0_GBps >= rows.bandwidth_1_GBps).all()


def test_a_grid_has_one_search_in_each_cell(small: Small) -> None:
    plan = small(
        "+grid={workload: [gpt3_libra, turing_nlg_libra], "
        "space.bandwidth.total: [100 GB/s, 1 TB/s]}",
        "budget.trials=5",
    )
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert rows.groupby("cell").size().tolist() == [5] * 4
    assert (
        rows.groupby("cell").workload.first().tolist()
        == ["gpt3_libra"] * 2 + ["turing_nlg_libra"] * 2
    )
    totals = rows[[f"bandwidth_{d}_GBps" for d in range(4)]].sum(axis=1).groupby(rows.cell).first()
    assert totals.tolist() == pytest.approx([100, 1000, 100, 1000])


def test_other_keys_can_be_searched(small: Small) -> None:
    plan = small(
        "+space.parameters={collective.chunks: {values: [1, 4, 16]}, "
        "topology.latency: {low: 0.1 us, high: 2 us}, workload.batch: {low: 1, high: 8}}",
        "roles={workload.batch: decision}",
        "search=random",
    )
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert set(rows["collective.chunks"]) == {"1", "4", "16"}
    assert rows["topology.latency"].str.endswith(" us").all()
    assert set(rows["workload.batch"]) <= {str(i) for i in range(1, 9)}
    assert (rows.state == "complete").all()
    assert rows.time_s.nunique() > 20


def test_a_trial_that_fails_is_a_row_and_the_sweep_goes_on(small: Small) -> None:
    hidden = "+space.parameters={workload.hidden: {values: [12288, 12289]}}"
    plan = small(hidden, "roles={workload.hidden: decision}", "search=random")
    progress = run(plan)
    rows = load(plan.folder).to_pandas()
    assert 0 < progress.failed < 40
    failed = rows[rows.state == "failed"]
    assert len(failed) == progress.failed
    assert failed.error.str.contains("does not divide").all()
    assert (failed["workload.hidden"] == "12289").all()


def test_an_internal_error_is_a_failed_row_too(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    plan = small("budget.trials=3")
    monkeypatch.setattr("dimsweep.sweeper.run.executor.evaluate.Runner.batch", broken)
    run(plan)
    assert load(plan.folder).to_pandas().error.str.contains("boom").all()


def test_two_objectives(small: Small) -> None:
    plan = small(
        "objective=[time,cost]", "search=nsga2", "space.bandwidth={total: null, max: 400 GB/s}"
    )
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert rows.cost_usd.nunique() > 20


def command(*overrides: str) -> list[str]:
    return [sys.executable, "-m", "dimsweep", "sweep", *overrides]


@pytest.mark.parametrize("objective", ["time", "perf_per_cost"])
def test_a_search_stops_at_the_gap_that_is_asked_for(small: Small, objective: str) -> None:
    """And goes on to the end, as if it had not stopped, when it is no longer asked for."""
    plan = small(f"objective={objective}", "budget.gap=0.01")
    assert run(plan).done < 40
    assert run(small(f"objective={objective}")).done == 40
    rows = load(plan.folder).to_pandas()
    assert sorted(rows.trial) == list(range(40))


def test_a_gap_that_is_not_reached_stops_nothing(small: Small) -> None:
    assert run(small("budget.gap=0")).done == 40


# The command, killed by the system as soon as some rows are written.
KILLED = """
import os, signal, sys
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger.ledger import Ledger

append = Ledger.append

def append_and_die(ledger, batch):
    append(ledger, batch)
    if len(ledger.index) >= 200:
        os.kill(os.getpid(), signal.SIGKILL)

Ledger.append = append_and_die
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
@pytest.mark.xdist_group("ray")  # one Ray at a time: two cores
@pytest.mark.usefixtures("forgotten")
def test_actors_and_a_kill_change_nothing(tmp_path: Path) -> None:
    """Two actors killed in the middle, and one that resumes and looks at the best again, message
    by message: the rows of an undisturbed run.  The study has plug-ins, a block and a model of
    which the configuration has an object, so that nobody reads it who has not loaded them."""
    words = [*TINY[:2], *plugged(tmp_path), *TINY[5:]]
    words += ["budget.trials=600", "search.batch=64", "recheck.top=3"]
    inline = planned(words, tmp_path / "inline")
    run(inline)
    expected = load(inline.folder)

    killed = tmp_path / "killed" / "libra_gpt3_4d"
    words += [f"results={killed.parent}", "executor=local"]
    script = [sys.executable, "-c", KILLED, "sweep", *words, "executor.actors=2"]
    assert subprocess.run(script).returncode == -signal.SIGKILL
    assert 200 <= load(killed).num_rows < 600
    assert main(["sweep", *words, "executor.actors=1"]) == 0
    assert load(killed).equals(expected)


def _wait_for_rows(folder: Path, n: int) -> None:
    until(lambda: (folder / "study.json").exists() and load(folder).num_rows >= n)


def _hear_control_c() -> None:
    """A shell's background jobs, and so their children, ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.long
def test_control_c_leaves_a_resumable_study(tmp_path: Path) -> None:
    overrides = [*SMALL, "search=random", "budget.trials=1000000", "executor=inline"]
    folder = tmp_path / "libra_gpt3_4d"
    started = subprocess.Popen(
        command(*overrides, f"results={tmp_path}"),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_control_c,
    )
    with started as process:
        try:
            _wait_for_rows(folder, 100)
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=LONG)[0]
        finally:
            process.kill()  # or leaving would wait for it for ever
    assert process.returncode == 130
    assert "the same command continues" in output
    assert load(folder).num_rows >= 100


def test_inline_executor_slices_jobs(small: Small) -> None:
    plan = small("executor=inline")
    cells = [cell.cell for cell in plan.cells]
    executor = InlineExecutor(Setup(plan.config.executor, cells, plan.schema, print))
    trials = Trials.from_list([Trial(i, "known", (125e9,) * 4) for i in range(600)])
    executor.submit(Job(0, trials, [str(i) for i in range(600)]))
    sizes = [executor.collect().rows.num_rows for _ in range(3)]  # type: ignore[union-attr]
    assert sizes == [256, 256, 88]
