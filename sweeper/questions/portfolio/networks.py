"""Search one network for several workloads; each workload has its own best plan on it.

First the search runs for each workload alone. Then networks are searched best first. Each pair of a
workload and a network has a lower bound. The measure combines the losses of all workloads; applied
to the lower bounds it bounds the network. A network whose bound reaches the measure of the best
network is excluded. The next batch depends only on bounds and values.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import Weighing
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.overrides import format_choice
from dimsweep.sweeper.ledger.record import WORKLOAD, PortfolioRecord, Proof, PrunedCell, StudyRecord
from dimsweep.sweeper.questions.networks.designs import Designs, StudyPart, check_designs
from dimsweep.sweeper.questions.networks.placements import Longs
from dimsweep.sweeper.questions.networks.search import (
    BATCH,
    CellRun,
    DesignSearch,
    SteppedSearch,
    Steps,
    simulate_all,
    thin_out,
)
from dimsweep.sweeper.questions.networks.shapes import Floats, build_shapes
from dimsweep.sweeper.questions.portfolio.portfolio import SharedMeasure, build_weighing
from dimsweep.sweeper.run.loop import AnswerQuestion, Search, SweepDriver
from dimsweep.sweeper.space.plans import Refusals
from dimsweep.sweeper.study.cell import CellSource, PlannedCell


class SharedDesigns(CellSource):
    """The cells of each workload of a portfolio, on networks that all workloads share.

    The cells are numbered workload by workload.  ``refused`` counts infeasible networks by reason.
    Raises :class:`DimsweepError` for a study that cannot be searched by bounds.
    """

    always_streams = True

    def __init__(self, composed: ComposedConfig, weighing: Weighing) -> None:
        self.composed, self.weighing, config = composed, weighing, composed.config
        self.refused = Refusals()
        with composed.adding_sources():
            check_designs(config)
            assert config.space.network is not None
            shapes = build_shapes(config, config.space.network, self.refused)
        found, first = list[Designs](), 0
        for name in config.portfolio.workloads:
            part = StudyPart(config, {WORKLOAD: name}, first, shapes)
            found.append(_build_designs(composed, name, part))
            first += len(found[-1])
        self.designs: Sequence[Designs] = found
        self.axes = {key: () for each in found for key in each.axes}

    def __len__(self) -> int:
        return sum(map(len, self.designs))

    @cached_property
    def n_networks(self) -> int:
        """Number of networks that the workloads may share."""
        return sum(len(shape.cost) for shape in self.designs[0].part.shapes)

    def corners(self, most: int) -> list[int]:
        """Return the numbers of each workload's cells with the lowest bounds."""
        return [each.part.first + n for each in self.designs for n in each.corners(most)]

    def alternatives(self) -> Iterator[int]:
        """Yield the cell with the lowest bound of each plan of each workload."""
        for each in self.designs:
            yield from (each.part.first + number for number in each.alternatives())

    def compose(self, number: int) -> tuple[dict[str, str], ComposedConfig]:
        """Return the values that name a cell, by key, and the cell's configuration."""
        own, number = self._find_workload(number)
        return own.compose(number)

    def plan(self, number: int) -> PlannedCell | PrunedCell:
        """Return the plan of a cell, or the reason why it is infeasible."""
        own, number = self._find_workload(number)
        return own.plan(number)

    def _find_workload(self, number: int) -> tuple[Designs, int]:
        own = [each for each in self.designs if each.part.first <= number][-1]
        return own, number - own.part.first


def _build_designs(composed: ComposedConfig, name: str, part: StudyPart) -> Designs:
    """Return the cells of one workload of a study."""
    kept = [word.text for word in composed.words if word.key != WORKLOAD]
    chosen = format_choice(WORKLOAD, name)
    try:
        own = compose([*kept, chosen], {}, may_sweep=True)
    except DimsweepError as error:
        if error.where == chosen:  # there is no such option
            where = f"portfolio.workloads.{name}"
            raise composed.add_source(error.replace(where=where)) from None
        raise
    try:
        return Designs(own, part=part)
    except DimsweepError as error:
        named = error.replace(problem=f"{name}: {error.problem}")
        raise own.add_source(named) from error.__cause__


class PlansOnNetworks:
    """Bounds and values of one workload's plans on each of N networks, as losses.

    ``found`` (N,) is the loss of the best simulated plan on each network, in the cell ``best``. A
    cell that an earlier search excluded may be opened again.
    """

    def __init__(self, search: DesignSearch, n: int) -> None:
        self.search, designs = search, search.designs
        first = designs.cells.first
        rows = map(range, first[:-1].tolist(), first[1:].tolist())
        self._network: Longs = np.concatenate([designs.networks(own) for own in rows if own])
        self._order: Longs = np.argsort(self._network, kind="stable")
        self._first = np.searchsorted(self._network[self._order], np.arange(n + 1))
        self.found, self.best = np.full(n, np.inf), np.full(n, -1)
        self._least, self._stuck = np.full(n, np.inf), np.full(n, np.inf)
        for number in search.losses:
            self._record(number)
        self.reopen()
        np.minimum.at(self._least, self._network, search.frontier.bounds)

    @property
    def lower_bounds(self) -> Floats:
        """Lower bound on the loss of plans that can be simulated, for each network (N,)."""
        waiting = self.search.frontier.waiting_bounds
        return np.minimum(np.minimum(self._least, waiting), self.found)

    @property
    def proven_bounds(self) -> Floats:
        """Lower bound on the loss of all plans, for each network (N,)."""
        return np.minimum(self.lower_bounds, self._stuck)

    def next_cell(self, network: int) -> int | None:
        """Return the cell with the lowest bound on a network.

        It is None if no cell can beat the best simulated one. Plans without bounds are bounded
        first, until none of them can have a lower bound.
        """
        frontier = self.search.frontier
        while frontier.waiting_bounds[network] < min(self._least[network], self.found[network]):
            new = frontier.bound_next_plan()
            cells = slice(new.start, new.stop)
            np.minimum.at(self._least, self._network[cells], frontier.bounds[cells])
        if self._least[network] >= self.found[network]:
            return None
        own = self._cells(network)
        return int(own[np.argmin(frontier.bounds[own])])

    def bound_programs(self, cell: int) -> bool:
        """Bound all cells that share the program of ``cell``.

        Return False if an earlier call did.
        """
        is_new = self.search.bound_programs(cell)
        if is_new:
            self._update_networks(self.search.designs.same_program_cells(cell))
        return is_new

    def update(self, cell: int) -> None:
        """Update the bounds after a ``cell`` was simulated, excluded or found infeasible."""
        if cell in self.search.losses:
            self._record(cell)
        self.reopen()
        self._update_networks([cell])

    def reopen(self) -> None:
        """Open the cells that were excluded, except cells that cannot be simulated."""
        for cell, bound in self.search.reopen().items():
            network = self._network[cell]
            self._stuck[network] = min(self._stuck[network], bound)

    def _record(self, cell: int) -> None:
        network, loss = self._network[cell], self.search.losses[cell]
        if loss < self.found[network]:
            self.found[network], self.best[network] = loss, cell

    def _update_networks(self, cells: Sequence[int]) -> None:
        """Update the bounds of the networks to which ``cells`` with changed bounds belong."""
        for network in np.unique(self._network[np.array(cells)]).tolist():
            self._least[network] = self.search.frontier.bounds[self._cells(network)].min()

    def _cells(self, network: int) -> Longs:
        return self._order[self._first[network] : self._first[network + 1]]


class SharedSearch:
    """The search for the best network of a portfolio of workloads."""

    def __init__(self, shared: SharedDesigns, driver: SweepDriver) -> None:
        config = shared.composed.config
        self._shared, self._objective = shared, config.objective[0]
        self._gap, self._budget = config.budget.gap or 0.0, config.budget.trials
        self._searches = [DesignSearch(designs, driver) for designs in shared.designs]
        self._best, self._winner = np.inf, -1  # the least measure, and the network that has it
        self._steps = list[tuple[int, float, float]]()

    def steps(self) -> Steps:
        """Search for each workload alone, then for all workloads; store the :attr:`result`.

        The second search simulates at most as many plans of each workload as the first. On each
        workload's best network, the best plans of all workloads are found.
        """
        for search in self._searches:
            yield from search.steps()
            search.check_feasible()
        own = np.array([self._best_loss(search) for search in self._searches])
        self._together = SharedMeasure(self._shared.weighing, own, self._objective)
        self._known = [PlansOnNetworks(each, self._shared.n_networks) for each in self._searches]
        self._most = self._n_simulated + self._budget * len(self._searches)
        self._find_best()
        alone = [int(each.found.argmin()) for each in self._known]
        for network in alone:
            yield from self._settle(network)
        yield from self._search()
        if self._winner < 0:
            raise DimsweepError(
                "no network was found on which each of the workloads has a plan",
                where="portfolio.workloads",
                hint="more plans in space.plan, or networks with more memory",
                code="infeasible",
            )
        yield from self._settle(self._winner)
        self.result = self._proof(), self._record(alone)

    def _best_loss(self, search: DesignSearch) -> float:
        if not np.isfinite(search.best):
            name = search.designs.part.coordinates[WORKLOAD]
            raise DimsweepError(
                f"no trial of {name} is complete, so its optimum is unknown",
                where="portfolio.workloads",
                hint="dimsweep report says what failed",
                code="infeasible",
            )
        return search.best

    @property
    def _n_simulated(self) -> int:
        return sum(len(each.simulated) for each in self._searches)

    @property
    def _can_continue(self) -> bool:
        return self._n_simulated < self._most or self._winner < 0

    @property
    def _goal(self) -> float:
        """Measure from which on a network's lower bound excludes the network."""
        return self._best / (1 + self._gap)

    def _bound_plans(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return lower bounds on losses of workloads' plans by network (N, K), and which are tight.

        A bound is tight if the best simulated plan reaches it within the gap.
        """
        low = np.stack([known.lower_bounds for known in self._known], axis=-1)
        found = np.stack([known.found for known in self._known], axis=-1)
        return low, low >= found / (1 + self._gap)

    def _search(self) -> Steps:
        """Search networks until no network can beat the best one by more than the gap."""
        while self._can_continue:
            low, settled = self._bound_plans()
            values = self._together.mean(low)
            (near,) = np.nonzero((values < self._goal) & ~settled.all(axis=-1))
            if not len(near):
                return
            near = near[np.argsort(values[near], kind="stable")][:BATCH]
            pairs = [(n, self._choose_workload(n, low[n], settled[n])) for n in near.tolist()]
            yield from self._evaluate(pairs, partial(self._closes_network, low))

    def _settle(self, network: int) -> Steps:
        """Search the best plan of each workload on a network until it is proven."""
        while self._can_continue:
            doubtful = np.flatnonzero(~self._bound_plans()[1][network]).tolist()
            if not doubtful:
                return
            yield from self._evaluate([(network, k) for k in doubtful], lambda *_: False)

    def _choose_workload(self, network: int, low: Floats, settled: NDArray[np.bool_]) -> int:
        """Return the workload whose uncertainty contributes most to a network's measure.

        The uncertainty is the distance from the bound to the loss of the best simulated plan.
        Without a simulated plan it is the bound itself.
        """
        grown = np.tile(low, (len(low), 1))
        found = np.array([known.found[network] for known in self._known])
        np.fill_diagonal(grown, np.where(np.isfinite(found), found, 2 * low))
        return int(np.argmax(np.where(settled, -1.0, self._together.mean(grown))))

    def _closes_network(self, low: Floats, n: int, k: int, bound: float) -> bool:
        """Return whether a ``bound`` on the plans of workload ``k`` excludes network ``n``."""
        lifted = low[n].copy()
        lifted[k] = bound
        return bool(self._together.mean(lifted) >= self._goal)

    def _evaluate(
        self, pairs: Sequence[tuple[int, int]], is_enough: Callable[[int, int, float], bool]
    ) -> Steps:
        """Refine the bounds of pairs of a network and a workload.

        For each pair bound the program of the cell with the lowest bound. If it is bounded,
        simulate the cell unless ``is_enough`` says that its own bound excludes it.
        """
        cells, is_new = list[tuple[int, int, int]](), False
        for n, k in pairs:
            cell = self._known[k].next_cell(n)
            if cell is None:
                is_new = True
                continue
            is_new |= self._known[k].bound_programs(cell)
            cells.append((n, k, cell))
        if is_new and self._winner >= 0:
            return  # others may be more promising now
        left = self._most - self._n_simulated if self._winner >= 0 else len(cells)
        workloads = deque[int]()  # of the cells in flight

        def begin(n: int, k: int, cell: int) -> CellRun | None:
            begun = self._begin(n, k, cell, is_enough)
            workloads.extend([k] * (begun is not None))
            return begun

        yield from simulate_all(
            (begin(*each) for each in cells[:left]),
            lambda run: self._searches[workloads.popleft()].record(run),
        )
        for _, k, cell in cells[:left]:
            self._known[k].update(cell)
        self._find_best()
        self._record_step()

    def _begin(
        self, n: int, k: int, cell: int, is_enough: Callable[[int, int, float], bool]
    ) -> CellRun | None:
        most = self._known[k].found[n] / (1 + self._gap)
        return self._searches[k].begin(cell, lambda bound: bound >= most or is_enough(n, k, bound))

    def _find_best(self) -> None:
        """Update the best network from the simulated plans."""
        found = np.stack([known.found for known in self._known], axis=-1)
        values = self._together.mean(found)
        self._best = float(values.min())
        self._winner = int(values.argmin()) if np.isfinite(self._best) else -1

    def _lower_bound(self) -> float:
        """Return the lower bound on the measure of all networks."""
        proven = np.stack([known.proven_bounds for known in self._known], axis=-1)
        return min(float(self._together.mean(proven).min()), self._best)

    def _record_step(self) -> None:
        if self._winner >= 0:
            bounded = sum(each.n_bounded for each in self._searches)
            self._steps.append((bounded, self._best, self._lower_bound()))

    def _proof(self) -> Proof:
        parts = [each.proof() for each in self._searches]
        refused = Counter[str](self._shared.refused)
        for part in parts:
            refused.update(part.refused)
        return Proof(
            cells=sum(part.cells for part in parts),
            excluded=tuple(np.sum([part.excluded for part in parts], axis=0).tolist()),
            bounded=sum(part.bounded for part in parts),
            simulated=sum(part.simulated for part in parts),
            refused=dict(refused),
            best=self._best,
            bound=self._lower_bound(),
            steps=thin_out(self._steps),
        )

    def _record(self, alone: Sequence[int]) -> PortfolioRecord:
        weighing, together = self._shared.weighing, self._together
        return PortfolioRecord(
            cells=self._cells(self._winner),
            measure=weighing.measure.value,
            level=weighing.level,
            share=tuple(weighing.share.tolist()),
            own=tuple(together.own.tolist()),
            bound=self._lower_bound() - together.offset,
            alone=tuple(map(self._cells, alone)),
        )

    def _cells(self, network: int) -> tuple[int, ...]:
        """Return the cell of each workload's best plan on a network.

        It is -1 for a workload without a simulated plan.
        """
        return tuple(
            -1 if known.best[network] < 0 else known.search.ledger_number(int(known.best[network]))
            for known in self._known
        )


class SharedNetworksQuestion(AnswerQuestion):
    """The question of the best common network for several workloads, each with its own plan."""

    source: SharedDesigns

    def __init__(self, shared: SharedDesigns) -> None:
        self.source = shared
        self._search: SharedSearch | None = None

    @classmethod
    def from_study(cls, composed: ComposedConfig) -> Self | None:
        """Return the question of a study that searches networks for a portfolio."""
        space = composed.config.space
        if space.network is None and space.plan is None:
            return None
        weighing = build_weighing(composed.config)
        return None if weighing is None else cls(SharedDesigns(composed, weighing))

    @property
    def n_trials(self) -> int:
        """Maximum number of simulations, for each workload alone and then for all workloads."""
        shared = self.source
        return min(len(shared), 2 * len(shared.designs) * shared.composed.config.budget.trials)

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        self._search = SharedSearch(self.source, driver)
        yield SteppedSearch(self._search.steps())

    def add_findings(self, study: StudyRecord) -> StudyRecord:
        assert self._search is not None
        proof, portfolio = self._search.result
        return study.model_copy(update={"proof": proof, "portfolios": (portfolio,)})

    def select_answers(self, rows: pa.Table, study: StudyRecord) -> pa.Table:
        """Return the rows of the workloads' best plans on the network for all."""
        cells = [number for one in study.portfolios for number in one.cells]
        rows = rows.filter(pc.is_in(rows["cell"], pa.array(cells, rows["cell"].type)))
        return super().select_answers(rows, study)
