"""The picture of a network: what is drawn where, and what its title says."""

import io
import json

import matplotlib.colors
import matplotlib.image
import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    GraphBuilder,
    NetworkModel,
    Result,
    Topology,
    Workload,
    place,
    simulate,
)
from dimsweep.engine.kernels.messages import LinkAccount, MessageRun
from dimsweep.engine.network import (
    Auto,
    Clos,
    Dragonfly,
    Mesh,
    Network,
    build_network,
    read_network,
)
from dimsweep.engine.topology import parse_shape
from dimsweep.sweeper.draw import network as pictures
from dimsweep.sweeper.draw.layout import lay_out
from tests.support.refused import refused

GRAPH = {
    "nodes": [{"id": f"n{i}", "npu": i} for i in range(4)] + [{"id": "left"}, {"id": "right"}],
    "edges": [
        {"source": source, "target": target, "bandwidth": "50 GB/s", "latency": "1 us"}
        for source, target in [
            ("n0", "left"),
            ("n1", "left"),
            ("n2", "right"),
            ("n3", "right"),
            ("left", "right"),
        ]
    ],
}


def topology(shape):
    n = len(parse_shape(shape))
    return Topology.build(shape, bandwidth=[50e9] * n, latency=[500_000] * n)


def network(shape, *fabrics):
    return build_network(topology(shape), fabrics)


@pytest.fixture
def graph(tmp_path):
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(GRAPH))
    return read_network(file)


def run(shape, *fabrics, graph=None, fidelity="message"):
    """An all-reduce among all NPUs."""
    workload = GraphBuilder()
    workload.add("gradients", Collective(CollectiveKind.ALL_REDUCE, 2**20, "data"))
    cluster = Cluster(topology(shape), network=NetworkModel(fabrics=fabrics, graph=graph))
    ranks = place({"data": "rest"}, cluster.topology.sizes)
    return simulate(Workload((workload.build(),), ranks), cluster, fidelity=fidelity)


def used(net, *utilisations):
    """A run in which the links of ``net`` were used so much, one after the other, the rest not."""
    shares = [*utilisations, *[0.0] * (len(net.links) - len(utilisations))]
    links = tuple(
        LinkAccount(link, 1.0, 1, share, 0, ())
        for link, share in zip(net.links, shares, strict=True)
    )
    return Result(MessageRun(None, net, None, links, (), (), 0, None, None, recorded=False))


def places(net):
    return {node: tuple(np.round(spot, 9)) for node, spot in lay_out(net).places.items()}


def heights(net, start=""):
    """The heights of the switches whose names start so, or of the NPUs."""
    return {
        spot[1]
        for node, spot in places(net).items()
        if (isinstance(node, str) and node.startswith(start) if start else isinstance(node, int))
    }


NETWORKS = {
    "ring": network("Ring(8)"),
    "two": network("Ring(2)"),
    "line": network("Ring(8)", Mesh()),
    "fully connected": network("FullyConnected(8)"),
    "switch": network("Switch(16)"),
    "clos": network("Switch(16)", Clos(2, 4)),
    "clos of three levels": network("Switch(16)", Clos(3, 4, pod=2)),
    "dragonfly": network("Switch(72)", Dragonfly(4, 2)),
    "torus": network("Ring(4)_Ring(4)"),
    "mesh": network("Ring(4)_Ring(4)", Mesh(), Mesh()),
    "mesh of one dimension": network("Mesh2D(4,4)"),
    "torus of one dimension": network("Torus2D(4,4)"),
    "torus of three": network("Ring(4)_Ring(4)_Ring(4)"),
    "ring and switch": network("Ring(4)_Switch(4)"),
    "switches": network("Switch(4)_Switch(5)"),
    "ring and clos": network("Ring(2)_Switch(8)", Auto(), Clos(2, 4)),
    "four": network("Ring(2)_FullyConnected(3)_Ring(3)_Switch(2)"),
    "five": network("Ring(2)_Ring(2)_Ring(2)_Ring(2)_Switch(2)"),
    "of one": network("Ring(1)_Ring(4)"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_node_has_its_own_place_always_the_same(name):
    net = NETWORKS[name]
    spots = places(net)
    assert set(spots) == set(net.graph)
    assert len(set(spots.values())) == len(spots)
    assert np.isfinite(list(spots.values())).all()
    assert places(net) == spots
    assert len(lay_out(net).bows) == len(net.links)


@pytest.mark.parametrize("name", ["ring", "fully connected", "switch", "dragonfly"])
def test_one_dimension_is_a_circle(name):
    net = NETWORKS[name]
    spots = lay_out(net).places
    circle = np.array([spots[npu] for npu in range(net.n_npus)])
    assert np.hypot(*circle.T) == pytest.approx(1)
    steps = np.hypot(*(circle - np.roll(circle, 1, axis=0)).T)
    assert steps == pytest.approx(steps[0])
    assert all(np.hypot(*spots[node]) < 0.8 for node in spots if isinstance(node, str))


def test_the_only_switch_is_in_the_middle():
    assert places(NETWORKS["switch"])["switch d0 line 0"] == (0, 0)


def test_a_line_is_a_row():
    spots = places(NETWORKS["line"])
    assert [spots[npu] for npu in range(8)] == [(npu, 0) for npu in range(8)]


def test_a_clos_has_rows_of_switches_over_its_npus():
    net = NETWORKS["clos of three levels"]
    rows = [heights(net, start) for start in ("", "leaf", "aggregation", "core")]
    assert [len(row) for row in rows] == [1, 1, 1, 1]
    assert sorted(rows, key=min) == rows
    assert len(set.union(*rows)) == 4
    spots = places(net)
    for leaf in range(4):
        below = [spots[npu][0] for npu in range(4 * leaf, 4 * leaf + 4)]
        assert spots[f"leaf d0 line 0 no {leaf}"][0] == pytest.approx(np.mean(below))


@pytest.mark.parametrize(
    "name", ["torus", "mesh", "mesh of one dimension", "torus of one dimension"]
)
def test_two_dimensions_are_a_grid(name):
    spots = places(NETWORKS[name])
    assert all(spots[x + 4 * y] == (x, y) for x in range(4) for y in range(4))


def test_the_longer_of_two_dimensions_lies_across():
    spots = places(network("Ring(2)_Ring(5)"))
    assert all(spots[y + 2 * x] == (x, y) for x in range(5) for y in range(2))


def test_the_third_dimension_lies_between_the_others_nodes():
    spots = places(NETWORKS["torus of three"])
    steps = np.diff([spots[16 * z] for z in range(4)], axis=0)
    assert steps == pytest.approx(np.tile(steps[0], (3, 1)))
    assert (steps > 0).all()
    assert (np.array(spots[48]) < 1).all()


@pytest.mark.parametrize("name", ["four", "five"])
def test_more_dimensions_are_blocks_apart(name):
    net = NETWORKS[name]
    spots = np.array([lay_out(net).places[npu] for npu in range(net.n_npus)])
    half = len(spots) // 2
    last = np.array([spots[:half].max(axis=0), spots[half:].min(axis=0)])
    assert (last[1] > last[0]).any()


def test_only_links_past_other_nodes_bow():
    net = NETWORKS["torus"]
    ends = [(link.source, link.target) for link in net.links]
    bows = dict(zip(ends, lay_out(net).bows, strict=True))
    assert bows[0, 1] == bows[4, 0] == 0
    assert 0 < bows[0, 3] == bows[3, 0] == bows[0, 12] < 0.5
    assert not any(lay_out(NETWORKS["mesh"]).bows)
    assert not any(lay_out(NETWORKS["ring"]).bows)


@pytest.mark.parametrize("size", [4, 5])
def test_switches_stand_between_the_rows(size):
    spots = places(network(f"Ring(5)_Switch({size})"))
    for line in range(4):
        x, y = spots[f"switch d1 line {line}"]
        assert line < x < line + 1
        assert (size - 1) // 2 < y < (size - 1) // 2 + 1


def test_a_graph_of_any_shape_is_laid_out_by_networkx(graph):
    spots = places(graph)
    assert set(spots) == {0, 1, 2, 3, "left", "right"}
    assert places(graph) == spots

    def apart(one, other):
        return np.hypot(*np.subtract(spots[one], spots[other]))

    assert apart(0, "left") < apart(0, "right")
    assert apart(3, "right") < apart(3, "left")


def test_a_large_graph_has_always_the_same_layout():
    large = nx.random_regular_graph(3, 120, seed=0).to_directed()
    nx.set_edge_attributes(large, {edge: {"bandwidth": 1e9, "latency": 1} for edge in large.edges})
    assert places(Network(large)) == places(Network(large))


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("ring", "01234567"),
        ("ring and switch", [*map(str, range(16)), *(f"switch\nd1 line {i}" for i in range(4))]),
    ],
)
def test_nodes_have_their_names(name, texts):
    assert nodes(NETWORKS[name]) == list(texts)


def test_what_would_be_too_small_to_read_is_left_out():
    large = nodes(network("Switch(64)", Clos(2, 8)))
    assert large[:64] == [str(npu) for npu in range(64)]
    assert nodes(network("Ring(300)")) == []
    assert nodes(network("Ring(1000)"), drawn=0) == []


def nodes(net, drawn=2):
    """What is written on and beside the nodes, which are ``drawn`` as discs and squares."""
    ax = Figure().add_subplot()
    pictures._draw_nodes(ax, pictures._Sketch.from_network(net))
    assert len(ax.collections) == drawn
    return [text.get_text() for text in ax.texts]


def test_a_link_is_left_of_its_way():
    net = network("Ring(3)", Mesh())
    sketch = pictures._Sketch.from_network(net)
    curves, heads = pictures._curves(sketch, used(net).links)
    for link, curve, head in zip(net.links, curves, heads, strict=True):
        left = 1 if link.target > link.source else -1  # across: left is up
        assert (left * curve[:, 1] > 0).all()
        assert (left * curve[:, 1] < sketch.radius).all()
        assert left * (head[0, 0] - head[1:, 0].max()) > 0  # points forward


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("error")
def test_every_network_makes_a_picture(name):
    draw(used(NETWORKS[name], 0.9, 0.3))


@pytest.mark.long
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", ["Ring(1000)", "Switch(600)", "Ring(10)_Ring(10)_Ring(10)"])
def test_a_thousand_npus_make_a_picture(shape):
    draw(used(network(shape), 0.5))


@pytest.mark.filterwarnings("error")
def test_real_runs_make_pictures(graph):
    draw(run("Ring(4)_Switch(4)"))
    draw(run("Switch(4)", graph=graph))


def draw(result):
    image = matplotlib.image.imread(io.BytesIO(pictures.draw_network(result, "a run")))
    height, width, _ = image.shape
    assert width == 1350
    assert 450 < height < 1400
    some = image[::4] @ [1.0, 10.0, 100.0, 0.0]
    assert len(np.unique(some)) > 200  # colours: not an empty page


def test_the_picture_has_switches():
    with_one, without = (
        matplotlib.image.imread(io.BytesIO(pictures.draw_network(used(NETWORKS[name]), "a run")))
        for name in ("switch", "ring")
    )
    orange = matplotlib.colors.to_rgba("#E69F00")
    assert np.isclose(with_one, orange, atol=0.01).all(axis=2).sum() > 500
    assert not np.isclose(without, orange, atol=0.01).all(axis=2).any()


def test_the_more_a_link_is_used_the_darker_it_is():
    net = network("Ring(2)")
    light, dark = (
        matplotlib.image.imread(io.BytesIO(pictures.draw_network(used(net, 1.0, share), "a run")))
        for share in (0.1, 1.0)
    )
    assert dark[:, :1000].mean() < light[:, :1000].mean()


@pytest.mark.parametrize(
    ("shares", "finding"),
    [
        ([0.87, 0.12, 0.1, 0.1], "busiest link NPU 0 -> switch d0 line 0, utilisation 87%; half"),
        ([0.1, 0.87, 0.87], "busiest link NPU 1 -> switch d0 line 0 (and 1 alike), utilisation"),
        ([0.87, 0.12, 0.1, 0.1], "half of the links have at most 11%"),
        ([0.5] * 4, "all 4 links have a utilisation of 50%"),
        ([], "no link carries anything"),
    ],
)
def test_the_title_says_what_was_found(shares, finding):
    assert finding in pictures._finding(used(network("Switch(2)"), *shares).links)


def test_what_has_no_links_makes_no_picture():
    with refused("", "missing", "fidelity=message"):
        pictures.draw_network(run("Ring(4)", fidelity="phase"), "a run")
    with refused("", "missing", "fidelity=message"):
        pictures.draw_network(run("Ring(1)"), "a run")
