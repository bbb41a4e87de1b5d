"""What one cell of a study will do: its space, its bound, and the trials to try first."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import MODEL_VERSION, DimsweepError, Fidelity, Prices, Program, run_batch
from engine.bound import Frontier, traffic
from engine.kernels.message import network_of
from engine.rules import provisioning
from sweeper.build.program import build_program, is_by_message
from sweeper.config.compose import found
from sweeper.config.parse import bandwidth, one_per_dim
from sweeper.ledger.record import CellRecord
from sweeper.ledger.rows import Cell
from sweeper.objective import Objective
from sweeper.search import Sampler, make_sampler, sampler_name
from sweeper.space.space import Space, Trial, build_space
from sweeper.study.bound import least_bound, proven_bound, proven_front
from sweeper.study.rules import design_warnings

# What a row depends on; the rest of a config says which trials to look at, and how.
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
    """A cell with its space and the trials that its search proposes first."""

    cell: Cell
    space: Space
    bound: float | None  # that no split beats in the first objective
    worth: tuple[float, ...] | None  # dT/db in ms per GB/s where that bound is least
    front: Frontier | None  # that none beats in time at its cost, where both are objectives
    first: list[Trial]
    objective: tuple[Objective, ...]
    prices: Prices | None
    budget: int
    warnings: list[str]  # of the design rules
    gap: float | None  # to the bound, at which the search may stop
    recheck: int  # best designs to simulate again, message by message

    def sampler(self) -> Sampler:
        """A new search, at its beginning."""
        return make_sampler(self.cell.config, self.space, self.first, self.objective, self.prices)

    def is_settled(self, best: Sequence[float] | None) -> bool:
        """Whether the best values so far are as near to the bound as the study wants them."""
        if best is None or self.bound is None or self.gap is None:
            return False
        return self.objective[0].is_within(best[0], self.bound, self.gap)

    def keys(self, trials: Sequence[Trial]) -> list[str]:
        """Each trial's key: a hash of everything that determines its result, and of its cell."""
        config = {name: self.cell.config[name] for name in _DETERMINES_RESULT}
        parts = [MODEL_VERSION, dict(self.cell.coordinates), config, digests(config)]
        base = json.dumps(parts, sort_keys=True)
        start = hashlib.blake2b(base.encode(), digest_size=16)
        keys = []
        for trial in trials:
            digest = start.copy()
            if trial.bandwidth is not None:
                digest.update(struct.pack(f"<{len(trial.bandwidth)}d", *trial.bandwidth))
            if trial.parameters:
                digest.update(json.dumps(trial.parameters, sort_keys=True).encode())
            keys.append(digest.hexdigest())
        return keys


def digests(config: Mapping[str, Any]) -> dict[str, str]:
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


def plan_cell(
    number: int,
    coordinates: dict[str, str],
    config: dict[str, Any],
    objective: tuple[Objective, ...],
    turned: list[str],
) -> tuple[CellPlan, Program]:
    program = build_program(config)
    if program.prices is None and any(each.needs_prices for each in objective):
        raise DimsweepError(
            "the objective needs prices, but some dimension's tier has none",
            where="cost.tiers",
            hint=f"tiers of the topology: {', '.join(config['topology']['tiers']) or 'none named'}",
        )
    if config["budget"]["trials"] < 1:
        raise DimsweepError("a search needs at least 1 trial", where="budget.trials")
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
    bound = proven_bound(config, space, least, objective[0])
    plan = CellPlan(
        cell=Cell(number, config, coordinates),
        space=space,
        bound=bound,
        worth=None
        if bound is None or least is None
        else tuple((least.per_bandwidth * 1e12).tolist()),
        front=front,
        first=_first_trials(config, space, program, hopes),
        objective=objective,
        prices=program.prices,
        budget=config["budget"]["trials"] if space.n_unit else 1,
        warnings=design_warnings(config, program, turned, searched=space.split is not None),
        gap=gap,
        recheck=config["recheck"]["top"],
    )
    plan.sampler()  # refuses bad options now, not when the cell's turn comes
    return plan, program


def _check_fidelity(config: Mapping[str, Any]) -> None:
    """Whether what is to be simulated message by message can be, and has a trial."""
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


def _first_trials(
    config: Mapping[str, Any], space: Space, program: Program, hopes: Sequence[np.ndarray]
) -> list[Trial]:
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
        return [Trial(0, "known", None, space.defaults(config))]
    return [
        Trial(i, origin, tuple(split.tolist()), space.defaults(config))
        for i, (origin, split) in enumerate(splits)
    ]


def describe(plan: CellPlan, program: Program) -> CellRecord:
    """What the ledger keeps of a cell."""
    config, prices = plan.cell.config, plan.prices
    sampler = sampler_name(config, plan.space, plan.objective) if plan.space.n_unit else "grid"
    return CellRecord(
        cell=plan.cell.number,
        coordinates=plan.cell.coordinates,
        dims=tuple(program.names.dims),
        workload=config["workload"]["name"],
        n_npus=program.n_npus,
        sampler=sampler,
        trials=plan.budget,
        bound=plan.bound,
        pairs=tuple(provisioning(program)),
        ms_per_GBps=plan.worth,
        usd_per_GBps=None
        if prices is None
        else tuple(price * 1e9 for price in prices.per_bandwidth),
        front=plan.front,
        stops_at_gap=plan.gap,
    )
