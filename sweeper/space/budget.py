"""Build the space of bandwidth splits under a budget: total or bisection bandwidth, or cost.

Budgets make different networks comparable.
"""

import math

import numpy as np

from dimsweep.engine import DimsweepError, Prices, Topology, units
from dimsweep.engine.topology import cuts
from dimsweep.sweeper.config.catalogue import load_catalogue
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.part import expand_per_dimension, naming_key
from dimsweep.sweeper.space.split import AnySplit, PartsSpace, Spending, SplitSpace


def build_split(config: Config, topology: Topology, prices: Prices | None) -> AnySplit | None:
    """Return the space of splits that ``space.bandwidth`` describes, or None if it is not given.

    A bisection is a minimum for the cut of every dimension (:func:`engine.topology.cuts`). Without
    another limit, bandwidths have exactly these minima, so there is one split. Raises
    :class:`DimsweepError` naming the key within ``space.bandwidth``.
    """
    split, n = config.space.bandwidth, len(topology.dims)
    if not split.is_searched:
        return None
    _check_parameters(config)
    minimum = list(expand_per_dimension(split.min, n, "min"))
    maximum = list(expand_per_dimension(np.inf if split.max is None else split.max, n, "max"))
    with naming_key("cost"):
        spending = None if split.cost is None else _build_spending(split.cost, prices)
    if split.bisection is not None:
        with naming_key("bisection"):
            wide = _minimum_for_bisection(split.bisection, topology, minimum, split.step)
            _check_budget(wide, split.total, spending)
        minimum = wide
        if split.total is None and split.cost is None and split.max is None:
            maximum = wide
    if split.parts:
        return PartsSpace(
            _sold_bandwidths(config, n),
            total=split.total,
            minimum=minimum,
            maximum=maximum,
            constraints=list(split.constraints),
            spending=spending,
        )
    return SplitSpace(
        n,
        total=split.total,
        minimum=minimum,
        maximum=maximum,
        step=split.step,
        constraints=list(split.constraints),
        spending=spending,
    )


def _sold_bandwidths(config: Config, n: int) -> list[list[float]]:
    """Return the bandwidths for which parts are sold, ascending, for each dimension."""
    kinds, machines = config.topology.links, config.npu.machines
    with naming_key("parts"):
        if len(kinds) != n:
            raise DimsweepError(
                f"topology.links names {len(kinds)} kinds of links for {n} dimensions",
                hint="such as topology.links=[nvlink,port]; conf/parts.yaml lists all kinds",
                code="mismatch",
            )
        found = [
            [
                float(part.bandwidth)
                for part in load_catalogue().kind(kind).parts
                if not part.announced and part.suits(machines)
            ]
            for kind in kinds
        ]
        for kind, bandwidths in zip(kinds, found, strict=True):
            if not bandwidths:
                raise DimsweepError(
                    f"no {load_catalogue().kind(kind).what} suits {' or '.join(machines)}",
                    hint="choose another npu, or add a part to conf/parts.yaml",
                    code="missing",
                )
    return [sorted(set(bandwidths)) for bandwidths in found]


def _build_spending(cost: float, prices: Prices | None) -> Spending:
    """Return the budget for bandwidth: a total cost without its fixed amounts."""
    if prices is None:
        raise DimsweepError(
            "a cost needs prices, but the tier of a dimension has none",
            hint="give cost.tiers a link price for every tier of topology.tiers",
            code="missing",
        )
    if not any(prices.per_bandwidth):
        raise DimsweepError(
            "it limits prices of bandwidth, but cost prices whole parts, or a graph",
            hint="use objective=[time, cost], or a price list by bandwidth, such as "
            "cost=illustrative",
            code="conflict",
        )
    if cost <= prices.fixed:
        raise DimsweepError(
            f"{units.format_money(cost)}; it must exceed the cost of NPUs and other fixed parts, "
            f"{units.format_money(prices.fixed)}",
            code="out-of-range",
        )
    return Spending(np.array(prices.per_bandwidth), cost - prices.fixed)


def _minimum_for_bisection(
    bisection: float, topology: Topology, minimum: list[float], step: float
) -> list[float]:
    """Return the minimum bandwidths, multiples of ``step``, with which every cut has ``bisection``.

    They are at least ``minimum``.
    """
    needed = bisection / cuts(topology)
    least = np.maximum(needed, minimum)
    return [math.ceil(round(b / step, 6)) * step for b in least.tolist()]


def _check_budget(wide: list[float], total: float | None, spending: Spending | None) -> None:
    if total is not None and sum(wide) > total:
        raise DimsweepError(
            f"it needs {units.format_bandwidth(sum(wide))} per NPU, more than the total",
            hint="raise the total, or lower the bisection",
            code="conflict",
        )
    if spending is not None and float(spending.prices @ wide) > spending.limit:
        raise DimsweepError(
            f"its bandwidths cost {units.format_money(float(spending.prices @ wide))}, more than "
            f"the available {units.format_money(spending.limit)}",
            hint="raise the cost, or lower the bisection",
            code="conflict",
        )


def _check_parameters(config: Config) -> None:
    """Raise :class:`DimsweepError` for searched keys that change the prices or cuts of a budget."""
    split = config.space.bandwidth
    for name, given in (("cost", split.cost), ("bisection", split.bisection)):
        for searched in config.space.parameters:
            if given is not None and searched.split(".")[0] in ("topology", "cost"):
                raise DimsweepError(
                    f"it would change with {searched}, which is also searched",
                    where=name,
                    hint=f"make {searched} an axis of the grid",
                    code="conflict",
                )
