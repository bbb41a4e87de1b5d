"""dimsweep bill, and what a graph costs wherever a cost is told."""

import csv
import io
import json
from pathlib import Path

import networkx as nx
import pytest

from dimsweep.engine.network import build_levels, write_network
from dimsweep.engine.network.generators import FatTree
from dimsweep.engine.network.levels import Level
from dimsweep.sweeper.charts import CHARTS
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.draw.design import design_of_answer
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.report import sections
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.bill import bill_of_design
from dimsweep.sweeper.simulation.program import build_cluster, build_program
from dimsweep.sweeper.study.rules import design_warnings
from tests.support.refused import refused
from tests.support.studies import planned, run

ON_A_SWITCH = (
    "workload=all_reduce",
    "topology.shape=Switch(64)",
    "topology.latency=500 ns",
    "topology.tiers=[pod]",
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def graph(tmp_path: Path) -> str:
    """64 NPUs below four leaf and two spine switches."""
    leaf = Level("leaf", 50e9, 500_000, share=16)
    network = build_levels(64, [leaf, Level("spine", 50e9, 500_000, below="leaf", count=2)])
    made = nx.Graph()
    for node, device in network.devices.items():
        made.add_node(str(node), **({"npu": node} if device.kind.value == "npu" else {}))
    for link in network.links:
        made.add_edge(str(link.source), str(link.target), bandwidth="50 GB/s", latency="500 ns")
    nx.write_graphml(made, tmp_path / "graph.graphml")
    return "network.file=graph.graphml"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["bill", *words]) == 0
    return capsys.readouterr().out


def test_simulate_tells_of_a_graph_what_its_own_links_do(
    graph: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it is the same whatever the dimensions' bandwidth is; utilisation halved before."""
    words = [*ON_A_SWITCH, graph, "cost=illustrative", "fidelity=flow", "collective.chunks=1"]
    shown, rows = [], []
    for bandwidth in ("500 GB/s", "1 TB/s"):
        own = [*words, f"topology.bandwidth=['{bandwidth}']"]
        assert main(["simulate", *own]) == 0
        shown.append("".join(capsys.readouterr()))
        assert main(["simulate", *own, "--json"]) == 0
        rows.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]
    assert "topology.bandwidth has no effect on times: network.file" in shown[0]
    assert [key for key in rows[0] if rows[0][key] != rows[1][key]] == ["bandwidth_0_GBps"]
    sent, seconds = rows[0]["bytes_0"], rows[0]["time_s"]
    assert rows[0]["utilisation_0"] == pytest.approx(sent / 50e9 / seconds)


def test_the_bandwidth_of_a_dimension_has_no_effect_on_what_a_graph_costs(graph: str) -> None:
    """Cost, watts, and performance per cost; before, all doubled with it."""
    found = []
    for bandwidth in ("500 GB/s", "1 TB/s"):
        words = [*ON_A_SWITCH, graph, "cost=illustrative", f"topology.bandwidth=['{bandwidth}']"]
        cluster = build_cluster(compose([*words, "fidelity=flow"]).config)
        assert cluster.prices is not None and cluster.power is not None
        at = build_program(compose(words).config).bandwidth
        found.append((float(cluster.prices.cost(at)), float(cluster.power.cost(at))))
    # NPUs; 64 links to a port and an adapter, 8 to two ports; ports, and the chassis of 6 switches.
    usd = 64 * 25_000 + 50 * (64 * (25 + 12 + 30) + 8 * (25 + 2 * 12)) + 64 * 300 + 6 * 20_000
    watts = 64 * 1250 + 50 * (64 * 1.5 + 8 * 1.5)
    assert found == [pytest.approx((usd, watts))] * 2


def test_a_bill_is_told_with_dates_levels_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(told(capsys, "dgx_h100", "nodes=128", "cost=h100_2024_08").split())
    assert "Switch(8)_Switch(128), 1,024 NPUs, by cost=h100_2024_08" in text
    assert "Quantum-2 QM9700 64 x 400 Gb/s 48 36,000 1,728,000 37,584 (3)" in text
    assert "(V: read in its source; A: assumed by its author)" in text
    assert "(3) 2024-08 V: public spreadsheet of H100 clusters (FS)" in text
    assert "with a PUE of 1.3" in text
    assert "6% of the sum are prices that their author assumed" in text


def test_a_bill_for_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("dgx_h100", "nodes=128", "cost=h100_2024_08")
    whole = json.loads(told(capsys, *words, "--json"))
    assert whole["cost_usd"] == 128 * 310_000 + 1_728_000 + 2_621_440
    assert whole["power_w"] == pytest.approx(1.3 * sum(i["power_w"] for i in whole["items"]))
    rows = list(csv.DictReader(io.StringIO(told(capsys, *words, "--csv"))))
    assert sum(float(row["cost_usd"]) for row in rows) == whole["cost_usd"]
    (switch,) = [row for row in rows if row["kind"] == "switch"]
    assert (switch["part"], switch["count"], switch["price_level"]) == ("qm9700", "48", "V")


def test_a_table_by_tier_bills_what_simulate_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "cost=libra_4d")
    assert "512,000 GB/s 2 1,024,005" in " ".join(text.split()) and "34,508,892" in text
    whole = json.loads(told(capsys, "cost=libra_4d", "--json"))
    assert whole["cost_usd"] == pytest.approx(34_508_892.16, rel=1e-12)
    assert whole["power_w"] is None
    assert whole["items"][0]["price_source"].endswith("LIBRA, ISPASS 2024")
    (first, *_) = json.loads(told(capsys, "cost.tiers.chiplet.link='9 USD/(GB/s)'", "--json"))[
        "items"
    ]
    assert first["price_source"] is None, "no document knows it"


def test_a_part_without_a_price_is_named_and_there_is_no_sum(
    capsys: pytest.CaptureFixture[str], graph: str
) -> None:
    words = [*ON_A_SWITCH, "topology.bandwidth=['50 GB/s']", "cost=h100_2024_08"]
    fast = [*words, "topology.bandwidth=['50 GB/s']", graph, "cost.parts.qm9700.ports=8"]
    assert "no sum: 1 without" in " ".join(told(capsys, *fast).split())
    whole = json.loads(told(capsys, *fast, "--json"))
    assert whole["cost_usd"] is None
    assert whole["missing"][0].startswith("no price for 4 switches (18 x 400 Gb/s)")
    rows = list(csv.DictReader(io.StringIO(told(capsys, *fast, "--csv"))))
    assert [row["missing"] for row in rows if row["missing"]] == whole["missing"]
    composed = compose(fast)
    program = build_program(composed.config)
    assert program.prices is None
    warned = design_warnings(composed, program, [], searched=False)
    assert [
        text for text in warned if text.startswith("cost=h100_2024_08: no price for 4 switches")
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cost=none"], "cost=none has no prices"),
        (["dgx_h1000"], "is neither a study nor KEY=VALUE"),
        (["--json", "--csv"], "give one"),
        (["cost.parts.x={kind: switch}"], "keep only medium and length"),
        (["network.generator={kind: zcube, n: 4}"], "a list of whole parts: cost=atop_2025, "),
        (["network.file=star.json"], "no link of network.file is of a tier"),
    ],
)
def test_what_has_no_bill_is_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_network(FatTree(npus=8, radix=8).build(), Path("star.json"))
    assert main(["bill", *words]) == 1
    assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.long
@pytest.mark.parametrize("of", ["generator={kind: fat_tree, npus: 8, radix: 8}", "file=star.json"])
def test_a_graph_is_billed_with_its_own_npus_whatever_the_dimensions(
    of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default topology has 4,096 NPUs in four dimensions."""
    write_network(FatTree(npus=8, radix=8).build(), Path("star.json"))
    title = "network." + of.partition("=")[0] + ", 8 NPUs, by cost=networks_2025"
    for words in ([], ["topology.shape=Switch(8)"], ["topology.shape=Switch(4)_Switch(2)"]):
        assert title in told(capsys, f"network.{of}", "cost=networks_2025", *words)


WHOLE = (
    *("workload=gpt3_libra", "workload.layers=1", "workload.parallel={tensor: 8, data: rest}"),
    *("topology.shape=Switch(8)_Switch(4)", "topology.latency=500 ns", "npu=h100"),
    *("topology.tiers=[package,pod]", "cost=h100_2024_08", "search=random", "budget.trials=8"),
    *("space.bandwidth.total=500 GB/s", "collective.chunks=2", "what_if=null"),
)


def test_a_study_by_whole_parts_and_its_page(tmp_path: Path) -> None:
    """Costs of its splits go up in steps; the page bills the best design."""
    plan = planned([*WHOLE, "objective=perf_per_cost", "name=whole"], tmp_path)
    run(plan)
    (cell,) = plan.cells
    assert cell.bound is None and cell.prices is not None
    report = read_report(plan.folder)
    best = report.summaries[0].best
    rails = 8 * -(-report.summaries[0].split(best)[1] // 50)  # and planes
    cost = 4 * 310_000 + rails * (36_000 + 4 * (640 + 120) + 2 * 1120)
    assert best["cost_usd"] == pytest.approx(cost)
    (bill, who), unbilled = bill_of_design(report)
    assert bill.title == "Bill of materials of Switch(8)_Switch(4), 32 NPUs"
    assert ("Quantum-2 QM9700 (3)", f"{rails:,.0f}") in [(row[0], row[2]) for row in bill.rows]
    assert who.title.startswith("Sources of these prices (V: read")
    assert unbilled == ["3% of the sum are prices that their author assumed"]


def test_money_for_bandwidth_needs_a_price_of_bandwidth(tmp_path: Path) -> None:
    words = [word for word in WHOLE if not word.startswith("space.")]
    with refused("space.bandwidth.cost", "conflict"):
        planned([*words, "space.bandwidth.cost=9 MUSD", "name=money"], tmp_path)


def test_a_graph_has_no_bandwidths_of_dimensions_in_a_report(tmp_path: Path) -> None:
    """Neither its tables nor the trials of its page have a column of them, and no design is drawn
    as if it were one of dimensions."""
    made = "{kind: zcube, n: 4, k: 2, bandwidth: 25 GB/s}"
    words = ["workload=all_reduce", "topology.shape=Switch(16)", "topology.tiers=[]"]
    words += ["topology.latency=1 us", "topology.bandwidth=1 GB/s", "network.routing=ecmp"]
    words += ["fidelity=flow", "grid={collective.chunks: [1, 2]}", "executor=inline"]
    for name, graph in (("graph", made), ("product", "null")):
        plan = planned([*words, f"network.generator={graph}", f"name={name}"], tmp_path)
        run(plan)
        report = read_report(plan.folder)
        (best,) = sections.tabulate_best_of_cells(report)
        (dims,) = sections.tabulate_dimensions(report.summaries[0])
        told = any("GB/s" in column for column in (*best.columns, *dims.columns))
        points = Points.from_report(report)
        drawn = any("GB/s" in column.title for column in points.columns.values())
        assert told == drawn == (design_of_answer(report) is not None) == (name == "product")
        for chart in CHARTS:
            chart.draw(points)  # which no chart fails to do without them
        told_first = " ".join(f"{each.short} {each.rest}" for each in answers(report))
        assert ("Switch(16)" in told_first) == (name == "product")
        assert all(len(row) == len(sheet.columns) for sheet in (best, dims) for row in sheet.rows)


def test_prices_of_other_machines_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gb200_nvl72", "nodes=1", "cost=h100_2024_08"]
    assert "cost=h100_2024_08 of H100 or H200" in " ".join(told(capsys, *words).split())
    assert main(["bill", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["cost_usd"] > 0
    assert "warning" in err and "npu=gb200" in err
    assert "warning" not in told(capsys, "dgx_h100", "cost=h100_2024_08")
