"""The driver of a sweep: submit trials, record their rows, keep the progress."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dimsweep.sweeper.ledger.ledger import Compact, Ledger
from dimsweep.sweeper.ledger.rows import BESIDE
from dimsweep.sweeper.run.executor import Executor
from dimsweep.sweeper.run.executor.evaluate import Job
from dimsweep.sweeper.run.standing import Standing, in_pieces
from dimsweep.sweeper.search import Sampler, Values
from dimsweep.sweeper.space.trials import Floats, Integers, Trials
from dimsweep.sweeper.study.cell import CellPlan

_SHARE = 4  # of workers, that a batch of thousands keeps busy for a few tenths of a second


@dataclass
class Progress:
    """What a sweep has done so far; trials that the ledger already had are ``reused``, and those
    that other cells or studies had are ``borrowed``.

    ``lost`` are those that failed by a fault of the environment, which the next run tries again.
    ``best`` are the best values of cells, of a large grid only of the cell whose turn it is, and
    ``bound`` is that of the cell that was searched last; ``pruned`` counts cells of a large grid
    that cannot be.  ``what_ifs`` are new rows that are not among what is ``done``.
    ``engine_seconds`` are the workers' own; there were ``workers`` on ``nodes`` at last.
    """

    done: int = 0
    reused: int = 0
    borrowed: int = 0
    failed: int = 0
    lost: int = 0
    engine_seconds: float = 0.0
    workers: int = 1
    nodes: int = 1
    best: dict[int, tuple[float, ...]] = field(default_factory=dict)  # by cell
    bound: float | None = None
    pruned: int = 0
    what_ifs: int = 0
    #: new rows that are no trials of a cell's search, by origin, without what-ifs
    beside: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Batch:
    """Trials, and where the ledger has their rows, or will have them."""

    trials: Trials
    places: Integers


class Driver:
    """Has trials simulated, writes them down, and keeps the progress."""

    def __init__(
        self,
        ledger: Ledger,
        executor: Executor,
        watch: Callable[[Progress], None],
        *,
        carries: bool = False,
    ) -> None:
        """``carries``: jobs take their cells along, since workers do not know them."""
        self.ledger, self.progress = ledger, Progress()
        self._executor, self._watch, self._carries = executor, watch, carries

    def batches(
        self,
        sampler: Sampler,
        cells: Sequence[CellPlan],
        budget: int,
        origin: str | None = None,
        settled: Callable[[], bool] = lambda: False,
        asked: int = 0,
        ends: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[Trials, list[_Batch]]]:
        """The batches of a search, and each as one of every cell, which are being simulated; the
        next ones are asked for when the caller has told the search of this one.

        With an ``origin`` they are not the cells' own trials, and come after these.  No more are
        asked for once it is ``settled``; so many were ``asked`` for before.  Before the first
        batch that the budget cuts short, or leaves out, it ``ends``.
        """
        size, gap = cells[0].config.search.batch, cells[0].config.budget.gap
        ahead: deque[tuple[Trials, list[_Batch]]] = deque()
        while ahead or (asked < budget and not settled()):
            # Where a gap ends the search, what was asked for by then depends on no worker.
            depth = sampler.prefetch or 2 + (gap is None) * self._executor.n_workers // _SHARE
            while len(ahead) < depth and not settled():
                wanted = sampler.batch or size
                if wanted > budget - asked:
                    ends()
                if asked == budget:
                    break
                trials = Trials.of(sampler.ask(min(wanted, budget - asked)))
                asked += len(trials)
                ahead.append((trials, [self.submit(c, _own(trials, c, origin)) for c in cells]))
            yield ahead.popleft()

    def show(self) -> None:
        """Let whoever watches see the progress."""
        self._watch(self.progress)

    def take_up(self, cell: CellPlan, standing: Standing) -> None:
        """Count the trials of a search that goes on."""
        self.progress.reused += standing.n_trials
        for places in in_pieces(standing.places):
            self.count(cell, self.ledger.known.values(places))
        self.progress.done += standing.n_trials - len(standing.places)

    def take_up_ended(self, places: Compact) -> None:
        """Count the rows of a search that an earlier run ended."""
        self.progress.reused += len(places)
        self.progress.done += len(places)
        for own in in_pieces(places):
            failed = np.isnan(self.ledger.known.values(own)).any(axis=1)
            self.progress.failed += int(failed.sum())

    def submit(self, cell: CellPlan, trials: Trials) -> _Batch:
        """Have simulated what neither the ledger nor a batch before this one knows."""
        batch, new, borrowed = self._submit(cell, trials)
        self.progress.reused += len(trials) - new
        self.progress.borrowed += borrowed
        if len(trials) and (origin := str(trials.origin[0])) in BESIDE:
            self.progress.beside[origin] += new - borrowed
        return batch

    def submit_beside(self, cell: CellPlan, trials: Trials) -> _Batch:
        """Likewise for trials that do not count."""
        return self._submit(cell, trials)[0]

    def _submit(self, cell: CellPlan, trials: Trials) -> tuple[_Batch, int, int]:
        """Have trials simulated; how many were not known, and how many of those others had."""
        keys, number = cell.content.keys(trials), cell.cell.number
        places, new = self.ledger.known.claim(keys, number)
        job = Job(number, trials, keys, cell.cell if self._carries else None)
        job = job.some(np.flatnonzero(new))
        borrowed = self.ledger.borrow(cell.cell, job.trials, job.keys)
        if borrowed.any():
            job = job.some(np.flatnonzero(~borrowed))
        self._executor.submit(job)
        return _Batch(trials, places), int(new.sum()), int(borrowed.sum())

    def collect(self, batch: _Batch) -> tuple[Floats, Floats]:
        """Write down what the executor delivers until the batch is complete; its values (N, K), NaN
        where a trial failed, and slopes (N, D), NaN where they are not known."""
        known, places = self.ledger.known, batch.places
        while not known.landed(places).all():
            outcome = self._executor.collect()
            if outcome is not None:
                for rows in outcome.rows.combine_chunks().to_batches():
                    self.ledger.append(rows)
                self.progress.engine_seconds += outcome.seconds
                self.progress.lost += len(outcome.lost)
            self.progress.workers = self._executor.n_workers
            self.progress.nodes = self._executor.n_nodes
            self._watch(self.progress)
        return known.values(places), known.slopes(places)

    def count(self, cell: CellPlan, values: Floats, *, searched: bool = True) -> None:
        """Add a batch's values to the progress; the best are those of the cell's own search."""
        complete = values[~np.isnan(values).any(axis=1)]
        self.progress.done += len(values)
        self.progress.failed += len(values) - len(complete)
        if searched and len(complete):
            self.progress.bound = cell.bound
            objective, number = cell.objective[0], cell.cell.number
            first = complete[np.argmin(objective.sign * complete[:, 0])]
            best = self.progress.best.get(number)
            if best is None or objective.is_better(first[0], best[0]):
                self.progress.best[number] = tuple(first.tolist())
        self._watch(self.progress)


def _own(trials: Trials, cell: CellPlan, origin: str | None) -> Trials:
    return trials if origin is None else trials.renamed(cell.budget, origin)


def told(rows: Floats) -> list[Values]:
    """Values or slopes as samplers are told them: without what is not known."""
    if not rows.shape[1]:
        return [None] * len(rows)
    known = ~np.isnan(rows)
    if known.all():
        return list(map(tuple, rows.tolist()))
    return [tuple(row[own].tolist()) or None for row, own in zip(rows, known, strict=True)]
