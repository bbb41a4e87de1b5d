"""Networks as InfraGraph, NCCL and RCCL write them, and files of other tools."""

import codecs
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.formats import read_any_network
from dimsweep.engine.network import Kind, LinkRate, Network, write_network
from tests.support.refused import refused
from tests.support.topologies import INFRAGRAPH, MNNVL, NCCL, RCCL


def read(folder: Path, name: str, text: str) -> Network:
    (folder / name).write_text(text)
    return read_any_network(folder / name)


NAMES = ("nvlink", "pcie", "serdes", "ic", "eth")  # links of INFRAGRAPH


def speeds(network: Network) -> dict[str, float]:
    """GB/s of each cable, by its name."""
    return {cable.name: round(cable.bandwidth / 1e9, 6) for cable in network.cables()}


def test_instances_of_devices_are_placed_and_joined(tmp_path: Path) -> None:
    network = read(tmp_path, "n.yaml", INFRAGRAPH)
    assert network.n_npus == 4
    kinds = Counter(device.kind for device in network.devices.values())
    assert kinds == {Kind.NPU: 4, Kind.NIC: 4, Kind.HOST: 2, Kind.SWITCH: 2 + 4 + 1 + 4}
    found = speeds(network)
    assert len(found) == 4 + 4 + 4 + 4 + 4
    assert found["NPU 3 -> host.1.nvlsw.0"] == 450
    assert found["NPU 3 -> host.1.cx5.1.asic.0"] == 64
    assert found["host.1.cx5.1.port.0 -> leaf.0.port.3"] == 50
    latency = {link.name: link.latency for link in network.links}
    assert latency["NPU 0 -> host.0.nvlsw.0"] == 300_000
    assert latency["leaf.0.port.3 -> host.1.cx5.1.port.0"] == 1_500_000
    assert latency["leaf.0.asic.0 -> leaf.0.port.0"] == 0


def test_all_of_a_component_may_be_joined_to_each_other(tmp_path: Path) -> None:
    own = INFRAGRAPH.replace("{component: nvlsw}, link: nvlink", "{component: xpu}, link: nvlink")
    found = speeds(read(tmp_path, "n.yaml", own))
    assert {name for name in found if name.startswith("NPU 0")} == {
        *("NPU 0 -> NPU 1", "NPU 0 -> host.0.cx5.0.asic.0")
    }


def test_a_table_by_name_gives_links_their_rates(tmp_path: Path) -> None:
    """Blueprints have no bandwidths; what the table says replaces what a file says."""
    bare = yaml.safe_load(INFRAGRAPH)
    for holder in (bare, *bare["devices"]):
        holder["links"] = [{"name": link["name"]} for link in holder.get("links", ())]
    (tmp_path / "n.yaml").write_text(yaml.safe_dump(bare))
    rates = {name: LinkRate(10e9 * i, i * 1000) for i, name in enumerate(NAMES, 1)}
    network = read_any_network(tmp_path / "n.yaml", rates)
    assert {link.part: (link.bandwidth, link.latency) for link in network.links} == {
        name: (rate.bandwidth, rate.latency) for name, rate in rates.items()
    }
    (tmp_path / "n.yaml").write_text(INFRAGRAPH)
    network = read_any_network(tmp_path / "n.yaml", {NAMES[0]: LinkRate(10e9)})
    found = {link.part: link.bandwidth for link in network.links}
    assert found[NAMES[0]] == 10e9 and found[NAMES[1]] > 10e9


def test_a_table_names_links_that_are_used(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(INFRAGRAPH)
    with refused(f"{tmp_path / 'n.yaml'}: links", "unknown-name", "'nvlnk'", "'nvlink'"):
        read_any_network(tmp_path / "n.yaml", {"nvlnk": LinkRate(10e9)})
    (tmp_path / "n.xml").write_text(NCCL)
    with refused("n.xml", "conflict", "InfraGraph"):
        read_any_network(tmp_path / "n.xml", {"nvlink": LinkRate(10e9)})


def test_gpus_of_a_node_have_what_nccl_takes_their_links_for(tmp_path: Path) -> None:
    """18 NVLinks of 20.6 GB/s; PCIe 5 of 16 lanes at 24 Gb/s; 400 Gb/s; two Emerald Rapids."""
    network = read(tmp_path, "n.xml", NCCL)
    found = speeds(network)
    assert network.n_npus == 2
    assert found["NPU 0 -> NVSwitch"] == found["NPU 1 -> NVSwitch"] == 370.8
    assert found["NPU 0 -> pci 0000:18:00.0"] == 48
    assert found["cpu 0 -> cpu 1"] == 40
    assert found["pci 0000:19:00.0 -> nic mlx5_0"] == 48  # less than the port's 50
    assert network.devices["nic mlx5_0"].kind is Kind.NIC
    latency = {link.name: link.latency for link in network.links if link.latency}
    assert set(latency.values()) == {1_500_000}


def test_nvlinks_to_gpus_join_them_alone(tmp_path: Path) -> None:
    own = NCCL.replace(
        'target="0000:07:00.0" count="9" tclass="0x068000"', 'target="HERE" count="6"'
    )
    first, second = own.split('<cpu numaid="1"')
    own = (
        first.replace("HERE", "0001:18:00.0")
        + '<cpu numaid="1"'
        + second.replace("HERE", "0000:18:00.0")
    )
    found = speeds(read(tmp_path, "n.xml", own))
    assert found["NPU 0 -> NPU 1"] == pytest.approx(6 * 20.6)
    assert found["NPU 0 -> NVSwitch"] == pytest.approx(9 * 20.6)


def test_links_to_gpus_outside_the_file_are_left_out(tmp_path: Path) -> None:
    """NCCL leaves them out (``if (remote)`` in topo.cc): a job may use two GPUs of eight."""
    own = NCCL.replace('target="0000:07:00.0" count="9" tclass="0x068000"', 'target="0000:1:0.0"')
    found = speeds(read(tmp_path, "n.xml", own))
    assert found["NPU 0 -> NVSwitch"] == pytest.approx(9 * 20.6)


@pytest.mark.parametrize(
    ("gcn", "rate"),
    [("gfx942", 48), ("gfx950", 48), ("940", 48), ("gfx90a:sramecc+", 36), ("910", 36), ("908", 24),
     ("gfx906", 24)],
)  # fmt: skip
def test_xgmi_links_have_the_rate_of_the_architecture(
    tmp_path: Path, gcn: str, rate: float
) -> None:
    """RCCL's topo.h; a member of eight has seven links of 48 GB/s."""
    network = read(tmp_path, "n.xml", RCCL.replace("gfx942", gcn))
    found = speeds(network)
    assert [found[f"NPU {i} -> NPU {j}"] for i in range(4) for j in range(i + 1, 4)] == [rate] * 6
    assert found["NPU 0 -> pci 0000:01:00.0"] == 48


def test_an_xgmi_link_needs_the_architecture(tmp_path: Path) -> None:
    with refused("n.xml", "missing", "'gcn'"):
        read(tmp_path, "n.xml", RCCL.replace('gcn="gfx942"', ""))


def test_hosts_of_an_nvlink_domain_share_the_nvswitch_only(tmp_path: Path) -> None:
    network = read(tmp_path, "n.xml", MNNVL)
    found = speeds(network)
    assert network.n_npus == 4
    assert {found[f"NPU {rank} -> NVSwitch"] for rank in range(4)} == {721.8}
    assert found["NPU 2 -> cpu 1"] == pytest.approx(5 * 44.712)
    assert found["NPU 2 -> host 1 pci 0008:06:00.0"] == 48
    assert network.devices["host 1 nic mlx5_0"].kind is Kind.NIC
    assert "cpu 0 -> cpu 1" not in found


def test_processors_of_a_host_are_joined(tmp_path: Path) -> None:
    one = MNNVL.replace("0x2", "0x1").replace('numaid="0"', 'numaid="1"', 1)
    own = one.replace("0008:06", "0018:06", 1).replace("0009:06", "0019:06", 1)
    own = own.replace("0002:01", "0012:01", 1).replace("mlx5_0", "mlx5_1", 1)
    assert speeds(read(tmp_path, "n.xml", own))["cpu 0 -> cpu 1"] == 6


def test_a_file_of_a_cloud_has_no_gpus(tmp_path: Path) -> None:
    bare = NCCL.replace(' rank="0"', "").replace(' rank="1"', "")
    with refused(str(tmp_path / "n.xml"), "missing", "2 GPUs", "NCCL_TOPO_DUMP_FILE"):
        read(tmp_path, "n.xml", bare)


@pytest.mark.parametrize("name", ["n.json", "n", "n.yaml", "n.json.gz"])
def test_the_content_says_what_a_file_is(tmp_path: Path, name: str) -> None:
    content = json.dumps(yaml.safe_load(INFRAGRAPH)).encode()
    for text in (content, codecs.BOM_UTF8 + content, content.decode().encode("utf-16")):
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        assert read_any_network(tmp_path / name).n_npus == 4


@pytest.mark.parametrize("text", [INFRAGRAPH, NCCL, MNNVL, RCCL])
def test_a_name_needs_no_ending(tmp_path: Path, text: str) -> None:
    marked = codecs.BOM_UTF8.decode() + text.replace("\n", "\r\n")
    assert read(tmp_path, "network", marked).links == read(tmp_path, "n.yaml.xml", text).links


def test_infragraph_may_be_wrapped(tmp_path: Path) -> None:
    whole = yaml.safe_load(INFRAGRAPH)
    network = read(tmp_path, "n.yaml", yaml.safe_dump({"infrastructure": whole}))
    assert network.n_npus == 4
    whole["devices"][0]["edges"][0]["link"] = "nv"
    with pytest.raises(DimsweepError, match="unknown link 'nv'") as raised:
        read(tmp_path, "n.yaml", yaml.safe_dump({"infrastructure": whole}))
    assert raised.value.where.startswith(f"{tmp_path / 'n.yaml'}: infrastructure: devices")


GML = 'Creator "x"\ngraph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]'
GRAPHS = '<graphs version="1"><graph id="0" pattern="4"/></graphs>'
LSTOPO = '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0"/>'


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("net.gml", GML, "read_gml"),
        ("graph.xml", GRAPHS, "NCCL_TOPO_DUMP_FILE instead"),
        ("node.xml", LSTOPO, "NCCL_TOPO_DUMP_FILE"),
        ("net.dot", "// x\ndigraph G {\n a -> b;\n}", "read_dot"),
        ("net.gexf", '<gexf xmlns="http://gexf.net/1.3"/>', "read_gexf"),
        ("network.yml", "topology: [ Ring ]\nnpus_count: [ 4 ]\n", "topology.file"),
        ("net.xml", "<html/>", "GraphML, node-link JSON, InfraGraph"),
        ("net.txt", "what\n", "GraphML, node-link JSON, InfraGraph"),
        ("wrapped.yaml", "infrastructure:\n  devices: []\n  instances: []\n", "choice: xpu"),
        ("bare.yaml", "instances: []\n", "add it to the file"),
    ],
)
def test_files_of_other_tools_are_recognised(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    with pytest.raises(DimsweepError) as raised:
        read(tmp_path, name, text)
    assert raised.value.where.startswith(str(tmp_path / name))
    assert says in raised.value.hint


@pytest.mark.parametrize(
    ("name", "text"), [("n.yaml", INFRAGRAPH), ("n.xml", NCCL)], ids=["infragraph", "nccl"]
)
def test_what_is_read_can_be_written(tmp_path: Path, name: str, text: str) -> None:
    network = read(tmp_path, name, text)
    write_network(network, tmp_path / "own.json")
    again = read_any_network(tmp_path / "own.json")
    assert again.links == network.links
    assert again.devices == network.devices


@pytest.mark.parametrize(
    ("old", "new", "code", "data"),
    [
        ("device: server", "device: serve", "unknown-name", "did you mean 'server'"),
        ("link: eth", "link: et", "unknown-name", "'et'"),
        ("'xpu[0:2]'", "'xpu[0:3]'", "out-of-range", "xpu[0:2]"),
        ("'xpu[0:2]'", "'xpu[0:1]'", "mismatch", "one2one"),
        ("'xpu[0:2]'", "cx5", "invalid", "'cx5'"),
        ("component: 'cx5.port'", "component: 'cpu.port'", "unknown-name", "'port'"),
        ("scheme: many2many", "scheme: ring", "unsupported", "one2one"),
        ("scheme: many2many", "scheme: some", "unknown-name", "'one2one', 'many2many' or 'ring'"),
        ("gigabytes_per_second: 64", "gigabytes_per_second: 0", "missing", "links: pcie"),
        ("physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 64}}",
         "physical: {bandwidth: {choice: gigatransfers_per_second, gigatransfers_per_second: 32}}",
         "missing", "links: "),
        ("name: asic, count: 1, choice: nic", "name: cx5, count: 1, choice: device",
         "invalid", "devices: cx5"),
        ("count: 2, choice: xpu", "count: 2000000, choice: xpu",
         "too-many", "1,000,000"),
        ("name: cpu, count: 1", "name: xpu, count: 1", "duplicate", "'xpu'"),
        ("choice: ns, ns: 300", "choice: ns, ns: -1", "out-of-range", "0 or more"),
        ("- {name: leaf, device: switch, count: 1}", "[]", "bad-syntax", ""),
        ("instance: 'leaf[0]', ", "", "missing", "{instance: "),
        ("count: 2, choice: xpu", "count: 0, choice: xpu", "out-of-range", "1 or more"),
    ],
)  # fmt: skip
def test_what_is_no_infragraph_is_refused(
    tmp_path: Path, old: str, new: str, code: Code, data: str
) -> None:
    assert old in INFRAGRAPH
    with refused("", code, str(tmp_path / "n.yaml"), data):
        read(tmp_path, "n.yaml", INFRAGRAPH.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "code", "data"),
    [
        ("</system>", "", "bad-syntax", ""),
        ('rank="1"', 'rank="0"', "duplicate", "0"),
        ('rank="1"', 'rank="one"', "out-of-range", "'one'"),
        (' sm="90" rank="1"', ' rank="1"', "missing", "'sm'"),
        ('count="9"', 'count="0"', "out-of-range", "'0'"),
        ("nvlink", "mtlink", "unsupported", "<mtlink>"),
        ('busid="0001:18:00.0"', 'busid="0000:18:00.0"', "duplicate", "0000:18:00.0"),
        ('latency="1.5"', 'latency="-1"', "out-of-range", "'-1'"),
        ('name="mlx5_0" ', "", "missing", "'name'"),
    ],
)
def test_what_nccl_does_not_write_is_refused(
    tmp_path: Path, old: str, new: str, code: Code, data: str
) -> None:
    assert old in NCCL
    with refused("", code, str(tmp_path / "n.xml"), data):
        read(tmp_path, "n.xml", NCCL.replace(old, new, 1))
