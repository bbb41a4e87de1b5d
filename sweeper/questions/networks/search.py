"""A search among networks and plans: best first, by bounds, until none can be better than the best.

The search is a generator of the cells to simulate, so that it reads as the algorithm on paper.  The
next cells depend on the bounds and on the values of the cells before, batch by batch; so the rows
are the same for any number of workers.  Bounds of plans and loads are worked out again in each run;
bounds of programs, and values, are taken from the ledger where it has them.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dimsweep.engine import InfeasibleError, TooManyError
from dimsweep.sweeper.config.compose import Composed
from dimsweep.sweeper.config.study import DEFAULT
from dimsweep.sweeper.ledger.record import LEFT_OUT, Proof, PrunedCell, Step, StudyRecord
from dimsweep.sweeper.questions.networks.changes import Changes, find_changes
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.shapes import Floats
from dimsweep.sweeper.run.checkpoint import SearchCheckpoint, find_ended_rows
from dimsweep.sweeper.run.loop import AnswerQuestion, Results, Search, SweepDriver, Work
from dimsweep.sweeper.space.trials import Integers, Trials

BATCH = 8  # cells whose programs are bounded before any of them is simulated
_FINE = 0.002  # relative: designs of a front that differ less in cost stand for one another
_STEPS = 200  # of the proof, at most, that are kept


@dataclass
class Frontier:
    """The open cells, in arrays: lower bounds in the objective's loss (N,), infinite for a closed
    cell and for one whose plan is waiting."""

    designs: Designs
    watch: Callable[[], None]  # called while plans' turns come
    bounds: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.bounds = np.full(len(self.designs), np.inf)
        self._most = np.inf  # USD, that a cell may cost
        self._order: Integers = np.argsort(self.designs.floors, kind="stable")
        self._turn = 0
        # The least that plans compute for, from each turn on.
        seconds = self.designs.cells.compute_seconds[self._order]
        self._seconds = np.minimum.accumulate(seconds[::-1])[::-1]

    @property
    def floor(self) -> float:
        """Lower bound of all cells of waiting plans."""
        if self._turn == len(self._order):
            return np.inf
        return float(self.designs.floors[self._order[self._turn]])

    @property
    def waiting_bounds(self) -> Floats:
        """Lower bounds of the cells of waiting plans, by network (N,)."""
        seconds = self._seconds[self._turn] if self._turn < len(self._order) else np.inf
        return np.maximum(self.designs.factors * seconds, self.floor)

    @property
    def n_waiting(self) -> int:
        """Number of cells of waiting plans."""
        first = self.designs.cells.first
        rows = self._order[self._turn :]
        return int((first[rows + 1] - first[rows]).sum())

    def select_batch(self, below: float) -> Integers:
        """Return the most promising open cells ``below`` a loss, in order, at most a batch."""
        while True:
            open_cells = np.flatnonzero(self.bounds < below)
            if len(open_cells) > BATCH:
                near = np.argpartition(self.bounds[open_cells], BATCH)[: BATCH + 1]
                # All that are as good as the last one, so that ties are broken by number.
                last = self.bounds[open_cells][near].max()
                open_cells = open_cells[self.bounds[open_cells] <= last]
            order = np.argsort(self.bounds[open_cells], kind="stable")
            found = open_cells[order][:BATCH]
            enough = len(found) == BATCH and self.bounds[found[-1]] <= self.floor
            if enough or not self.floor < below:
                return found
            self.bound_next_plan()

    def bound_next_plan(self) -> range:
        """Bound the next waiting plan; return its cells."""
        row = int(self._order[self._turn])
        start, end = self.designs.cells.first[row : row + 2].tolist()
        self.bounds[start:end] = self.designs.bounds(row)
        self._close_expensive(slice(start, end))
        self._turn += 1
        self.watch()
        return range(start, end)

    def cheapest(self, enough: float, below: float) -> int | None:
        """Return the cheapest open cell whose loss may be ``enough``, at a cost ``below`` a limit,
        or None."""
        found = np.flatnonzero((self.bounds <= enough) & (self.designs.costs < below))
        return None if not len(found) else int(found[np.argmin(self.designs.costs[found])])

    def limit_cost(self, most: float) -> None:
        """Close all cells that cost more than ``most``."""
        self._most = most
        self._close_expensive(slice(None))

    def _close_expensive(self, cells: slice) -> None:
        if np.isfinite(self._most):
            self.bounds[cells][self.designs.costs[cells] > self._most] = np.inf

    def raise_bounds(self, cells: range, bounds: Floats) -> None:
        """Raise the bounds of open cells."""
        own = self.bounds[cells.start : cells.stop]
        np.maximum(own, bounds, out=own)

    def reopen(self, cell: int, bound: float) -> None:
        """Open a closed cell again."""
        self.bounds[cell] = bound

    def close(self, cell: int) -> float:
        """Close a cell; return its bound."""
        bound, self.bounds[cell] = float(self.bounds[cell]), np.inf
        return bound

    def lower_bound(self) -> float:
        """Return the lower bound of all open cells."""
        return min(float(self.bounds.min()), self.floor)


@dataclass
class CellRun:
    """A cell in flight: its number, its lower bound, the work to submit, and its values (1, K),
    None until they are known."""

    number: int
    bound: float
    values: Floats | None = None
    work: Work | None = None
    finish: Callable[[Results], None] = field(default=lambda results: None)

    def tell(self, results: Results) -> None:
        """Take the cell's values."""
        self.values = results.values
        self.finish(results)


#: The cells to simulate; None where the search waits for values.
Steps = Generator[CellRun | None, None, None]


class SteppedSearch:
    """A search that is a generator of cells to simulate, as the loop of a sweep runs it."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._in_flight = steps, deque[CellRun]()

    def lookahead(self, n_workers: int) -> float:
        return np.inf

    def ask(self) -> Sequence[Work]:
        begun = next(self._steps, None)
        if begun is None:
            return ()
        self._in_flight.append(begun)
        assert begun.work is not None
        return [begun.work]

    def tell(self, results: Sequence[Results]) -> None:
        for each in results:
            self._in_flight.popleft().tell(each)


def simulate_all(
    begun: Iterator[CellRun | None], tell: Callable[[CellRun], None]
) -> Generator[CellRun | None, None, None]:
    """Yield the begun cells without values; then tell each one, in order, as soon as its values
    are known."""
    found = list[CellRun]()
    for each in filter(None, begun):
        found.append(each)
        if each.values is None:
            yield each
    for each in found:
        while each.values is None:
            yield None
        tell(each)


class DesignSearch:
    """The search among the designs of a study, or of one of the workloads that share a network."""

    def __init__(self, designs: Designs, driver: SweepDriver) -> None:
        config = designs.composed.config
        self.designs, self._driver, self._ledger = designs, driver, driver.ledger
        self._objective = config.objective[0]
        self._gap, self._budget = config.budget.gap or 0.0, config.budget.trials
        self.frontier = Frontier(designs, driver.show)
        self.best = np.inf  # loss
        self.winner = -1  # whose loss is the best
        self.losses = dict[int, float]()  # losses of cells that were simulated
        self._bounds = dict[int, float]()  # of cells that were not, or failed
        self._closed = np.inf  # the least of these
        self._bounded, self.simulated = set[int](), set[int]()
        self._pruned = dict[int, str]()  # reasons
        self._left_out = set[int]()
        self._program_bounded = set[
            int
        ]()  # the first one of cells that are alike, once they are bounded
        self._steps = list[tuple[int, float, float]]()

    def steps(self) -> Steps:
        """Search until the proof, or the budget of simulations, is complete; of time and cost once
        for each step of a design's cost. The proof is then the :attr:`result`."""
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
                continue  # others may be more promising now
            yield from self._evaluate(batch[: self._budget - len(self.simulated)], self._goal)
            self._record_step()

    def bound_programs(self, number: int) -> bool:
        """Bound a cell, and all that are alike, by its program; return whether that is new."""
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
        """Replace the fastest cell by the cheapest one whose time is ``enough``."""
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
        """Continue with the cells that cost at most ``most``."""
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
        """A cell whose bound is not below it is closed."""
        return self.best / (1 + self._gap)

    def _evaluate(self, batch: list[int], goal: float) -> Steps:
        """Bound the programs of cells at their own bandwidths, and simulate those that may be
        better than a ``goal``."""
        begun = (self.begin(number, lambda bound: bound >= goal) for number in batch)
        yield from simulate_all(begun, self.record)

    def begin(self, number: int, enough: Callable[[float], bool]) -> CellRun | None:
        """Bound the program of a cell at its own bandwidths; return the cell to simulate, or None
        if that bound is ``enough`` to close it, or it is infeasible."""
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
        """Return whether an earlier run closed a cell, or found it infeasible. A closed cell may
        have been simulated later, when less was enough."""
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
        """Number of cells whose program was bounded."""
        return len(self._bounded)

    def _close(self, number: int, bound: float) -> None:
        """Close a cell that was not simulated, by its bound."""
        self._bounds[number] = bound
        self._closed = min(self._closed, bound)

    def _prune(self, number: int, reason: str) -> None:
        self._pruned[number] = reason
        self._driver.progress.pruned += 1

    def _plan(self, number: int, bound: float, enough: Callable[[float], bool]) -> CellRun | None:
        """Plan a cell; return it unless its bound closes it. A cell that takes too long to
        simulate is left out, and may be as good as its ``bound``."""
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
        """Take a cell's values; a failed cell is known by its bound only."""
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
        """Open the cells that their bounds closed; return the bounds of those that cannot be
        simulated."""
        stuck = self.simulated | self._left_out
        for number in self._bounds.keys() - stuck:
            self.frontier.reopen(number, self._bounds[number])
        self._bounds = {n: bound for n, bound in self._bounds.items() if n in stuck}
        self._closed = min(self._bounds.values(), default=np.inf)
        return self._bounds

    def _lower_bound(self) -> float:
        """Return the lower bound of all cells."""
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
        """Return what would change the answer, if the study asks for default what-ifs."""
        config = self.designs.composed.config
        # With outages each of hundreds of looks would be several simulations by flows.
        asked = config.what_if == DEFAULT and not config.reliability.outages
        alone = len(config.objective) == 1
        if not asked or not alone or self.winner < 0:
            return Changes()
        try:
            return find_changes(self.designs, self.winner, self.losses)
        except TooManyError:  # some of those that may win are left out
            return Changes()


def thin_out(steps: Sequence[tuple[int, float, float]]) -> tuple[tuple[int, float, float], ...]:
    """Thin out the steps of a proof, and keep the last one."""
    every = max(1, -(-len(steps) // _STEPS))
    return (*steps[:-1:every], *steps[-1:])


def _drop_dominated(front: list[Step]) -> tuple[Step, ...]:
    """Return the steps of a front, the most expensive first, without those that a cheaper one is
    as fast as; that one's bound is then at most theirs."""
    kept = list[Step]()
    for step in front:
        bound = step.bound
        while kept and kept[-1].time >= step.time:
            bound = min(bound, kept.pop().bound)
        kept.append(step.model_copy(update={"bound": bound}))
    return tuple(kept)


class NetworksQuestion(AnswerQuestion):
    """Which network, and which plan on it, is the best of all?"""

    source: Designs

    def __init__(self, designs: Designs) -> None:
        self.source = designs
        self._proof: Proof | None = None

    @classmethod
    def from_study(cls, composed: Composed) -> Self | None:
        """Return the question of a study that searches among networks and plans."""
        space = composed.config.space
        return None if space.network is None and space.plan is None else cls(Designs(composed))

    @property
    def n_trials(self) -> int:
        """Number of trials at most."""
        return min(len(self.source), self.source.composed.config.budget.trials)

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        search = DesignSearch(self.source, driver)
        yield SteppedSearch(search.steps())
        search.check_feasible()
        self._proof = search.result.model_copy(update=search.find_changes()._asdict())

    def add_findings(self, study: StudyRecord) -> StudyRecord:
        return study.model_copy(update={"proof": self._proof})
