"""The networks and plans of a study as numbered cells; bounds exclude most of them.

Bounds of levels 0 and 1 (computation, and bytes per tier) are computed for a plan on all networks
at once. They are cheap and deterministic, so the ledger does not store them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from dimsweep.engine import (
    Cluster,
    DimsweepError,
    InfeasibleError,
    Program,
    TooManyError,
    own_capacity,
    prefixing_errors,
    units,
)
from dimsweep.engine.bound import EventBound, LinearSpace, Stagings, time_by_cuts, time_of
from dimsweep.engine.workload import AXES, Amount
from dimsweep.engine.workload.plan import training_amount
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.roles import format_value as value_label
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Networks, Plans
from dimsweep.sweeper.ledger.record import FULL, PrunedCell
from dimsweep.sweeper.objective import COST, OBJECTIVES, TIME, NetworkFigures, Objective
from dimsweep.sweeper.part import to_plain
from dimsweep.sweeper.questions.networks.cells import CellParts, Cells
from dimsweep.sweeper.questions.networks.placements import Longs, PlacementKey, Places
from dimsweep.sweeper.questions.networks.shapes import (
    Floats,
    Shape,
    build_shapes,
    describe_generator,
    shared_keys,
)
from dimsweep.sweeper.simulation.outages import Outages
from dimsweep.sweeper.simulation.program import build_cluster, build_program
from dimsweep.sweeper.space.plans import PlanRow, Refusals, check_model, format_reason, list_plans
from dimsweep.sweeper.study.cell import CellSource, PlannedCell, plan_cell, record_cell

MOST_CELLS = 10_000_000
_MEMORY_PLACES = ("npu.memory", "other_npus", "memory.capacity")  # errors of a full memory
_FRONT_OBJECTIVES = [TIME.name, COST.name]
PARALLEL = "workload.parallel"
GENERATOR = "network.generator"
ALGORITHMS, MEMORY = "collective.algorithms", "npu.memory"
_DIMENSION_KEYS = ("topology.shape", "topology.bandwidth")
_N_CORNERS = 4  # cells that are planned before anything is simulated


class StudyPart(NamedTuple):
    """A subset of a study's cells, such as the cells of one workload."""

    study: Config
    #: coordinates that the cells of the part share
    coordinates: Mapping[str, str]
    #: number of the first cell
    first: int
    #: the networks
    shapes: Sequence[Shape]


class Designs(CellSource):
    """The networks and plans of a study, numbered as the cells of a grid.

    The networks are taken from other designs (``like``), or from a ``part`` of a study, if given.
    Raises :class:`DimsweepError` for a study that cannot be searched by bounds.
    """

    always_streams = True

    def __init__(
        self, composed: ComposedConfig, like: "Designs | None" = None, part: StudyPart | None = None
    ) -> None:
        self.composed, config = composed, composed.config
        check_designs(config)
        workload, self.refused = check_model(config.workload), Refusals()
        self._networks, plans = config.space.network, config.space.plan or Plans()
        assert self._networks is not None
        cluster = build_cluster(config)
        if part is None:
            known = None if like is None else like.cells.shapes
            shapes = known or build_shapes(config, self._networks, self.refused)
            part = StudyPart(config, {}, 0, shapes)
        self.part: StudyPart = part
        shapes = part.shapes
        memory = _max_memory(self._networks, cluster)
        slowest = max(
            each.slowest_speed
            for each in {prod(shape.sizes): shape.cluster for shape in shapes}.values()
        )
        stagings = Stagings(workload.model, cluster.npu, cluster.memory, slowest)
        rows = [
            row
            for npus in sorted({prod(shape.sizes) for shape in shapes})
            for row in list_plans(workload, plans, npus, stagings, memory, self.refused)
        ]
        if not rows:
            raise self.refused.error("no plan is possible", "space.plan")
        places = Places(shapes, plans.orders, self.refused) if like is None else like.cells.places
        self.cells: Cells = Cells(rows, places, stagings)
        if not len(self.cells):
            raise self.refused.error("no plan runs on any of the networks", "space.plan")
        if len(self.cells) > MOST_CELLS:
            raise DimsweepError(
                f"{len(self.cells):,} networks x plans; the limit is {MOST_CELLS:,}",
                where="space.network",
                hint="give fewer sizes or bandwidths",
                code="too-many",
            )
        self.axes = dict.fromkeys((*part.coordinates, *self._searched_keys(rows[0])), ())
        if len(config.objective) > 1 and np.isnan(self._cost).any():
            raise _unknown_objective(COST)
        self._amount = training_amount(workload.model, rows[0].plan)
        self.factors = self._shape_factors(config, shapes)
        self._known: dict[PlacementKey, Floats] = {}  # factors of the cells of plans that are alike

    def __len__(self) -> int:
        return len(self.cells)

    def _searched_keys(self, row: PlanRow) -> Iterator[str]:
        assert self._networks is not None
        if self._networks.tiers:
            yield from _DIMENSION_KEYS
        if self._networks.generators:
            yield GENERATOR
        if any(tier.algorithms for tier in self._networks.tiers):
            yield ALGORITHMS
        if self._networks.memory:
            yield MEMORY
        yield from (PARALLEL, *row.settings())

    def with_changes(self, changes: Mapping[str, object], below: float) -> "Designs":
        """Return the designs after ``changes`` of keys, with only plans of a bound under ``below``.

        ``below`` is a loss. Raises :class:`DimsweepError` for an invalid value, and
        :class:`InfeasibleError` if no plan's bound is below the loss.
        """
        config = self.composed.config.with_values(dict(changes))
        found = Designs(replace(self.composed, config=config), self)
        rows = np.flatnonzero(found.floors < below)
        if not len(rows):
            raise InfeasibleError("no plan may be as good", where="space.plan")
        found.cells, found.floors = found.cells.select(rows), found.floors[rows]
        return found

    def corners(self, most: int) -> list[int]:
        """Return the numbers of the cells with the lowest bounds, up to ``most``, to check first.

        One of them has a network made of dimensions, if the space has any: networks of generators
        may have more messages than can be simulated.
        """
        i = int(np.argmin(self.floors))
        order = np.argsort(self.bounds(i), kind="stable")
        made = np.array([shape.generator is not None for shape in self.cells.shapes])
        order = np.concatenate(
            [
                order[: _N_CORNERS - 1],
                order[~made[self.cells.candidates(self.cells.rows[i]).shape[order]]],
            ]
        )
        return (int(self.cells.first[i]) + np.unique(order[: min(_N_CORNERS, most)])).tolist()

    def alternatives(self) -> Iterator[int]:
        """Yield each plan's cell with the lowest bound, in ascending order of plans' bounds."""
        for i in np.argsort(self.floors, kind="stable").tolist():
            yield int(self.cells.first[i]) + int(np.argmin(self.bounds(i)))

    # --- levels 0 and 1 -------------------------------------------------------------------------

    @cached_property
    def floors(self) -> Floats:
        """Lower bound on each plan's loss on any network (plans,), from computation alone."""
        least = [self.loss_factors(row).min(initial=np.inf) for row in self.cells.rows]
        return self.cells.compute_seconds * np.array(least)

    def bounds(self, i: int) -> Floats:
        """Return a lower bound on the loss of each cell of plan ``i`` (cells of the plan,)."""
        return self.cells.bound_loads(i) * self.loss_factors(self.cells.rows[i])

    def loss_factors(self, row: PlanRow) -> Floats:
        """Return the loss per second of iteration time, for each cell of a plan."""
        if (key := self.cells.places.placement_key(row)) not in self._known:
            candidates = self.cells.candidates(row)
            self._known[key] = self.cells.places.select_networks(self.factors, candidates)
        return self._known[key]

    def networks(self, cells: range) -> Longs:
        """Return the number of the network of each of the ``cells``, which belong to one plan."""
        row = int(np.searchsorted(self.cells.first, cells.start, side="right")) - 1
        first = int(self.cells.first[row])
        found = self.cells.places.networks(self.cells.candidates(self.cells.rows[row]))
        return found[cells.start - first : cells.stop - first]

    @cached_property
    def costs(self) -> Floats:
        """Cost of the network of each cell (cells,), in USD."""
        rows, candidates = self.cells.rows, self.cells.candidates
        return np.concatenate(
            [self.cells.places.select_networks(self._cost, candidates(row)) for row in rows]
        )

    @cached_property
    def _cost(self) -> Floats:
        return np.concatenate([shape.cost for shape in self.cells.shapes])

    def slopes(self, config: Config) -> Floats:
        """Return the increase of networks' loss per second (networks,) at prices of ``config``."""
        shapes = [shape.with_prices(config, self.composed.config) for shape in self.cells.shapes]
        return self._shape_factors(config, shapes) - self.factors

    def factors_at_price(self, slopes: Floats, factor: float) -> Floats:
        """Return each network's loss per second (networks,) at ``factor`` times a price.

        ``slopes`` (networks,) is the increase of the loss per second when the price doubles.
        """
        return self.factors + (factor - 1) * slopes

    def _shape_factors(self, config: Config, shapes: Sequence[Shape]) -> Floats:
        return np.concatenate([_network_factors(config, shape, self._amount) for shape in shapes])

    # --- levels 2 and 3 -------------------------------------------------------------------------

    def compose(self, number: int) -> tuple[dict[str, str], ComposedConfig]:
        """Return the values that name a cell, by key, and the cell's configuration."""
        assert self._networks is not None
        where = self.cells.locate(number)
        values = self._values(where)
        config = self.composed.config.with_values({**shared_keys(self._networks), **values})
        labels = {key: _label(values.get(key, "none")) for key in self.axes}
        labels |= self.part.coordinates
        if (made := self.cells.shapes[where.place.shape].generator) is not None:
            labels |= {key: "none" for key in _DIMENSION_KEYS if key in labels}
            labels[GENERATOR] = describe_generator(made)
        return labels, replace(self.composed, config=config, varied=tuple(values))

    def _values(self, where: CellParts) -> dict[str, object]:
        shape = self.cells.shapes[where.place.shape]
        settings = {key: to_plain(value) for key, value in where.row.settings().items()}
        return {**shape.values(where.network), PARALLEL: _parallel(where), **settings}

    def same_program_cells(self, number: int) -> range:
        """Return the cells that differ from ``number`` only in their network's bandwidths."""
        where = self.cells.locate(number)
        first = number - where.network
        return range(first, first + len(self.cells.shapes[where.place.shape].cost))

    def program_bounds(self, number: int) -> Floats:
        """Return level 2: lower bounds on the loss of all :meth:`same_program_cells`.

        One program gives all of them. They are 0 if the network is a generator's, if measured
        collectives have fixed bandwidths, and if the program cannot be built.
        """
        where, own = self.cells.locate(number), self.same_program_cells(number)
        shape, collective = self.cells.shapes[where.place.shape], self.composed.config.collective
        at_some = collective.measured is not None and collective.measured_bandwidth is None
        if shape.generator is not None or at_some:
            return np.zeros(len(own))
        _, cell = self.compose(number)
        try:
            program = build_program(cell.config)
        except DimsweepError:
            return np.zeros(len(own))
        space = LinearSpace.build(shape.bandwidth.min(axis=0), shape.bandwidth.max(axis=0))
        model, first = EventBound(program, space), where.number - where.network
        seconds = np.array([time_of(model, bandwidth) for bandwidth in shape.bandwidth])
        return seconds * self.loss_factors(where.row)[first : first + len(own)]

    def plan(self, number: int) -> PlannedCell | PrunedCell:
        """Return a cell's plan with a lower bound on its loss, or why it is infeasible."""
        coordinates, cell = self.compose(number)
        try:
            plan, program = plan_cell(self.part.first + number, coordinates, cell, (), ())
            Outages.from_config(cell.config, program)  # raises for too many messages
        except DimsweepError as error:
            left_out = isinstance(error, TooManyError)
            reason = format_reason("cells are left out", error, error.where)
            reason = FULL if error.where in _MEMORY_PLACES else reason
            return PrunedCell(
                coordinates=coordinates, error=str(error), reason=reason, left_out=left_out
            )
        where = self.cells.locate(number)
        factor = float(self.loss_factors(where.row)[where.number])
        plan = replace(
            plan, bound=plan.objective[0].loss(self._lower_bound(where, program) * factor)
        )
        return PlannedCell(plan, record_cell(plan, program, self.part.study), program)

    def _lower_bound(self, where: CellParts, program: Program) -> float:
        """Return a lower bound on the iteration time at the cell's bandwidths, in seconds."""
        graph = self.cells.shapes[where.place.shape].cluster.network.graph
        own, m = self.cells.rows.index(where.row), np.array([where.number])
        loads = float(self.cells.bound_loads(own, cells=m)[0])
        if graph is not None:
            cuts = time_by_cuts(program, graph)
            return max(loads, 0.0 if cuts is None else cuts.picoseconds / units.PICOSECONDS)
        b = program.bandwidth
        return max(loads, time_of(EventBound(program, LinearSpace.build(b, b)), b))


def check_designs(config: Config) -> None:
    """Raise :class:`DimsweepError` for a study that cannot be searched by bounds."""
    if config.space.network is None:
        raise DimsweepError(
            "plans are searched together with networks",
            where="space.plan",
            hint="give space.network, with at least one network",
            code="missing",
        )
    for where, given, hint in (
        ("grid", config.grid, "all designs of space.network and space.plan compete"),
        ("space.parameters", config.space.parameters, "keys of space.plan"),
        ("space.bandwidth", config.space.bandwidth.is_searched, "bandwidths of each tier"),
        ("recheck", config.recheck.rungs, "simulate what was found by dimsweep simulate"),
        ("baseline", config.baseline and config.portfolio.workloads, "simulate it by itself"),
        ("fidelity", config.by_message, "fidelity=phase, of which the bounds are"),
        ("other_npus", config.other_npus, "NPUs of one kind, of which the bounds are"),
        ("objective", not _has_known_objectives(config), _describe_objectives(config)),
    ):
        if given:
            raise DimsweepError(
                "a search among networks and plans does not support it",
                where=where,
                hint=hint,
                code="unsupported",
            )
    by_flows = {
        "what generators make": config.space.network.generators,
        "outages": config.reliability.outages,
    }
    for what in (what for what, given in by_flows.items() if given and config.collective.library):
        raise DimsweepError(
            f"{what} is simulated by flows, and the messages of {config.collective.library} are not"
            " known",
            where="collective.library",
            hint="collective=whole, streamed or default, whose algorithms send every message",
            code="unsupported",
        )


def _has_known_objectives(config: Config) -> bool:
    names = [objective.name for objective in config.objective]
    return len(names) == 1 or (names == _FRONT_OBJECTIVES and not config.portfolio.workloads)


def _describe_objectives(config: Config) -> str:
    if config.portfolio.workloads:
        return "one objective, where several workloads share a network"
    return f"one objective, or [{', '.join(_FRONT_OBJECTIVES)}]"


def _max_memory(networks: Networks, cluster: Cluster) -> float | None:
    """Return the most bytes that an NPU can hold, expanded memory included; None if unlimited."""
    most = max((float(each.size) for each in networks.memory), default=cluster.npu.memory)
    return own_capacity(replace(cluster.npu, memory=most), cluster.memory)


def _label(value: object) -> str:
    return ", ".join(map(str, value)) if value and isinstance(value, list) else value_label(value)


def _parallel(where: CellParts) -> dict[str, int]:
    degrees = dict(zip(AXES, where.row.degrees, strict=True))
    return {axis: degrees[axis] for axis in where.place.order if degrees[axis] > 1}


def _network_factors(config: Config, shape: Shape, amount: Amount) -> Floats:
    """Return the loss per second of iteration time of a shape's W networks (W,)."""
    objective = config.objective[0]
    if objective.network_factor is None:
        known = [each.name for each in OBJECTIVES.values() if each.network_factor is not None]
        raise DimsweepError(
            f"plans have no bound on {objective.name}",
            where="objective",
            hint=f"choose one of {', '.join(known)}",
            code="unsupported",
        )
    kept, price = 1.0, 1.0
    with prefixing_errors("reliability"):
        if (reliability := config.reliability.build()) is not None:
            n, graph = prod(shape.sizes), shape.cluster.network.graph
            # It is less if a checkpoint waits for the end of an iteration.
            kept = float(reliability.renewal(n, amount.state).effective_share)
            price = reliability.cost_multiplier(n, n if graph is None else graph.n_npus)
    spending = price * shape.cost / (config.cost.lifetime or np.nan)
    if not np.isnan(shape.power).any():
        spending = spending + shape.power * config.cost.electricity
    figures = NetworkFigures(
        cost=shape.cost,
        power=shape.power,
        spending=spending,
        tokens=amount.tokens or np.nan,
        kept=kept,
        is_interrupted=reliability is not None,
    )
    found = np.broadcast_to(objective.network_factor(figures), shape.cost.shape)
    if np.isnan(found).any():
        raise _unknown_objective(objective)
    return found


def _unknown_objective(objective: Objective) -> DimsweepError:
    return DimsweepError(
        f"{objective.name} is not known of all networks",
        where="objective",
        hint=objective.network_needs,
        code="missing",
    )
