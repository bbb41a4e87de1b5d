"""The loop of a sweep: ask, submit, collect, record, tell.

A study asks questions: which split, which network, which one for several workloads, what if.  Each
:class:`Question` is answered by searches, one after the other.  A :class:`Search` proposes work and
learns from its results.  What a search is asked depends on what it was told, and it is told results
in the order of its work; so the rows are the same for any number of workers.  A resumed sweep asks
again from the start, or from a checkpoint, and the results in the ledger are not simulated again.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from dimsweep.sweeper.config.compose import Composed
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
    """Trials of one cell to simulate.

    ``is_own``: the trials belong to the cell's own search, among whose values the best is shown.
    ``is_counted``: the trials count in the progress.
    """

    cell: CellPlan
    trials: Trials
    is_own: bool = True
    is_counted: bool = True


@dataclass(frozen=True)
class Results:
    """The results of work: the objectives' values (N, K), NaN where a trial failed, the slopes
    (N, D), NaN where unknown, and the places of the rows in the ledger."""

    work: Work
    values: Floats
    slopes: Floats
    places: Integers


class Search(Protocol):
    """One search: propose work, learn from the results."""

    def lookahead(self, n_workers: int) -> float:
        """Return how many rounds of work may be in flight before the first must be told."""

    def ask(self) -> Sequence[Work]:
        """Return the next round of work; nothing if the search is over, or has to be told of a
        round in flight first."""

    def tell(self, results: Sequence[Results]) -> None:
        """Learn the results of the oldest round in flight."""


class Question(ABC):
    """One of the questions that a study asks."""

    @abstractmethod
    def searches(self, study: StudyRecord, driver: "SweepDriver") -> Iterator[Search]:
        """Yield the searches that answer the question, each one when the one before is over;
        ``study`` has the findings of the questions before."""

    def add_findings(self, study: StudyRecord) -> StudyRecord:
        """Return the record of the study with the findings of the searches."""
        return study


class AnswerQuestion(Question):
    """The main question of a study: it plans the cells, and its answer is what what-ifs change."""

    #: the cells of the study
    source: CellSource

    @classmethod
    @abstractmethod
    def from_study(cls, composed: Composed) -> Self | None:
        """Return the question of a study; None if the study does not ask it."""

    def set_cells(self, planned: Sequence[PlannedCell], *, streams: bool) -> None:
        """Take the planned cells of the source.  Of a source that ``streams`` they are a few, which
        were planned to find mistakes early."""

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """Number of trials at most, baselines and what-ifs left out."""

    def record_fields(self) -> Mapping[str, Any]:
        """Return the fields of the study's record that describe the question."""
        return {}

    def select_answers(self, rows: pa.Table, study: StudyRecord) -> pa.Table:
        """Return the answer's rows among the complete ``rows``: the best one of each scenario."""
        return best_of_scenarios(rows, study)

    def plan_cell(self, number: int) -> CellPlan | None:
        """Return the plan of a cell, or None if the cell is infeasible."""
        found = self.source.plan(number)
        return None if isinstance(found, PrunedCell) else found.plan


@dataclass(frozen=True)
class StudyPlan:
    """A whole study.

    ``study``: its record in the ledger. ``cells``: all feasible cells. A study with a ``stream``
    has only a few, planned to find mistakes early: the stream plans all cells one after the other,
    and each job brings its cell to the workers.
    """

    folder: Place
    study: StudyRecord
    schema: pa.Schema
    config: Config
    cells: list[CellPlan]
    baselines: list[CellPlan]
    questions: Sequence[Question]
    stream: CellSource | None = None

    @property
    def simulated(self) -> list[Cell]:
        """The cells that workers know from the start."""
        return [plan.cell for plan in (*self.cells, *self.baselines)]

    @property
    def n_trials(self) -> int:
        """Number of trials at most; an estimate for a large grid."""
        return self.study.n_trials or 0


@dataclass
class Progress:
    """What a sweep has done so far.

    ``reused`` trials were in the ledger, ``borrowed`` ones in other cells or studies.  ``lost``
    trials failed by a fault of the environment, and the next run tries them again.
    ``engine_seconds`` are the workers' own.
    """

    done: int = 0
    reused: int = 0
    borrowed: int = 0
    failed: int = 0
    lost: int = 0
    engine_seconds: float = 0.0
    workers: int = 1
    nodes: int = 1
    #: the best values of each cell; of a large grid only those of the cell in search
    best: dict[int, tuple[float, ...]] = field(default_factory=dict)
    #: the bound of the cell that was searched last
    bound: float | None = None
    #: infeasible cells of a large grid
    pruned: int = 0
    #: new rows of what-ifs, which are not among ``done``
    what_ifs: int = 0
    #: new rows that are no trials of a cell's search, by origin, without what-ifs
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
    """Ask a search for work and tell it the results until it has no more."""
    in_flight = deque[list[InFlight]]()
    while True:
        lookahead = search.lookahead(driver.n_workers)
        while len(in_flight) < lookahead and (work := search.ask()):
            in_flight.append([driver.submit(each) for each in work])
        if not in_flight:
            return
        results = [driver.collect(each) for each in in_flight.popleft()]
        for each in results:
            driver.record(each)
        search.tell(results)


@dataclass(frozen=True)
class InFlight:
    """Submitted work, and the places of its rows in the ledger."""

    work: Work
    places: Integers


class SweepDriver:
    """Submits work to the executor, writes rows to the ledger, and keeps the progress.

    ``carries_cells``: jobs bring their cells, which the workers do not know.
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
        """Number of simulations that run at a time."""
        return self._executor.n_workers

    def show(self) -> None:
        """Show the progress to the watcher."""
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
        """Append the rows that the executor delivers to the ledger until the work is complete, and
        return its results."""
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
        """Add results to the progress."""
        if results.work.is_counted:
            self.count(results.work.cell, results.values, is_own=results.work.is_own)

    def count(self, cell: CellPlan, values: Floats, *, is_own: bool = True) -> None:
        """Add the values of trials to the progress, where they are the cell's own to its best."""
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
        """Count the rows of a search that an earlier run ended."""
        self.progress.reused += len(places)
        self.progress.done += len(places)
        for _, values, _ in self.ledger.iterate_results(places):
            self.progress.failed += int(np.isnan(values).any(axis=1).sum())


class SingleRound:
    """A search that asks for one round of work and learns nothing."""

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
