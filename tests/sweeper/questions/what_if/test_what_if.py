"""A what-if is the best design with one change, simulated: as by hand, once, on any worker."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from dimsweep import load
from dimsweep.engine import simulate
from dimsweep.sweeper.api.results import Results
from dimsweep.sweeper.cli.main import dimsweep
from dimsweep.sweeper.config.study import Executor as ExecutorConfig
from dimsweep.sweeper.ledger.diff import diff
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.ledger.rows import single_row
from dimsweep.sweeper.run.executor.evaluate import Job, Outcome
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.reproduce import reproduce
from dimsweep.sweeper.simulation.program import build_cluster, build_workload
from dimsweep.sweeper.study.restore import format_split
from tests.support.studies import SMALL, planned, run

INLINE = ExecutorConfig(mode="inline")
Small = Callable[..., StudyPlan]
ASKED = "what_if=default"
# A model with a plan, on 16 NPUs: two pipeline stages of 4 layers.
PLAN = (
    "workload=gpt3_13b",
    "workload.model.layers=8",
    "topology.shape=Switch(8)_Switch(2)",
    "topology.bandwidth=[450 GB/s, 400 Gb/s]",
    "topology.latency=[0.5 us, 1 us]",
    "topology.tiers=[package, pod]",
    "cost=dgx_h100",
    "npu=h100",
    "workload.parallel={tensor: 8, pipeline: 2}",
    "workload.plan.batch=16",
    "workload.plan.interleave=1",
    "space.bandwidth.total=null",
    "search=grid",
    "budget.trials=20",
)
ONE = "+grid={collective.chunks: [16]}"  # a design alone
THEMIS = "+space.parameters={collective.order: {values: [baseline, themis]}}"
MICRO = "workload.plan.micro_batch"
SEARCHED = f"space.parameters={{{MICRO}: {{values: [1, 2, 4]}}}}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> StudyPlan:
    """A study of random designs that was run with what is asked by default, for those that read."""
    plan = planned([*SMALL, "search=random", ASKED], tmp_path_factory.mktemp("asked") / "results")
    run(plan)
    return plan


def what_ifs(plan: StudyPlan) -> pd.DataFrame:
    rows = load(plan.folder).to_pandas()
    return rows[rows["origin"] == "what_if"].set_index("change")


def by_hand(plan: StudyPlan, row: pd.Series) -> dict[str, object]:
    """The columns of a what-if's design: the best one's configuration, changed."""
    rows = load(plan.folder).to_pandas()
    best = rows[rows["key"] == row["change_of"]].iloc[0]
    config = plan.cells[0].config
    settings: dict[str, object] = {}
    if config.space.bandwidth.is_searched:
        own = [best[name] for name in rows if name.startswith("bandwidth_")]
        settings["topology.bandwidth"] = format_split([round(each * 1e9) for each in own])
    for name, parameter in config.space.parameters.items():
        settings[name] = next(each for each in parameter.values if str(each) == best[name])
    config = config.with_values(settings | json.loads(row["changes"]))
    cluster = build_cluster(config)
    return single_row(config, simulate(build_workload(config, cluster), cluster))


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("search=random", "profile=native", "topology.latency=500 ns", THEMIS),
        (*PLAN, SEARCHED),
        (*PLAN, SEARCHED, "collective=nccl", "collective.gpu=h100"),
    ],
)
def test_a_what_if_is_what_the_changed_configuration_gives(
    small: Small, asked: StudyPlan, words: tuple[str, ...]
) -> None:
    plan = small(*words, ASKED) if words else asked
    run(plan)  # which has been run already where it is ``asked``
    found = what_ifs(plan)
    complete = found[found["state"] == "complete"]
    assert len(complete) >= 10
    for _, row in complete.iterrows():
        told = by_hand(plan, row)
        told.pop("exposed_by_collective_s")
        assert {name: row[name] for name in told} == told
    assert reproduce(plan.folder).differ == {}


def test_a_library_chooses_anew_at_another_bandwidth(small: Small) -> None:
    """NCCL's choices are made for the bandwidths that there are."""
    asked = ",".join(
        f"x{n}: {{topology.bandwidth.0: x1/{n}}}, y{n}: {{topology.bandwidth.1: x1/{n}}}"
        for n in (2, 4, 8, 16, 32)
    )
    words = [word for word in PLAN if not word.startswith("workload")]
    nccl = ("collective=nccl", "collective.gpu=h100", f"what_if={{{asked}}}")
    call = "{duration: 0 ns, collective: all_reduce, size: 1 MiB, group: data}"
    layers = f"workload.layers=[{{name: all, weight_grad: {call}}}]"
    plan = small("workload=all_reduce", layers, *words, ONE, *nccl)
    run(plan)
    found = what_ifs(plan)
    assert len(found) == 10
    for _, row in found.iterrows():
        assert row["time_ps"] == by_hand(plan, row)["time_ps"], row.name


@pytest.mark.long
def test_interleaving_is_told_by_pairs_not_by_an_importance(small: Small) -> None:
    """The page said that interleaving matters by 0.1 %, where it is worth some per cent."""
    plan = small(*PLAN, SEARCHED, ASKED)
    run(plan)
    row = what_ifs(plan).loc["interleave 1 -> 2"]
    told = Results(plan.folder).what_if.set_index("change").loc["interleave 1 -> 2"]
    assert told["time_after_s"] == by_hand(plan, row)["time_s"]
    assert told["times_as_fast"] == pytest.approx(told["time_before_s"] / told["time_after_s"])
    assert told["times_as_fast"] > 1.02
    charts = Path(Results(plan.folder).write_page()).read_text()
    assert "What if one thing were changed" in charts and "What matters most" not in charts


def test_the_defaults_are_those_that_apply(small: Small) -> None:
    plan = small(*PLAN, SEARCHED, "collective=nccl", "collective.gpu=h100", ASKED)
    run(plan)
    rows = load(plan.folder).to_pandas()
    best = int(rows[rows["origin"] != "what_if"].sort_values("time_s").iloc[0][MICRO])
    found = set(what_ifs(plan).index)
    assert {"dim 1: 400G -> 800G", "dim 0: 450 -> 900 GB/s", "interleave 1 -> 2"} <= found
    assert {"one of 8 rails down (dim 1 at 7/8)", "batch 16 -> 32", "model x2 (layers)"} <= found
    assert {"prices of pod x2", "price of NPUs x2", "NPU efficiency 0.91 -> 1"} <= found
    assert f"micro_batch {best} -> {2 * best}" in found
    assert not any(name.startswith(("chunks", "order")) for name in found)  # NCCL has its own


def test_a_larger_batch_is_compared_by_its_throughput(small: Small) -> None:
    plan = small(*PLAN, ONE, ASKED)
    run(plan)
    told = Results(plan.folder).what_if.set_index("change")
    batch = told.loc["batch 16 -> 32"]
    assert batch["measure"] == "tokens_per_s"
    assert batch["times_as_fast"] == pytest.approx(batch["after"] / batch["before"])
    assert batch["time_after_s"] > 1.5 * batch["time_before_s"] and batch["times_as_fast"] > 1
    assert (told.drop(["batch 16 -> 32", "model x2 (layers)"])["measure"] == "time_s").all()
    prices = told.loc["price of NPUs x2"]
    assert prices["times_as_fast"] == 1
    assert prices["per_usd"] == pytest.approx(prices["cost_before_usd"] / prices["cost_after_usd"])


@pytest.mark.long
def test_a_change_that_cannot_be_says_why(small: Small) -> None:
    asked = "{fat: {workload.model.layers: x64}, odd: {topology.bandwidth.1: x2}}"
    plan = small(*PLAN, ONE, f"what_if={asked}")
    progress = run(plan)
    assert progress.failed == 0 and progress.what_ifs == 2
    found = what_ifs(plan)
    assert found.loc["fat", "state"] == "infeasible" and "must hold" in found.loc["fat", "error"]
    assert found.loc["odd", "state"] == "complete"
    result = CliRunner().invoke(
        dimsweep, ["report", "--full", f"name={plan.study.name}", f"results={plan.folder.parent}"]
    )
    assert "does not fit: " in result.output


def test_named_changes_of_equal_effect_all_have_rows(small: Small) -> None:
    order = "collective.order"
    twins = f"fast: {{{order}: themis}}, faster: {{{order}: themis}}, now: {{{order}: baseline}}"
    plan = small(THEMIS, "search=random", f"what_if={{{twins}}}")
    run(plan)
    rows = what_ifs(plan)
    assert sorted(rows.index) == ["fast", "faster", "now"]
    assert rows.loc["fast", "time_s"] == rows.loc["faster", "time_s"]
    assert set(Results(plan.folder).what_if["change"]) == {"fast", "faster", "now"}


def test_nothing_is_asked_where_it_is_switched_off(small: Small) -> None:
    plan = small()
    assert run(plan).what_ifs == 0
    assert what_ifs(plan).empty and Results(plan.folder).what_if.empty


class Workers(InlineExecutor):
    """As several would: more is asked ahead, and results come in another order."""

    n_workers = 16

    def collect(self) -> Outcome | None:
        self._jobs.reverse()
        return super().collect()


def test_the_rows_are_the_same_on_any_workers(small: Small, asked: StudyPlan) -> None:
    one, two = asked, small("search=random", ASKED)
    run(two, Workers(Setup(INLINE, [two.cells[0].cell], two.schema, print)))
    assert len(what_ifs(one)) >= 10
    assert load(one.folder).equals(load(two.folder))
    assert diff(one.folder, two.folder).only == (0, 0)


class KilledError(Exception):
    pass


@pytest.mark.long
@pytest.mark.parametrize("after", [1, 41, 45])
def test_a_killed_study_goes_on_with_what_it_asked(
    small: Small, asked: StudyPlan, after: int
) -> None:
    whole, parts = asked, small("search=random", ASKED)
    simulated = 0

    class Executor(InlineExecutor):
        def collect(self) -> Outcome | None:
            nonlocal simulated
            if simulated >= after:
                raise KilledError
            outcome = super().collect()
            simulated += len(outcome.rows)
            return outcome

    setup = Setup(INLINE, [parts.cells[0].cell], parts.schema, print)
    with pytest.raises(KilledError):
        run(parts, Executor(setup))
    assert 0 < len(load(parts.folder)) < len(load(whole.folder))
    run(parts)
    assert load(parts.folder).equals(load(whole.folder))
    assert run(parts).engine_seconds == 0
    assert load(parts.folder).equals(load(whole.folder))


def test_what_the_search_has_simulated_is_not_simulated_again(small: Small) -> None:
    words = [*PLAN, SEARCHED, f"{MICRO}=1"]  # null in the preset, which has no factor
    plan = small(*words, "what_if=null")
    run(plan)
    searched = load(plan.folder).to_pandas().set_index(MICRO)
    again = small(*words, "what_if={mb: {workload.plan.micro_batch: x2}}")
    jobs: list[int] = []

    class Executor(InlineExecutor):
        def submit(self, job: Job) -> None:
            jobs.append(len(job.trials))
            super().submit(job)

    setup = Setup(INLINE, [again.cells[0].cell], again.schema, print)
    run(again, Executor(setup))
    (row,) = what_ifs(again).to_dict("records")
    of = searched.loc[row[MICRO]]
    assert row["time_ps"] == of["time_ps"] and row["key"] != of["key"]
    assert sum(jobs) == 0


def test_what_is_asked_may_change_and_nothing_is_lost(small: Small) -> None:
    asked = [f"what_if={{a: {{collective.chunks: x{n}}}}}" for n in (2, 4)]
    for words in (asked[0], asked[1], asked[0]):
        run(small("search=random", words))
    plan = small("search=random", asked[0])
    rows = load(plan.folder).to_pandas()
    assert sorted(rows[rows["origin"] == "what_if"]["changes"]) == [
        '{"collective.chunks": 16}',
        '{"collective.chunks": 32}',
    ]


@pytest.mark.long
def test_the_best_of_each_scenario_is_changed(small: Small) -> None:
    grid = "+grid={workload: [gpt3_libra, turing_nlg_libra], collective.chunks: [2, 8]}"
    plan = small("search=random", "budget.trials=5", grid, ASKED)
    run(plan)
    rows = load(plan.folder).to_pandas()
    searched = rows[rows["origin"] != "what_if"]
    best = searched.sort_values("time_s").groupby("workload").first()["cell"]
    assert set(rows[rows["origin"] == "what_if"]["cell"]) == set(best)
    assert reproduce(plan.folder).differ == {}
    text = CliRunner().invoke(
        dimsweep, ["report", "--full", f"name={plan.study.name}", f"results={plan.folder.parent}"]
    )
    assert "What if: each change alone" in text.output


def test_a_large_grid_asks_of_its_best(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dimsweep.sweeper.questions.plan.LARGE", 2)
    grid = "+grid={collective.chunks: [2, 4, 8]}"
    plan = small("search=random", "budget.trials=5", grid, ASKED)
    assert plan.stream is not None
    run(plan)
    rows = load(plan.folder).to_pandas()
    asked = rows[rows["origin"] == "what_if"]
    best = rows[rows["origin"] != "what_if"].sort_values(["time_s", "cell"]).iloc[0]
    assert len(asked) >= 10 and set(asked["cell"]) == {best["cell"]}
    assert reproduce(plan.folder).differ == {}
    assert run(plan).engine_seconds == 0


def test_a_baseline_is_changed_beside_the_best(small: Small) -> None:
    """It is a cell of its own; its changes are told beside those of the best design."""
    changed = "what_if={chunks: {collective.chunks: x2}}"
    plan = small("search=random", changed, "+baseline={collective.chunks: 3}")
    run(plan)
    told = Results(plan.folder).what_if
    assert told["design"].tolist() == ["best", "baseline"]
    assert told["times_as_fast"].gt(0.5).all()
    assert told["time_before_s"].nunique() == 2
    assert reproduce(plan.folder).differ == {}
    assert run(plan).engine_seconds == 0


def test_rows_say_what_was_changed_to_other_tools(asked: StudyPlan, tmp_path: Path) -> None:
    plan = asked
    query = "SELECT change, time_s FROM rows WHERE origin = 'what_if' ORDER BY time_s LIMIT 1"
    found = CliRunner().invoke(dimsweep, ["sql", query, str(plan.folder), "--csv"])
    assert found.output.splitlines()[1].startswith("NPU peak x1.25,")
    file = tmp_path / "rows.csv"
    CliRunner().invoke(dimsweep, ["export", str(plan.folder), "--csv", str(file)])
    assert pd.read_csv(file)["change"].notna().sum() == len(what_ifs(plan))
    (best,) = {row["change_of"] for _, row in what_ifs(plan).iterrows()}
    assert best in set(load(plan.folder)["key"].to_pylist())
    assert read_study(plan.folder).config.get("what_if") is None
