"""What a report answers: decisions compete within a scenario, against a named reference."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.objective import OBJECTIVES
from dimsweep.sweeper.questions.findings import build_report, tabulate_study
from dimsweep.sweeper.report import describe
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.decisions import Question, factors, scenes
from dimsweep.sweeper.study.ranking import find_best, find_front, is_near
from tests.support.examples import examples
from tests.support.reports import (
    again,
    fail,
    make_rows,
    make_study,
    one_cell,
    with_baseline,
    with_cells,
)

SPLITS = [[125.0] * 4, [338.0, 85.0, 58.0, 19.0]]
NETWORKS = ("slow", "fast", "even")


def grid(times, axes=("workload", "network"), **options):
    """A study of cells at the coordinates that ``times`` has, whose best trials have these times;
    each cell's equal split takes twice as long."""
    parts = []
    for cell, (coordinates, time) in enumerate(times.items()):
        rows = make_rows(SPLITS, cell=cell, **dict(zip(axes, coordinates, strict=True)))
        rows["time_s"] = [2 * time, time]
        rows["time_ps"] = (rows["time_s"] * 1e12).astype(int)
        parts.append(rows)
    rows = pd.concat(parts, ignore_index=True)
    return rows, make_study(rows, grid=axes, **options)


def three_models(**options):
    """GNMT is quick on every network, and Mixtral slow: which network is best is another matter."""
    base = {"gnmt": 0.1, "gpt3": 1.0, "mixtral": 10.0}
    worse = {"slow": 1.5, "fast": 1.0, "even": 1.02}
    return grid({(m, n): t * worse[n] for m, t in base.items() for n in NETWORKS}, **options)


def test_no_minimum_is_taken_over_different_models() -> None:
    """What to build was the network of the model whose iteration is the shortest."""
    rows, study = three_models()
    # The quickest model gains from the slow network, by so little that nobody builds it for that.
    quick = (rows["workload"] == "gnmt") & (rows["network"] == "slow")
    rows.loc[quick, "time_s"] *= 0.99 / 1.5
    report = build_report(rows, study)
    build, sure, _, cost = answers(report)
    assert (build.question, build.short) == ("What to build", "network fast")
    assert build.rest == "at most 1% behind the best of each scenario"
    assert "gnmt" not in build.short and "the least sure of 3" in sure.rest
    assert cost.question == "What it costs"
    assert report.headline == (
        "Over 3 workloads, network fast loses least: at most 1% against the best of each (gnmt); "
        "next is network even, at most 3% behind"
    )
    assert report.question is Question.NETWORK


def test_an_equal_split_of_its_own_is_no_reference_of_decisions_that_compete() -> None:
    """The network that gains most over its own equal split may be the slowest of all."""
    rows, study = three_models()
    slow = (rows["network"] == "slow") & (rows["origin"] == "equal")
    rows.loc[slow, "time_s"] *= 9
    report = build_report(rows, study)
    assert report.headline.startswith("Over 3 workloads, network fast is fastest in each")
    assert "equal split" not in report.headline and "slow" not in report.headline


def test_tables_have_the_best_of_each_scenario_and_all_regrets() -> None:
    titles = {sheet.title: sheet for sheet in tabulate_study(build_report(*three_models()))}
    best = titles["The best in each scenario"]
    assert [row[:3] for row in best.rows] == [
        ("gnmt", "network fast", "100.0 ms"),
        ("gpt3", "network fast", "1.000 s"),
        ("mixtral", "network fast", "10.00 s"),
    ]
    assert {row[-2:] for row in best.rows} == {("network even", "2% behind")}
    (lost,) = [s for title, s in titles.items() if title.startswith("What a decision loses")]
    assert [row[0] for row in lost.rows] == ["network fast", "network even", "network slow"]
    assert lost.rows[2][1:] == ("50%", "50%", "50%", "50%", "50%", "0 of 3")


def test_roles_say_what_is_decided() -> None:
    rows, study = three_models()
    roles = {"workload": "scenario", "network": "scenario"}
    report = build_report(rows, study.model_copy(update={"roles": roles}))
    assert len(report.decisions.scenarios) == 9 and len(report.decisions.decisions) == 1
    assert (
        report.headline == "Over 9 scenarios, the best splits are 2.00x faster than the equal split"
    )


def test_a_decision_that_does_not_run_everywhere_is_not_the_answer() -> None:
    times = {("a", "x"): 1.0, ("b", "x"): 5.0, ("a", "y"): 1.2, ("b", "y"): 6.0, ("a", "z"): 0.1}
    report = build_report(*grid(times))
    assert answers(report)[0].short == "network x"
    assert report.decisions.worst_regrets[2] == np.inf
    few = {("a", "x"): 1.0, ("b", "y"): 1.0, ("c", "y"): 1.0}
    assert build_report(*grid(few)).headline == (
        "No decision ran in all scenarios: network y ran in most, 2 of 3 scenarios"
    )


def test_of_two_the_one_that_does_not_run_everywhere_is_told() -> None:
    """How many times it is slower where it runs was told of all scenarios."""
    times = {("whole", "x"): 1.0, ("broken", "x"): 1.2, ("whole", "y"): 1.6}
    assert build_report(*grid(times)).headline == (
        "Over 2 workloads, network x is fastest in each; next is network y, not in all of them"
    )


def test_two_values_are_compared_as_factors() -> None:
    times = {
        (model, order): time / (factor if order == "themis" else 1.0)
        for model, time, factor in (("gnmt", 1.0, 1.19), ("dlrm", 2.0, 1.28), ("t1", 3.0, 1.2))
        for order in ("default", "themis")
    }
    rows, study = grid(times, ("workload", "collective"))
    report = build_report(rows, study)
    (found,) = factors(report.decisions)
    claim = "collective themis against default: 1.19 to 1.28x over 3 scenarios"
    assert found.claim == claim
    assert claim in [sheet.title for sheet in tabulate_study(report)]
    assert report.headline == (
        "Over 3 workloads, collective themis is 1.19 to 1.28x faster than default, "
        "each with its own best split"
    )


def test_gains_are_against_the_baseline() -> None:
    times = {"gnmt": 0.15, "gpt3": 1.25, "mixtral": 11.0}
    report = build_report(*with_baseline(*three_models(), times))
    assert "it is 1.10 to 1.50x faster than the baseline" in report.headline
    titles = {sheet.title: sheet for sheet in tabulate_study(report)}
    assert [row[3] for row in titles["The best in each scenario"].rows] == [
        "1.50x",
        "1.25x",
        "1.10x",
    ]
    assert titles["How many times better than the baseline"].rows[0] == (
        *("network fast", "3", "1.10x", "1.25x", "1.50x"),
    )
    assert len(report.summaries) == 9  # it is no candidate


def test_a_baseline_of_another_size_says_so() -> None:
    rows, study = with_baseline(*three_models(), {"gnmt": 0.15, "gpt3": 1.25, "mixtral": 11.0})
    smaller = tuple(each.model_copy(update={"n_npus": 1024}) for each in study.baselines)
    report = build_report(rows, study.model_copy(update={"baselines": smaller}))
    assert "1.10 to 1.50x faster than the baseline of 1,024 NPUs" in report.headline


def test_where_the_baseline_cannot_be_no_gain_is_told_and_the_cause_is() -> None:
    times = {"gnmt": 0.15, "gpt3": None, "mixtral": 11.0}
    report = build_report(*with_baseline(*three_models(), times))
    assert {s.cell.coordinates["workload"] for s in report.found if s.reference is None} == {"gpt3"}
    assert report.notes == [
        "the baseline cannot be simulated with gpt3, so no gain is known there: too large"
    ]


def test_a_baseline_that_the_study_had_before_is_not_shown() -> None:
    rows, study = with_baseline(*three_models(), {"gnmt": 0.15})
    old = rows[rows["key"] == "baseline 0"].assign(key="an older one", time_s=99.0)
    report = build_report(pd.concat([rows, old], ignore_index=True), study)
    found = [s.reference.row["time_s"] for s in report.found if s.reference]
    assert found == [0.15] * 3


@pytest.mark.parametrize(
    ("split", "chunks", "is_equal"),
    [
        ([125.0, 125.0, 125.0, 125.0], "64", True),
        ([166.7, 166.7, 166.6, 166.7], "64", True),
        ([550.0, 50.0, 50.0, 50.0], "64", False),  # the middle of maxima, or a constraint
        ([125.0, 125.0, 125.0, 125.0], "4", False),  # a key that is not the configuration's
    ],
)
def test_the_equal_split_is_one(split, chunks, is_equal) -> None:
    rows = one_cell()
    for d, bandwidth in enumerate(split):
        rows.loc[0, f"bandwidth_{d}_GBps"] = bandwidth
    rows["collective.chunks"] = [chunks, "64", "64", "64"]
    study = make_study(rows, parameters=("collective.chunks",))
    config = study.config | {
        "collective": {"chunks": 64},
        "space": {"bandwidth": {"step": "0.1 GB/s"}},
    }
    (cell,) = build_report(rows, study.model_copy(update={"config": config})).summaries
    assert (cell.equal is not None) == (cell.reference is not None) == is_equal
    if not is_equal:
        assert cell.speedup is None


def plans():
    rows = one_cell().assign(
        **{
            "workload.parallel.tensor": ["8", "4", "2", "1"],
            "workload.plan.micro_batch": ["1", "2", "1", "4"],
            "mfu": [0.4, 0.53333, 0.51, 0.2],
            "origin": "grid",
        }
    )
    for d, bandwidth in enumerate((450.0, 50.0, 50.0, 50.0)):
        rows[f"bandwidth_{d}_GBps"] = bandwidth
    keys = ("workload.parallel.tensor", "workload.plan.micro_batch")
    return rows, make_study(rows, objective=("mfu",), parameters=keys)


def test_of_a_plan_the_plan_is_the_answer() -> None:
    """It was hidden: "the best design found has 53.33%", "What to build: 450, 50 GB/s"."""
    report = build_report(*plans())
    assert report.question is Question.PLAN
    assert report.headline == (
        "GPT-3 on 4,096 NPUs: the best plan (tensor 4, micro_batch 2) found reaches 53.3% MFU"
    )
    build = answers(report)[0]
    assert (build.question, build.short) == ("What to run", "tensor 4, micro_batch 2")
    assert build.rest.startswith("on 450, 50, 50, 50 GB/s per NPU over")
    assert build.rest.endswith("the runner-up, tensor 2, micro_batch 1, is 4.6% behind")


def test_of_a_plan_the_baseline_is_what_runs_today() -> None:
    rows, study = with_baseline(*plans(), {"": 1.0})
    rows.loc[rows["origin"] == "baseline", "mfu"] = 0.44
    assert build_report(rows, study).headline == (
        "GPT-3 on 4,096 NPUs: the best plan (tensor 4, micro_batch 2) is 1.21x the MFU of the "
        "baseline (53.3% against 44%)"
    )


def test_a_cost_says_that_npus_are_in_it() -> None:
    """A cell that differs from its study in other parts than the prices lost the NPUs' price."""
    rows, study = three_models()
    cells = tuple(c.model_copy(update={"config": {"network": {}}}) for c in study.cells)
    config = study.config | {"cost": {"npu": "25 kUSD"}}
    report = build_report(rows, study.model_copy(update={"cells": cells, "config": config}))
    assert {summary.npu_price for summary in report.summaries} == {25e3}
    cost = answers(report)[-1]
    assert cost.rest == "cluster cost; 102.4 M USD of it NPUs"


def test_unlike_models_are_told_apart() -> None:
    _, study = three_models()
    models = {"gnmt": {"kind": "gnmt", "batch": 128}, "gpt3": {"kind": "gpt3"}, "mixtral": {}}
    cells = tuple(
        c.model_copy(update={"config": {"workload": models[c.coordinates["workload"]]}})
        for c in study.cells
    )
    study = study.model_copy(update={"cells": cells})
    (found,) = scenes([study])
    assert len(set(found.values())) == 3
    assert len({found[cell.cell] for cell in cells if cell.coordinates["workload"] == "gnmt"}) == 1
    again, other = scenes([study, study])
    assert again == other == found


@pytest.mark.parametrize(("objective", "apart"), [("time", True), ("throughput", False)])
def test_iterations_of_unlike_work_are_told_apart(objective: str, apart: bool) -> None:
    _, study = three_models()
    study = study.model_copy(update={"objective": (objective,)})
    works = ["32 replicas", "64 replicas"]
    studies = [with_cells(study, work=work) for work in works]
    one, other = scenes(studies)
    assert (one != other) is apart
    assert all("64 replicas" in name for name in other.values()) is apart
    old = with_cells(study, work=None)  # as older versions recorded cells
    assert scenes([studies[0], old])[0] == scenes([studies[0], old])[1]


def test_no_row_of_several_scenarios_is_the_best(tmp_path) -> None:
    from dimsweep.sweeper.api.results import Results

    class Made(Results):
        record = property(lambda self: three_models()[1])
        report = property(lambda self: build_report(*three_models()))

    with pytest.raises(DimsweepError, match="3 scenarios"):
        _ = Made(tmp_path).best


@pytest.mark.long
@examples(25)
@given(
    st.lists(
        st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3),
        min_size=2,
        max_size=5,
    )
)
def test_regrets_are_those_of_each_scenario(times) -> None:
    """None is negative, each scenario has a best with none, and scaling a scenario changes none."""
    names = {(f"w{s}", f"n{d}"): t for d, own in enumerate(times) for s, t in enumerate(own)}
    first = build_report(*grid(names)).decisions
    assert (first.regrets >= 0).all() and (first.regrets.min(axis=0) == 0).all()
    least = first.ranking[0]
    assert first.worst_regrets[least] == first.worst_regrets.min()
    scaled = {key: t * (7.0 if key[0] == "w1" else 1.0) for key, t in names.items()}
    again = build_report(*grid(scaled)).decisions
    assert again.regrets == pytest.approx(first.regrets, rel=1e-9, abs=1e-9)


def test_of_a_front_the_answer_is_what_the_headline_advises() -> None:
    """It was the fastest design, though a hundredth of a per cent cost four times as much."""
    rows = make_rows([*SPLITS, [200.0] * 4]).assign(
        time_s=[1.0, 1.005, 2.0], cost_usd=[74e6, 16.6e6, 10e6], perf_per_cost=1.0
    )
    report = build_report(rows, make_study(rows, objective=("time", "cost")))
    (cell,) = report.summaries
    bounded = replace(cell, cell=cell.cell.model_copy(update={"bound": 0.8}))
    assert (bounded.gap, bounded.gap_of(cell.first)) == pytest.approx((0.25625, 0.25))
    assert cell.best["cost_usd"] == 16.6e6 and cell.first["cost_usd"] == 74e6
    build, *_, cost = (each for each in answers(report) if each.question.startswith("What "))
    assert ", ".join(f"{b:g}" for b in SPLITS[1]) in build.short
    assert "1.005 s" in build.rest and "16.60 M USD" in build.rest
    assert cost.short == "16.60 M USD"


def front_of_plans():
    """Four plans: the fastest, what is advised, its runner-up, and the cheapest."""
    times, costs = [1.0, 1.005, 1.2, 2.0], [74e6, 16.6e6, 20e6, 10e6]
    rows = make_rows([*SPLITS, [200.0] * 4, [100.0] * 4]).assign(
        **{"time_s": times, "cost_usd": costs, "perf_per_cost": 1.0},
        **{"workload.parallel.tensor": ["8", "4", "8", "4"]},
        **{f"ms_per_GBps_{d}": [-9.0 * (d == 0), -2.0 * (d == 1), -7.0, -7.0] for d in range(4)},
    )
    study = make_study(rows, ("time", "cost"), parameters=("workload.parallel.tensor",))
    return rows, study


def test_of_a_front_all_that_is_told_is_told_of_the_design_that_is_advised() -> None:
    """The runner-up, the next dollar, marginal prices, gains and gaps were the fastest end's."""
    rows, study = front_of_plans()
    cost = np.array([5e6, 16.6e6, 80e6])
    proven = {"cost": cost.tolist(), "bound": [2.0, 1.0, 0.5], "value": [2.0, 1.0, 0.5]}
    proven["bandwidth"] = [[1.0] * 4] * 3
    study = with_cells(study, bound=0.5, front=proven, ms_per_GBps=[-5.0] * 4)
    report = build_report(rows, study)
    (cell,), told = report.summaries, {each.question: each for each in answers(report)}
    assert cell.best["time_s"] == 1.005 and "1.005 s at 16.60 M USD" in report.headline
    assert told["What to build"].rest.endswith(
        "the runner-up, tensor 8, is as good in time (1.000 s at 74.00 M USD)"
    )
    assert cell.saved() == pytest.approx([0, 2e-3, 0, 0])
    assert "dim\N{NO-BREAK SPACE}1" in told["What the next GB/s does"].short
    assert told["How sure is the search"].short == "within 0.5% of the proven front"
    assert "that costs no more can be better than 1.000 s" in told["How sure is the search"].rest
    (table,) = (sheet.rows for sheet in tabulate_study(report) if sheet.title == "Time and cost")
    values = {name: best for name, best, *_ in table}
    assert (values["iteration time"], values["proven bound at this cost"]) == (
        "1.005 s",
        "1.00000 s",
    )
    assert values["  gap to it"] == "0.5%"
    assert describe.superlative(cell) == "fastest to within 1%"


def test_the_runner_up_of_a_front_is_what_would_be_advised_without_the_best() -> None:
    rows, study = front_of_plans()
    rows = rows[rows["trial"] != 0]
    (cell,) = build_report(rows, study).summaries
    assert cell.runner_up["time_s"] == 1.2
    build = answers(build_report(rows, study))[0]
    assert build.rest.endswith("tensor 8, is 19% behind in time (1.200 s at 20.00 M USD)")


def test_decisions_on_fronts_are_compared_by_what_is_advised_of_each() -> None:
    """A network's fastest end is no merit of the design that the answer names."""
    parts = []
    for i, (name, times) in enumerate({"a": [1.0, 1.009], "b": [1.004, 1.004]}.items()):
        rows = make_rows(SPLITS, cell=i, network=name)
        parts.append(rows.assign(time_s=times, cost_usd=[50e6, 10e6], perf_per_cost=1.0))
    rows = pd.concat(parts, ignore_index=True)
    report = build_report(rows, make_study(rows, ("time", "cost"), grid=("network",)))
    assert report.headline == (
        "GPT-3 on 4,096 NPUs: network b is fastest to within 1% (1.004 s at 10.00 M USD); "
        "the runner-up, network a, is 0.5% behind in time (1.009 s at 10.00 M USD)"
    )


@given(st.lists(st.tuples(st.floats(0.99, 1.05), st.floats(1.0, 9.0)), min_size=1, max_size=8))
def test_what_is_advised_is_on_the_front_and_near_its_end(pairs) -> None:
    times, costs = map(np.array, zip(*pairs, strict=True))
    table = {"trial": np.arange(len(pairs)), "time_s": times, "cost_usd": costs}
    objectives = (OBJECTIVES["time"], OBJECTIVES["cost"])
    found = find_best(table, objectives)
    assert times[found] <= 1.01 * times.min() + 1e-12
    assert costs[found] == costs[is_near(times, times.min())].min()
    assert found in find_front(table, objectives)
    assert find_best(table, objectives[:1]) == times.argmin()


def test_scenarios_count_by_their_weights() -> None:
    """Who runs one model for nine tenths of the time builds for that one."""
    times = {("a", "x"): 1.0, ("b", "x"): 1.3, ("a", "y"): 1.2, ("b", "y"): 1.0}
    times |= {("a", "z"): 1.4, ("b", "z"): 1.4}
    rows, study = grid(times)
    report = build_report(rows, study)
    assert answers(report)[0].short == "network y"  # at most 20% behind
    told = [sheet.title for sheet in tabulate_study(report)]
    own = " (each with its best split for that scenario)"
    assert any(title.endswith(f"; each counts the same{own}") for title in told)
    weighted = study.model_copy(update={"weights": {"workload": {"a": 9.0, "b": 1.0}}})
    report = build_report(rows, weighted)
    assert report.headline == (
        "Over 2 workloads, network x loses least: 3% in the weighted mean, at most 30% against the "
        "best of each (b); next is network y, 18% in the weighted mean, at most 20% behind"
    )
    build = answers(report)[0]
    assert (build.short, build.rest) == (
        "network x",
        "3% in the weighted mean, at most 30% behind the best of each scenario",
    )
    (table,) = [s for s in tabulate_study(report) if "each counts by its weight" in s.title]
    assert table.columns == (
        "decision",
        "a\n(90%)",
        "b\n(10%)",
        "worst",
        "weighted\nmean",
        "best in",
    )
    assert table.rows[0][1:5] == ("0%", "30%", "30%", "3%")


def test_a_scenario_of_no_weight_counts_for_nothing() -> None:
    times = {("a", "x"): 1.0, ("a", "y"): 1.2, ("b", "y"): 1.0, ("a", "z"): 1.4, ("b", "z"): 0.5}
    rows, study = grid(times)
    assert answers(build_report(rows, study))[0].short == "network z"
    report = build_report(
        rows, study.model_copy(update={"weights": {"workload": {"a": 1.0, "b": 0.0}}})
    )
    assert report.headline.startswith("Over 2 workloads, network x is fastest in each that counts")
    assert report.decisions.mean_regrets.tolist() == pytest.approx([0, 0.2, 0.4])
    nothing = {"workload": {"c": 1.0, "a": 0.0, "b": 0.0}}
    assert (
        build_report(rows, study.model_copy(update={"weights": nothing})).decisions.share.tolist()
        == [0.5] * 2
    )


def test_an_exhausted_grid_was_simulated_as_a_whole() -> None:
    """It was called the best of four trials."""
    rows, study = plans()

    def sure(rows, study):
        (found,) = (
            e for e in answers(build_report(rows, study)) if e.question.endswith("the search")
        )
        return found

    assert sure(rows, study).short == "the best of 4 trials"
    whole = with_cells(study, exhaustive=True)
    told = sure(rows, whole)
    assert (told.short, told.rest) == (
        "all 4 designs were simulated",
        "no design of the space is better",
    )
    failed = fail(rows, [3], "too large")
    assert sure(failed, whole).rest == "3 ran, 1 are infeasible or failed; no other one is better"
    stopped = whole.model_copy(update={"finished": False})
    assert sure(rows, stopped).short == "the best of 4 trials"
    lost = failed.assign(state=failed["state"].replace("failed", "lost"))
    assert sure(lost, whole).short == "the best of 3 trials"


def test_of_a_front_what_was_simulated_again_first_is_called_the_fastest() -> None:
    """It need not be the design that the answer names."""
    rows, study = front_of_plans()
    report = build_report(again(rows, [1.1, 1.2]), study)
    (sure,) = (each for each in answers(report) if each.question == "How sure is the search")
    assert sure.rest.endswith("message by message the ranking of the 2 best designs is the same")
    report = build_report(again(rows, [1.3, 1.2]), study)
    (sure,) = (each for each in answers(report) if each.question == "How sure is the search")
    assert "for the design that is fastest" in sure.rest and "search's best" not in sure.rest
