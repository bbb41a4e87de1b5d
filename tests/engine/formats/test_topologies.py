"""Networks as InfraGraph and NCCL write them."""

from collections import Counter
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import read_any_network
from dimsweep.engine.network import Kind, Network, write_network
from tests.support.topologies import INFRAGRAPH, NCCL


def read(folder: Path, name: str, text: str) -> Network:
    (folder / name).write_text(text)
    return read_any_network(folder / name)


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
    ("old", "new", "says"),
    [
        ("device: server", "device: serve", "there is no device 'serve'\n  did you mean 'server'"),
        ("link: eth", "link: et", "there is no link 'et'"),
        ("'xpu[0:2]'", "'xpu[0:3]'", "'xpu[0:3]' names what is not there: there are 2"),
        ("'xpu[0:2]'", "'xpu[0:1]'", "one2one joins 1 to 2"),
        ("'xpu[0:2]'", "cx5", "'cx5' is a device"),
        ("component: 'cx5.port'", "component: 'cpu.port'", "'cpu' is no device"),
        ("scheme: many2many", "scheme: ring", "whom a ring joins"),
        ("scheme: many2many", "scheme: some", "is none of 'one2one', 'many2many' or 'ring'"),
        ("gigabytes_per_second: 64", "gigabytes_per_second: 0", "links: pcie: how many bytes"),
        ("physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 64}}",
         "physical: {bandwidth: {choice: gigatransfers_per_second, gigatransfers_per_second: 32}}",
         "how many bytes a second it carries is not told"),
        ("name: asic, count: 1, choice: nic", "name: cx5, count: 1, choice: device",
         "devices: cx5: it is a part of itself"),
        ("count: 2, choice: xpu", "count: 2000000, choice: xpu",
         "4,000,017 components, of which 1,000,000 are read"),
        ("name: cpu, count: 1", "name: xpu, count: 1", "two of a component are called 'xpu'"),
        ("choice: ns, ns: 300", "choice: ns, ns: -1", "it must be 0 or more"),
        ("- {name: leaf, device: switch, count: 1}", "[]", "it is not YAML"),
        ("instance: 'leaf[0]', ", "", "it names no instance"),
        ("count: 2, choice: xpu", "count: 0, choice: xpu", "it must be 1 or more"),
    ],
)  # fmt: skip
def test_what_is_no_infragraph_is_told(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in INFRAGRAPH
    with pytest.raises(DimsweepError) as raised:
        read(tmp_path, "n.yaml", INFRAGRAPH.replace(old, new, 1))
    assert str(tmp_path / "n.yaml") in str(raised.value)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("</system>", "", "it is no XML"),
        ('rank="1"', 'rank="0"', "two GPUs have rank 0"),
        ('rank="1"', 'rank="one"', "'rank' of a gpu is 'one'"),
        (' sm="90" rank="1"', ' rank="1"', "a gpu without 'sm'"),
        ('count="9"', 'count="0"', "'count' of a nvlink is '0'"),
        ('tclass="0x068000"', 'tclass="0x030200"', "leads to 0000:07:00.0, and no GPU is there"),
        ('busid="0001:18:00.0"', 'busid="0000:18:00.0"', "two devices are there"),
        ('latency="1.5"', 'latency="-1"', "'latency' of a net is '-1'"),
        ('name="mlx5_0" ', "", "a net without 'name'"),
    ],
)
def test_what_nccl_does_not_write_is_told(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in NCCL
    with pytest.raises(DimsweepError) as raised:
        read(tmp_path, "n.xml", NCCL.replace(old, new, 1))
    assert str(tmp_path / "n.xml") in str(raised.value)
    assert says in str(raised.value)
