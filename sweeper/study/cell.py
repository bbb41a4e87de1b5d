"""The plan of one cell of a study: its search space, its bound, and the trials to try first."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dimsweep.engine import (
    MERIT_NEEDS,
    DimsweepError,
    InfeasibleError,
    Prices,
    Program,
    known_merits,
    run_batch,
)
from dimsweep.engine.bound import Frontier, traffic
from dimsweep.engine.kernels.messages import check_network
from dimsweep.engine.rules import list_crossed_pairs
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.network import GRAPHS
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.record import CellRecord, PrunedCell
from dimsweep.sweeper.ledger.rows import Cell
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.part import encode_order, expand_per_dimension, naming_key
from dimsweep.sweeper.search import Sampler, is_exhaustive, make_sampler, n_trials, sampler_name
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.space.space import Space, build_space, settings_to_try
from dimsweep.sweeper.space.split import PartsSpace
from dimsweep.sweeper.space.trials import Trial
from dimsweep.sweeper.study.bound import find_lower_bound, graph_bound, proven_bound, proven_front
from dimsweep.sweeper.study.content import Content
from dimsweep.sweeper.study.idle import idle_keys
from dimsweep.sweeper.study.rules import design_warnings
from dimsweep.sweeper.study.work import describe_work


@dataclass(frozen=True)
class CellPlan:
    """A cell with its search space and the trials that its search proposes first."""

    cell: Cell
    space: Space
    bound: float | None  # bound on the first objective of all splits
    worth: tuple[float, ...] | None  # dT/db (ms per GB/s) at the split with the lowest bound
    front: Frontier | None  # bound on the time at each cost, if both are objectives
    first: list[Trial]
    prices: Prices | None
    budget: int
    warnings: list[str]  # of the design rules
    idle: dict[str, str]  # keys set or varied by the user that have no effect, and why

    @property
    def config(self) -> Config:
        """The resolved configuration of the cell."""
        return self.cell.config

    @property
    def objective(self) -> tuple[Objective, ...]:
        """The objectives; the first one ranks trials."""
        return self.config.objective

    @property
    def recheck(self) -> int:
        """Number of best designs to simulate again at a higher fidelity."""
        return max((top for _, top in self.config.recheck.rungs), default=0)

    def sampler(self) -> Sampler:
        """Return a new sampler for the cell's search."""
        return make_sampler(self.config, self.space, self.first, self.prices)

    def is_settled(self, best: Sequence[float] | None) -> bool:
        """Return whether the best values so far are within the study's gap from the bound."""
        gap = self.config.budget.gap
        if best is None or self.bound is None or gap is None:
            return False
        return self.objective[0].is_within(best[0], self.bound, gap)

    @cached_property
    def content(self) -> Content:
        """The inputs that all trials of the cell share."""
        return Content(self.config)


@dataclass(frozen=True)
class PlannedCell:
    """A cell's plan, its record for the ledger, and its program."""

    plan: CellPlan
    record: CellRecord
    program: Program


class CellSource(ABC):
    """The cells of a study by number; each is composed and planned on demand."""

    composed: ComposedConfig
    #: the keys in which cells differ
    axes: Mapping[str, tuple[Any, ...]]
    #: whether even a few cells are planned one at a time
    always_streams = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of cells."""

    def check_size(self) -> None:  # noqa: B027
        """Raise :class:`DimsweepError` if there are too many cells."""

    @abstractmethod
    def corners(self, most: int) -> list[int]:
        """Return the numbers of up to ``most`` cells to check first, to find mistakes early."""

    def alternatives(self) -> Iterator[int]:
        """Yield the numbers of further cells to try if no corner is feasible."""
        return iter(())

    def infeasible_error(self, pruned: Sequence[PrunedCell]) -> InfeasibleError:
        """Return the error of a study in which all planned cells, ``pruned``, are infeasible."""
        reasons = ", ".join(dict.fromkeys(each.reason for each in pruned))
        return InfeasibleError(f"no cell is feasible: {reasons}", where="space")

    @abstractmethod
    def plan(self, number: int) -> PlannedCell | PrunedCell:
        """Return the plan of a cell, or the reason why it is infeasible."""


def plan_cell(
    number: int,
    coordinates: dict[str, str],
    composed: ComposedConfig,
    turned: Collection[str],
    perhaps_idle: Collection[str] | None = None,
) -> tuple[CellPlan, Program]:
    """Return the plan of a cell and its program.

    ``turned`` are the keys that the user sets or varies. Those in ``perhaps_idle`` (None: all) are
    checked for an effect. Raises :class:`DimsweepError` for a cell that cannot be simulated or
    searched.
    """
    composed, program = _find_feasible(composed)
    config, objective = composed.config, composed.config.objective
    if program.prices is None and any(each.needs_prices for each in objective):
        raise _price_error(config, program)
    _check_merits(program, objective)
    _check_fidelity(config)
    _check_measured(config)
    check_network(program, config.fidelity)
    if not config.by_message:  # also compiles the kernel, before several workers would
        run_batch(program, program.bandwidth)
    space = build_space(config, program)
    least = find_lower_bound(space, program, objective[0])
    front = proven_front(config, space, program, objective)
    hopes = list(front.bandwidth) if front is not None else [least.bandwidth] if least else []
    bound = proven_bound(config, space, least, objective[0])
    bound = graph_bound(config, space, program) if bound is None else bound
    worth = None if bound is None or least is None else (least.per_bandwidth * 1e12).tolist()
    first = _first_trials(config, space, program, hopes)
    idle = idle_keys(composed, program, turned if perhaps_idle is None else perhaps_idle)
    warnings = design_warnings(composed, program, turned, searched=space.split is not None)
    plan = CellPlan(
        cell=Cell(number, config, coordinates),
        space=space,
        bound=bound,
        worth=worth and tuple(worth),
        front=front,
        first=first,
        prices=program.prices,
        budget=n_trials(config, space, first, program.prices),
        warnings=warnings,
        idle=idle,
    )
    plan.sampler()  # refuses wrong options now, before the sweep starts
    return plan, program


def _find_feasible(composed: ComposedConfig) -> tuple[ComposedConfig, Program]:
    """Return a feasible configuration of a cell, and its program.

    If the configuration is infeasible, feasible values replace those of its searched keys. Raises
    the :class:`InfeasibleError` of the original values if none of the tried values are feasible.
    """
    try:
        return composed, build_program(composed.config)
    except InfeasibleError as error:
        for setting in settings_to_try(composed.config):
            try:
                other = composed.config.with_values(setting)
                return replace(composed, config=other), build_program(other)
            except InfeasibleError:
                continue
        raise error


def _price_error(config: Config, program: Program) -> DimsweepError:
    """Return the error for a design of unknown cost: it names an unpriced part or the tiers."""
    if config.cost.parts or config.other_npus:
        bill = config.purchase(program.cluster.topology, program.cluster.network).bill()
        problem = f"the objective needs prices: {bill.missing[0]}"
        hint = "dimsweep bill lists all missing prices"
        return DimsweepError(problem, where="cost", hint=hint, code="missing")
    return DimsweepError(
        "the objective needs prices, but the tier of a dimension has none",
        where="cost.tiers",
        hint=f"tiers of the topology: {', '.join(config.topology.tiers) or 'none named'}",
        code="missing",
    )


def _check_merits(program: Program, objectives: Sequence[Objective]) -> None:
    """Raise :class:`DimsweepError` for an objective without a value for the program."""
    known = known_merits(program)
    for objective in objectives:
        if objective.column in MERIT_NEEDS and objective.column not in known:
            raise DimsweepError(
                f"trials of this study have no {objective.name}",
                where="objective",
                hint=f"it needs {MERIT_NEEDS[objective.column]}",
                code="missing",
            )


def _check_fidelity(config: Config) -> None:
    """Raise :class:`DimsweepError` for a fidelity that is impossible or useless here."""
    rungs = config.recheck.rungs
    if rungs and (config.by_message or "fidelity" in config.space.parameters):
        raise DimsweepError(
            "the search itself already simulates every message",
            where="recheck.top",
            hint="search with fidelity=phase, or leave recheck out",
            code="conflict",
        )
    for fidelity, _ in rungs:
        check_network(build_program(config.with_values({"fidelity": fidelity.value})), fidelity)
    given = config.network.links_key
    if given in GRAPHS and config.space.bandwidth.is_searched:
        raise DimsweepError(
            f"the {given} gives the links' bandwidths, so a split has no effect",
            where=f"network.{given}",
            hint="search other keys, or build the network from the dimensions with network.fabric",
            code="conflict",
        )


def _check_measured(config: Config) -> None:
    """Raise :class:`DimsweepError` for a search of bandwidths if measured collectives have none."""
    collective, space = config.collective, config.space
    names = [name for name in space.parameters if name.startswith("topology.bandwidth")]
    searched = space.bandwidth.is_searched or names
    if searched and collective.measured is not None and collective.measured_bandwidth is None:
        raise DimsweepError(
            "bandwidths are searched, but the bandwidths of the measured links are unknown",
            where="collective.measured",
            hint="give collective.measured_bandwidth, such as [450 GB/s, 50 GB/s]: measured times "
            "scale from them",
            code="missing",
        )


def _first_trials(
    config: Config, space: Space, program: Program, hopes: Sequence[np.ndarray]
) -> list[Trial]:
    """Return the bandwidth splits to try first.

    These are the equal (or mid-range) split, the split proportional to the traffic, the splits with
    the lowest bounds (``hopes``), and the user's own.
    """
    enqueue = config.search.enqueue or not space.n_unit
    if space.split is None:
        return [Trial(0, "known", None, space.defaults(config))] if enqueue else []
    splits: list[tuple[str, np.ndarray]] = []
    if enqueue:
        # Without a budget, each bandwidth starts in the middle of its range. Parts for sale have
        # no equal bandwidths.
        if not isinstance(space.split, PartsSpace):
            splits.append(
                ("equal" if space.split.has_budget else "middle", space.split.equal_split())
            )
        demand = traffic(program)
        if demand.sum() > 0 and space.split.has_budget:
            splits.append(("proportional", space.split.split_along(demand)))
        splits += [("bound", space.split.nearest(hope)) for hope in hopes]
    for i, known in enumerate(config.space.bandwidth.known):
        with naming_key(f"space.bandwidth.known[{i}]"):
            wish = np.array(expand_per_dimension(known, program.structure.shape.n_dims, ""))
            space.split.check(wish)
        splits.append(("known", space.split.nearest(wish)))
    return [
        Trial(i, origin, tuple(split.tolist()), space.defaults(config))
        for i, (origin, split) in enumerate(splits)
    ]


def record_cell(plan: CellPlan, program: Program, study: Config) -> CellRecord:
    """Return the record of a cell of a ``study``."""
    own = {
        k: v
        for k, v in plan.content.config.items()
        if encode_order(v) != encode_order(study.text[k])
    }
    prices = plan.prices
    return CellRecord(
        cell=plan.cell.number,
        coordinates=plan.cell.coordinates,
        dims=tuple(program.names.dims),
        workload=plan.config.workload.name,
        n_npus=program.n_npus,
        work=describe_work(plan.config.workload, program),
        content=plan.content.text,
        config=own or None,
        sampler=sampler_name(plan.config, plan.space),
        trials=plan.budget,
        exhaustive=is_exhaustive(plan.config, plan.space, plan.first, plan.prices),
        bound=plan.bound,
        pairs=tuple(list_crossed_pairs(program)),
        ms_per_GBps=plan.worth,
        usd_per_GBps=None if prices is None else tuple(p * 1e9 for p in prices.per_bandwidth),
        front=plan.front,
        stops_at_gap=plan.config.budget.gap,
    )
