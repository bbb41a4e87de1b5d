"""Reports: what a study found, told right in numbers, pictures, tables and a page."""

import re

import numpy as np
import pandas as pd
import pytest

from dimsweep.engine.bound import Frontier
from dimsweep.sweeper.api.results import _table
from dimsweep.sweeper.draw.page import write_report
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.report import describe, naming, recheck, sections, words
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.recheck import Comparison, agreement
from dimsweep.sweeper.report.summary import summarise
from tests.support.refused import refused
from tests.support.reports import (
    again,
    bounded,
    fail,
    failing,
    grid,
    make_rows,
    make_study,
    one_cell,
    only,
    ranked,
    search,
    text_of,
    with_cells,
)

# --- the summary ---------------------------------------------------------------------------------


def test_best_equal_and_speedup():
    summary = only(one_cell(time_s=[0.8, 0.5, 0.4, 0.7]))
    assert summary.best["trial"] == 2
    assert summary.equal["trial"] == 0
    assert summary.speedup == pytest.approx(2.0)
    assert (summary.trials.n_complete, summary.trials.n_broken) == (4, 0)
    assert list(summary.front["trial"]) == [2]


@pytest.mark.parametrize(
    ("objective", "best", "gain"),
    [("time", 1, 8 / 4), ("cost", 3, 10 / 5), ("perf_per_cost", 2, 9 / 2)],
)
def test_each_objective_has_its_direction(objective, best, gain):
    rows = one_cell(time_s=[8.0, 4, 5, 6], cost_usd=[10.0, 9, 8, 5], perf_per_cost=[2.0, 3, 9, 4])
    summary = only(rows, objective=[objective])
    assert summary.best["trial"] == best
    assert summary.gain(summary.objective) == pytest.approx(gain)


def test_the_earliest_of_equal_trials_is_the_best():
    rows = one_cell(time_s=[0.8, 0.5, 0.5, 0.5], cost_usd=[9.0, 7, 6, 6])
    assert only(rows.iloc[::-1]).best["trial"] == 1
    both = only(rows, objective=["time", "cost"])
    assert both.best["trial"] == 2  # as fast, but cheaper
    assert list(both.front["trial"]) == [2]  # and trial 3 is the same again


def test_without_a_complete_equal_split_there_is_no_speedup():
    assert only(fail(one_cell(), {0}, "boom")).speedup is None
    summary = only(one_cell(origin="tpe"))
    assert summary.equal is None
    assert summary.speedup is None


@pytest.mark.parametrize(
    ("objective", "bound", "gap"), [("time", 4.0, "25%"), ("perf_per_cost", 3.3e-6, "10%")]
)
def test_the_gap_to_the_bound(objective, bound, gap):
    rows = one_cell(time_s=[8.0, 5, 6, 7], perf_per_cost=[2e-6, 3e-6, 1e-6, 2e-6])
    study = bounded(make_study(rows, objective=[objective]), bound)
    (summary,) = summarise(rows, study)
    assert words.fine_percent(summary.gap) == gap
    shown = text_of(rows, study)
    assert "proven bound" in shown
    assert gap in shown
    without = make_study(rows, objective=[objective])
    assert summarise(rows, without)[0].gap is None
    assert "proven bound" not in text_of(rows, without)


@pytest.mark.parametrize(("limit", "stopped"), [(None, False), (0.24, False), (0.25, True)])
def test_a_search_that_came_near_enough_has_stopped(limit, stopped):
    rows = one_cell(time_s=[8.0, 5, 6, 7])
    study = with_cells(bounded(make_study(rows), 4.0), stops_at_gap=limit)
    assert summarise(rows, study)[0].stopped is stopped


def test_the_gaps_of_a_grid():
    rows = pd.concat([make_rows(search(20, seed=c), cell=c, budget=c) for c in range(2)])
    study = bounded(make_study(rows, grid=["budget"]), 0.5 * rows["time_s"].min())
    assert "gap" in text_of(rows, study)


@pytest.mark.parametrize("objective", [("time", "cost"), ("cost", "perf_per_cost")])
@pytest.mark.parametrize("seed", range(5))
def test_front_is_what_nothing_dominates(objective, seed):
    columns = {"time": "time_s", "cost": "cost_usd", "perf_per_cost": "perf_per_cost"}
    signs = {"time": 1, "cost": 1, "perf_per_cost": -1}
    draw = np.random.default_rng(seed).integers(1, 12, (3, 60)).astype(float)  # many ties
    rows = make_rows([[125.0] * 4] * 60).assign(**dict(zip(columns.values(), draw, strict=True)))
    losses = np.column_stack([signs[name] * rows[columns[name]] for name in objective])
    expected = []
    for i, mine in enumerate(losses):
        dominated = ((losses <= mine).all(axis=1) & (losses < mine).any(axis=1)).any()
        if not dominated and not (losses[:i] == mine).all(axis=1).any():
            expected.append(i)
    expected.sort(key=lambda i: losses[i, 0])
    assert list(only(rows, objective=objective).front["trial"]) == expected


def test_designs_are_ranked_and_told_apart():
    rows = make_rows([[125.0] * 4, [338.0, 85.0, 58.0, 19.0], [338.0, 85.0, 58.0, 19.0]])
    assert only(rows).trials.ranked(rows) == [(2, 0), (1, 1), (1, 1)]
    rows["collective.chunks"] = [64, 64, 32]
    trials = only(rows, parameters=["collective.chunks"]).trials
    assert trials.ranked(rows) == [(3, 0), (1, 1), (2, 2)]


def test_shares_and_what_varies():
    summary = only(make_rows([[400.0, 50.0, 40.0, 10.0], [100.0, 350.0, 40.0, 10.0]]))
    low, high = summary.trials.shares_near()
    assert (low == high).all() and low == pytest.approx([0.8, 0.1, 0.08, 0.02])
    assert summary.trials.widest_dims == (0, 1)
    assert summary.split_varies
    assert not only(make_rows([[125.0] * 4] * 3)).split_varies


def test_an_objective_without_values_is_an_error():
    rows = make_rows(search(4), prices=None)
    with refused("study demo", "missing", "cost"):
        summarise(rows, make_study(rows, objective=["cost"]))


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (fail(one_cell(), range(4), "ran out of <memory>"), "infeasible"),
        (one_cell().head(0), "missing"),
    ],
)
def test_nothing_complete_is_an_error(rows, code, tmp_path):
    study = make_study(one_cell())
    with refused("study demo", code):
        write_report(build_report(rows, study), tmp_path / "report")
    assert not (tmp_path / "report").exists()
    with refused("study demo", code):
        text_of(rows, study)


# --- looking again, message by message -----------------------------------------------------------


@pytest.mark.parametrize("objective", [("time",), ("time", "cost")])
def test_designs_looked_at_again_are_no_trials_of_the_search(objective):
    rows = one_cell(time_s=[0.8, 0.5, 0.4, 0.7])
    mixed = again(rows, [0.1, 0.2, None])  # faster than anything in the search
    alone, beside = only(rows, objective=objective), only(mixed, objective=objective)
    pd.testing.assert_frame_equal(alone.front, beside.front)
    for each in (alone.trials, beside.trials):
        assert (each.n_complete, each.n_broken, each.last) == (4, 0, 3)
    pd.testing.assert_series_equal(alone.best, beside.best)
    pd.testing.assert_series_equal(alone.equal, beside.equal)
    assert alone.rechecked == []
    assert list(beside.again.trial) == [4, 5, 6]


def test_pairs_are_in_the_order_of_the_search():
    rows = one_cell(time_s=[0.8, 0.5, 0.4, 0.7])
    mixed = again(rows, [0.81, 0.55, None]).sample(frac=1, random_state=1)
    pairs = only(mixed).rechecked
    assert [pair.rank for pair in pairs] == [1, 2, 4]  # trial 3, which is third, was not rechecked
    assert [pair.phases["trial"] for pair in pairs] == [2, 1, 0]
    assert [pair.messages["trial"] for pair in pairs] == [6, 5, 4]
    assert [pair.failed for pair in pairs] == [True, False, False]


def test_designs_are_told_apart_by_their_parameters():
    rows = one_cell(time_s=[0.8, 0.5, 0.4, 0.7])
    rows[[f"bandwidth_{d}_GBps" for d in range(4)]] = 125.0
    rows["collective.chunks"] = ["1", "2", "4", "8"]
    rows = again(rows, [0.9, None, 0.41])
    rows.loc[rows["state"] == "failed", rows.filter(like="bandwidth").columns] = np.nan
    pairs = only(rows, parameters=["collective.chunks"]).rechecked
    assert [(pair.rank, pair.messages["trial"]) for pair in pairs] == [(1, 6), (2, 5), (4, 4)]


def test_only_rechecked_trials_are_no_report():
    rows = again(one_cell(), [0.5])
    with refused("study demo", "infeasible", "boom"):
        summarise(
            fail(rows, range(4), "boom").assign(origin=rows["origin"]), make_study(one_cell())
        )


@pytest.mark.parametrize(
    ("times", "messages", "expected"),
    [
        ([1.0, 2, 3], [1.5, 2.5, 3], "the ranking of the 3 best designs is the same"),
        ([1.0, 2, 3], [3.0, 3, 3], "no two of the 3 best designs change places"),
        ([1.0, 1, 1], [1.0, 3, 2], "no two of the 3 best designs change places"),
        (
            [1.0, 2, 3],
            [1.9, 2.1, 1.7],
            "design 3 is best (1.70000 s against 1.90000 s for the search's best); the orders agree"
            " in 1 of 3 pairs (Kendall tau-b -0.33)",
        ),
        (
            [1.0, 2, 3],
            [1.0, 2.5, 2.4],
            "the search's best stays best (1.00000 s); the orders agree in 2 of 3 pairs"
            " (Kendall tau-b 0.33)",
        ),
        (  # one pair is equal by phases, another by messages: neither counts
            [1.0, 1, 3, 4],
            [2.0, 1, 2, 1.5],
            "design 2 is best (1.00000 s against 2.00000 s for the search's best); the orders agree"
            " in 2 of 4 pairs (Kendall tau-b 0)",
        ),
        (  # a pair that is equal by phases only: 3 / sqrt(5 * 6)
            [1.0, 1, 3, 4],
            [1.0, 2, 2.5, 2.4],
            "the search's best stays best (1.00000 s); the orders agree in 4 of 5 pairs"
            " (Kendall tau-b 0.55)",
        ),
        ([1.0, 2, 3], [1.0, 2, None], "the ranking of the 2 best designs is the same; design 3 fa"),
        ([1.0, 2, 3], [None, 2, None], "design 2 comes to 2.00000 s, by phases 2.00000 s; the sea"),
        ([1.0, 2, 3], [None, 2, 3], "the ranking of 2 designs is the same; the search's best fail"),
        ([1.0, 2, 3], [None, None, None], "the search's best and 2 more failed"),
        ([1.0], [1.5], "the search's best comes to 1.50000 s, by phases 1.00000 s"),
    ],
)
def test_whether_the_ranking_holds(times, messages, expected):
    sentence = agreement(Comparison.from_cell(ranked(times, messages)))
    assert sentence.startswith(f"message by message {expected}")


def test_more_performance_is_better_message_by_message():
    summary = ranked([1.0, 2, 4], [1.0, 4, 2], objective=["perf_per_cost"])
    comparison = Comparison.from_cell(summary)
    assert (comparison.agree, comparison.differ) == (2, 1)
    assert [comparison.rank(pair) for pair in summary.rechecked] == [1, 3, 2]


def test_rounding_is_no_order():
    comparison = Comparison.from_cell(ranked([1.0, 1 + 1e-12], [2.0, 1.0]))
    assert (comparison.agree, comparison.differ) == (0, 0)


def test_where_cost_is_searched_times_are_compared():
    summary = ranked([3.0, 2, 1], [3.0, 1, 2], costs=[10.0, 20, 30], objective=["cost"])
    assert agreement(Comparison.from_cell(summary)) == (
        "message by message cost is the same, and in time design 2 is best (1.00000 s against"
        " 2.00000 s for design 3); the orders agree in 2 of 3 pairs (Kendall tau-b 0.33)"
    )
    (sheet,) = recheck.tabulate_cell(summary)
    assert [row[0] for row in sheet.rows] == ["1", "2", "3"]  # the cheapest first
    assert [row[-1] for row in sheet.rows] == ["3", "1", "2"]


def test_table_of_designs_looked_at_again():
    summary = ranked([1.0, 2, 3, 4], [1.5, None, 2.9, 2.9], parameters=["collective.chunks"])
    best, failures = recheck.tabulate_cell(summary)
    assert best.title.startswith("Message by message no two of 3 designs change places; design 2")
    assert best.columns[2] == "chunks"
    assert best.rows == [
        ("1", "100 50 50 50", "64", "1.00000 s", "1.50000 s", "1.500", "1"),
        ("2", "101 50 50 50", "64", "2.00000 s", "failed", "-", "-"),
        ("3", "102 50 50 50", "64", "3.00000 s", "2.90000 s", "0.967", "2"),
        ("4", "103 50 50 50", "64", "4.00000 s", "2.90000 s", "0.725", "2"),
    ]
    assert failures.rows == [("2", "deadlock <b>")]
    assert recheck.tabulate_cell(only(one_cell())) == []


def test_each_fidelity_has_its_own_ranking():
    rows = one_cell(time_s=[0.8, 0.5, 0.4, 0.7])
    summary = only(
        again(again(rows, [0.9, 0.6, 0.5], fidelity="flow"), [1.2, 0.7], fidelity="packet")
    )
    assert summary.fidelities == ["flow", "packet"]
    by_flow, by_packet = (Comparison.from_cell(summary, name) for name in summary.fidelities)
    assert [len(each.complete) for each in (by_flow, by_packet)] == [3, 2]
    assert agreement(by_flow) == "flow by flow the ranking of 3 designs is the same"
    assert agreement(Comparison.from_cell(summary)) == agreement(by_packet)
    sheets = recheck.tabulate_cell(summary)
    assert [sheet.columns[-1] for sheet in sheets] == ["rank by\nflows", "rank by\npackets"]


def test_a_grid_has_a_row_for_each_cell_looked_at_again():
    rows = pd.concat(
        [
            make_rows([[100.0] * 4, [50.0] * 4], cell, **{"a.total": name}).assign(time_s=[1.0, 2])
            for cell, name in enumerate(["few", "many", "none", "dead"])
        ],
        ignore_index=True,
    )
    rows = again(rows, [1.2, 1.1], 0)
    rows = again(rows, [None, 3.0], 1)
    rows = again(rows, [None, None], 3)
    report = build_report(rows, make_study(rows, grid=["a.total"]))
    (cells,), (rechecked,) = sections.tabulate_best_of_cells(report), recheck.tabulate_cells(report)
    assert [row[0] for row in cells.rows] == ["few", "many", "none", "dead"]
    assert rechecked.rows == [
        ("few", "1.00000 s", "1.20000 s", "1.200", "rank 2", "0 of 1 pairs"),
        ("many", "1.00000 s", "failed", "-", "rank 2", "-"),
        ("dead", "1.00000 s", "failed", "-", "-", "-"),
    ]


def test_terminal_shows_both_times_of_the_best():
    rows = again(one_cell(time_s=[0.8, 0.5, 0.4, 0.7]), [0.85, 0.55, 0.6])
    text = text_of(rows, make_study(rows))
    assert re.search(
        r"iteration time +400.0 ms +800.0 ms\n  message by message +600.0 ms +850.0 ms\n", text
    )
    effort = "4 of 4 trials complete, searched by tpe, and 3 simulated again message by message"
    assert effort in " ".join(text.split())
    assert "failed" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "message by message" not in text_of(one_cell(), make_study(rows))


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.seconds(0.7224118), "722.4 ms"),
        (words.seconds(1.5), "1.500 s"),
        (words.seconds(0.0), "0 s"),
        (words.seconds(2.5e-9), "2.500 ns"),
        (words.usd(24.13e6), "24.13 M USD"),
        (words.usd(float("nan")), "-"),
        (words.gbps(338.44), "338.4"),
        (words.gbps(85.0), "85"),
        (words.gbps(0.25), "0.25"),
        (words.percent(0.68), "68%"),
        (words.percent(0.0374), "3.7%"),
        (words.per_million_usd(6.9e-8), "0.069"),
    ],
)
def test_numbers_as_people_read_them(text, expected):
    assert text == expected


def test_short_keys_stay_distinct():
    keys = ["workload", "space.bandwidth.total", "a.size", "b.size"]
    assert naming.short_keys(keys) == ["workload", "total", "a.size", "b.size"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (
            [0.8, 0.5, 0.4, 0.7],
            "the best split is 2.00x faster than the equal split (400.0 ms against 800.0 ms)",
        ),
        ([0.8, 0.799, 0.9, 0.9], "the equal split is within 0.5% of the best found"),
        ([0.4, 0.5, 0.6, 0.7], "nothing found beats the equal split (400.0 ms)"),
    ],
)
def test_finding(times, expected):
    assert describe.finding(only(one_cell(time_s=times))).startswith(expected)


# --- the terminal --------------------------------------------------------------------------------


def test_terminal_shows_best_and_equal():
    rows = one_cell(time_s=[0.8, 0.5, 0.4, 0.7], compute_s=0.3)
    rows["exposed_by_collective_s"] = [[("all_reduce [tensor]", 0.1)]] * 4  # as parquet returns it
    text = text_of(rows, make_study(rows))
    for part in (
        "GPT-3 on 4,096 NPUs",
        "2.00x",
        "400.0 ms",
        "800.0 ms",
        "all_reduce [tensor]",
        "0: Ring(4)",
        "60%",
        "300",
        "125",
        "M USD",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


def test_terminal_has_a_row_for_each_cell_and_names_failures():
    rows = failing(grid(prices=None))
    text = text_of(rows, make_study(rows, grid=["a.total"]))
    for part in ("a$b$", "[red]c", "none complete", "33 of 48 trials complete", "[bold]&[/bold]"):
        assert part in text
    assert "15 trials failed or are infeasible" in text and "15 x boom" in text
    assert "cost" not in text


def test_terminal_lists_the_front():
    rows = make_rows(search(60))
    study = make_study(rows, objective=["time", "cost"])
    assert "trade-offs, from" in text_of(rows, study)
    ends = "from 722.8 ms at 6.866 M USD (within 1%: 726.3 ms at 6.737 M USD) to 752.9 ms at"
    assert ends in build_report(rows, study).headline, "both ends of the front, and what is enough"


# --- the critical path --------------------------------------------------------------------------


def test_what_the_time_of_the_best_is_made_of():
    parts = {f"path_{part}_{d}_s": 0.01 * d for part in ("transfer", "latency") for d in range(4)}
    ends = {f"path_endpoint_{d}_s": 0.0 for d in range(4)}
    (sheet,) = sections.tabulate_critical_path(
        only(one_cell(path_compute_s=0.1, path_memory_s=0.0, **parts, **ends))
    )
    assert sheet.rows[0] == ("compute", "100.0 ms", "", "")
    assert sheet.rows[2][1:] == ("10.00 ms", "10.00 ms", "0 s")


def test_waiting_is_a_part_of_exposed_communication():
    """And named as a pipeline's where stages send each other messages; NPUs with a price are said
    to be in the cost."""
    tallies = {"receive": 0.1, "all_reduce data": 0.0}
    columns = {"waiting_s": 0.05, "exposed_by_collective_s": [tallies] * 4}
    rows = one_cell(**columns)
    study = make_study(rows)
    (cell,) = study.cells
    priced = cell.model_copy(update={"config": {"cost": {"npu": "25 kUSD"}}})
    (sheet,) = sections.tabulate_time_and_cost(
        summarise(rows, study.model_copy(update={"cells": (priced,)}))[0]
    )
    names = [row[0] for row in sheet.rows]
    place = names.index("  exposed communication")
    assert names[place + 1 : place + 3] == ["    receive", "    pipeline bubble"]
    assert "cluster cost" in names and "network cost" not in names


def test_nothing_is_said_of_a_path_that_is_not_known():
    from_before_paths_were_kept, by_message = only(one_cell()), only(one_cell(path_compute_s=None))
    assert sections.tabulate_critical_path(from_before_paths_were_kept) == []
    assert sections.tabulate_critical_path(by_message) == []


@pytest.mark.parametrize("objective", [("time", "cost"), ("cost", "time")])
def test_how_sure_the_search_is_is_said_of_the_design_that_is_named(objective):
    """Of a front it is how much faster a network could be that costs no more, whatever is first."""
    times, costs = [4.0, 2.0, 2.01, 3.0], [10.0, 9.0, 5.0, 4.0]
    rows = one_cell(time_s=times, cost_usd=costs)
    cost, bound = np.array([4.0, 5.0, 9.0]), np.array([2.5, 1.6, 1.0])
    front = Frontier(cost, bound, bound, np.ones((3, 4)))
    study = with_cells(make_study(rows, objective=objective), front=front, bound=0.5)
    report = build_report(rows, study)
    (cell,) = report.found
    (sure,) = (each for each in answers(report) if each.question == "How sure is the search")
    gap = cell.named["time_s"] / front.minimum_time(np.array([cell.named["cost_usd"]]))[0] - 1
    assert cell.named["trial"] == {"time": 2, "cost": 3}[objective[0]]
    assert cell.gap == pytest.approx(gap)
    assert sure.short == f"within {words.fine_percent(gap)} of the proven front"
    assert words.seconds(cell.limit_of(cell.named)) in sure.rest
    assert cell.front_gaps(cell.front).min() <= gap
    assert _table(report)["gap"].tolist() == [cell.gap], "compare and cells have the report's gap"
