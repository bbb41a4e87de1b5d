"""The published study on FRED: what a few designs decide."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from dimsweep.sweeper.extensions.verify.files import find_published
from dimsweep.sweeper.extensions.verify.points import Line
from dimsweep.sweeper.extensions.verify.published import Answers, read_queries
from dimsweep.sweeper.extensions.wafer import fred_fabric
from dimsweep.sweeper.ledger.rows import row_schema
from tests.support.designs import simulate_designs

SMALL = "workload.model.layers=2"  # of 78 and 128
MODELS = ("fred_resnet152", "fred_transformer_17b", "fred_gpt3", "fred_transformer_1t")
NETWORKS = ("wafer_mesh", "fred_a", "fred_b", "fred_c", "fred_d")


def answers(
    lines: Sequence[Line], rows: Mapping[str, Any], expression: str = "ours", **tables: pa.Table
) -> dict[str, Any]:
    """What the study says of its points, by their names, from rows that are made up."""
    of = read_queries(find_published()["fred"])
    empty = row_schema(3, ("workload", "network"), ()).empty_table()
    known = {name: empty for name, _ in of.find_files("study")} | {"rows": pa.table(rows)} | tables
    with Answers.connect(known, of.study.views) as found:
        return {line.name: found.evaluate(getattr(line, expression), line.place) for line in lines}


def test_hot_spots_bisections_and_messages_are_the_papers() -> None:
    assert all(point.holds for point in fred_fabric.fabrics())
    assert fred_fabric.message_rate("wafer_mesh") == pytest.approx(750)


def test_all_partitions_are_routed_side_by_side() -> None:
    assert fred_fabric.routes().holds


@pytest.mark.long
def test_effective_bandwidths_are_the_papers() -> None:
    cells = [
        {"workload": workload, "network": network, "time_s": run.time}
        | {f"bytes_{d}": float(b) for d, b in enumerate(run.breakdown.bytes_sent[0])}
        for (workload, network), run in simulate_designs("fred_all_reduce").items()
    ]
    assert len(cells) == 15
    lines = [line for line in read_queries(find_published()["fred"]).lines if "MP2" in line.name]
    lines += [
        line for line in read_queries(find_published()["fred"]).lines if "wafer-wide" in line.name
    ]
    assert len(lines) == 12
    found = answers(lines, trained(), fred_all_reduce=pa.Table.from_pylist(cells))
    wrong = {
        line.name: found[line.name]
        for line in lines
        if line.tolerance is None or not line.tolerance.holds(line.published, found[line.name])
    }
    assert not wrong


def trained(**gains: float) -> dict[str, Any]:
    """Rows of all designs: the mesh takes 1 s, and others as many times less as they gain."""
    pairs = [(model, network) for model in MODELS for network in NETWORKS]
    times = [1 / gains.get(network, 1.0) for _, network in pairs]
    names: dict[str, Any] = {
        "workload": [model for model, _ in pairs],
        "network": [network for _, network in pairs],
    }
    return {"cell": list(range(len(pairs))), "time_s": times, **names}


@pytest.mark.parametrize(
    ("gains", "holds"),
    [
        ({"fred_b": 1.1, "fred_c": 1.4, "fred_d": 1.405}, (True, True)),
        ({"fred_b": 1.5, "fred_c": 1.4, "fred_d": 1.402}, (True, False)),
        ({"fred_b": 0.9, "fred_c": 1.4, "fred_d": 1.5}, (False, False)),
    ],
)
def test_claims_of_training_can_fail(gains: dict[str, float], holds: tuple[bool, bool]) -> None:
    claims = [line for line in read_queries(find_published()["fred"]).lines if line.holds]
    assert tuple(answers(claims, trained(**gains), "holds").values()) == holds
    speed_ups = [
        line
        for line in read_queries(find_published()["fred"]).lines
        if line.ours.startswith("gain_of")
    ]
    found = answers(speed_ups, trained(**gains))
    assert len(found) == 8
    assert found["FRED-C over the mesh, GPT-3"] == pytest.approx(1.4)


def gain(designs: Mapping[tuple[str, ...], Any], model: str, network: str) -> float:
    return float(designs[model, "wafer_mesh"].time / designs[model, network].time)


def test_streaming_weights_gain_what_was_published() -> None:
    grid = "grid={workload:[fred_transformer_1t],network:[wafer_mesh,fred_b,fred_d]}"
    designs = simulate_designs("fred", grid, SMALL)
    b, d = (gain(designs, "fred_transformer_1t", each) for each in ("fred_b", "fred_d"))
    assert d == pytest.approx(1.40, rel=0.1)
    assert 1 < b < d


def test_groups_that_fit_no_mesh_gain_most() -> None:
    """With all layers it is 2.00."""
    grid = "grid={workload:[fred_transformer_17b],network:[wafer_mesh,fred_d]}"
    designs = simulate_designs("fred", grid, SMALL)
    assert 1.7 < gain(designs, "fred_transformer_17b", "fred_d") < 2.4
