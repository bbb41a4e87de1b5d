"""The front of mean time and cost over a space of layered networks, and the proof that it is one.

Networks are looked at from the cheapest on.  One whose bound is no less than the best mean time of
those that cost no more cannot be on the front, and its graph is never built.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dimsweep.engine.network import Network, PriceList, Spread, Wiring
from dimsweep.sweeper.questions.networks.alike import Folded
from dimsweep.sweeper.questions.networks.layered import Layered, Shop
from dimsweep.sweeper.questions.networks.traffic import Cases, Ports

_ROUNDING = 1e-9


class Step(NamedTuple):
    """A network of the front: USD, and the mean of the cases' seconds."""

    network: Layered
    cost: float
    mean: float


class Front(NamedTuple):
    """The networks that no other one is as fast as for as little money, the cheapest first; how
    many there were, and how many were timed, which no bound excludes."""

    steps: Sequence[Step]
    networks: int
    timed: int

    def dominates(self, cost: float, mean: float) -> Step | None:
        """The fastest network of the front that costs no more, if it is faster, or cheaper and as
        fast; None if there is none."""
        found = [step for step in self.steps if step.cost <= cost and step.mean <= mean]
        last = found[-1] if found else None
        return None if last is not None and (last.cost, last.mean) == (cost, mean) else last


def mean_time(cases: Cases, network: Network) -> float:
    """The mean of the cases' seconds on a network."""
    npus = np.arange(network.n_npus)
    spread = Spread(Wiring.of(network), npus)
    return cases.mean(partial(spread.seconds, npus))


def front_of(networks: Sequence[Layered], cases: Cases, prices: PriceList) -> Front:
    """The front of these networks; those that no parts of a list are, are left out."""
    ports, shop = Ports(cases.patterns), Shop(prices)
    costs = np.array([network.cost(shop) for network in networks])
    wide = np.array([cases.at_best(sum(each.lanes) * each.speed) for each in networks])
    steps, best, looked_at = list[Step](), np.inf, 0
    for cost in np.unique(costs[~np.isnan(costs)]).tolist():
        own = np.flatnonzero((costs == cost) & (wide < best * (1 - _ROUNDING)))
        bounds = [cases.least(networks[i], ports) for i in own.tolist()]
        for bound, i in sorted(zip(bounds, own.tolist(), strict=True)):
            goal = best * (1 - _ROUNDING)
            if bound >= goal:
                break
            looked_at += 1
            folded = Folded(networks[i], cases.patterns.values(), cases.far)
            mean = cases.mean(folded.seconds, goal)
            if mean < goal:
                best = mean
                steps = [step for step in steps if step.cost < cost]
                steps.append(Step(networks[i], cost, mean))
    return Front(steps, int((~np.isnan(costs)).sum()), looked_at)
