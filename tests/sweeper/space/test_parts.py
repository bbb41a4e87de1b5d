"""Splits of parts that can be bought, and what is said of those that cannot."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.catalogue import load_catalogue
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.part import expand_per_dimension
from dimsweep.sweeper.places import list_folders, list_groups
from dimsweep.sweeper.space.split import PartsSpace, Spending
from tests.support.examples import examples
from tests.support.refused import refused

GB = 1e9
SMALL = (
    *("workload=llama3_8b", "workload.model.layers=2"),
    *("cluster=dgx_h100", "nodes=4", "executor=inline", "name=parts"),
)


@st.composite
def spaces(draw: st.DrawFn) -> tuple[list[list[float]], float, np.ndarray, float]:
    n = draw(st.integers(1, 3))
    sold = [
        sorted(draw(st.sets(st.integers(1, 20), min_size=1, max_size=4)), key=float)
        for _ in range(n)
    ]
    prices = np.array(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n)), dtype=float)
    least = float(prices @ [row[0] for row in sold])
    return [[GB * x for x in row] for row in sold], n, prices, least * draw(st.floats(1.0, 4.0))


@examples(60)
@given(spaces(), st.integers(0, 2**32 - 1))
def test_all_splits_that_the_money_buys_and_no_others(made, seed: int) -> None:
    sold, n, prices, limit = made
    spending = Spending(prices / GB, limit)
    space = PartsSpace(sold, total=None, minimum=[0.0] * n, maximum=[np.inf] * n, spending=spending)
    wanted = [row for row in itertools.product(*sold) if prices @ row / GB <= limit * (1 + 1e-9)]
    (found,) = space.iterate_splits()
    assert sorted(map(tuple, found.tolist())) == sorted(wanted) and len(space) == len(wanted)
    drawn = space.decode(np.random.default_rng(seed).random((40, space.n_free)))
    assert {*map(tuple, drawn.tolist())} <= {*wanted}
    again = space.decode(np.array([space.encode(row) for row in found]).reshape(len(found), -1))
    assert (again == found).all(), "each is reached, and what stands for it decodes to it"
    for row in found:
        space.check(row)


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ({"total": 3 * GB}, "total"),
        ({"spending": Spending(np.array([1.0, 1.0]) / GB, 3.0)}, "cost"),
        ({"constraints": ["b1 >= b0"]}, "constraints[0]"),
        ({"minimum": [9 * GB, 0.0]}, "parts"),
    ],
)
def test_rules_that_leave_no_parts_are_named(rules, where: str) -> None:
    given = {"total": None, "minimum": [0.0, 0.0], "maximum": [np.inf, np.inf], **rules}
    with refused(where, "infeasible"):
        PartsSpace([[4 * GB], [1 * GB, 2 * GB]], **given)


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (["topology.links=[nvlink]"], "names 1 kinds of links for 2 dimensions"),
        (["topology.links=[nvlink,prt]"], "'prt'"),
        (["npu=peak_tpu_v4", "collective=streamed"], "no NVLink generation suits TPU v4"),
    ],
)
def test_parts_need_links_that_there_are(
    overrides: list[str], what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [*SMALL, "space.bandwidth.parts=true", f"results={tmp_path}", *overrides]
    assert main(["sweep", *words]) != 0
    assert what in " ".join(capsys.readouterr().err.split())


@pytest.mark.long
def test_a_search_of_parts_proposes_what_can_be_bought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL, f"results={tmp_path}", "space.bandwidth.parts=true"]
    assert main(["sweep", *words, "space.bandwidth.cost=1.62 MUSD"]) == 0
    rows = load(tmp_path / "parts").to_pandas()
    rows = rows[rows["origin"] != "what_if"]
    found = {*zip(rows["bandwidth_0_GBps"], rows["bandwidth_1_GBps"], strict=True)}
    assert found == {(450.0, 12.5), (450.0, 25.0), (450.0, 50.0)}, "800G would cost too much"
    assert rows["cost_usd"].max() < 1.6e6, "at most, and not to the last dollar"
    assert "no part" not in (said := capsys.readouterr().out) and "equal" not in said


@pytest.mark.long
def test_a_best_design_that_nobody_sells_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recommended without a word before."""
    words = [*SMALL, f"results={tmp_path}", "search=random", "budget.trials=1"]
    words += ["space.bandwidth.max=[1934 GB/s,50 GB/s]", "space.bandwidth.min=[1934 GB/s,49 GB/s]"]
    words += ["space.bandwidth.known=[[1934 GB/s,50 GB/s]]", "search.enqueue=false"]
    assert main(["sweep", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "0: Switch(8) of the best design: no NVLink generation has 1,934 GB/s; the nearest is "
        "1,800 GB/s (NVLink 6, announced)"
    ) in said
    assert "1: Switch(4) of the best design" not in said, "400G can be bought"
    page = (tmp_path / "parts" / "report" / "report.html").read_text()
    assert "no NVLink generation has 1,934 GB/s" in page


def test_every_part_names_its_source_and_every_topology_links_that_there_are() -> None:
    known = load_catalogue()
    parts = [part for kind in known.links.values() for part in kind.parts]
    assert all(part.source for part in (*parts, *known.switches))
    for kind in known.links.values():
        assert list(kind.parts) == sorted(kind.parts, key=lambda part: part.bandwidth)
    files = [
        list_folders("conf")[-1] / "topology" / f"{name}.yaml" for name in list_groups()["topology"]
    ]
    for name in [file.stem for file in files if "links:" in file.read_text()]:
        topology = compose([f"topology={name}"]).config.topology
        bandwidths = expand_per_dimension(topology.bandwidth, len(topology.links), "bandwidth")
        for kind, bandwidth in zip(topology.links, bandwidths, strict=True):
            assert float(bandwidth) in {float(part.bandwidth) for part in known.kind(kind).parts}
