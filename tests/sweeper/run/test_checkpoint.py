"""A search goes on from its bookmark, as if it had never stopped, and asks for nothing again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dimsweep import load
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.run import checkpoint
from dimsweep.sweeper.run.executor.inline import InlineExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.loop import Progress, StudyPlan, run_sweep
from dimsweep.sweeper.search import SAMPLERS, relay
from tests.support.studies import run

Small = Callable[..., StudyPlan]
GO_ON = ["random", "qmc", "grid", "cmaes", "descent", "tpe", "nsga2", "auto"]
BUDGET, TOLD = 120, 70


@pytest.fixture(autouse=True)
def always_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_MIN_INTERVAL", -1.0)
    monkeypatch.setattr(checkpoint, "_MAX_SHARE", 0)
    monkeypatch.setattr(checkpoint, "_MIN_SEARCH_TIME", -1.0)
    monkeypatch.setattr(relay, "HANDOVER", 30)
    monkeypatch.setattr("dimsweep.sweeper.search.choose.HANDOVER", 30)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the trials that samplers are asked for."""
    numbers = list[int]()
    names = ("random", "qmc", "grid", "cmaes", "descent", "tpe", "nsga2", "descent+tpe+cmaes")
    for kind in {SAMPLERS[name] for name in names}:
        ask = kind.ask

        def counted(self: object, n: int, ask: Callable[..., object] = ask) -> object:
            trials = ask(self, n)
            numbers.extend(trial.number for trial in trials)  # type: ignore[attr-defined]
            return trials

        monkeypatch.setattr(kind, "ask", counted)
    return numbers


def search(small: Small, sampler: str, results: str, **budget: int) -> StudyPlan:
    trials = budget.get("trials", BUDGET)
    words = [f"search={sampler}", "search.batch=10", "collective.chunks=1", "executor=inline"]
    return small(*words, f"budget.trials={trials}", results=results)


def stopped(plan: StudyPlan) -> None:
    """Run a plan until ``TOLD`` trials are done."""

    def watch(progress: Progress) -> None:
        if progress.done >= TOLD:
            raise KeyboardInterrupt

    cells = [cell.cell for cell in plan.cells]
    executor = InlineExecutor(Setup(plan.config.executor, cells, plan.schema, print))
    ledger = Ledger(plan.folder, plan.study, plan.schema)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, ledger, executor, watch)
    ledger.close()


@pytest.mark.long
@pytest.mark.parametrize("sampler", GO_ON)
def test_a_stopped_search_goes_on(small: Small, sampler: str, asked: list[int]) -> None:
    """And one whose budget grows, in the middle of a generation, too."""
    whole = search(small, sampler, "whole")
    best = run(whole).best
    rows = load(whole.folder)

    parts = search(small, sampler, "stopped")
    stopped(parts)
    asked.clear()
    progress = run(parts)
    assert (progress.done, progress.failed, progress.best) == (BUDGET, 0, best)
    assert load(parts.folder).equals(rows)
    assert min(asked) >= TOLD - 20
    asked.clear()
    assert run(parts).best == best
    assert not asked, "a finished search needs no sampler"

    run(search(small, sampler, "longer", trials=TOLD))
    asked.clear()
    longer = search(small, sampler, "longer")
    run(longer)
    assert load(longer.folder).equals(rows)
    assert min(asked) >= TOLD - 20


def damage_bookmark(folder: Path) -> None:
    file = folder / "search-00000.json"
    file.write_text(file.read_text().replace('"told": 70', '"told": 60'))


def lose_a_part(folder: Path) -> None:
    next(folder.glob("part-*")).unlink()


@pytest.mark.long
@pytest.mark.parametrize("harm", [damage_bookmark, lose_a_part])
def test_a_bookmark_that_the_rows_do_not_bear_out_is_not_used(
    small: Small, harm: Callable[[Path], None], asked: list[int]
) -> None:
    whole = search(small, "cmaes", "whole")
    run(whole)
    run(search(small, "cmaes", "parts", trials=TOLD))
    parts = search(small, "cmaes", "parts")
    harm(parts.folder)
    asked.clear()
    run(parts)
    assert min(asked) == 0
    assert load(parts.folder).equals(load(whole.folder))


def test_what_was_stopped_is_not_finished(small: Small) -> None:
    plan = search(small, "random", "stopped")
    stopped(plan)
    study, rows = read_study(plan.folder), load(plan.folder).to_pandas()
    assert (study.finished, study.n_trials) == (False, BUDGET)
    told = build_report(rows, study).effort
    done = len(rows)
    assert f"{done} of at most {BUDGET} trials so far; the sweep was st" in told
    run(plan)
    study, rows = read_study(plan.folder), load(plan.folder).to_pandas()
    assert study.finished is True
    assert build_report(rows, study).effort.startswith(
        f"{BUDGET} of {BUDGET} trials complete, search"
    )
