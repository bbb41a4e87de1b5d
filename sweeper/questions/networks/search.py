"""Best-first branch and bound among networks and plans, until no cell can beat the best one.

The search is a generator of the cells to simulate, so that it reads like the algorithm on paper.
The next cells depend only on bounds and values of earlier batches, so the rows are the same for any
number of workers. Each run computes bounds of plans and of loads anew; it takes bounds of programs
and simulated values from the ledger, if stored.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dimsweep.engine import InfeasibleError, TooManyError
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.study import DEFAULT
from dimsweep.sweeper.ledger.record import LEFT_OUT, Proof, PrunedCell, Step, StudyRecord
from dimsweep.sweeper.questions.networks.changes import Changes, find_changes
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.shapes import Floats
from dimsweep.sweeper.run.checkpoint import SearchCheckpoint, find_ended_rows
from dimsweep.sweeper.run.loop import AnswerQuestion, Results, Search, SweepDriver, Work
from dimsweep.sweeper.space.trials import Integers, Trials

BATCH = 8  # cells whose programs are bounded before any of them is simulated
_FINE = 0.002  # smallest relative difference in cost of two steps of a front
_STEPS = 200  # maximum steps of a recorded proof


@dataclass
class Frontier:
    """The open cells of a search, and the plans whose cells have no bound yet (waiting plans)."""

    designs: Designs
    #: called after each plan is bounded
    watch: Callable[[], None]
    #: lower bounds in the objective's loss (N,); infinite for closed cells and for waiting plans
    bounds: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.bounds = np.full(len(self.designs), np.inf)
        self._most = np.inf  # USD, that a cell may cost
        self._order: Integers = np.argsort(self.designs.floors, kind="stable")
        self._turn = 0
        # The minimum computation time of the plans from each turn on.
        seconds = self.designs.cells.compute_seconds[self._order]
        self._seconds = np.minimum.accumulate(seconds[::-1])[::-1]

    @property
    def floor(self) -> float:
        """Lower bound on the loss of all cells of the waiting plans."""
        if self._turn == len(self._order):
            return np.inf
        return float(self.designs.floors[self._order[self._turn]])

    @property
    def waiting_bounds(self) -> Floats:
        """Lower bound on the loss of the waiting plans' cells on each network (N,)."""
        seconds = self._seconds[self._turn] if self._turn < len(self._order) else np.inf
        return np.maximum(self.designs.factors * seconds, self.floor)

    @property
    def n_waiting(self) -> int:
        """Number of cells of the waiting plans."""
        first = self.designs.cells.first
        rows = self._order[self._turn :]
        return int((first[rows + 1] - first[rows]).sum())

    def select_batch(self, below: float) -> Integers:
        """Return a batch of open cells with bounds ``below`` a loss, the lowest bounds first."""
        while True:
            open_cells = np.flatnonzero(self.bounds < below)
            if len(open_cells) > BATCH:
                near = np.argpartition(self.bounds[open_cells], BATCH)[: BATCH + 1]
                # Keep all cells that tie with the last one: ties are broken by number.
                last = self.bounds[open_cells][near].max()
                open_cells = open_cells[self.bounds[open_cells] <= last]
            order = np.argsort(self.bounds[open_cells], kind="stable")
            found = open_cells[order][:BATCH]
            enough = len(found) == BATCH and self.bounds[found[-1]] <= self.floor
            if enough or not self.floor < below:
                return found
            self.bound_next_plan()

    def bound_next_plan(self) -> range:
        """Bound the cells of the next waiting plan; return their numbers."""
        row = int(self._order[self._turn])
        start, end = self.designs.cells.first[row : row + 2].tolist()
        self.bounds[start:end] = self.designs.bounds(row)
        self._close_expensive(slice(start, end))
        self._turn += 1
        self.watch()
        return range(start, end)

    def cheapest(self, enough: float, below: float) -> int | None:
        """Return the cheapest open cell with a bound up to ``enough`` and a cost below ``below``.

        Return None if no open cell meets both.
        """
        found = np.flatnonzero((self.bounds <= enough) & (self.designs.costs < below))
        return None if not len(found) else int(found[np.argmin(self.designs.costs[found])])

    def limit_cost(self, most: float) -> None:
        """Close all cells whose network costs more than ``most`` USD."""
        self._most = most
        self._close_expensive(slice(None))

    def _close_expensive(self, cells: slice) -> None:
        if np.isfinite(self._most):
            self.bounds[cells][self.designs.costs[cells] > self._most] = np.inf

    def raise_bounds(self, cells: range, bounds: Floats) -> None:
        """Raise the bounds of the open ones among ``cells`` to ``bounds``."""
        own = self.bounds[cells.start : cells.stop]
        np.maximum(own, bounds, out=own)

    def reopen(self, cell: int, bound: float) -> None:
        """Open a closed cell again, with the given ``bound``."""
        self.bounds[cell] = bound

    def close(self, cell: int) -> float:
        """Close a cell; return the bound that it had."""
        bound, self.bounds[cell] = float(self.bounds[cell]), np.inf
        return bound

    def lower_bound(self) -> float:
        """Return the lower bound on the loss of all open cells."""
        return min(float(self.bounds.min()), self.floor)


@dataclass
class CellRun:
    """The simulation of one cell, in flight or finished."""

    number: int
    #: lower bound of the loss
    bound: float
    #: values of the objectives (1, K); None until they are known
    values: Floats | None = None
    work: Work | None = None
    #: called with the results
    finish: Callable[[Results], None] = field(default=lambda results: None)

    def tell(self, results: Results) -> None:
        """Store the values of the cell's simulation."""
        self.values = results.values
        self.finish(results)


#: Yields the cells to simulate; None while the search waits for values.
Steps = Generator[CellRun | None, None, None]


class SteppedSearch:
    """A search written as a generator, wrapped in the interface that the sweep's loop calls.

    The interface has the methods ask, tell and finish.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps, self._in_flight = steps, deque[CellRun]()

    def lookahead(self, n_workers: int) -> float:
        return np.inf

    def ask(self) -> Sequence[Work]:
        run = next(self._steps, None)
        if run is None:
            return ()
        self._in_flight.append(run)
        assert run.work is not None
        return [run.work]

    def tell(self, results: Sequence[Results]) -> None:
        for each in results:
            self._in_flight.popleft().tell(each)


def simulate_all(runs: Iterator[CellRun | None], record: Callable[[CellRun], None]) -> Steps:
    """Yield the ``runs`` that still need a simulation; call ``record`` for each run with values."""
    started = list[CellRun]()
    for run in filter(None, runs):
        started.append(run)
        if run.values is None:
            yield run
    for run in started:
        while run.values is None:
            yield None
        record(run)


class DesignSearch:
    """The search for the best design of a study, or of one workload of a portfolio."""

    def __init__(self, designs: Designs, driver: SweepDriver) -> None:
        config = designs.composed.config
        self.designs, self._driver, self._ledger = designs, driver, driver.ledger
        self._objective = config.objective[0]
        self._gap, self._budget = config.budget.gap or 0.0, config.budget.trials
        self.frontier = Frontier(designs, driver.show)
        self.best = np.inf  # loss
        self.winner = -1  # cell with the best loss
        self.losses = dict[int, float]()  # of simulated cells
        self._bounds = dict[int, float]()  # of cells that were closed or failed
        self._closed = np.inf  # minimum of these bounds
        self._bounded, self.simulated = set[int](), set[int]()
        self._pruned = dict[int, str]()  # reasons
        self._left_out = set[int]()
        self._program_bounded = set[int]()  # first cells of bounded programs
        self._steps = list[tuple[int, float, float]]()

    def steps(self) -> Steps:
        """Search until the answer is proven or the budget is spent; store the :attr:`result`.

        With the objectives time and cost, search once for each step of the time-cost frontier.
        """
        yield from self._search()
        self.result = proof = self.proof()
        if len(self.designs.composed.config.objective) == 1:
            return
        front = list[Step]()
        while np.isfinite(self.best):
            bound = self._lower_bound()
            yield from self._cheapen(max(self.best, bound * (1 + self._gap)))
            cost = self._cost(self.winner)
            front.append(Step(cost=cost, time=self.losses[self.winner], bound=bound))
            self._limit_cost(cost / (1 + _FINE))
            yield from self._search()
        last = self.proof()
        counts = {name: getattr(last, name) for name in ("bounded", "simulated", "excluded")}
        kept = _drop_dominated(front)
        update = {"front": kept, "refused": last.refused, **counts}
        self.result = proof.model_copy(update=update)

    def _search(self) -> Steps:
        while len(self.simulated) < self._budget:
            batch = self.frontier.select_batch(self._goal).tolist()
            if not batch:
                break
            new = [self.bound_programs(number) for number in batch]
            if any(new) and np.isfinite(self.best):
                continue  # other cells may be more promising now
            yield from self._evaluate(batch[: self._budget - len(self.simulated)], self._goal)
            self._record_step()

    def bound_programs(self, number: int) -> bool:
        """Bound all cells that share the program of cell ``number``.

        Return False if an earlier call has bounded them.
        """
        own = self.designs.same_program_cells(number)
        if own.start in self._program_bounded:
            return False
        bounds = self._ledger.find_bounds(self.ledger_number(own.start))
        if bounds is None:
            bounds = self.designs.program_bounds(number)
            self._ledger.add_bounds(self.ledger_number(own.start), bounds)
        self._program_bounded.add(own.start)
        if bounds.any():
            self._bounded.update(own)
        self.frontier.raise_bounds(own, bounds)
        return True

    def _cheapen(self, enough: float) -> Steps:
        """Find the cheapest cell with a loss of at most ``enough``; it becomes the best cell."""
        while True:
            near = [n for n, time in self.losses.items() if time <= enough]
            self.winner = min(near, key=self._cost)
            if len(self.simulated) >= self._budget:
                return
            below = self._cost(self.winner) / (1 + _FINE)
            number = self.frontier.cheapest(enough, below)
            if number is None:
                return
            if not self.bound_programs(number):
                yield from self._evaluate([number], np.nextafter(enough, np.inf))

    def _cost(self, number: int) -> float:
        return float(self.designs.costs[number])

    def _limit_cost(self, most: float) -> None:
        """Restrict the search to cells whose network costs at most ``most`` USD."""
        self.frontier.limit_cost(most)
        self.losses = {n: time for n, time in self.losses.items() if self._cost(n) <= most}
        self.winner = min(self.losses, key=self.losses.__getitem__, default=-1)
        self.best = self.losses.get(self.winner, np.inf)
        kept = {n: bound for n, bound in self._bounds.items() if self._cost(n) <= most}
        self._bounds = {n: bound for n, bound in kept.items() if bound >= self._goal}
        self._closed = min(self._bounds.values(), default=np.inf)
        for number in kept.keys() - self._bounds.keys():
            self.frontier.reopen(number, kept[number])

    @property
    def _goal(self) -> float:
        """Loss from which on a cell's lower bound excludes the cell."""
        return self.best / (1 + self._gap)

    def _evaluate(self, batch: list[int], goal: float) -> Steps:
        """Bound the cells of a ``batch`` by building their programs.

        Cells whose bound is still below the loss ``goal`` are simulated.
        """
        runs = (self.begin(number, lambda bound: bound >= goal) for number in batch)
        yield from simulate_all(runs, self.record)

    def begin(self, number: int, enough: Callable[[float], bool]) -> CellRun | None:
        """Bound a cell by its program, and return its simulation.

        Return None if ``enough`` is true of the bound, which excludes the cell, or if it is
        infeasible.
        """
        bound = self.frontier.close(number)
        self._bounded.add(number)
        if self._was_closed(number, enough):
            return None
        places = find_ended_rows(
            self._ledger, self.designs.composed.config, self.ledger_number(number)
        )
        if places is None:
            return self._plan(number, bound, enough)
        self._driver.count_ended(places)
        bound = self._ledger.find_closing_bound(self.ledger_number(number)) or bound
        return CellRun(number, bound, self._ledger.index.values(places.astype(np.int64)))

    def ledger_number(self, number: int) -> int:
        """Return the number of a cell in the ledger."""
        return self.designs.part.first + number

    def _was_closed(self, number: int, enough: Callable[[float], bool]) -> bool:
        """Return whether an earlier run found a cell infeasible, or excluded it by a bound.

        ``enough`` decides whether the recorded bound still excludes the cell. If not, it is
        simulated.
        """
        if (pruned := self._ledger.find_pruned(self.ledger_number(number))) is not None:
            self._prune(number, pruned.reason)
            return True
        bound = self._ledger.find_closing_bound(self.ledger_number(number))
        if bound is None or not enough(bound):
            return False
        self._close(number, bound)
        return True

    @property
    def n_bounded(self) -> int:
        """Number of cells that were bounded by building their program."""
        return len(self._bounded)

    def _close(self, number: int, bound: float) -> None:
        """Close a cell that was not simulated, and record the ``bound`` that excluded it."""
        self._bounds[number] = bound
        self._closed = min(self._closed, bound)

    def _prune(self, number: int, reason: str) -> None:
        self._pruned[number] = reason
        self._driver.progress.pruned += 1

    def _plan(self, number: int, bound: float, enough: Callable[[float], bool]) -> CellRun | None:
        """Plan a cell; return its simulation unless ``enough`` says that its bound excludes it.

        A cell with too many messages to simulate is left out, and keeps its ``bound``.
        """
        found = self.designs.plan(number)
        if isinstance(found, PrunedCell) and found.left_out:
            self._left_out.add(number)
            self._close(number, bound)
            return None
        if isinstance(found, PrunedCell):
            self._ledger.add_pruned(self.ledger_number(number), found)
            self._prune(number, found.reason)
            return None
        assert found.plan.bound is not None
        bound = self._objective.loss(found.plan.bound)
        if enough(bound):
            self._ledger.add_closed(self.ledger_number(number), bound)
            self._close(number, bound)
            return None
        self._ledger.add_cell(found.record)
        cell, checkpoint = found.plan, SearchCheckpoint(found.plan, self._ledger)

        def finish(results: Results) -> None:
            self._driver.progress.best.pop(self.ledger_number(number), None)
            checkpoint.tell(results.places)
            checkpoint.finish()

        return CellRun(number, bound, work=Work(cell, Trials.from_list(cell.first)), finish=finish)

    def record(self, run: CellRun) -> None:
        """Record the values of a cell's simulation; if it failed, record only the cell's bound."""
        number = run.number
        self.simulated.add(number)
        assert run.values is not None
        losses = self._objective.loss(run.values[:, 0])
        if np.isnan(losses).all():
            if self._ledger.find_closing_bound(self.ledger_number(number)) is None:
                self._ledger.add_closed(self.ledger_number(number), run.bound)
            self._close(number, run.bound)
            return
        self.losses[number] = least = float(np.nanmin(losses))
        if least < self.best:
            self.best, self.winner = least, number

    def reopen(self) -> dict[int, float]:
        """Open the cells that bounds excluded; return the other closed cells' bounds, by number."""
        stuck = self.simulated | self._left_out
        for number in self._bounds.keys() - stuck:
            self.frontier.reopen(number, self._bounds[number])
        self._bounds = {n: bound for n, bound in self._bounds.items() if n in stuck}
        self._closed = min(self._bounds.values(), default=np.inf)
        return self._bounds

    def _lower_bound(self) -> float:
        """Return the lower bound on the loss of all cells of the search."""
        return min(self.frontier.lower_bound(), self._closed, self.best)

    def _record_step(self) -> None:
        if np.isfinite(self.best):
            values = map(self._objective.loss, (self.best, self._lower_bound()))
            best, bound = values
            self._steps.append((len(self._bounded), best, bound))
            self._driver.progress.bound = bound

    def proof(self) -> Proof:
        frontier, known = self.frontier, np.isfinite(self.best)
        waiting, left_out = frontier.n_waiting, len(self._left_out)
        bounded, simulated, pruned = map(len, (self._bounded, self.simulated, self._pruned))
        reasons = {**Counter(self._pruned.values()), LEFT_OUT: left_out}
        return Proof(
            cells=len(self.designs),
            excluded=(
                waiting,
                len(self.designs) - waiting - bounded,
                bounded - simulated - pruned - left_out,
            ),
            bounded=bounded,
            simulated=simulated,
            refused={**self.designs.refused, **{why: n for why, n in reasons.items() if n}},
            best=self._objective.loss(self.best) if known else None,
            bound=self._objective.loss(self._lower_bound()) if known else None,
            steps=thin_out(self._steps),
        )

    def check_feasible(self) -> None:
        """Raise :class:`InfeasibleError` if no cell is feasible."""
        if len(self._pruned) == len(self.designs):
            why = ", ".join(f"{n:,} {reason}" for reason, n in self.proof().refused.items())
            raise InfeasibleError(f"no cell is feasible: {why}", where="space")

    def find_changes(self) -> Changes:
        """Return the changes after which the best design loses; none without default what-ifs."""
        config = self.designs.composed.config
        # With outages each of hundreds of simulations would be several simulations by flows.
        asked = config.what_if == DEFAULT and not config.reliability.outages
        alone = len(config.objective) == 1
        if not asked or not alone or self.winner < 0:
            return Changes()
        try:
            return find_changes(self.designs, self.winner, self.losses)
        except TooManyError:  # a cell that may win is left out
            return Changes()


def thin_out(steps: Sequence[tuple[int, float, float]]) -> tuple[tuple[int, float, float], ...]:
    """Return some of the steps of a proof, at most a fixed number, with the last one."""
    every = max(1, -(-len(steps) // _STEPS))
    return (*steps[:-1:every], *steps[-1:])


def _drop_dominated(front: list[Step]) -> tuple[Step, ...]:
    """Drop the steps of a frontier that a cheaper step matches in time; keep the lower bound."""
    kept = list[Step]()
    for step in front:
        bound = step.bound
        while kept and kept[-1].time >= step.time:
            bound = min(bound, kept.pop().bound)
        kept.append(step.model_copy(update={"bound": bound}))
    return tuple(kept)


class NetworksQuestion(AnswerQuestion):
    """The question of the best network, together with the best parallel plan on it."""

    source: Designs

    def __init__(self, designs: Designs) -> None:
        self.source = designs
        self._proof: Proof | None = None

    @classmethod
    def from_study(cls, composed: ComposedConfig) -> Self | None:
        """Return the question of a study that searches among networks and plans, or None."""
        space = composed.config.space
        return None if space.network is None and space.plan is None else cls(Designs(composed))

    @property
    def n_trials(self) -> int:
        """Maximum number of simulations."""
        return min(len(self.source), self.source.composed.config.budget.trials)

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        search = DesignSearch(self.source, driver)
        yield SteppedSearch(search.steps())
        search.check_feasible()
        self._proof = search.result.model_copy(update=search.find_changes()._asdict())

    def add_findings(self, study: StudyRecord) -> StudyRecord:
        return study.model_copy(update={"proof": self._proof})
