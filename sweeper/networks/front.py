"""The front of mean time and cost over a space of layered networks, and the proof that it is one.

Networks are looked at from the cheapest on.  One whose bound is no less than the best mean time of
those that cost no more cannot be on the front, and its graph is never built.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dimsweep.engine.network import Network, PriceList, Spread
from dimsweep.sweeper.networks.layered import Layered, Shop
from dimsweep.sweeper.networks.traffic import Cases, Ports

_ROUNDING = 1e-9


class Step(NamedTuple):
    """A network of the front: USD, and the mean of the cases' seconds."""

    network: Layered
    cost: float
    mean: float


class Front(NamedTuple):
    """The networks that no other one is as fast as for as little money, the cheapest first; how
    many there were, and of how many a graph was built."""

    steps: Sequence[Step]
    networks: int
    built: int

    def dominates(self, cost: float, mean: float) -> Step | None:
        """The fastest network of the front that costs no more, if it is faster, or cheaper and as
        fast; None if there is none."""
        found = [step for step in self.steps if step.cost <= cost and step.mean <= mean]
        last = found[-1] if found else None
        return None if last is not None and (last.cost, last.mean) == (cost, mean) else last


def mean_time(cases: Cases, network: Network) -> float:
    """The mean of the cases' seconds on a network."""
    return float(np.mean([*cases.times(Spread(network)).values()]))


def front_of(networks: Sequence[Layered], cases: Cases, prices: PriceList) -> Front:
    """The front of these networks; those that no parts of a list are, are left out."""
    ports, shop = Ports(cases.patterns), Shop(prices)
    costs = np.array([network.cost(shop) for network in networks])
    wide = np.array([cases.at_best(sum(each.lanes) * each.speed) for each in networks])
    steps, best, built = list[Step](), np.inf, 0
    for i in np.lexsort((wide, costs))[: (~np.isnan(costs)).sum()].tolist():
        goal = best * (1 - _ROUNDING)
        if wide[i] >= goal or cases.least(networks[i], ports) >= goal:
            continue
        built += 1
        mean = mean_time(cases, networks[i].generator().build())
        if mean < goal:
            best = mean
            steps = [step for step in steps if step.cost < costs[i]]
            steps.append(Step(networks[i], float(costs[i]), mean))
    return Front(steps, int((~np.isnan(costs)).sum()), built)
