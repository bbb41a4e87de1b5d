"""The loop of a sweep: it asks searches for trials, submits these, and records their results.

A study asks questions: the best split, the best network, one design for several workloads, the
effect of changes. Searches answer each :class:`Question`, one after the other. A :class:`Search`
proposes work and learns from the results. It receives results in the order of its work, so the rows
are the same for any number of workers. A resumed sweep asks again from the start or from a
checkpoint; it does not simulate results in the ledger again.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.ledger import Compact, Ledger
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import PrunedCell, StudyRecord
from dimsweep.sweeper.ledger.rows import EXTRA_ORIGINS, Cell
from dimsweep.sweeper.run.executor import Executor
from dimsweep.sweeper.run.executor.evaluate import Job
from dimsweep.sweeper.space.trials import Floats, Integers, Trials
from dimsweep.sweeper.study.cell import CellPlan, CellSource, PlannedCell
from dimsweep.sweeper.study.ranking import best_of_scenarios


@dataclass(frozen=True)
class Work:
    """Trials of one cell, to be simulated."""

    cell: CellPlan
    trials: Trials
    #: whether the trials belong to the cell's own search, so that its best value may be theirs
    is_own: bool = True
    #: whether the trials count in the progress
    is_counted: bool = True


@dataclass(frozen=True)
class Results:
    """The results of simulated work: N rows with K objectives, and slopes in D dimensions."""

    work: Work
    #: values of the objectives (N, K); NaN where a trial failed
    values: Floats
    #: dT/db (N, D) in seconds per byte/s; NaN where unknown
    slopes: Floats
    #: places of the rows in the ledger (N,)
    places: Integers


class Search(Protocol):
    """A search that proposes trials in rounds and learns from their results."""

    def lookahead(self, n_workers: int) -> float:
        """Return the number of rounds that may be in flight at once with ``n_workers`` workers."""

    def ask(self) -> Sequence[Work]:
        """Return the next round of work.

        It is empty if the search is over, or if it needs the results of a round in flight first.
        """

    def tell(self, results: Sequence[Results]) -> None:
        """Learn from the results of the oldest round in flight."""


class Question(ABC):
    """A question that a study asks, such as that of the best network."""

    @abstractmethod
    def searches(self, study: StudyRecord, driver: "SweepDriver") -> Iterator[Search]:
        """Yield the searches that answer the question, each after the previous one has ended.

        ``study`` has the findings of the earlier questions.
        """

    def add_findings(self, study: StudyRecord) -> StudyRecord:
        """Return the study's record with the findings of this question's searches added."""
        return study


class AnswerQuestion(Question):
    """The main question of a study, for which its cells are planned; what-ifs change its answer."""

    #: the cells of the study
    source: CellSource

    @classmethod
    @abstractmethod
    def from_study(cls, composed: ComposedConfig) -> Self | None:
        """Return the question of a study; None if the study does not ask it."""

    def set_cells(self, planned: Sequence[PlannedCell], *, streams: bool) -> None:
        """Take the planned cells of the study.

        If the source of the cells ``streams``, these are a few cells, planned to find mistakes
        early.
        """

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """Maximum number of trials, without baselines and what-ifs."""

    def record_fields(self) -> Mapping[str, Any]:
        """Return the fields of the study's record that describe the question."""
        return {}

    def select_answers(self, rows: pa.Table, study: StudyRecord) -> pa.Table:
        """Return the rows that answer the question, among the complete ``rows``.

        By default they are the best row of each scenario.
        """
        return best_of_scenarios(rows, study)

    def plan_cell(self, number: int) -> CellPlan | None:
        """Return the plan of a cell, or None if the cell is infeasible."""
        found = self.source.plan(number)
        return None if isinstance(found, PrunedCell) else found.plan


@dataclass(frozen=True)
class StudyPlan:
    """The plan of a study: its results folder, its record, its cells and its questions."""

    folder: Place
    #: the record of the study in the ledger
    study: StudyRecord
    #: columns of the rows
    schema: pa.Schema
    config: Config
    #: all feasible cells; with a ``stream`` only a few, planned to find mistakes early
    cells: list[CellPlan]
    baselines: list[CellPlan]
    questions: Sequence[Question]
    #: plans the cells of a large grid one after the other; each job brings its cell to the workers
    stream: CellSource | None = None

    @property
    def simulated(self) -> list[Cell]:
        """Cells that workers receive at their start."""
        return [plan.cell for plan in (*self.cells, *self.baselines)]

    @property
    def n_trials(self) -> int:
        """Maximum number of trials; an estimate for a large grid."""
        return self.study.n_trials or 0


@dataclass
class Progress:
    """The progress of a sweep: numbers of trials, and the best value of each cell."""

    done: int = 0
    #: trials whose rows were in the ledger
    reused: int = 0
    #: trials whose rows were copied from other cells or studies
    borrowed: int = 0
    failed: int = 0
    #: trials that a fault of the environment ended; the next run tries them again
    lost: int = 0
    #: CPU seconds that workers spent in the engine
    engine_seconds: float = 0.0
    workers: int = 1
    nodes: int = 1
    #: the best values of each cell; of a large grid only of the searched cell
    best: dict[int, tuple[float, ...]] = field(default_factory=dict)
    #: the bound of the cell in search, or of the last one
    bound: float | None = None
    #: infeasible cells of a large grid
    pruned: int = 0
    #: new rows of what-ifs, which ``done`` does not count
    what_ifs: int = 0
    #: new rows of rechecks, portfolios and baselines, by origin
    extra: Counter[str] = field(default_factory=Counter)


def run_sweep(
    plan: StudyPlan, ledger: Ledger, executor: Executor, watch: Callable[[Progress], None]
) -> Progress:
    """Answer the questions of a study one after the other.

    Parameters
    ----------
    plan
        The questions, the cells and the record of the study.
    ledger
        Open for writing.  Rows that it has are not simulated again.
    executor
        Simulates the trials.
    watch
        Called with the progress whenever it changes, at least once a second.

    Returns
    -------
    Progress
        The numbers of trials, and the best values of each cell.
    """
    driver = SweepDriver(ledger, executor, watch, carries_cells=plan.stream is not None)
    study = plan.study
    for question in plan.questions:
        for search in question.searches(study, driver):
            run_search(search, driver)
        study = question.add_findings(study)
    ledger.describe(study.model_copy(update={"finished": True}))
    return driver.progress


def run_search(search: Search, driver: "SweepDriver") -> None:
    """Run one search: ask it for work, submit the work, record the results, and pass them back."""
    in_flight = deque[list[InFlight]]()
    while True:
        lookahead = search.lookahead(driver.n_workers)
        while len(in_flight) < lookahead and (work := search.ask()):
            in_flight.append([driver.submit(item) for item in work])
        if not in_flight:
            return
        results = [driver.collect(item) for item in in_flight.popleft()]
        for item in results:
            driver.record(item)
        search.tell(results)


@dataclass(frozen=True)
class InFlight:
    """Submitted work, with the places of its rows in the ledger."""

    work: Work
    places: Integers


class SweepDriver:
    """Connects searches to the executor and the ledger, and counts the progress.

    With ``carries_cells`` each job contains its cell, which the workers do not have.
    """

    def __init__(
        self,
        ledger: Ledger,
        executor: Executor,
        watch: Callable[[Progress], None],
        *,
        carries_cells: bool = False,
    ) -> None:
        self.ledger, self.progress = ledger, Progress()
        self._executor, self._watch, self._carries_cells = executor, watch, carries_cells

    @property
    def n_workers(self) -> int:
        """Number of simulations that run at once."""
        return self._executor.n_workers

    def show(self) -> None:
        """Call the watcher with the current progress."""
        self._watch(self.progress)

    def submit(self, work: Work) -> InFlight:
        """Submit the trials whose results are neither stored nor in flight."""
        cell, trials = work.cell.cell, work.trials
        keys = work.cell.content.keys(trials)
        claim = self.ledger.claim(cell, trials, keys)
        job = Job(cell.number, trials, keys, cell if self._carries_cells else None)
        self._executor.submit(job.select(claim.missing))
        if work.is_counted:
            self.progress.reused += claim.n_stored
            self.progress.borrowed += claim.n_borrowed
            if len(trials) and (origin := str(trials.origin[0])) in EXTRA_ORIGINS:
                self.progress.extra[origin] += len(claim.missing)
        return InFlight(work, claim.places)

    def collect(self, submitted: InFlight) -> Results:
        """Return the results of submitted work, once all of its rows are in the ledger."""
        while (found := self.ledger.find_results(submitted.places)) is None:
            outcome = self._executor.collect()
            if outcome is not None:
                for rows in outcome.rows.combine_chunks().to_batches():
                    self.ledger.append(rows)
                self.progress.engine_seconds += outcome.seconds
                self.progress.lost += len(outcome.lost)
            self.progress.workers = self._executor.n_workers
            self.progress.nodes = self._executor.n_nodes
            self._watch(self.progress)
        return Results(submitted.work, *found, submitted.places)

    def record(self, results: Results) -> None:
        """Add the results of a search's work to the progress."""
        if results.work.is_counted:
            self.count(results.work.cell, results.values, is_own=results.work.is_own)

    def count(self, cell: CellPlan, values: Floats, *, is_own: bool = True) -> None:
        """Add trials' ``values`` to the progress, and if ``is_own``, to the cell's best value."""
        complete = values[~np.isnan(values).any(axis=1)]
        self.progress.done += len(values)
        self.progress.failed += len(values) - len(complete)
        if is_own and len(complete):
            self.progress.bound = cell.bound
            objective, number = cell.objective[0], cell.cell.number
            first = complete[np.argmin(objective.sign * complete[:, 0])]
            best = self.progress.best.get(number)
            if best is None or objective.is_better(first[0], best[0]):
                self.progress.best[number] = tuple(first.tolist())
        self._watch(self.progress)

    def count_ended(self, places: Compact) -> None:
        """Add the rows of a search that an earlier run ended to the progress."""
        self.progress.reused += len(places)
        self.progress.done += len(places)
        for _, values, _ in self.ledger.iterate_results(places):
            self.progress.failed += int(np.isnan(values).any(axis=1).sum())


class SingleRound:
    """A search with a single round of given work; it keeps the ``results``."""

    def __init__(self, work: Sequence[Work]) -> None:
        self._work = work
        self.results: Sequence[Results] = ()

    def lookahead(self, n_workers: int) -> float:
        return 1

    def ask(self) -> Sequence[Work]:
        work, self._work = self._work, ()
        return work

    def tell(self, results: Sequence[Results]) -> None:
        self.results = results
