"""What all splits of a study have in common, so that different networks compare fairly: the total
bandwidth, the cost, or the bisection bandwidth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine import DimsweepError, Prices, Topology, units
from engine.cluster import cuts
from sweeper.config.parse import bandwidth, key, one_per_dim, optional
from sweeper.space.split import Spending, SplitSpace

_BUDGETS = ("total", "cost", "bisection", "max")


def build_split(
    config: Mapping[str, Any], topology: Topology, prices: Prices | None
) -> SplitSpace | None:
    """The splits that ``space.bandwidth`` describes, or ``None`` if it describes none.

    With a bisection every dimension's cut carries that much (see :func:`engine.cuts`); if nothing
    else limits the bandwidths they are the least that do, so that there is one split.  Raises
    :class:`DimsweepError` naming the key within ``space.bandwidth``.
    """
    spec, n = config["space"]["bandwidth"], len(topology.dims)
    if all(spec[name] is None for name in _BUDGETS):
        return None
    _check_parameters(config)
    with key("total"):
        total = optional(spec["total"], units.BANDWIDTH)
    with key("min"):
        minimum = one_per_dim(spec["min"], n, bandwidth)
    with key("max"):
        maximum = [np.inf] * n if spec["max"] is None else one_per_dim(spec["max"], n, bandwidth)
    with key("step"):
        step = bandwidth(spec["step"])
    with key("cost"):
        spending = None if spec["cost"] is None else _spending(spec["cost"], prices)
    if spec["bisection"] is not None:
        with key("bisection"):
            wide = _wide_enough(spec["bisection"], topology, minimum, step)
            _check_room(wide, total, spending)
        minimum = wide
        if all(spec[name] is None for name in ("total", "cost", "max")):
            maximum = wide
    return SplitSpace(
        n,
        total=total,
        minimum=minimum,
        maximum=maximum,
        step=step,
        constraints=spec["constraints"],
        spending=spending,
    )


def _spending(value: Any, prices: Prices | None) -> Spending:
    """What a cost leaves for bandwidth."""
    cost = units.parse(value, units.MONEY)
    if prices is None:
        raise DimsweepError(
            "a cost needs prices, but some dimension's tier has none",
            hint="cost.tiers has a link price for every tier of topology.tiers",
        )
    if cost <= prices.fixed:
        raise DimsweepError(
            f"{units.format_money(cost)} leave nothing for bandwidth: NPUs and other fixed parts "
            f"cost {units.format_money(prices.fixed)}"
        )
    return Spending(np.array(prices.per_bandwidth), cost - prices.fixed)


def _wide_enough(value: Any, topology: Topology, minimum: list[float], step: float) -> list[float]:
    """The least bandwidths on the grid, at least ``minimum``, that every cut needs."""
    needed = units.parse(value, units.BANDWIDTH) / cuts(topology)
    least = np.maximum(needed, minimum)
    return [math.ceil(round(b / step, 6)) * step for b in least.tolist()]


def _check_room(wide: list[float], total: float | None, spending: Spending | None) -> None:
    if total is not None and sum(wide) > total:
        raise DimsweepError(
            f"it takes {units.format_bandwidth(sum(wide))} per NPU, more than the total",
            hint="raise the total, or lower the bisection",
        )
    if spending is not None and float(spending.prices @ wide) > spending.limit:
        raise DimsweepError(
            f"its bandwidths cost {units.format_money(float(spending.prices @ wide))}, more than "
            "there is",
            hint="raise the cost, or lower the bisection",
        )


def _check_parameters(config: Mapping[str, Any]) -> None:
    """Prices and cuts are those of one topology and one price list, not of a searched one."""
    spec = config["space"]["bandwidth"]
    for name in ("cost", "bisection"):
        for searched in config["space"]["parameters"]:
            if spec[name] is not None and searched.split(".")[0] in ("topology", "cost"):
                raise DimsweepError(
                    f"it would change with {searched}, which is searched as well",
                    where=name,
                    hint="make that an axis of the grid",
                )
