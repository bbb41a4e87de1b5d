"""Networks from files: what is read, and what is refused with its name."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError, Topology
from dimsweep.engine.errors import Code
from dimsweep.engine.network.fabric import Auto, Clos, Mesh, build_network
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.network.graph_files import read_network, write_network
from tests.support.refused import refused

PAIR: dict[str, Any] = {
    "directed": False,
    "nodes": [{"id": "a", "npu": 0, "x": 3}, {"id": "b", "npu": 1}, {"id": 7}],
    "edges": [
        {"source": "a", "target": 7, "bandwidth": "50 GB/s", "latency": "500 ns"},
        {"source": 7, "target": "b", "bandwidth": "8 Gb/s", "latency": "0 s", "buffer": "1 MB"},
    ],
}
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="n" for="node" attr.name="npu" attr.type="int"/>
  <key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>
  <key id="l" for="edge" attr.name="latency" attr.type="string"><default>5 ns</default></key>
  <graph edgedefault="directed">
    <node id="a"><data key="n">0</data></node>
    <node id="b"><data key="n">1</data></node>
    <edge id="0" source="a" target="b"><data key="b">1 GB/s</data></edge>
    <edge id="1" source="b" target="a"><data key="b">2 GB/s</data><data key="l">7 ns</data></edge>
  </graph>
</graphml>
"""


def read(folder: Path, content: object, name: str = "net.json") -> Network:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_network(path)


def changed(edge: int | None = None, **values: object) -> dict[str, Any]:
    """PAIR with keys of its own, or of one of its edges, set, or left out when ``...``."""
    data = deepcopy(PAIR)
    part = data if edge is None else data["edges"][edge]
    part.update(values)
    for key in [key for key, value in part.items() if value is ...]:
        del part[key]
    return data


@pytest.mark.parametrize("key", ["edges", "links"])
def test_node_link_json(tmp_path: Path, key: str) -> None:
    network = read(tmp_path, {**changed(edges=...), key: PAIR["edges"]})
    assert set(network.links) == {
        Link(0, "7", 50e9, 500_000),
        Link("7", 0, 50e9, 500_000),
        Link("7", 1, 1e9, 0, 1e6),
        Link(1, "7", 1e9, 0, 1e6),
    }
    assert len(network.links) == 4
    assert (network.n_npus, network.sizes) == (2, ())


@pytest.mark.parametrize("name", ["net.graphml", "net.xml", "net.GraphML"])
def test_graphml_and_its_defaults(tmp_path: Path, name: str) -> None:
    network = read(tmp_path, GRAPHML, name)
    assert network.links == (Link(0, 1, 1e9, 5_000), Link(1, 0, 2e9, 7_000))
    content = GRAPHML.replace('"int"/>', '"int"><default>0</default></key>')
    content = content.replace('<data key="n">0</data>', "")
    assert read(tmp_path, content, name).links == network.links


def test_ids_may_be_pairs_as_in_products(tmp_path: Path) -> None:
    graph = nx.cartesian_product(nx.path_graph(2), nx.path_graph(2))
    for rank, node in enumerate(graph):
        graph.nodes[node]["npu"] = rank
    for _, _, data in graph.edges(data=True):
        data.update(bandwidth="1 GB/s", latency="1 ns")
    network = read(tmp_path, nx.node_link_data(graph))
    assert {(link.source, link.target) for link in network.links if link.source == 0} == {
        (0, 1),
        (0, 2),
    }


def test_links_keep_the_order_of_the_file(tmp_path: Path) -> None:
    """Routing breaks ties by it."""
    data = nx.node_link_data(nx.star_graph(3))
    for node in data["nodes"]:
        node["npu"] = node["id"]
    data["edges"] = [
        {"source": i, "target": 0, "bandwidth": "1 GB/s", "latency": "1 ns"} for i in (2, 3, 1)
    ]
    network = read(tmp_path, data)
    assert [link.target for link in network.links if link.source == 0] == [2, 3, 1]


@pytest.mark.parametrize("suffix", ["json", "graphml"])
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    topology = Topology.build(
        "Ring(3)_Ring(2)_Switch(4)", bandwidth=[3e9, 1e9 / 7, 2e9], latency=[1, 0, 999_999]
    )
    network = build_network(topology, [Mesh(), Auto(), Clos(2, 2)], buffer=12345.0)
    written = nx.DiGraph()
    for node in network.graph:
        written.add_node(f"node {node}", **({"npu": node} if isinstance(node, int) else {}))
    for link in network.links:
        written.add_edge(
            f"node {link.source}",
            f"node {link.target}",
            bandwidth=f"{link.bandwidth!r} B/s",
            latency=f"{link.latency} ps",
            buffer=f"{link.buffer} B",
        )
    path = tmp_path / f"net.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(nx.node_link_data(written)))
    else:
        nx.write_graphml(written, path)

    def name(node: int | str) -> int | str:
        return node if isinstance(node, int) else f"node {node}"

    assert read_network(path).links == tuple(
        Link(name(link.source), name(link.target), link.bandwidth, link.latency, link.buffer)
        for link in network.links
    )


AB = "[a -> 7]"


@pytest.mark.parametrize(
    ("data", "where", "code", "named"),
    [
        (changed(0, bandwidth=50e9), f"{AB}.bandwidth", "wrong-type", "50000000000.0"),
        (changed(0, bandwidth="0 GB/s"), f"{AB}.bandwidth", "out-of-range", "0 GB/s"),
        (changed(0, bandwidth="50 GB"), f"{AB}.bandwidth", "wrong-type", "50 GB"),
        (changed(0, latency=500), f"{AB}.latency", "wrong-type", "500"),
        (changed(0, latency=None), f"{AB}.latency", "wrong-type", "null"),
        (changed(0, latency="60 days"), f"{AB}.latency", "out-of-range", "60 days"),
        (changed(1, buffer="-1 MB"), "[7 -> b].buffer", "out-of-range", "-1 MB"),
        (changed(1, buffer=True), "[7 -> b].buffer", "wrong-type", "true"),
        (changed(0, bandwidth=...), AB, "missing", "bandwidth"),
        (changed(0, latency=..., bandwidth=...), AB, "missing", "bandwidth, latency"),
        (changed(0, bufer="1 MB"), AB, "unknown-key", "bufer"),
        (changed(0, target="s"), "[a -> s]", "unknown-name", "'s'"),
        (changed(0, source="s"), "[s -> 7]", "unknown-name", "'s'"),
        (changed(0, target="a"), "[0 -> 0]", "invalid", ""),
        (changed(edges=PAIR["edges"][:1]), "", "invalid", "NPU 0 to NPU 1"),
        (changed(directed=True), "", "invalid", "NPU 1 to NPU 0"),
        (changed(directed="no"), "", "missing", "directed"),
        (changed(edges=[*PAIR["edges"], PAIR["edges"][0]]), "", "duplicate", ""),
        (
            changed(edges=[*PAIR["edges"], {**PAIR["edges"][0], "source": 7, "target": "a"}]),
            "",
            "duplicate",
            "a -> 7",
        ),
        (
            changed(
                multigraph=True,
                edges=[{**PAIR["edges"][0], "key": 0}, {**PAIR["edges"][0], "key": 0}],
            ),
            "",
            "duplicate",
            "",
        ),
        (changed(nodes=[{"id": "a", "npu": 0}, {"id": "a"}], edges=[]), "", "duplicate", "a"),
        (
            changed(nodes=[{"id": 1, "npu": 0}, {"id": 2, "npu": 0}], edges=[]),
            "",
            "duplicate",
            "NPU 0",
        ),
        (changed(nodes=[{"id": 1}, {"id": "1"}], edges=[]), "", "duplicate", "1"),
        (changed(nodes=[{"id": 1, "npu": 1}], edges=[]), "", "mismatch", "NPU 0"),
        (changed(nodes=[{"id": 1}], edges=[]), "", "missing", "npu"),
        (changed(nodes=[{"id": 1, "NPU": 0}], edges=[]), "", "missing", "'NPU'"),
        (changed(nodes=[{"id": "a", "kind": "npu"}], edges=[]), "[a]", "missing", "npu"),
        (changed(nodes=[{"source": 1, "target": 2}]), "", "bad-syntax", "'id'"),
        (changed(1, lanes=True), "[1 -> 7]", "invalid", "lanes True"),
        (changed(1, id=3), "[7 -> b]", "unknown-key", "id"),
        *(
            (changed(nodes=[{"id": "a", "npu": npu}], edges=[]), "[a]", "wrong-type", repr(npu))
            for npu in (True, 0.0, "0", None, [0])
        ),
    ],
)
def test_bad_networks_are_refused_by_name(
    tmp_path: Path, data: Any, where: str, code: Code, named: str
) -> None:
    with refused(f"{tmp_path / 'net.json'}{where}", code, named):
        read(tmp_path, data)


def test_links_of_a_directed_graph_are_not_parallel(tmp_path: Path) -> None:
    back = [{**edge, "source": edge["target"], "target": edge["source"]} for edge in PAIR["edges"]]
    network = read(tmp_path, changed(directed=True, edges=PAIR["edges"] + back))
    assert len(network.links) == 4


@pytest.mark.parametrize(
    ("name", "content", "code", "named"),
    [
        ("net.json", "", "bad-syntax", ""),
        ("net.json", "{", "bad-syntax", ""),
        ("net.json", "[" * 100_000, "bad-syntax", ""),
        ("net.json", "[]", "bad-syntax", ""),
        ("net.json", "null", "bad-syntax", ""),
        ("net.json", '{"nodes": []}', "bad-syntax", ""),
        ("net.json", '{"nodes": 3, "edges": 4}', "bad-syntax", ""),
        ("net.json", '{"nodes": [{"npu": 0}], "edges": []}', "bad-syntax", ""),
        ("net.json", '{"nodes": [{"id": {}, "npu": 0}], "edges": []}', "bad-syntax", ""),
        ("net.json", '{"nodes": [{"id": 0, "npu": 0}], "edges": [5]}', "bad-syntax", ""),
        ("net.json", '{"nodes": [{"id": null}], "edges": []}', "bad-syntax", ""),
        ("net.json", GRAPHML, "bad-syntax", ""),
        ("net.graphml", "", "bad-syntax", ""),
        ("net.graphml", "{}", "bad-syntax", ""),
        ("net.xml", "<graphml/>", "bad-syntax", "0"),
        ("net.xml", "<?xml version='1.0' encoding='klingon'?><graphml/>", "bad-syntax", ""),
        ("net.xml", "<x><graph edgedefault='directed'/></x>", "bad-syntax", ""),
        ("net.xml", GRAPHML.replace("data", "date"), "missing", "npu"),
        ("net.xml", GRAPHML.replace("<node id", "<node name"), "bad-syntax", "'id'"),
        ("net.xml", GRAPHML.replace("<edge ", '<edge directed="false" '), "bad-syntax", ""),
        ("net.xml", GRAPHML.replace("<edge ", "<hyperedge/><edge ", 1), "bad-syntax", "hyperedges"),
        ("net.xml", GRAPHML.replace('"int"', '"color"'), "bad-syntax", "'color'"),
        ("net.xml", GRAPHML.replace('"directed"', '"Directed"'), "missing", "directed"),
        ("net.xml", GRAPHML.replace("</graph>", "</graph><graph/>"), "bad-syntax", "2"),
        ("net.xml", GRAPHML.replace('key="l"', 'key="z"'), "bad-syntax", "key z"),
        ("net.xml", GRAPHML.replace('"int"', '"double"'), "wrong-type", "0.0"),
        ("net.xml", GRAPHML.replace('"int"', '"string"'), "wrong-type", "'0'"),
        ("net.xml", GRAPHML.replace(">1<", ">one<"), "bad-syntax", ""),
        ("net.xml", GRAPHML.replace(">1<", ">0<"), "duplicate", "NPU 0"),
        ("net.xml", GRAPHML.replace('node id="b"', 'node id="a"'), "duplicate", "a"),
        ("net.xml", GRAPHML.replace('target="b"', 'target="c"'), "unknown-name", "'c'"),
        (
            "net.xml",
            GRAPHML.replace('source="b" target="a"', 'source="a" target="b"'),
            "duplicate",
            "a -> b",
        ),
        (
            "net.xml",
            GRAPHML.replace('attr.name="latency"', 'attr.name="delay"'),
            "unknown-key",
            "delay",
        ),
        ("net.xml", GRAPHML.replace("1 GB/s", "1"), "wrong-type", "'1'"),
        ("net.yaml", "", "unsupported", ".yaml"),
        ("net", "", "unsupported", ""),
    ],
)
def test_bad_files_are_refused(
    tmp_path: Path, name: str, content: str, code: Code, named: str
) -> None:
    with refused("", code, named) as error:
        read(tmp_path, content, name)
    assert error.value.where.startswith(str(tmp_path / name))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    files: dict[str, Code] = {
        "missing.json": "inaccessible",
        "folder.json": "inaccessible",
        "binary.json": "bad-syntax",
        "zero\0byte.json": "inaccessible",
    }
    for name, code in files.items():
        with refused(str(tmp_path / name), code):
            read_network(str(tmp_path / name))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "1 GB/s", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "npu", "source", "target", "bandwidth", "latency", "key"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {"nodes": JSON | st.lists(JSON, max_size=3), "edges": JSON | st.lists(JSON, max_size=3)},
        optional={"directed": JSON, "multigraph": JSON, "graph": JSON},
    )
)
def test_any_json_is_a_network_or_an_error(tmp_path_factory: Any, data: dict[str, Any]) -> None:
    try:
        network = read(tmp_path_factory.getbasetemp(), data)
    except DimsweepError:
        return
    assert network.n_npus


@pytest.mark.parametrize("suffix", ["json", "graphml"])
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    graph = nx.DiGraph()
    graph.add_node(0, ports=1)
    graph.add_node(1, part="switch")
    leaf = {"ports": 3, "part": "QM9700", "price": 1 / 3, "watts": 0.0, "fails": 0.04}
    graph.add_node("leaf", **leaf, repair=3600.5)
    graph.add_node("card", kind="nic")
    ways = [(0, "leaf", {"medium": "fibre", "length": 30.0, "part": "MTP"})]
    ways += [("leaf", "card", {"lanes": 2, "medium": "copper", "length": 2.5})]
    ways += [("card", 1, {"dim": 1, "buffer": 1e6})]
    for source, target, data in ways:
        graph.add_edge(source, target, bandwidth=1e9 / 7, latency=5, **data)
        graph.add_edge(target, source, bandwidth=2e9, latency=0, **data)
    network = Network(graph)
    path = tmp_path / f"net.{suffix}"
    write_network(network, path)
    again = read_network(path)
    assert again.devices == network.devices
    assert again.links == network.links


def test_where_a_network_cannot_be_written(tmp_path: Path) -> None:
    network = build_network(Topology.build("Ring(2)", bandwidth=[1e9], latency=[0]))
    files: dict[str, Code] = {"net.yaml": "unsupported", "no/net.json": "inaccessible"}
    for name, code in files.items():
        with refused(str(tmp_path / name), code):
            write_network(network, tmp_path / name)


@pytest.mark.parametrize(
    ("node", "where", "code", "named"),
    [
        ({"price": 3}, "[7].price", "wrong-type", "3"),
        ({"watts": "3 kB"}, "[7].watts", "wrong-type", "3 kB"),
        ({"repair": "-1 s"}, "[7].repair", "out-of-range", "-1 s"),
        ({"kind": "leaf"}, "[7]", "invalid", "npu, nic"),
        ({"ports": 1}, "[7].ports", "mismatch", "7 has 2"),
    ],
)
def test_bad_devices_are_refused_by_name(
    tmp_path: Path, node: dict[str, Any], where: str, code: Code, named: str
) -> None:
    nodes = [*PAIR["nodes"][:2], {"id": 7, **node}]
    with refused(f"{tmp_path / 'net.json'}{where}", code, named):
        read(tmp_path, changed(nodes=nodes))
