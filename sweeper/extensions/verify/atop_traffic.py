"""ATOP's nine cases of traffic on a network, and what they take at least.

Each case is a number of pipeline stages, and what is sent: gradients, activations between stages,
or both at once.  Ranks of a server are tensor parallel; replicas come next, and stages last.
Gradients are summed by recursive halving and doubling.  Of both at once, a round of the gradients
has its share of the activations beside it.
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

Pattern = tuple[str, int]  # who sends to whom: a swap of ranks so far apart, or a shift by so many
Round = dict[Pattern, float]  # bytes
STAGES = (4, 8, 16)
KINDS = ("DP", "PP", "DP and PP")


@dataclass(frozen=True)
class TrainingJob:
    """What is trained on ``npus``, as far as it decides how much is sent: a transformer of so many
    ``layers`` of ``hidden``, its ``batch``, and so many ``chunks`` a stage.  There are 12 layers
    hidden^2 weights, gradients and activations of 2 bytes, ``sequence`` tokens a micro-batch."""

    npus: int
    layers: int
    hidden: int
    batch: int
    chunks: int
    sequence: int = 2048

    def replicas(self, stages: int) -> int:
        return self.npus // SERVER // stages

    def gradients(self, stages: int) -> float:
        """Bytes of an NPU's gradients."""
        return 2.0 * 12 * self.layers * self.hidden**2 / SERVER / stages

    def activations(self, stages: int) -> float:
        """Bytes that an NPU sends to the next stage in an iteration, and as many back."""
        passes = self.batch // self.replicas(stages) * self.chunks
        return 2.0 * passes * self.sequence * self.hidden / SERVER


class TrafficCases:
    """The nine cases of what is trained: ``patterns`` are whom each NPU sends to in a round, and
    ``rounds`` the bytes by pattern of all rounds of each case.  Shifts are by multiples of
    ``far``."""

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
        """The mean of the cases' times, by how long links are busy with a byte of each NPU to its
        target; what it is not below, as soon as that is ``enough``."""
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
        """What the mean of the times is not below where all ports of an NPU have that bandwidth."""
        return sum(self._bytes_by_pattern.values()) / len(self.rounds) / bandwidth

    @cached_property
    def _bytes_by_pattern(self) -> dict[Pattern, float]:
        """The bytes that an NPU sends by pattern, in all cases."""
        found = dict.fromkeys(self.patterns, 0.0)
        for own in (own for case in self.rounds.values() for own in case):
            for name, n in own.items():
                found[name] += n
        return found

    def bound_on_network(self, network: LayeredNetwork, known: "PortBounds") -> float:
        """What the mean of the cases' times is not below on a network, whose graph is not built."""
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
    """Rounds that send half of what is left, the farthest first, and the same backwards."""
    found = [{("swap", by): size / 2 ** (k + 1)} for k, by in enumerate(strides)]
    return [each for each in found for _ in range(2)]


def _add_share(rounds: Sequence[Round], others: Round) -> list[Round]:
    """Rounds with their share of what others send."""
    whole = sum(sum(each.values()) for each in rounds)
    return [
        each | {name: n * sum(each.values()) / whole for name, n in others.items()}
        for each in rounds
    ]


def _find_longest(own: Round, busy: Mapping[Pattern, Floats]) -> float:
    return float(np.max(sum(n * busy[name] for name, n in own.items() if name in busy)))


@dataclass(frozen=True)
class PatternBounds:
    """Seconds for a byte of each NPU in a pattern: of the busiest NPU's ports if it is alone; of a
    server's ports, of all links together, and of those up from the lower layer of switches, which
    add up over patterns."""

    busiest_port: float
    leaves: float
    crosses: float
    climbs: float


class PortBounds:
    """Bounds by the ports of NPUs, for all networks of a space.

    A message to an NPU that shares a switch takes two links, and no others: those to switches of
    that layer.  What a server sends leaves it by its NPUs' ports, also by NVLink.  A message
    between servers none of whose NPUs share a switch takes a link to a switch, and at least one
    from switch to switch, or from another server to a switch.  Where NPUs are joined to the lower
    layer only, one whose ends are below a switch of the upper layer goes up to such a switch, as no
    other way is as short.
    """

    def __init__(self, patterns: Mapping[Pattern, Longs]) -> None:
        self._patterns = patterns
        self._shared = dict[object, NDArray[np.bool_]]()
        self._apart = dict[object, NDArray[np.bool_]]()
        self._climbing = dict[object, NDArray[np.bool_]]()

    def bound_pattern(self, network: LayeredNetwork, name: Pattern) -> PatternBounds:
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
        """Whether each NPU shares a switch of a layer with whom it sends to."""
        key = join.size, join.classes, name
        if key not in self._shared:
            of = join.node_classes
            self._shared[key] = of == of[self._patterns[name]]
        return self._shared[key]

    def _share_upper_switch(self, network: LayeredNetwork, name: Pattern) -> NDArray[np.bool_]:
        """Whether each NPU and whom it sends to share no switch, and are below one of the upper
        layer."""
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
        """Whether each NPU sends to a server that shares no switch with its own."""
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


# The front of mean time and cost over a space of layered networks, and the proof that it is one.
#
# Networks are looked at from the cheapest on. One whose bound is no less than the best mean time
# of those that cost no more cannot be on the front, and its graph is never built.


_ROUNDING = 1e-9


class FrontStep(NamedTuple):
    """A network of the front: USD, and the mean of the cases' seconds."""

    network: LayeredNetwork
    cost: float
    mean: float


class Front(NamedTuple):
    """The networks that no other one is as fast as for as little money, the cheapest first; how
    many there were, and how many were timed, which no bound excludes."""

    steps: Sequence[FrontStep]
    networks: int
    timed: int

    def find_dominating(self, cost: float, mean: float) -> FrontStep | None:
        """The fastest network of the front that costs no more, if it is faster, or cheaper and as
        fast; None if there is none."""
        found = [step for step in self.steps if step.cost <= cost and step.mean <= mean]
        last = found[-1] if found else None
        return None if last is not None and (last.cost, last.mean) == (cost, mean) else last


def compute_mean_time(cases: TrafficCases, network: Network) -> float:
    """The mean of the cases' seconds on a network."""
    npus = np.arange(network.n_npus)
    spread = Spread(Wiring.from_network(network), npus)
    return cases.mean(partial(spread.seconds, npus))


def find_front(networks: Sequence[LayeredNetwork], cases: TrafficCases, prices: PriceList) -> Front:
    """The front of these networks; those that no parts of a list are, are left out."""
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
