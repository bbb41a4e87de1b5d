"""Searchers from outside: the same folder, rows and reuse as the study's own search."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.run.executor.evaluate import Evaluator, Job, Outcome
from dimsweep.sweeper.search import SAMPLERS
from dimsweep.sweeper.search.optuna_sampler import TpeSampler
from dimsweep.sweeper.space.design import (
    coordinate_names,
    design_from_trial,
    encode_split,
    read_design,
)
from dimsweep.sweeper.space.space import Choice, Range, Space
from dimsweep.sweeper.space.split import SplitSpace
from tests.support.examples import examples
from tests.support.refused import refused
from tests.sweeper.api.test_study import KEYS

DESCENT = {**KEYS, "search": "descent", "budget.trials": 14}
CHUNKS = {"space": {"parameters": {"collective.chunks": {"values": [1, 2, 4]}}}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The keys of all trials that were simulated."""
    found, evaluate = list[str](), Evaluator.evaluate

    def noted(self: Evaluator, job: Job) -> Outcome:
        found.extend(job.keys)
        return evaluate(self, job)

    monkeypatch.setattr(Evaluator, "evaluate", noted)
    yield found
    assert len(found) == len(set(found)), "nothing is simulated twice"


def study(name: str, **keys: Any) -> dimsweep.Study:
    return dimsweep.Study({**DESCENT, "name": name, "results": name, **keys})


def keys_of(one: dimsweep.Study) -> list[str]:
    return list(one.to_pandas()["key"])


def its_own(one: dimsweep.Study, n: int) -> None:
    with one.session() as session:
        while n > 0:
            found = session.simulate(session.ask())
            session.tell(found)
            n -= len(found)


def by_optuna(one: dimsweep.Study, search: optuna.Study, n: int) -> None:
    with one.session("optuna") as session:
        for _ in range(n):
            trial = search.ask(one.space.optuna())
            (found,) = session.simulate([trial.params])
            trial.set_user_attr("slopes", found.slopes)
            search.tell(trial, found.values)


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["descent", "random", "qmc", "cmaes"])
def test_its_own_sampler_asks_what_the_study_would(sampler: str) -> None:
    batch = {"search": sampler, "search.batch": 1, "budget.trials": 15}  # 3, 4, 4 and 4 of CMA-ES
    ran, asked = study("ran", **batch).run(), study("asked", **batch)
    its_own(asked, 15)
    columns = ["key", "trial", "bandwidth_0_GBps", "time_ps", "ms_per_GBps_0"]
    pd.testing.assert_frame_equal(ran.to_pandas()[columns], asked.to_pandas()[columns])
    origins = asked.to_pandas()["origin"]
    assert list(origins[:3]) == ["equal", "proportional", "bound"]
    assert set(origins[3:]) == {f"ask:{sampler}"}


@pytest.mark.long
def test_optuna_proposes_what_the_descent_would() -> None:
    shape: dict[str, Any] = {"topology.shape": "Ring(2)_Ring(4)_FullyConnected(4)_Switch(4)"}
    shape |= {"collective.chunks": 8, "workload.layers": 2, "budget.trials": 40}
    ran, asked = (study(name, **shape, **{"search.seed": 2}) for name in ("ran", "asked"))
    by_optuna(asked, optuna.create_study(sampler=dimsweep.DescentSampler(asked)), 40)
    assert keys_of(asked) == keys_of(ran.run())
    other = study("other", **shape, **{"search.seed": 6}).run()
    assert keys_of(other) != keys_of(ran)


def test_optunas_descent_goes_on_with_trials_of_an_earlier_process() -> None:
    one, search = study("one"), optuna.create_study()
    for n in (6, 4):  # a sampler of each process
        search.sampler = dimsweep.DescentSampler(one)
        by_optuna(one, search, n)
    assert len(one.to_pandas()) == 10, "what is tried first is not tried again"
    values = [trial.values[0] for trial in search.trials]
    assert min(values[6:]) < min(values[:2]), "it knows what the first found"


def test_what_optunas_descent_cannot_do_is_said() -> None:
    one, plain = study("one"), {"split_0": optuna.distributions.FloatDistribution(0, 1)}
    search = optuna.create_study(sampler=dimsweep.DescentSampler(one))
    search.tell(search.ask(plain), 1.0)
    with refused("", "missing", "set_user_attr"):
        search.ask(plain)
    down = optuna.create_study(sampler=dimsweep.DescentSampler(one), direction="maximize")
    with refused("direction", "mismatch", "minimize"):
        down.ask(plain)
    with refused("x", "unsupported", "from 0 to 1"):
        optuna.create_study(sampler=dimsweep.DescentSampler(one)).ask().suggest_float("x", 0, 1)
    with refused("search.sampler", "unsupported", "space.parameters"):
        dimsweep.DescentSampler(study("two", search="tpe", **CHUNKS))


def test_a_session_is_begun_again_and_the_study_goes_on(simulated: list[str]) -> None:
    """Whatever was simulated is known to each that comes after, in whatever order."""
    one, designs = study("one"), [{"bandwidth": [f"{b} GB/s", f"{200 - b} GB/s"]} for b in (90, 30)]
    with contextlib.suppress(KeyboardInterrupt), one.session("mine") as session:
        first = session.simulate(designs)
        session.tell(session.simulate(session.ask(5)))
        raise KeyboardInterrupt
    n, before = len(simulated), one.to_pandas()
    assert n == len(before) == 7 and "searched by descent, mine" in one.report.effort
    with one.session("again") as session:
        assert session.simulate(designs) == first
        (_, new) = session.simulate([*designs[:1], {"split_0": 0.123}])
    rows = one.run().to_pandas()
    assert before["key"].isin(rows["key"]).all(), "no row is lost"
    assert len(rows) == len(simulated) and one.run().to_pandas().equals(rows)
    assert new.values == (rows.set_index("origin").loc["ask:again", "time_s"],)
    mine = rows[rows["origin"] == "ask:mine"]
    assert list(mine["time_s"]) == [found.values[0] for found in first if found.values]
    assert rows["trial"][rows["origin"].str.startswith("ask:")].is_unique
    assert "planned" not in one.report.effort


def test_the_search_of_a_study_is_the_same_with_rows_from_outside() -> None:
    alone, beside = study("alone").run(), study("beside")
    found = alone.to_pandas().iloc[9]
    with beside.session() as session:  # a design that the search will come to, and another one
        design = {"bandwidth": [found[f"bandwidth_{d}_GBps"] * 1e9 for d in (0, 1)]}
        session.simulate([design, {"split_0": 0.9}])
        assert session.ask(1)[0] == {"bandwidth": [1e11, 1e11]}
    with Ledger(beside.folder, beside.plan.study, beside.plan.schema) as ledger:
        assert not len(ledger.trials(0, 14)), "a bookmark is of its own trials"
    own, every = set(keys_of(alone)), set(keys_of(beside.run()))
    assert own < every and len(every) == len(own) + 1


def test_what_a_session_left_out_is_not_claimed() -> None:
    one = study("one", search="grid", **CHUNKS)
    with one.session("mine") as session:
        session.simulate([{"collective.chunks": n} for n in (1, 4)])
    (cell,) = one.report.summaries
    assert cell.n_designs is None
    assert "2 of 2 trials complete, searched by mine" in one.report.effort
    (cell,) = one.run().report.summaries
    assert cell.n_designs == 3 and one.record.finished
    with one.session("mine") as session:
        session.simulate([{"collective.chunks": 2}])
    (cell,) = one.report.summaries
    assert cell.n_designs == 3 and one.record.finished and len(one.to_pandas()) == 3


def test_it_learns_from_what_others_proposed() -> None:
    told, best = study("told", **{"search.enqueue": False}), study("best").run().best
    design = {"bandwidth": [best[f"bandwidth_{d}_GBps"] * 1e9 for d in (0, 1)]}
    with told.session() as session:
        session.tell(session.simulate(session.ask(1)))
        (next_one,) = session.ask(1)
    with told.session() as session:
        session.tell(session.simulate([design, *session.ask(1)]))
        assert session.ask(1) != [next_one]


@pytest.mark.parametrize("sampler", ["auto", "tpe", "cmaes", "nsga2", "random", "grid"])
def test_any_sampler_can_be_told_of_others(sampler: str) -> None:
    one = study("one", search="tpe", **{"search.sampler": sampler}, **CHUNKS)
    with one.session() as session:
        for i in range(3):
            asked = session.simulate([*session.ask(), {"collective.chunks": 1 << i}])
            session.tell(asked[::-1])
        assert bool(session.ask()) == (sampler != "grid")
    assert len(one.to_pandas()) <= 3


def test_a_sampler_is_told_its_batches_in_order_and_others_designs_by_no_number_of_its(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = list[list[int]]()

    class Noting(TpeSampler):
        def tell(self, trials: Any, values: Any, slopes: Any) -> None:
            told.append([trial.number for trial in trials])
            super().tell(trials, values, slopes)
            assert all(slope is not None for slope in slopes), "whoever searches knows slopes"

    monkeypatch.setitem(SAMPLERS, "noting", Noting)
    with study("one", search="tpe", **{"search.sampler": "noting"}).session() as session:
        first, second = session.ask(4), session.ask(3)
        session.tell(session.simulate([{"split_0": x} for x in (0.2, 0.3)]))
        session.tell(session.simulate([{"split_0": 0.4}, *second[::-1], *first[2:0:-1]]))
        session.tell(session.simulate([first[0], first[3]]))
    assert told == [[-3, -2], [1, 2], [4, 5, 6], [-2], [0], [3]]


def test_what_is_searched_is_told() -> None:
    space = {
        "bandwidth": {"total": "200 GB/s", "max": ["150 GB/s", "180 GB/s"], "step": "1 GB/s"},
        "parameters": {
            "collective.chunks": {"low": 1, "high": 8, "log": True},
            "topology.latency": {"low": "100 ns", "high": "900 ns", "step": "200 ns"},
            "collective.order": {"values": ["baseline", "themis"]},
        },
    }
    found = study("one", search="tpe", space={**space, "bandwidth": space["bandwidth"]}).space
    assert found.splits is not None
    assert found.splits.total == 200e9 and found.splits.maximum == (150e9, 180e9)
    assert found.splits.dims == ("0: Ring(4)", "1: Switch(2)") and found.splits.step == 1e9
    split, chunks, latency, order = found.axes
    assert (split.name, split.low, split.high) == ("split_0", 0, 1)
    assert (chunks.low, chunks.high, chunks.log, chunks.integer) == (1, 8, True, True)
    assert (latency.low, latency.high, latency.step, latency.unit) == (100, 900, 200, "ns")
    assert order.choices == ("baseline", "themis") and order.name == "collective.order"
    given = found.optuna()
    assert given["collective.order"].choices == ("baseline", "themis")
    assert given["collective.chunks"].high == 8 and list(given) == [a.name for a in found.axes]


@pytest.mark.long
@pytest.mark.parametrize(
    ("design", "what"),
    [
        ({"bandwidth": [1e11, 1e11], "chunks": 2}, r"\[1\]: 'chunks' is not searched"),
        ({"bandwidth": ["150 GB/s", "150 GB/s"]}, "total: the bandwidths add up to 300 GB/s"),
        ({"bandwidth": ["199.5 GB/s", "0.5 GB/s"]}, r"\[1\].bandwidth.min: b1 is 500 MB/s"),
        ({"bandwidth": [1e11]}, "not a split over 2 dimensions"),
        ({"bandwidth": [1e11, "100 GB"]}, r"bandwidth\[1\]: .*100 GB"),
        ({"bandwidth": [float("nan"), 1e11]}, "not a split over 2 dimensions"),
        ({"bandwidth": 2e11}, "not a list of bandwidths"),
        ({"split_0": 1.5}, "split_0: 1.5; it must be"),
        ({"split_0": True}, "split_0: true; it must be"),
        ({"split_0": 0.5, "bandwidth": [1e11, 1e11]}, "given twice"),
        ({}, "the design has no split"),
        (5, "5 is not a mapping"),
    ],
)
def test_a_design_that_is_none_is_refused_in_a_sentence(design: Any, what: str) -> None:
    with study("one").session() as session:
        with pytest.raises(DimsweepError, match=what) as error:
            session.simulate([{"split_0": 0.5}, design])
        assert "designs[1]" in str(error.value) and "\n" not in error.value.problem
    assert not len(study("one").to_pandas()), "none is simulated"


SPACE = Space(
    SplitSpace(3, total=300e9, minimum=[1e9] * 3, maximum=[200e9] * 3, step=1e8),
    {
        "size": Range(1.0, 64.0, 0.5, log=False, integer=False, unit="MB"),
        "chunks": Range(1, 8, None, log=False, integer=True, unit=""),
        "order": Choice((True, 1.5, "themis", [1, 2])),
    },
)
OTHERS = {"size": "2.0 MB", "chunks": 2, "order": "themis"}


@examples(40)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
    st.floats(1, 64),
    st.integers(1, 8),
    st.sampled_from([True, 1.5, "themis", [1, 2], "[1, 2]"]),
)
def test_a_design_is_what_it_is_written_as(
    unit: list[float], size: float, chunks: int, order: Any
) -> None:
    names = coordinate_names(SPACE)
    given = dict(zip(names, unit, strict=True)) | {"size": size, "chunks": chunks, "order": order}
    trial = read_design(SPACE, given)
    assert SPACE.split is not None and trial.bandwidth is not None
    SPACE.split.check(np.array(trial.bandwidth))
    assert read_design(SPACE, design_from_trial(trial)) == trial
    again = {**encode_split(SPACE, trial), **trial.parameters}
    assert read_design(SPACE, again) == trial
    written, size_unit = str(trial.parameters["size"]).split()
    assert size_unit == "MB" and abs(float(written) - size) <= 0.25 + 1e-9


@pytest.mark.parametrize(
    ("key", "value", "code", "text"),
    [
        ("size", "2 KB", "wrong-type", "'2 KB'"),
        ("size", "2", "wrong-type", "'2'"),
        ("size", 65, "out-of-range", "65"),
        ("size", float("nan"), "out-of-range", "nan"),
        ("chunks", 2.5, "wrong-type", "2.5"),
        ("chunks", True, "wrong-type", "true"),
        ("order", 1, "unknown-name", "1"),
        ("order", "Themis", "unknown-name", "'Themis'"),
        ("size", None, "wrong-type", "null"),
    ],
)
def test_a_value_that_a_key_cannot_have(key: str, value: Any, code: Code, text: str) -> None:
    with refused(key, code, text):
        read_design(SPACE, {"bandwidth": [100e9] * 3, **OTHERS, key: value})
    with refused("chunks", "missing"):
        read_design(SPACE, {"bandwidth": [100e9] * 3, "size": 2, "order": 1.5})


def test_a_design_is_moved_to_the_grid_and_says_where_it_went() -> None:
    one = study("one")
    with one.session() as session:
        (found,) = session.simulate([{"bandwidth": [120.04e9, "79.96 GB/s"]}])
    assert found.design == {"bandwidth": [120e9, 80e9]}
    assert list(one.to_pandas()["bandwidth_0_GBps"]) == [120.0]


def test_what_fails_has_no_values() -> None:
    keys = {"workload.parallel.tensor": {"values": [4, 3]}}
    one = study("one", search="random", space={"parameters": keys})
    with one.session("mine") as session:
        good, bad = session.simulate([{"workload.parallel.tensor": t} for t in (4, 3)])
        session.tell([good, bad])
    assert good.values and bad.values is None and bad.slopes is None
    assert one.to_pandas().set_index("workload.parallel.tensor")["error"]["3"]


def test_what_a_session_is_not_for() -> None:
    with (
        refused("grid", "unsupported", "2 cells"),
        study("grid", grid={"collective.chunks": [1, 2]}).session(),
    ):
        pass
    one = study("one")
    with refused("session", "bad-syntax", "a b"), one.session("a b"):
        pass
    with one.session() as session:
        assert session.simulate([]) == []
        for wrong in (0, True, 1.5, "8"):
            with refused("ask", "out-of-range"):
                session.ask(wrong)  # type: ignore[arg-type]
        with refused("", "wrong-type"):
            session.simulate({"split_0": 0.5})  # type: ignore[arg-type]
        with refused("tell", "wrong-type"):
            session.tell([1.0])  # type: ignore[list-item]
        with pytest.raises(DimsweepError, match="sweep"):
            one.run()
    for late in (session.ask, lambda: session.simulate([{"split_0": 0.5}])):
        with refused("session", "conflict"):
            late()


def test_a_searcher_of_ray_tune_in_five_lines() -> None:
    pytest.importorskip("ray.tune", reason="Ray Tune is not installed")
    from ray.tune.search.optuna import OptunaSearch

    one = study("ray")
    search = OptunaSearch(one.space.optuna(), metric="time", mode="min", seed=7)
    with one.session("ray_tune") as session:
        for i in range(5):
            (found,) = session.simulate([search.suggest(str(i))])
            assert found.values is not None
            search.on_trial_complete(str(i), {"time": found.values[0]})
    assert (one.to_pandas()["origin"] == "ask:ray_tune").sum() == 5


def test_a_loop_of_ax_in_five_lines() -> None:
    service = pytest.importorskip("ax.api.client", reason="Ax is not installed")
    from ax.api.configs import RangeParameterConfig

    one, client = study("ax"), service.Client()
    client.configure_experiment(
        [
            RangeParameterConfig(name=a.name, parameter_type="float", bounds=(a.low, a.high))
            for a in one.space.axes
        ]
    )
    client.configure_optimization(objective="-time")
    with one.session("ax") as session:
        for _ in range(3):
            for i, design in client.get_next_trials(max_trials=2).items():
                (found,) = session.simulate([design])
                assert found.values is not None
                client.complete_trial(trial_index=i, raw_data={"time": found.values[0]})
    origins = one.to_pandas()["origin"]
    assert len(origins) >= 5 and set(origins) <= {"ask:ax", "equal"}, "its first is the equal split"
