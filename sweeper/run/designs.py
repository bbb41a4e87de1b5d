"""A search among networks and plans: best first, by bounds, until none can be better than the best.

What is looked at next depends on the bounds and on the values that were told, batch by batch, so
rows are the same for any number of actors.  Bounds of plans and loads are worked out again in each
run; those of programs, and values, are taken from the ledger where it has them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dimsweep.engine import TooManyError
from dimsweep.sweeper.config.study import DEFAULT
from dimsweep.sweeper.ledger.record import LEFT_OUT, Proof, PrunedCell, Step
from dimsweep.sweeper.networks.networks import Floats
from dimsweep.sweeper.run.changes import Changes, changes_of
from dimsweep.sweeper.run.standing import Standing, ended
from dimsweep.sweeper.space.trials import Integers, Trials
from dimsweep.sweeper.study.designs import Designs

if TYPE_CHECKING:
    from dimsweep.sweeper.run.driver import Driver

_BATCH = 8  # cells whose programs are bounded before any of them is simulated
_FULL = "cells do not fit the memory, as their schedule runs"
_FINE = 0.002  # relative: designs of a front that differ less in cost stand for one another
_STEPS = 200  # of the proof, at most, that are kept


@dataclass
class Frontier:
    """The cells that may yet be the best, in arrays: what each is not below in the objective's loss
    (N,), infinite once it is done with and before its plan's turn has come."""

    designs: Designs
    watch: Callable[[], None]  # called while plans' turns come
    bounds: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.bounds = np.full(len(self.designs), np.inf)
        self._most = np.inf  # USD, that a cell may cost
        self._order: Integers = np.argsort(self.designs.floors, kind="stable")
        self._turn = 0

    @property
    def floor(self) -> float:
        """What no cell is below whose plan's turn has not come."""
        if self._turn == len(self._order):
            return np.inf
        return float(self.designs.floors[self._order[self._turn]])

    @property
    def n_waiting(self) -> int:
        """Cells of such plans."""
        first = self.designs.cells.first
        rows = self._order[self._turn :]
        return int((first[rows + 1] - first[rows]).sum())

    def best(self, below: float) -> Integers:
        """The most promising cells that are not done with, in order; a batch at most, and none that
        is not ``below`` a loss."""
        while True:
            open_cells = np.flatnonzero(self.bounds < below)
            if len(open_cells) > _BATCH:
                near = np.argpartition(self.bounds[open_cells], _BATCH)[: _BATCH + 1]
                # All that are as good as the last one, so that ties are broken by number.
                last = self.bounds[open_cells][near].max()
                open_cells = open_cells[self.bounds[open_cells] <= last]
            order = np.argsort(self.bounds[open_cells], kind="stable")
            found = open_cells[order][:_BATCH]
            enough = len(found) == _BATCH and self.bounds[found[-1]] <= self.floor
            if enough or not self.floor < below:
                return found
            row = int(self._order[self._turn])
            start, end = self.designs.cells.first[row : row + 2].tolist()
            self.bounds[start:end] = self.designs.bounds(row)
            self._limit(slice(start, end))
            self._turn += 1
            self.watch()

    def cheapest(self, enough: float, below: float) -> int | None:
        """The cheapest of the cells that may have a loss which is ``enough``, at a cost ``below``
        that; None if there is none."""
        found = np.flatnonzero((self.bounds <= enough) & (self.designs.costs < below))
        return None if not len(found) else int(found[np.argmin(self.designs.costs[found])])

    def limit(self, most: float) -> None:
        """No cell that costs more than that counts any more."""
        self._most = most
        self._limit(slice(None))

    def _limit(self, cells: slice) -> None:
        if np.isfinite(self._most):
            self.bounds[cells][self.designs.costs[cells] > self._most] = np.inf

    def lift(self, cells: range, bounds: Floats) -> None:
        """More is known of cells, those that are done with apart."""
        own = self.bounds[cells.start : cells.stop]
        np.maximum(own, bounds, out=own)

    def back(self, cell: int, bound: float) -> None:
        """A cell that was done with may yet be the best."""
        self.bounds[cell] = bound

    def take(self, cell: int) -> float:
        """The bound of a cell, which is done with."""
        bound, self.bounds[cell] = float(self.bounds[cell]), np.inf
        return bound

    def least(self) -> float:
        """What none of the cells is below that are not done with."""
        return min(float(self.bounds.min()), self.floor)


class Search:
    """The search of a study."""

    def __init__(self, designs: Designs, driver: "Driver") -> None:
        config = designs.composed.config
        self._designs, self._driver, self._ledger = designs, driver, driver.ledger
        self._objective = config.objective[0]
        self._gap, self._budget = config.budget.gap or 0.0, config.budget.trials
        self._frontier = Frontier(designs, driver.show)
        self._best = np.inf  # loss
        self._winner = -1  # whose loss is the best
        self._times = dict[int, float]()  # losses of cells that were simulated
        self._bounds = dict[int, float]()  # of cells that were not, or failed
        self._closed = np.inf  # the least of these
        self._bounded, self._simulated, self._pruned = set[int](), set[int](), set[int]()
        self._left_out = set[int]()
        self._lifted = set[int]()  # the first one of cells that are alike, once they are bounded
        self._steps = list[tuple[int, float, float]]()

    def run(self) -> Proof:
        """Search to the end, or to the budget of simulations; of time and cost once for each step
        of what a design may cost."""
        self._search()
        proof = self._proof()
        if len(self._designs.composed.config.objective) == 1:
            return proof
        front = list[Step]()
        while np.isfinite(self._best):
            bound = self._least()
            self._cheapen(max(self._best, bound * (1 + self._gap)))
            cost = self._cost(self._winner)
            front.append(Step(cost=cost, time=self._times[self._winner], bound=bound))
            self._cheaper(cost / (1 + _FINE))
            self._search()
        last = self._proof()
        counts = {name: getattr(last, name) for name in ("bounded", "simulated", "excluded")}
        kept = _undominated(front)
        return proof.model_copy(update={"front": kept, "refused": last.refused, **counts})

    def _search(self) -> None:
        while len(self._simulated) < self._budget:
            batch = self._frontier.best(self._goal).tolist()
            if not batch:
                break
            new = [self._lift(number) for number in batch]
            if any(new) and np.isfinite(self._best):
                continue  # others may be more promising now
            self._look_at(batch[: self._budget - len(self._simulated)], self._goal)
            self._note()

    def _lift(self, number: int) -> bool:
        """Bound a cell, and all that are alike, by its program; whether that is new."""
        own = self._designs.alike(number)
        if own.start in self._lifted:
            return False
        bounds = self._ledger.bounds(own.start)
        if bounds is None:
            bounds = self._designs.programs(number)
            self._ledger.keep_bounds(own.start, bounds)
        self._lifted.add(own.start)
        if bounds.any():
            self._bounded.update(own)
        self._frontier.lift(own, bounds)
        return True

    def _cheapen(self, enough: float) -> None:
        """Take the cheapest of those whose time is ``enough`` in the place of the fastest."""
        while True:
            near = [n for n, time in self._times.items() if time <= enough]
            self._winner = min(near, key=self._cost)
            if len(self._simulated) >= self._budget:
                return
            below = self._cost(self._winner) / (1 + _FINE)
            number = self._frontier.cheapest(enough, below)
            if number is None:
                return
            if not self._lift(number):
                self._look_at([number], np.nextafter(enough, np.inf))

    def _cost(self, number: int) -> float:
        return float(self._designs.costs[number])

    def _cheaper(self, most: float) -> None:
        """Go on among the cells that cost no more than that."""
        self._frontier.limit(most)
        self._times = {n: time for n, time in self._times.items() if self._cost(n) <= most}
        self._winner = min(self._times, key=self._times.__getitem__, default=-1)
        self._best = self._times.get(self._winner, np.inf)
        kept = {n: bound for n, bound in self._bounds.items() if self._cost(n) <= most}
        self._bounds = {n: bound for n, bound in kept.items() if bound >= self._goal}
        self._closed = min(self._bounds.values(), default=np.inf)
        for number in kept.keys() - self._bounds.keys():
            self._frontier.back(number, kept[number])

    @property
    def _goal(self) -> float:
        """A cell that is not below it need not be looked at."""
        return self._best / (1 + self._gap)

    def _look_at(self, batch: list[int], goal: float) -> None:
        """Bound the programs of cells at their own bandwidths, and simulate those that may be
        better than a ``goal``."""
        waiting = list[tuple[int, float, Callable[[], Floats]]]()
        for number in batch:
            bound = self._frontier.take(number)
            self._bounded.add(number)
            places = ended(self._ledger, self._designs.composed.config, number)
            if places is not None:
                self._driver.take_up_ended(places)
                known = partial(self._ledger.known.values, places.astype(np.int64))
                waiting.append((number, bound, known))
            elif not self._is_over(number, goal):
                waiting += self._begin(number, bound, goal)
        for number, bound, collect in waiting:
            self._tell(number, bound, collect())

    def _is_over(self, number: int, goal: float) -> bool:
        """Whether an earlier run closed a cell, or found that it cannot be."""
        if self._ledger.is_pruned(number):
            self._prune(number)
            return True
        bound = self._ledger.closed(number)
        if bound is None or bound < goal:
            return False
        self._close(number, bound)
        return True

    def _close(self, number: int, bound: float) -> None:
        """No time of a cell is known, and none is below its bound."""
        self._bounds[number] = bound
        self._closed = min(self._closed, bound)

    def _prune(self, number: int) -> None:
        self._pruned.add(number)
        self._driver.progress.pruned += 1

    def _begin(
        self, number: int, bound: float, goal: float
    ) -> list[tuple[int, float, Callable[[], Floats]]]:
        """Plan a cell, and have it simulated unless its bound closes it; it is left out, and may
        yet be as good as its ``bound``, if that takes too long."""
        found = self._designs.plan(number)
        if isinstance(found, PrunedCell) and found.left_out:
            self._left_out.add(number)
            self._close(number, bound)
            return []
        if isinstance(found, PrunedCell):
            self._ledger.prune(number, found)
            self._prune(number)
            return []
        assert found.plan.bound is not None
        bound = self._objective.loss(found.plan.bound)
        if bound >= goal:
            self._ledger.close_cell(number, bound)
            self._close(number, bound)
            return []
        self._ledger.enter(found.record)
        cell, standing = found.plan, Standing(found.plan, self._ledger)
        batch = self._driver.submit(cell, Trials.of(cell.first))

        def collect() -> Floats:
            values, _ = self._driver.collect(batch)
            self._driver.count(cell, values)
            self._driver.progress.best.pop(number, None)
            standing.told(batch.places)
            standing.finish()
            return values

        return [(number, bound, collect)]

    def _tell(self, number: int, bound: float, values: Floats) -> None:
        """A cell's values are known; one that failed is known by its ``bound`` only."""
        self._simulated.add(number)
        losses = self._objective.loss(values[:, 0])
        if np.isnan(losses).all():
            self._close(number, bound)
            return
        self._times[number] = least = float(np.nanmin(losses))
        if least < self._best:
            self._best, self._winner = least, number

    def _least(self) -> float:
        """What no cell of all is below."""
        return min(self._frontier.least(), self._closed, self._best)

    def _note(self) -> None:
        if np.isfinite(self._best):
            values = map(self._objective.loss, (self._best, self._least()))
            best, bound = values
            self._steps.append((len(self._bounded), best, bound))
            self._driver.progress.bound = bound

    def _proof(self) -> Proof:
        frontier, known = self._frontier, np.isfinite(self._best)
        waiting, left_out = frontier.n_waiting, len(self._left_out)
        bounded, simulated, pruned = map(len, (self._bounded, self._simulated, self._pruned))
        reasons = ((_FULL, pruned), (LEFT_OUT, left_out))
        every = max(1, -(-len(self._steps) // _STEPS))
        steps = [*self._steps[:-1:every], *self._steps[-1:]]
        return Proof(
            cells=len(self._designs),
            excluded=(
                waiting,
                len(self._designs) - waiting - bounded,
                bounded - simulated - pruned - left_out,
            ),
            bounded=bounded,
            simulated=simulated,
            refused={**self._designs.refused, **{why: n for why, n in reasons if n}},
            best=self._objective.loss(self._best) if known else None,
            bound=self._objective.loss(self._least()) if known else None,
            steps=tuple(steps),
        )

    def changes(self) -> Changes:
        """What would change the answer, if the study asks for what-ifs that it does not name."""
        asked = self._designs.composed.config.what_if == DEFAULT
        alone = len(self._designs.composed.config.objective) == 1
        if not asked or not alone or self._winner < 0:
            return Changes()
        try:
            return changes_of(self._designs, self._winner)
        except TooManyError:  # some of those that may win are left out
            return Changes()


def _undominated(front: list[Step]) -> tuple[Step, ...]:
    """The steps of a front, the dearest first, but for those that a cheaper one is as fast as,
    which is then not known to be above a bound that is higher than theirs."""
    kept = list[Step]()
    for step in front:
        bound = step.bound
        while kept and kept[-1].time >= step.time:
            bound = min(bound, kept.pop().bound)
        kept.append(step.model_copy(update={"bound": bound}))
    return tuple(kept)


def search_designs(designs: Designs, driver: "Driver") -> Proof:
    """Search among a study's networks and plans; how it ended."""
    search = Search(designs, driver)
    proof = search.run()
    return proof.model_copy(update=search.changes()._asdict())
