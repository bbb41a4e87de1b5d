"""Topologies and flows of ns-3 (HPCC, SimAI) and htsim: what they say, and files that are none."""

from collections import Counter
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError, PacketModel
from dimsweep.engine.extensions.uet_htsim import Tree
from dimsweep.engine.formats import (
    read_any_network,
    read_connection_matrix,
    read_flows,
    read_htsim_topology,
    read_ns3_config,
    read_ns3_topology,
)
from dimsweep.engine.kernels.packet.transports import (
    Dcqcn,
    Dctcp,
    Hpcc,
    Static,
    Timely,
    Transport,
)
from dimsweep.engine.network import Network
from dimsweep.engine.workload import ListedFlow
from tests.support.packet_files import (
    HPCC,
    HPCC_CONFIG,
    HPCC_FLOWS,
    MATRIX,
    SIMAI,
    THREE_TIERS,
    TWO_TIERS,
)

NS, US = 1000, 10**6  # ps


def file(folder: Path, text: str) -> Path:
    (folder / "f.txt").write_text(text)
    return folder / "f.txt"


def network(folder: Path, text: str) -> Network:
    return read_any_network(file(folder, text))


def bare(flow: ListedFlow) -> ListedFlow:
    return flow._replace(where="")


def links(found: Network) -> dict[str, tuple[float, int]]:
    """GB/s and ps of each link, by its name."""
    return {link.name: (link.bandwidth / 1e9, link.latency) for link in found.links}


# --- ns-3 ----------------------------------------------------------------------------------------


def test_hosts_of_hpcc_are_npus_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Node 2 is the switch; rates are bits, or bytes (Bps); delays have any unit of ns-3's."""
    found = network(tmp_path, HPCC)
    assert found.hosts == (0, 1, 3, 4)
    assert links(found) == {
        **{"NPU 0 -> switch 2": (12.5, US), "switch 2 -> NPU 0": (12.5, US)},
        **{"NPU 1 -> switch 2": (12.5, US), "switch 2 -> NPU 1": (12.5, US)},
        **{"NPU 2 -> switch 2": (3.125, US), "switch 2 -> NPU 2": (3.125, US)},
        **{"NPU 3 -> switch 2": (12.5, 0), "switch 2 -> NPU 3": (12.5, 0)},
    }


def test_servers_of_simai_have_nvswitches(tmp_path: Path) -> None:
    found = network(tmp_path, SIMAI)
    assert found.n_npus == 4 and len(found.links) == 22
    kinds = Counter(name.split()[0] for name in found.devices if isinstance(name, str))
    assert kinds == {"NVSwitch": 2, "switch": 3}
    assert links(found)["NPU 2 -> NVSwitch 5"] == (360, 25 * NS)
    assert links(found)["switch 8 -> switch 7"] == (50, 500 * NS)


def test_flows_of_hpcc_name_nodes(tmp_path: Path) -> None:
    """What follows as many flows as the first line says is a comment."""
    found = read_flows(file(tmp_path, HPCC_FLOWS))
    assert found.is_by_node and found.n_hosts is None
    start = 2 * 10**12
    assert list(map(bare, found.flows)) == [
        ListedFlow(4, 0, 1_000_000, start),
        ListedFlow(1, 3, 20_000, start + 40 * US),
    ]
    assert found.flows[1].where.endswith("f.txt: line 3")


@pytest.mark.parametrize(
    ("text", "changed", "line"),
    [
        ("5 1 4", "5 1", 1),
        ("5 1 4", "5 4 4", 1),
        ("5 1 4", "5 1 5", 8),
        ("4 2 12.5GBps 0ns 0\n\nFirst line: total node #, switch node #, link #\n", "", 1),
        ("\n2\n", "\n5\n", 2),
        ("\n2\n", "\n2 3\n", 2),
        ("100Gbps 0.001ms", "100Gb 0.001ms", 3),
        ("100Gbps 0.001ms", "0Gbps 0.001ms", 3),
        ("0.001ms", "1 ms", 3),
        ("0.001ms", "1min", 3),
        ("1us 0.000000", "1us 0.01", 4),
        ("1 2 100Gbps", "0 2 100Gbps", 4),
        ("1 2 100Gbps", "1 1 100Gbps", 4),
        ("3 2 25Gbps", "9 2 25Gbps", 5),
    ],
)
def test_a_wrong_topology_of_ns3_is_refused_with_its_line(
    text: str, changed: str, line: int, tmp_path: Path
) -> None:
    assert text in HPCC
    with pytest.raises(DimsweepError) as error:
        read_ns3_topology(file(tmp_path, HPCC.replace(text, changed, 1)))
    assert error.value.where.endswith(f"f.txt: line {line}")


@pytest.mark.parametrize(
    ("text", "changed", "line"),
    [
        ("2\n4 0", "9\n4 0", 5),
        ("4 0 3", "4 4 3", 2),
        ("4 0 3", "-4 0 3", 2),
        ("1000000 2", "1000000", 2),
        ("1000000 2", "0 2", 2),
        ("2.00004", "soon", 3),
        ("2.00004", "nan", 3),
        ("1 3 3", "1 3 4", 3),
    ],
)
def test_a_wrong_flow_of_ns3_is_refused_with_its_line(
    text: str, changed: str, line: int, tmp_path: Path
) -> None:
    assert text in HPCC_FLOWS
    with pytest.raises(DimsweepError) as error:
        read_flows(file(tmp_path, HPCC_FLOWS.replace(text, changed, 1)))
    assert error.value.where.endswith(f"f.txt: line {line}")


def test_a_configuration_of_ns3_is_a_packet_model(tmp_path: Path) -> None:
    """Times are us, thresholds 1,000 bytes, the buffer MiB; what is not simulated is named."""
    found = read_ns3_config(file(tmp_path, HPCC_CONFIG))
    model = PacketModel(**found.packets)
    us, mbit = 10**6, 10**6
    assert model.transport == Dcqcn(
        gain=1 / 128,
        alpha_every=2 * us,
        cut_every=50 * us,
        raise_every=300 * us,
        recoveries=5,
        add=20 * mbit,
        add_fast=200 * mbit,
        least=1000 * mbit,
    )
    assert not model.window and model.payload == 4000 and model.buffer == 16 << 20
    assert model.thresholds(25e9) == (100_000, 400_000, 0.2)
    assert model.thresholds(100e9) == (300_000, 1_600_000, 0.8)
    assert [text.split()[0] for text in found.ignored] == ["GLOBAL_T", "MY_KEY"]


@pytest.mark.parametrize(
    ("mode", "transport"),
    [
        (3, Hpcc(eta=0.9, add=20_000_000, least=10**9)),
        (7, Timely(add=20_000_000, add_fast=200_000_000, least=10**9)),
        (8, Dctcp(gain=1 / 128, least=10**9)),
        (12, Static()),
    ],
)
def test_modes_of_congestion_control(mode: int, transport: Transport, tmp_path: Path) -> None:
    text = HPCC_CONFIG.replace("CC_MODE 1", f"CC_MODE {mode}")
    assert read_ns3_config(file(tmp_path, text)).packets["transport"] == transport


@pytest.mark.parametrize(
    ("text", "changed", "line"),
    [
        ("CC_MODE 1", "CC_MODE 10", 5),
        ("CC_MODE 1", "CC_MODE", 5),
        ("PAYLOAD_SIZE 4000", "PAYLOAD_SIZE 0", 2),
        ("HAS_WIN 0", "HAS_WIN 2", 14),
        ("EWMA_GAIN 0.0078125", "EWMA_GAIN 2", 9),
        ("RATE_AI 20Mb/s", "RATE_AI 20", 11),
        ("MIN_RATE 1000Mb/s", "CC_MODE 1", 13),
        ("RATE_DECREASE_INTERVAL 50", "RATE_DECREASE_INTERVAL 0", 7),
        ("KMIN_MAP 2 25", "KMIN_MAP 3 25", 20),
        ("100000000000 300", "100000000000 1600", 20),
    ],
)
def test_a_wrong_configuration_of_ns3_is_refused_with_its_line(
    text: str, changed: str, line: int, tmp_path: Path
) -> None:
    assert text in HPCC_CONFIG
    with pytest.raises(DimsweepError) as error:
        read_ns3_config(file(tmp_path, HPCC_CONFIG.replace(text, changed, 1)))
    assert error.value.where.endswith(f"f.txt: line {line}")


# --- htsim ---------------------------------------------------------------------------------------


def test_two_tiers_of_htsim_are_leaves_and_spines(tmp_path: Path) -> None:
    """32 hosts, 8 below a leaf, and 2 spines: 32 + 4 * 2 cables; a switch's time is that of the
    links into it."""
    found = network(tmp_path, TWO_TIERS)
    assert found.n_npus == 32 and len(list(found.cables())) == 40
    known = links(found)
    assert known["NPU 31 -> leaf 3"] == (12.5, 1300 * NS)
    assert known["leaf 3 -> NPU 31"] == (12.5, 1000 * NS)
    assert known["leaf 0 -> spine 1"] == (12.5, 500 * NS)
    assert known["spine 1 -> leaf 0"] == (12.5, 800 * NS)


def test_three_tiers_of_htsim_have_pods_and_bundles(tmp_path: Path) -> None:
    """4 leaves, 4 aggregation switches and 4 cores; a bundle of two links is one of two lanes."""
    tree = read_htsim_topology(file(tmp_path, THREE_TIERS))
    assert tree.counts == (4, 4, 4)
    found = tree.network()
    assert len(list(found.cables())) == 8 + 8 + 8
    cores = {name for name in links(found) if name.startswith("aggregation 3 -> core")}
    assert cores == {"aggregation 3 -> core 1", "aggregation 3 -> core 3"}
    (bundle,) = (link for link in found.links if link.name == "aggregation 3 -> core 1")
    assert bundle.lanes == 2 and bundle.bandwidth == 25e9


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (TWO_TIERS, Tree(32, 8, 2, levels=2)),
        (
            THREE_TIERS.replace("Nodes 8", "Nodes 16")
            .replace("Radix_Up 4", "Radix_Up 2")
            # a fat tree of switches of 4 ports, which htsim makes of 16 hosts without a file
            .replace("Bundle 2", "Bundle 1"),
            Tree.build(16),
        ),
    ],
)
def test_a_topology_has_the_links_of_htsims_own_replica(
    text: str, tree: Tree, tmp_path: Path
) -> None:
    """Hosts, leaves, upper switches and cores are numbered in this order there."""
    found = network(tmp_path, text)
    order = {name: i for i, name in enumerate(("leaf", "spine", "aggregation", "core"))}

    def place(node: int | str) -> tuple[int, int]:
        kind, _, number = str(node).partition(" ")
        return (-1, node) if isinstance(node, int) else (order[kind], int(number))

    number = {node: i for i, node in enumerate(sorted(found.devices, key=place))}
    ours = {(number[link.source], number[link.target]) for link in found.links}
    assert ours == {(cable.node, cable.to) for cable in tree.cables()}


@pytest.mark.parametrize(
    ("text", "changed", "place"),
    [
        ("Nodes 32", "Nodes", "line 2"),
        ("Nodes 32", "Knots 32", "line 2"),
        ("Tiers 2", "Tiers 4", "line 3"),
        ("Podsize 32", "Podsize 8", "podsize"),
        ("Radix_Down 8", "Radix_Down 7", "f.txt"),
        ("Radix_Down 8", "Radix_Down many", "line 8"),
        ("Radix_Down 8", "Radix 8", "line 8"),
        ("Radix_Up 2", "Radix_Up 3", "line 12"),
        ("Oversubscribed 4", "Oversubscribed 2", "line 12"),
        ("Radix_Down 4", "Radix_Down 8", "tier 1"),
        ("Tier 1", "Tier 0", "line 14"),
        ("Downlink_Latency_ns 500\n", "", "tier 1"),
        ("Queue_Down 100", "Radix_Up 2", "line 18"),
        ("Queue_Down 100", "Bundle 3", "tier 1"),
    ],
)
def test_a_wrong_topology_of_htsim_is_refused_with_its_place(
    text: str, changed: str, place: str, tmp_path: Path
) -> None:
    assert text in TWO_TIERS
    with pytest.raises(DimsweepError) as error:
        read_htsim_topology(file(tmp_path, TWO_TIERS.replace(text, changed, 1)))
    assert error.value.where.endswith(place)


def test_flows_of_a_connection_matrix(tmp_path: Path) -> None:
    """Flow 3 waits for both that fire its barrier; starts are us, or ps where that is said."""
    found = read_connection_matrix(file(tmp_path, MATRIX))
    assert found.n_hosts == 4 and not found.is_by_node
    assert list(map(bare, found.flows)) == [
        ListedFlow(0, 1, 1_000_000),
        ListedFlow(2, 1, 100_000, 40_500_000),
        ListedFlow(1, 3, 5_000, after=(0, 1)),
        ListedFlow(3, 0, 6_000, after=(2,)),
    ]
    of_ps = read_connection_matrix(file(tmp_path, MATRIX.replace("40.5", "40500000")), "ps")
    assert of_ps.flows[1].start == 40_500_000


@pytest.mark.parametrize(
    ("text", "changed", "line"),
    [
        ("Nodes 4\n", "", 3),
        ("Connections 4", "Connections 5", 2),
        ("0->1 id 1", "0->0 id 1", 4),
        ("0->1 id 1", "0->4 id 1", 4),
        ("0->1 id 1", "0->1->2 id 1", 4),
        ("start 0 size 1000000", "start 0", 4),
        ("start 0 size 1000000", "size 1000000", 4),
        ("start 0 size 1000000", "start 0 size 0", 4),
        ("start 0 size 1000000", "start -1 size 10", 4),
        ("start 0 size 1000000", "begin 0 size 10", 4),
        ("start 0 size 1000000", "start 0 size 10 size 10", 4),
        ("trigger 2 size 6000", "trigger 3 size 6000", 7),
        ("trigger 2 size 6000", "trigger 2 size 6000 prio 2", 7),
        ("trigger 2 size 6000", "trigger 2 size 6000 addon", 7),
        ("barrier count 2", "barrier count 3", 8),
        ("barrier count 2", "barrier", 8),
        ("barrier count 2", "oneshot", 8),
        ("barrier count 2", "multishot", 8),
        ("barrier count 2", "never", 8),
        ("trigger id 2 oneshot", "failure switch_type TOR", 9),
        ("trigger id 2 oneshot", "end", 9),
    ],
)
def test_a_wrong_connection_matrix_is_refused_with_its_line(
    text: str, changed: str, line: int, tmp_path: Path
) -> None:
    assert text in MATRIX
    with pytest.raises(DimsweepError) as error:
        read_connection_matrix(file(tmp_path, MATRIX.replace(text, changed, 1)))
    assert error.value.where.endswith(f"f.txt: line {line}")


def test_a_list_of_flows_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(DimsweepError, match="connection matrix") as error:
        network(tmp_path, MATRIX)
    assert "workload.file" in error.value.hint
