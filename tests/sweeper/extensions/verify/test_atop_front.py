"""ATOP's space in small: the front is that of all networks, and no bound is above a time."""

from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    Group,
    NetworkModel,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.network import (
    Network,
    PriceList,
    Routing,
    Spread,
    Wiring,
    build_bill,
    list_needs,
)
from dimsweep.engine.network.generators import BCube, FatTree, Generator, Hpn, RailOnly, ZCube
from dimsweep.engine.network.routing import Router
from dimsweep.sweeper.extensions.verify import atop
from dimsweep.sweeper.extensions.verify.atop_space import (
    Connection,
    FoldedLinks,
    LayeredNetwork,
    Limits,
    PriceCache,
    _is_connected,
    generate_networks,
)
from dimsweep.sweeper.extensions.verify.atop_traffic import (
    KINDS,
    STAGES,
    Front,
    FrontStep,
    PortBounds,
    TrafficCases,
    TrainingJob,
    compute_mean_time,
    find_front,
)
from tests.support.examples import examples

NPUS = 128  # as many servers as the most stages
CASES = TrafficCases(TrainingJob(NPUS, layers=2, hidden=64, batch=64, chunks=2, sequence=128))


LIMITS = Limits(NPUS, 64 * 25e9, ports=2)  # switches of 64 ports of 200 Gb/s, NPUs of two
FIRST = next(generate_networks(LIMITS))


@cache
def networks() -> list[LayeredNetwork]:
    return [*generate_networks(LIMITS)]


MESH = LayeredNetwork(Connection(NPUS, 8, 4, 8), None, None, True, 25e9)
BOTH = LayeredNetwork(
    Connection(NPUS, 32, 1, 16), Connection(NPUS, 8, 4, 8), Connection(32, 8, 2, 4, 3), False, 25e9
)
TWISTED = LayeredNetwork(
    Connection(NPUS, 16, 2, 16), Connection(NPUS, 16, 4, 16), Connection(16, 16, 1, 8), False, 50e9
)


@cache
def prices_of_parts() -> PriceList:
    return atop.read_prices()


def seconds(network: Network, targets: np.ndarray) -> np.ndarray:
    """How long links are busy if each NPU sends a byte."""
    npus = np.arange(network.n_npus)
    return Spread(Wiring.from_network(network), npus).seconds(npus, targets)


def by_adding_up(
    network: nx.DiGraph, source: int, target: int
) -> dict[tuple[object, object], float]:
    """Of a byte, what each link carries, way by way."""
    ways = list(nx.all_shortest_paths(network, source, target))
    weights = [
        np.prod([network.edges[link]["lanes"] for link in nx.utils.pairwise(way)]) for way in ways
    ]
    found = dict[tuple[object, object], float]()
    for way, weight in zip(ways, weights, strict=True):
        for link in nx.utils.pairwise(way):
            found[link] = found.get(link, 0.0) + weight / sum(weights)
    return found


@pytest.mark.parametrize(
    "generator",
    [
        ZCube(n=4, k=2, bandwidth=25e9, server=4),
        BCube(n=4, k=2, bandwidth=25e9),
        RailOnly(npus=16, radix=4, rails=2, server=2),
        LayeredNetwork(
            Connection(16, 4, 2, 4), None, Connection(4, 2, 1, 1, 2), mesh=False, speed=25e9
        ).build_generator(),
    ],
)
def test_messages_are_spread_over_all_shortest_ways(generator: Generator) -> None:
    network = generator.build()
    targets = (np.arange(16) * 5 + 3) % 16
    load = dict[tuple[object, object], float]()
    for source, target in enumerate(targets.tolist()):
        if source != target:
            for link, n in by_adding_up(network.graph, source, target).items():
                load[link] = load.get(link, 0.0) + n
    wanted = [load.get((link.source, link.target), 0.0) / link.bandwidth for link in network.links]
    assert seconds(network, targets) == pytest.approx(np.array(wanted), rel=1e-12, abs=1e-30)


@pytest.mark.parametrize(
    "generator", [ZCube(n=4, k=2), Hpn(npus=16, radix=8), FatTree(npus=16, radix=4)]
)
def test_a_router_spreads_alike_where_no_link_has_several_lanes(generator: Generator) -> None:
    """And where no NPU has a link that is no cable, which a router prefers."""
    network = generator.build()
    assert all(link.lanes == 1 and link.medium for link in network.links)
    router, targets = Router(network, Routing.SPRAY), (np.arange(16) * 5 + 3) % 16
    loads = np.zeros(len(network.links))
    for source, target in enumerate(targets.tolist()):
        for link, part in router.spread(source, target).items() if source != target else ():
            loads[link] += part / network.links[link].bandwidth
    assert seconds(network, targets) == pytest.approx(loads, rel=1e-12, abs=1e-30)


def test_halving_and_doubling_is_that_of_flows_where_there_is_one_way() -> None:
    """A rail of 8 NPUs under one switch, without latency."""
    network = RailOnly(npus=64, radix=8, server=8, latency=0, nvlink_latency=0).build()
    size = 8e6
    collective = Collective(CollectiveKind.ALL_REDUCE, size, "all")
    cluster = Cluster(
        Topology.build("Switch(8)_Switch(8)", bandwidth=[1e9, 1e9], latency=[0, 0]),
        collectives=CollectiveModel(chunks=1, algorithms=("auto", "halving_doubling")),
        network=NetworkModel(graph=network),
    )
    workload = Workload.of_one(collective, Group((1, 8), (1, 1)))
    simulated = simulate(workload, cluster, fidelity="flow").time
    npus = np.arange(64)
    own = sum(
        2 * size / 2 ** (k + 1) * seconds(network, npus ^ by).max()
        for k, by in enumerate((32, 16, 8))
    )
    assert own == pytest.approx(simulated, rel=1e-6)


@given(st.data())
@examples(8)
def test_no_bound_is_above_a_time_and_costs_are_those_of_the_bill(data: st.DataObject) -> None:
    network = data.draw(st.sampled_from(networks()))
    graph, prices = network.build_generator().build(), prices_of_parts()
    bill = build_bill(list_needs(graph), prices)
    assert network.cost(PriceCache(prices)) == pytest.approx(bill.cost)
    least, wide = (
        CASES.bound_on_network(network, PortBounds(CASES.patterns)),
        sum(network.lanes) * network.speed,
    )
    mean = compute_mean_time(CASES, graph)
    folded = FoldedLinks(network, CASES.patterns.values(), CASES.far)
    assert CASES.mean(folded.seconds) == pytest.approx(mean)
    assert mean * 0.4 <= CASES.mean(folded.seconds, mean * 0.4) <= mean * (1 + 1e-9)
    assert CASES.bound_by_bandwidth(wide) <= least * (1 + 1e-9)
    assert least <= mean * (1 + 1e-9)
    ports = [
        sum(link.lanes for link in graph.links if link.source == f"layer {i} switch 0")
        for i in (1, 2)
    ]
    assert tuple(ports) == network.ports


@pytest.mark.parametrize("network", [FIRST, MESH, BOTH, TWISTED])
def test_links_that_are_alike_are_as_busy_as_one_of_them(network: LayeredNetwork) -> None:
    """Of each pattern, by itself; of 128 NPUs only some have to send."""
    graph = network.build_generator().build()
    folded = FoldedLinks(network, CASES.patterns.values(), CASES.far)
    for targets in CASES.patterns.values():
        every, some = seconds(graph, targets), folded.seconds(targets)
        assert len(some) < len(every) / 3
        assert {*some.round(20)} == {*every.round(20)}


@pytest.mark.long
def test_the_front_is_that_of_all_networks() -> None:
    some, prices = networks()[:: len(networks()) // 60], prices_of_parts()
    shop = PriceCache(prices)
    every = [
        (one.cost(shop), compute_mean_time(CASES, one.build_generator().build())) for one in some
    ]
    front = find_front(some, CASES, prices)
    assert front.networks == len(some)
    assert len(front.steps) < front.timed < len(some) / 2
    for step in front.steps:
        assert step.mean == pytest.approx(min(mean for cost, mean in every if cost <= step.cost))
        assert (step.cost, step.mean) in every
    for cost, mean in every:
        better = front.find_dominating(cost * (1 + 1e-9), mean * (1 + 1e-9))
        assert better is not None
        assert front.find_dominating(better.cost, better.mean) is None
    assert front.find_dominating(0.0, 1.0) is None


def test_each_network_is_there_once_and_keeps_the_limits() -> None:
    found = networks()
    assert len(found) == len(set(found)) > 100
    for network in found:
        assert max(network.ports) * network.speed <= 64 * 25e9
        assert sum(network.lanes) <= 2
        assert sum(network.lanes) * network.speed <= 200e9


def joins(below: int) -> st.SearchStrategy[Connection]:
    """Connections to four switches, in up to four classes."""
    kinds = [(size, n) for size in (1, 4, 8, 16) for n in (1, 2, 4) if size * n <= below]
    return st.sampled_from(
        [Connection(below, 4, below if n == 1 else size, n) for size, n in kinds]
    )


@given(joins(64), st.none() | joins(64), st.none() | joins(4), st.booleans())
def test_networks_in_pieces_are_left_out(
    low: Connection, high: Connection | None, up: Connection | None, mesh: bool
) -> None:
    network = LayeredNetwork(low, high, up, mesh, 25e9)
    if _is_connected(network):
        network.build_generator().build()
    else:
        with pytest.raises(DimsweepError, match="no route from"):
            network.build_generator().build()


def test_nine_cases_send_what_is_trained() -> None:
    trained = TrainingJob(NPUS, layers=2, hidden=64, batch=64, chunks=2, sequence=128)
    assert [*CASES.rounds] == [(stages, kind) for stages in STAGES for kind in KINDS]
    for stages in STAGES:
        replicas = trained.replicas(stages)
        gradients, sent = trained.gradients(stages), trained.activations(stages)
        summed, passed, both = (CASES.rounds[stages, kind] for kind in KINDS)
        assert sum(sum(own.values()) for own in summed) == pytest.approx(
            2 * gradients * (1 - 1 / replicas)
        )
        assert sum(sum(own.values()) for own in passed) == 2 * sent
        whole = 2 * gradients * (1 - 1 / replicas) + 2 * sent
        assert sum(sum(own.values()) for own in both) == pytest.approx(whole)


def test_what_dominates_is_the_fastest_that_costs_no_more() -> None:
    steps = [FrontStep(FIRST, cost, mean) for cost, mean in ((1.0, 4.0), (2.0, 2.0), (3.0, 1.0))]
    front = Front(steps, 3, 3)
    assert front.find_dominating(2.5, 3.0) == steps[1]
    assert front.find_dominating(2.0, 2.0) is None
    assert front.find_dominating(1.5, 3.0) is None
