"""What a study will do: its cells, their spaces, and the points to try first."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine import (
    MODEL_VERSION,
    DimsweepError,
    EventBound,
    Fidelity,
    Frontier,
    InfeasibleError,
    Prices,
    Program,
    Weighing,
    network_of,
    provisioning,
    run_batch,
    traffic,
)
from sweeper.bound import least_bound, proven_bound, proven_front
from sweeper.build import build_program, is_by_message
from sweeper.compose import Composed, compose, found, plain
from sweeper.parse import bandwidth, one_per_dim
from sweeper.portfolio import WORKLOAD, grid_of, weighing_of
from sweeper.rows import OBJECTIVES, ROWS_VERSION, Cell, row_schema
from sweeper.rules import design_warnings, once
from sweeper.schema import RUNTIME_KEYS
from sweeper.search import LEARN_FROM_SLOPES, Search, make_search, sampler_of
from sweeper.space import Point, Space, build_space

# What a row depends on; the rest of a config says which points to look at, and how.
_DETERMINES_RESULT = (
    "workload",
    "topology",
    "npu",
    "memory",
    "cost",
    "collective",
    "network",
    "fidelity",
    "fold",
)


@dataclass(frozen=True)
class CellPlan:
    """A cell with its space and the points that its search proposes first."""

    cell: Cell
    space: Space
    bound: float | None  # that no split beats in the first objective
    worth: list[float] | None  # dT/db in ms per GB/s where that bound is least
    front: Frontier | None  # that none beats in time at its cost, where both are objectives
    first: list[Point]
    objective: list[str]
    prices: Prices | None
    budget: int
    warnings: list[str]  # of the design rules
    gap: float | None  # to the bound, at which the search may stop
    recheck: int  # best designs to simulate again, message by message

    def search(self) -> Search:
        """A new search, at its beginning."""
        return make_search(self.cell.config, self.space, self.first, self.objective, self.prices)

    @property
    def directions(self) -> list[str]:
        """ "minimize" or "maximize" for each objective."""
        return [OBJECTIVES[name] for name in self.objective]

    def is_settled(self, best: Sequence[float] | None) -> bool:
        """Whether the best values so far are as near to the bound as the study wants them."""
        if best is None or self.bound is None or self.gap is None:
            return False
        worse, better = best[0], self.bound
        if self.directions[0] == "maximize":
            worse, better = better, worse
        return worse <= better * (1 + self.gap)

    def keys(self, points: Sequence[Point]) -> list[str]:
        """Each point's key: a hash of everything that determines its result, and of its cell."""
        config = {name: self.cell.config[name] for name in _DETERMINES_RESULT}
        parts = [MODEL_VERSION, dict(self.cell.coordinates), config, _digests(config)]
        base = json.dumps(parts, sort_keys=True)
        start = hashlib.blake2b(base.encode(), digest_size=16)
        keys = []
        for point in points:
            digest = start.copy()
            if point.bandwidth is not None:
                digest.update(struct.pack(f"<{len(point.bandwidth)}d", *point.bandwidth))
            if point.parameters:
                digest.update(json.dumps(point.parameters, sort_keys=True).encode())
            keys.append(digest.hexdigest())
        return keys


@dataclass(frozen=True)
class PortfolioPlan:
    """Cells that differ in their workload alone, and how these count together.

    ``models`` are the bounds on their times, by workload; none where a cell has no proven bound.
    """

    cells: list[CellPlan]
    weighing: Weighing
    models: dict[str, EventBound]

    def search(self, first: list[Point]) -> Search:
        """A new search of the split for all workloads, which proposes ``first`` first."""
        one = self.cells[0]
        return make_search(one.cell.config, one.space, first, one.objective, one.prices)


@dataclass(frozen=True)
class Plan:
    """A whole study; ``study`` is what the ledger keeps of it."""

    folder: Path
    study: dict[str, Any]
    schema: pa.Schema
    cells: list[CellPlan]
    portfolios: list[PortfolioPlan]
    config: dict[str, Any]


def plan_study(composed: Composed) -> Plan:
    """The plan of a composed study.  Raises :class:`DimsweepError` for anything that is wrong with
    it, before anything is simulated."""
    config = plain(composed.config)
    name = _name(composed, config)
    objective = _objective(config["objective"])
    weighing, axes = weighing_of(config, objective), grid_of(config)
    composed_cells = _compose_cells(composed, axes)
    cells: list[CellPlan] = []
    described, programs, pruned = [], [], []
    for number, (coordinates, cell_composed) in enumerate(composed_cells):
        try:
            cell_config = plain(cell_composed.config)
            turned = [*composed.overridden, *config["grid"], *cell_config["space"]["parameters"]]
            plan, program = _plan_cell(number, coordinates, cell_config, objective, turned)
        except DimsweepError as error:
            if isinstance(error, InfeasibleError) and coordinates and weighing is None:
                pruned.append({"coordinates": coordinates, "error": str(error)})
                if number + 1 < len(composed_cells) or cells:
                    continue
            raise cell_composed.blame(error) from error.__cause__
        cells.append(plan)
        described.append(_describe(plan, program))
        programs.append(program)
    grid, parameters = list(axes), list(cells[0].space.parameters)
    portfolios = [] if weighing is None else _portfolios(weighing, cells, programs)
    n_dims = max(len(cell["dims"]) for cell in described)
    study = {
        "name": name,
        "model": MODEL_VERSION,
        "rows": ROWS_VERSION,
        "objective": objective,
        "grid": grid,
        "parameters": parameters,
        "learns_from_slopes": any(c["sampler"] in LEARN_FROM_SLOPES for c in described),
        "warnings": once(plan.warnings for plan in cells),
        "cells": described,
        "pruned": pruned,
        "portfolios": [_describe_portfolio(one) for one in portfolios],
        "config": {key: config[key] for key in config if key not in RUNTIME_KEYS}
        | {"files": _digests(config)},
    }
    schema = row_schema(n_dims, grid, parameters)
    return Plan(Path(config["results"]) / name, study, schema, cells, portfolios, config)


def _digests(config: Mapping[str, Any]) -> dict[str, str]:
    """The contents of the files that a configuration names; a changed file is another study."""
    digests = {}
    for group, key in (
        ("workload", "file"),
        ("workload", "traces"),
        ("topology", "file"),
        ("network", "file"),
        ("npu", "measured"),
    ):
        if not config[group].get(key):
            continue
        path = found(config[group][key])
        files = [path] if path.is_file() else sorted(path.parent.glob(f"{path.name}.*"))
        content = hashlib.blake2b(digest_size=16)
        for file in files:
            content.update(file.read_bytes())
        digests[f"{group}.{key}"] = content.hexdigest()
    return digests


def study_name(composed: Composed) -> str:
    """The name of a study's folder in the results folder."""
    return _name(composed, plain(composed.config))


def _name(composed: Composed, config: Mapping[str, Any]) -> str:
    name = config["name"] or composed.study
    if not name:
        raise DimsweepError(
            "which study?", where="study", hint="study=NAME, or name=NAME for yours"
        )
    if not re.fullmatch(r"[\w][\w.+-]*", name):
        raise DimsweepError(f"{name!r} cannot name a folder", where="name")
    return str(name)


def _objective(value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in OBJECTIVES:
            raise DimsweepError(
                f"{name!r} is no objective",
                where="objective",
                hint=f"any of {', '.join(OBJECTIVES)}",
            )
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise DimsweepError("one objective, or two different ones", where="objective")
    return names


def _compose_cells(
    composed: Composed, grid: Mapping[str, Any]
) -> list[tuple[dict[str, str], Composed]]:
    """Each combination of the grid's values, composed with them as overrides."""
    if not grid:
        return [({}, composed)]
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise DimsweepError("a list of values", where=f"grid.{key}")
    cells = []
    for values in itertools.product(*grid.values()):
        ours = dict(zip(grid, values, strict=True))
        kept = [o for o in composed.overrides if o.lstrip("+").split("=")[0] not in ours]
        cell = compose([*kept, *(f"{key}={_quoted(value)}" for key, value in ours.items())])
        cells.append(({key: _label(value) for key, value in ours.items()}, cell))
    return cells


def _label(value: Any) -> str:
    """A grid's value in a table."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_label(v)}" for key, v in value.items())
    return str(value)


def _quoted(value: Any) -> str:
    """A value as Hydra's override grammar wants it: like JSON, but for the keys of mappings."""
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_quoted(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    return json.dumps(value)


def _plan_cell(
    number: int,
    coordinates: dict[str, str],
    config: dict[str, Any],
    objective: list[str],
    turned: list[str],
) -> tuple[CellPlan, Program]:
    program = build_program(config)
    if program.prices is None and set(objective) - {"time"}:
        raise DimsweepError(
            "the objective needs prices, but some dimension's tier has none",
            where="cost.tiers",
            hint=f"tiers of the topology: {', '.join(config['topology']['tiers']) or 'none named'}",
        )
    if config["budget"]["points"] < 1:
        raise DimsweepError("a search needs at least 1 point", where="budget.points")
    gap = config["budget"]["gap"]
    if gap is not None and not gap >= 0:
        raise DimsweepError(
            f"{gap:g} is no gap", where="budget.gap", hint="a share of the bound, such as 1e-4"
        )
    _check_fidelity(config)
    if is_by_message(config):
        network_of(program)
    else:  # also compiles the kernel, once and for all, before any worker would
        run_batch(program, program.bandwidth)
    space = build_space(config, program)
    least = least_bound(space, program, objective[0])
    front = proven_front(config, space, program, objective)
    hopes = list(front.bandwidth) if front is not None else [least.bandwidth] if least else []
    plan = CellPlan(
        Cell(number, config, coordinates),
        space,
        bound := proven_bound(config, space, least, objective[0]),
        None if bound is None or least is None else (least.per_bandwidth * 1e12).tolist(),
        front,
        _first_points(config, space, program, hopes),
        objective,
        program.prices,
        config["budget"]["points"] if space.n_unit else 1,
        design_warnings(config, program, turned, searched=space.split is not None),
        config["budget"]["gap"],
        config["recheck"]["top"],
    )
    plan.search()  # refuses bad options now, not when the cell's turn comes
    return plan, program


def _check_fidelity(config: Mapping[str, Any]) -> None:
    """Whether what is to be simulated message by message can be, and has a point."""
    top, by_message = config["recheck"]["top"], is_by_message(config)
    if top < 0:
        raise DimsweepError(f"{top} is no number of designs", where="recheck.top")
    if top and (by_message or "fidelity" in config["space"]["parameters"]):
        raise DimsweepError(
            "the search itself simulates message by message",
            where="recheck.top",
            hint="fidelity=phase searches; recheck.top is how many of the best to look at again",
        )
    if top:
        network_of(build_program({**config, "fidelity": Fidelity.MESSAGE.value}))
    split = config["space"]["bandwidth"]
    searched = any(split[name] for name in ("total", "cost", "bisection", "max"))
    if (top or by_message) and config["network"]["file"] and searched:
        raise DimsweepError(
            "the links' bandwidths are those of the file, whatever the split",
            where="network.file",
            hint="search other keys, or let network.fabric make the network from the dimensions",
        )


def _first_points(
    config: Mapping[str, Any], space: Space, program: Program, hopes: Sequence[np.ndarray]
) -> list[Point]:
    """Splits worth knowing: equal, proportional to the traffic, where the lower bound is least
    (``hopes``), and the user's own."""
    splits: list[tuple[str, np.ndarray]] = []
    if space.split is not None:
        n = program.structure.shape.n_dims
        if config["search"]["enqueue"] or not space.n_unit:
            splits.append(("equal", space.split.equal()))
            demand = traffic(program)
            if demand.sum() > 0 and space.split.has_budget:
                splits.append(("proportional", space.split.along(demand)))
            splits += [("bound", space.split.nearest(hope)) for hope in hopes]
        for i, known in enumerate(config["space"]["bandwidth"]["known"]):
            try:
                wish = np.array(one_per_dim(known, n, bandwidth))
                space.split.check(wish)
            except DimsweepError as error:
                raise error.at(f"space.bandwidth.known[{i}]") from None
            splits.append(("known", space.split.nearest(wish)))
    elif config["search"]["enqueue"] or not space.n_unit:
        return [Point(0, "known", None, space.defaults(config))]
    return [
        Point(i, origin, tuple(split.tolist()), space.defaults(config))
        for i, (origin, split) in enumerate(splits)
    ]


def _portfolios(
    weighing: Weighing, cells: list[CellPlan], programs: list[Program]
) -> list[PortfolioPlan]:
    """A portfolio for each combination of the rest of the grid; its workloads are neighbours."""
    n, found = len(weighing.share), []
    for first in range(0, len(cells), n):
        members, models = cells[first : first + n], {}
        for cell, program in zip(members, programs[first : first + n], strict=True):
            if cell.bound is not None and cell.space.split is not None:
                name = cell.cell.coordinates[WORKLOAD]
                models[name] = EventBound(program, cell.space.split.linear())
        found.append(PortfolioPlan(members, weighing, models if len(models) == n else {}))
    return found


def _describe_portfolio(plan: PortfolioPlan) -> dict[str, Any]:
    """What is known of a portfolio before it is searched; its driver adds what it finds."""
    return {
        "cells": [cell.cell.number for cell in plan.cells],
        "measure": plan.weighing.measure.value,
        "level": plan.weighing.level,
        "share": plan.weighing.share.tolist(),
        "own": None,  # each workload's own best, in seconds, or in seconds times USD
        "bound": None,  # that no split beats in the measure
    }


def _describe(plan: CellPlan, program: Program) -> dict[str, Any]:
    config = plan.cell.config
    return {
        "cell": plan.cell.number,
        "coordinates": dict(plan.cell.coordinates),
        "dims": list(program.names.dims),
        "workload": config["workload"]["name"],
        "n_npus": program.n_npus,
        "sampler": sampler_of(config, plan.space, plan.objective) if plan.space.n_unit else "grid",
        "points": plan.budget,
        "bound": plan.bound,
        "pairs": [asdict(pair) for pair in provisioning(program)],
        "ms_per_GBps": plan.worth,
        "usd_per_GBps": plan.prices and [price * 1e9 for price in plan.prices.per_bandwidth],
        "front": plan.front
        and {name: column.tolist() for name, column in vars(plan.front).items()},
        "stops_at_gap": plan.gap,
    }
