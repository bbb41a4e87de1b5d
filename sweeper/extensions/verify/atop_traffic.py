"""ATOP's nine cases of traffic on a network: times, lower bounds, and the front over a space.

Each case is a number of pipeline stages and a kind of traffic: gradients, activations between
stages, or both concurrently.  Ranks of a server are tensor parallel; replicas come next, and stages
last.  Gradients are reduced by recursive halving and doubling.  With both kinds, each round of the
gradients is concurrent with its share of the activations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.network import Network, PriceList, Spread, Wiring
from dimsweep.sweeper.extensions.verify.atop_space import (
    SERVER,
    Connection,
    Floats,
    FoldedLinks,
    LayeredNetwork,
    Longs,
    PriceCache,
)

Pattern = tuple[str, int]  # ("swap", distance) or ("shift", distance) of ranks
Round = dict[Pattern, float]  # bytes
STAGES = (4, 8, 16)
KINDS = ("DP", "PP", "DP and PP")


@dataclass(frozen=True)
class TrainingJob:
    """The training of a transformer, with 12 layers hidden^2 weights and 2 bytes per value."""

    npus: int
    layers: int
    hidden: int
    batch: int
    chunks: int  # of a stage
    sequence: int = 2048  # tokens of a micro-batch

    def replicas(self, stages: int) -> int:
        """Return the number of data-parallel replicas with the given number of stages."""
        return self.npus // SERVER // stages

    def gradients(self, stages: int) -> float:
        """Return the bytes of gradients that an NPU holds with the given number of stages."""
        return 2.0 * 12 * self.layers * self.hidden**2 / SERVER / stages

    def activations(self, stages: int) -> float:
        """Return the bytes that an NPU sends to the next stage per iteration.

        The NPU receives the same number of bytes back.
        """
        passes = self.batch // self.replicas(stages) * self.chunks
        return 2.0 * passes * self.sequence * self.hidden / SERVER


class TrafficCases:
    """The nine cases of traffic of a training job.

    ``patterns`` hold the target of each NPU, ``rounds`` the bytes by pattern in each round of each
    case.  Shifts are by multiples of ``far``.
    """

    def __init__(self, trained: TrainingJob) -> None:
        self.patterns = dict[Pattern, Longs]()
        self.rounds = dict[tuple[int, str], list[Round]]()
        self.far = SERVER * trained.replicas(max(STAGES))
        npus = np.arange(trained.npus)
        for stages in STAGES:
            replicas = trained.replicas(stages)
            far = SERVER * replicas
            next_stage = {("shift", by): (npus + by) % trained.npus for by in (far, -far)}
            strides = [SERVER * 2**k for k in range(replicas.bit_length() - 2, -1, -1)]
            self.patterns |= next_stage | {("swap", by): npus ^ by for by in strides}
            summed = _list_halving_rounds(trained.gradients(stages), strides)
            passed: list[Round] = [dict.fromkeys(next_stage, trained.activations(stages))]
            both = _add_share(summed, passed[0]) or passed
            for kind, rounds in zip(KINDS, (summed, passed, both), strict=True):
                self.rounds[stages, kind] = rounds

    def mean(self, seconds: Callable[[Longs], Floats], enough: float = np.inf) -> float:
        """Return the mean time of the cases, or a lower bound once it reaches ``enough``.

        ``seconds`` returns the busy seconds of links if each NPU sends a byte to its target.
        """
        busy, found = dict[Pattern, Floats](), 0.0
        for name in sorted(
            self._bytes_by_pattern, key=self._bytes_by_pattern.__getitem__, reverse=True
        ):
            busy[name] = seconds(self.patterns[name])
            rounds = (own for case in self.rounds.values() for own in case)
            found = sum(_find_longest(own, busy) for own in rounds) / len(self.rounds)
            if found >= enough:
                break
        return found

    def bound_by_bandwidth(self, bandwidth: float) -> float:
        """Return a lower bound on the mean time, by the total ``bandwidth`` of an NPU."""
        return sum(self._bytes_by_pattern.values()) / len(self.rounds) / bandwidth

    @cached_property
    def _bytes_by_pattern(self) -> dict[Pattern, float]:
        """Bytes that an NPU sends in each pattern, summed over all cases."""
        found = dict.fromkeys(self.patterns, 0.0)
        for own in (own for case in self.rounds.values() for own in case):
            for name, n in own.items():
                found[name] += n
        return found

    def bound_on_network(self, network: LayeredNetwork, known: "PortBounds") -> float:
        """Return a lower bound on the mean time on a network, without building its graph."""
        bounds = {name: known.bound_pattern(network, name) for name in self.patterns}
        found = 0.0
        for rounds in self.rounds.values():
            for own in rounds:
                found += max(
                    *(n * bounds[name].busiest_port for name, n in own.items()),
                    sum(n * bounds[name].leaves for name, n in own.items()),
                    sum(n * bounds[name].crosses for name, n in own.items()),
                    sum(n * bounds[name].climbs for name, n in own.items()),
                )
        return found / len(self.rounds)


def _list_halving_rounds(size: float, strides: Sequence[int]) -> list[Round]:
    """Return the rounds of recursive halving, farthest partner first, and of doubling."""
    found = [{("swap", by): size / 2 ** (k + 1)} for k, by in enumerate(strides)]
    return [each for each in found for _ in range(2)]


def _add_share(rounds: Sequence[Round], others: Round) -> list[Round]:
    """Return the rounds, each with an equal share of the traffic ``others`` added."""
    total = sum(sum(each.values()) for each in rounds)
    return [
        each | {name: n * sum(each.values()) / total for name, n in others.items()}
        for each in rounds
    ]


def _find_longest(own: Round, busy: Mapping[Pattern, Floats]) -> float:
    return float(np.max(sum(n * busy[name] for name, n in own.items() if name in busy)))


@dataclass(frozen=True)
class PatternBounds:
    """Lower bounds on the seconds of a traffic pattern in which each NPU sends one byte.

    All but ``busiest_port`` add up over concurrent patterns.
    """

    busiest_port: float  # ports of the busiest NPU
    leaves: float  # ports of a server
    crosses: float  # all links together
    climbs: float  # links from the lower to the upper layer of switches


class PortBounds:
    """Lower bounds by the ports of NPUs, for all networks of a space.

    A message to an NPU on the same switch uses only two links, to and from that switch.  Traffic
    of a server leaves by its NPUs' ports, if necessary after NVLink.  A message between servers
    without a common switch uses a link to a switch and at least one more link, between switches or
    from another server to a switch.  If NPUs connect only to the lower layer, a message whose ends
    are both below one switch of the upper layer goes up to such a switch, the only shortest route.
    """

    def __init__(self, patterns: Mapping[Pattern, Longs]) -> None:
        self._patterns = patterns
        self._shared = dict[object, NDArray[np.bool_]]()
        self._apart = dict[object, NDArray[np.bool_]]()
        self._climbing = dict[object, NDArray[np.bool_]]()

    def bound_pattern(self, network: LayeredNetwork, name: Pattern) -> PatternBounds:
        """Return the bounds of a pattern on a network."""
        low, high = network.lanes
        speed, n = network.speed, network.npus
        own = [self._share_switch(join, name) for join in (network.low, network.high) if join]
        shared = own[0] * low + (own[1] * high if len(own) > 1 else 0)
        by_ports = [1 / (int(lanes) * speed) for lanes in np.unique(shared) if lanes]
        leaves = 1 / ((low + high) * speed)
        apart = int(self._share_no_switch(network, name).sum())
        links = n * (low + high) + network.between_switches
        crosses = (n + apart) / (links * speed)
        climbs = 0.0
        if network.up and not network.high:
            up = network.up
            lanes_up = up.below * up.n_above * up.lanes
            climbs = int(self._share_upper_switch(network, name).sum()) / (lanes_up * speed)
        return PatternBounds(max(by_ports, default=0.0), leaves, crosses, climbs)

    def _share_switch(self, join: Connection, name: Pattern) -> NDArray[np.bool_]:
        """Return whether each NPU shares a switch of a layer with its target."""
        key = join.size, join.classes, name
        if key not in self._shared:
            of = join.node_classes
            self._shared[key] = of == of[self._patterns[name]]
        return self._shared[key]

    def _share_upper_switch(self, network: LayeredNetwork, name: Pattern) -> NDArray[np.bool_]:
        """Return whether each NPU and its target share an upper switch, but their servers none."""
        low, up = network.low, network.up
        assert up is not None
        key = (low.size, low.classes, low.n_above, up.size, up.classes, name)
        if key not in self._climbing:
            # The switches of each NPU.
            own = low.node_classes[:, None] * low.n_above + np.arange(low.n_above)
            sees = np.zeros((low.below, up.classes), dtype=bool)
            sees[np.arange(low.below)[:, None], up.node_classes[own]] = True
            both = (sees & sees[self._patterns[name]]).any(axis=1)
            self._climbing[key] = both & self._share_no_switch(network, name)
        return self._climbing[key]

    def _share_no_switch(self, network: LayeredNetwork, name: Pattern) -> NDArray[np.bool_]:
        """Return whether each NPU's server shares no switch with its target's server."""
        joins = [join for join in (network.low, network.high) if join]
        key = (*((join.size, join.classes) for join in joins), name)
        if key not in self._apart:
            near = np.zeros(network.npus, dtype=bool)
            for join in joins:
                of = join.node_classes.reshape(-1, SERVER)
                sees = np.zeros((len(of), join.classes), dtype=bool)
                sees[np.repeat(np.arange(len(of)), SERVER), of.reshape(-1)] = True
                server = np.arange(network.npus) // SERVER
                there = self._patterns[name] // SERVER
                near |= (sees[server] & sees[there]).any(axis=1)
            self._apart[key] = ~near
        return self._apart[key]


# The front of mean time and cost over a space of layered networks, with its proof.
#
# Networks are evaluated in order of cost.  A network whose lower bound is not below the best mean
# time of the cheaper networks cannot be on the front, and its graph is never built.


_ROUNDING = 1e-9


class FrontStep(NamedTuple):
    """A network on the time-cost frontier."""

    network: LayeredNetwork
    cost: float  # USD
    mean: float  # seconds, over the cases


class Front(NamedTuple):
    """The networks that no other network beats in both time and cost."""

    steps: Sequence[FrontStep]  # cheapest first
    networks: int  # in the space
    timed: int  # not excluded by bounds

    def find_dominating(self, cost: float, mean: float) -> FrontStep | None:
        """Return the fastest network of the frontier that beats a cost and mean time, or None."""
        found = [step for step in self.steps if step.cost <= cost and step.mean <= mean]
        last = found[-1] if found else None
        return None if last is not None and (last.cost, last.mean) == (cost, mean) else last


def compute_mean_time(cases: TrafficCases, network: Network) -> float:
    """Return the simulated mean seconds of the nine traffic cases on a network."""
    npus = np.arange(network.n_npus)
    spread = Spread(Wiring.from_network(network), npus)
    return cases.mean(partial(spread.seconds, npus))


def find_front(networks: Sequence[LayeredNetwork], cases: TrafficCases, prices: PriceList) -> Front:
    """Return the time-cost frontier of networks; networks with an unpriced part are left out."""
    ports, shop = PortBounds(cases.patterns), PriceCache(prices)
    costs = np.array([network.cost(shop) for network in networks])
    wide = np.array([cases.bound_by_bandwidth(sum(each.lanes) * each.speed) for each in networks])
    steps, best, looked_at = list[FrontStep](), np.inf, 0
    for cost in np.unique(costs[~np.isnan(costs)]).tolist():
        own = np.flatnonzero((costs == cost) & (wide < best * (1 - _ROUNDING)))
        bounds = [cases.bound_on_network(networks[i], ports) for i in own.tolist()]
        for bound, i in sorted(zip(bounds, own.tolist(), strict=True)):
            goal = best * (1 - _ROUNDING)
            if bound >= goal:
                break
            looked_at += 1
            folded = FoldedLinks(networks[i], cases.patterns.values(), cases.far)
            mean = cases.mean(folded.seconds, goal)
            if mean < goal:
                best = mean
                steps = [step for step in steps if step.cost < cost]
                steps.append(FrontStep(networks[i], cost, mean))
    return Front(steps, int((~np.isnan(costs)).sum()), looked_at)
