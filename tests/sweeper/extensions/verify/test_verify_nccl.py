"""Measured NCCL collectives beside ours."""

import json
from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner

from dimsweep.engine.errors import Code
from dimsweep.sweeper.extensions.verify.nccl import AIMS, command, read_rows, simulate_row
from tests.support.golden import COMMITTED, EXTRA_ORIGINS
from tests.support.refused import refused

OURS = COMMITTED / "nccl.csv"
SHARED = pytest.param(EXTRA_ORIGINS / "clusters" / "nccl.csv", marks=pytest.mark.long, id="shared")
HEADER = "source,gpu,gpus,nodes,op,bytes,time_us,note\n"


@pytest.mark.parametrize("file", [pytest.param(OURS, id="ours"), SHARED])
@pytest.mark.parametrize("gpu", ["a100", "h100", "b200", "l40s"])
def test_measured_collectives_are_predicted(file: Path, gpu: str) -> None:
    if not file.exists():
        pytest.skip(f"{file} is not there")
    rows = [row for row in read_rows(file) if row.gpu == gpu and not row.left_out]
    for large, aim in AIMS.items():
        part = [row for row in rows if row.is_large == large]
        assert len(part) > 10
        assert fmean(abs(simulate_row(row) / row.seconds - 1) for row in part) <= aim


def test_machines_that_nothing_was_fitted_to() -> None:
    rows = [row for row in read_rows(COMMITTED / "nccl.csv") if row.gpu == "h100" and row.nodes > 1]
    rows = [row for row in rows if row.is_large and not row.left_out]
    assert len(rows) == 7 and not any(row.is_of_fitted_machine for row in rows)
    assert fmean(abs(simulate_row(row) / row.seconds - 1) for row in rows) <= 0.08


def test_two_racks_of_gb200() -> None:
    """They were a fifth too fast without the loops in which bytes pass through the switches."""
    rows = [row for row in read_rows(COMMITTED / "nccl.csv") if row.ranks == 144]
    assert [simulate_row(row) / row.seconds - 1 for row in rows] == pytest.approx(
        [-0.08] * 2, abs=0.02
    )


def test_rows_that_are_left_out_say_why() -> None:
    reasons = {row.left_out for row in read_rows(COMMITTED / "nccl.csv")} - {""}
    assert len(reasons) == 4
    assert any("SHARP" in reason for reason in reasons)
    assert any("misconfigured" in reason for reason in reasons)
    assert any("the GPU of 'not stated" in reason for reason in reasons)


@pytest.mark.parametrize(
    "note",
    [
        "a misconfigured cluster by the maintainer's yardstick",
        "NCCL_ALGO=RING; an outlier to detect, not a target",
        "Misconfigured: 90 GB/s where 370 are expected",
    ],
)
def test_a_misconfigured_cluster_is_told_in_one_way(tmp_path: Path, note: str) -> None:
    (tmp_path / "nccl.csv").write_text(HEADER + f'us,H100,16,2,all_reduce,512,6,"{note}"\n')
    (found,) = read_rows(tmp_path)
    assert found.left_out == "the source says that its cluster is misconfigured"


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("us,A100,8,1,broadcast,512,6,\n", "broadcast is not simulated"),
        ("us,A100,9,2,all_reduce,512,6,\n", "9 GPUs do not divide among 2 nodes"),
        ("us,MI300X,8,1,all_reduce,512,6,\n", "the GPU of 'MI300X' is unknown"),
    ],
)
def test_what_cannot_be_compared_is_left_out(tmp_path: Path, row: str, match: str) -> None:
    (tmp_path / "nccl.csv").write_text(HEADER + row)
    (found,) = read_rows(tmp_path)
    assert match in found.left_out


def test_the_rail_of_a_machine(tmp_path: Path) -> None:
    machines = ("A100", "A100 Jean Zay", "H100 (Nebius, IB 8x400 Gb/s)", "A100, 4 x 200 Gb/s")
    lines = [f'us,"{name}",16,2,all_reduce,512,6,\n' for name in machines]
    (tmp_path / "nccl.csv").write_text(HEADER + "".join(lines))
    assert [row.rail for row in read_rows(tmp_path)] == [25, 6.25, 50, 12.5]


def test_the_command_fails_beyond_its_aim(tmp_path: Path) -> None:
    row = "us,NVIDIA A100,8,1,all_reduce,268435456,{},\n"
    for time, code in ((2200, 0), (1100, 1)):
        (tmp_path / "nccl_more.csv").write_text(HEADER + row.format(time))
        result = CliRunner().invoke(command, ["--data", str(tmp_path)], standalone_mode=False)
        assert result.return_value == code
        assert "aim 10%, 1 row" in result.output
        printed = CliRunner().invoke(command, ["--data", str(tmp_path), "--json"]).stdout
        (point,) = json.loads(printed)
        assert (point["published"], point["unit"], point["verdict"]) == (time, "us", not code)


@pytest.mark.parametrize(
    ("text", "place", "code", "name"),
    [
        (HEADER, "nccl.csv", "missing", "time_us"),
        (HEADER + "us,A100,8,1,all_reduce,512,0,\n", "line 2", "out-of-range", "512 bytes"),
        (HEADER + "us,A100,8,1,all_reduce,x,6,\n", "line 2", "wrong-type", "'x'"),
    ],
)
def test_tables_of_another_form_are_refused(
    tmp_path: Path, text: str, place: str, code: Code, name: str
) -> None:
    (tmp_path / "nccl.csv").write_text(text)
    with refused(place, code, name):
        read_rows(tmp_path / "nccl.csv")
