"""Lists of flows, schedules and ns-3's configuration as keys: what they run, and what is wrong."""

import json
from pathlib import Path

import pytest

from dimsweep.sweeper.cli.main import main
from tests.support.golden import COMMITTED
from tests.support.packet_files import HPCC, HPCC_CONFIG, HPCC_FLOWS, MATRIX, RING

SWITCH = ("topology.latency=1 us", "topology.bandwidth=12.5 GB/s", "topology.tiers=[]")
FILES = {"t.txt": HPCC, "f.txt": HPCC_FLOWS, "c.txt": HPCC_CONFIG, "m.cm": MATRIX, "r.goal": RING}
FLOWS = ("workload=flows", "workload.file=f.txt", "network.file=t.txt", "topology.shape=Switch(4)")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)


def time_of(*words: str, capsys: pytest.CaptureFixture[str]) -> float:
    """Microseconds that ``dimsweep simulate`` prints."""
    assert main(["simulate", "--json", *words, *SWITCH]) == 0
    return round(1e6 * json.loads(capsys.readouterr().out)["time_s"], 4)


def test_flows_of_ns3_are_those_of_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """1 MB from node 4, whose link has no latency, to node 0: 80 us and 1 us; packets are 1,001 of
    83.84 ns."""
    assert time_of("fidelity=flow", *FLOWS, capsys=capsys) == 81
    static = "fidelity=packet", "network.packets.transport=static"
    assert time_of(*static, *FLOWS, capsys=capsys) == round(1001 * 0.08384 + 1, 4)


def test_a_configuration_of_ns3_sets_packets(capsys: pytest.CaptureFixture[str]) -> None:
    """250 packets of 4,048 bytes; the 20 kB of another flow leave no trace on their way."""
    file = "fidelity=packet", "network.packets.file=c.txt", "network.packets.payload=1000 B"
    assert time_of(*file, *FLOWS, capsys=capsys) == round(251 * 0.32384 + 1, 4)
    assert main(["simulate", "--full", *file, *FLOWS, *SWITCH]) == 0
    printed = capsys.readouterr().out
    assert "c.txt: these lines are not simulated: GLOBAL_T 1" in printed and "MY_KEY 7" in printed
    assert "network.packets.payload has no effect: c.txt sets it" in printed


def recorded(scenario: str, variant: str) -> float:
    """Write the files of a recorded run of ns-3; return how long it took (us)."""
    folder = COMMITTED / "roce"
    topologies, scenarios, config = (
        json.loads((folder / f"{name}.json").read_text())
        for name in ("topologies", "scenarios", "base_config")
    )
    (row,) = (
        row
        for row in map(json.loads, (folder / "cases_restored.jsonl").read_text().splitlines())
        if (row["scenario"], row["variant"]) == (scenario, variant)
    )
    of = scenarios[scenario]
    topology = topologies[of["topology"]]
    links = [f"{a} {b} {rate}bps {ns}ns 0" for a, b, rate, ns in topology["links_a_b_bps_delayns"]]
    head = f"{topology['nodes']} {len(topology['switches'])} {len(links)}"
    switches = " ".join(map(str, topology["switches"]))
    Path("t.txt").write_text("\n".join([head, switches, *links]))
    flows = [f"{a} {b} 3 100 {n} {ns * 1e-9:.9f}" for a, b, n, ns, _ in of["flows"]]
    Path("f.txt").write_text("\n".join([str(len(flows)), *flows]))
    config |= of.get("config_overrides", {}) | {
        "CC_MODE": row["cc_mode"],
        "HAS_WIN": row["has_win"],
    }
    Path("c.txt").write_text("\n".join(f"{key} {value}" for key, value in config.items()))
    return max(row["out"]["fct_ns"]) / 1000


@pytest.mark.parametrize(
    ("scenario", "variant", "n"),
    [
        ("incast2_100g_1MB", "pfc_win", 3),
        ("incast8_100g_1MB_buf1", "pfc_win", 9),
        ("tree_fat1_buf32", "pfc_nowin", 16),
    ],
)
def test_files_of_recorded_runs_take_as_long_as_in_ns3(
    scenario: str, variant: str, n: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within 2 %: ns-3 counts whole nanoseconds, and the way of the last ACK."""
    expected = recorded(scenario, variant)
    words = FLOWS[:-1], f"topology.shape=Switch({n})", "network.routing=ecmp"
    packets = "fidelity=packet", "network.packets.file=c.txt"
    ours = time_of(*words[0], *words[1:], *packets, capsys=capsys)
    assert ours == pytest.approx(expected, rel=0.02)


def test_triggers_and_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    """0.1 MB beside 1 MB into rank 1, then 5 kB and 6 kB: 88 + 0.4 + 0.48 us and 3 x 2 us."""
    switch = "topology.shape=Switch(4)", "fidelity=flow"
    flows = "workload=flows", "workload.file=m.cm"
    assert time_of(*switch, *flows, capsys=capsys) == 94.88
    assert time_of(*switch, "workload=goal", "workload.file=r.goal", capsys=capsys) == 87


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fidelity=phase",), "fidelity"),
        (("fidelity=message",), "fidelity"),
        (("fidelity=flow", "topology.shape=Switch(3)"), "host 3; it must be"),
        (("fidelity=flow", "workload.file=m.cm", "network.file=null"), "4 hosts"),
        (("fidelity=flow", "workload.start=ns"), "workload.start"),
        (("fidelity=flow", "workload.file=bad.txt"), "workload.file: bad.txt: line 2"),
        (
            ("fidelity=packet", "network.packets.file=c.txt", "network.packets.payload=2 kB"),
            "c.txt",
        ),
        (("fidelity=packet", "network.packets.file=bad.txt"), "network.packets.file: bad.txt"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.txt").write_text("1\n2 0 3 100 5 1\n")  # node 2 is a switch
    size = ("topology.shape=Switch(8)",) if "workload.file=m.cm" in words else ()
    assert main(["simulate", *FLOWS, *SWITCH, *words, *size]) == 1
    assert told in capsys.readouterr().err
