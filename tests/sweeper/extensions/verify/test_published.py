"""Published studies that are data: a folder of one's own, and what is wrong with its files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.extensions.verify.files import StudyFiles, find_published
from dimsweep.sweeper.extensions.verify.picture import read_picture
from dimsweep.sweeper.extensions.verify.points import (
    Tolerance,
    read_lines,
    within_amount,
    within_range,
    within_share,
)
from dimsweep.sweeper.extensions.verify.published import (
    Answers,
    add_bounds,
    find_points,
    read_queries,
)
from dimsweep.sweeper.ledger.rows import row_schema
from dimsweep.sweeper.ledger.stored import load

STUDY = """\
# How long do four NPUs add up? Measured on a desk.
defaults:
  - override /workload: all_reduce
  - override /topology: one_switch
  - override /cost: illustrative
  - override /collective: whole
  - _self_
objective: time
topology: {shape: Switch(4), bandwidth: 100 GB/s, latency: 0 ns, tiers: []}
workload:
  layers:
    - {name: all, weight_grad: {duration: 0 ns, collective: all_reduce, size: 1 GB, group: data}}
grid:
  topology.bandwidth: [100 GB/s, 200 GB/s]
"""
HEADER = "name,published,unit,tolerance,source,note,ours,holds\n"
POINTS = (
    HEADER
    + """\
at 100 GB/s,0.015,s,1%,a desk,a note,"max(time_s) FILTER (""topology.bandwidth"" = '100 GB/s')",
at 200 GB/s,0.008,s,1%,a desk,,min(time_s),
faster,twice as fast,,,a desk,,"printf('%.1f x', max(time_s) / min(time_s))",count(*) = 2
"""
)
PICTURE = """\
title: Twice the bandwidth, half the time
height: 3
panels:
  - kind: bars
    query: SELECT 'ours' AS series, trial AS x, time_s AS y FROM rows
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study and its points, which lies in the current one."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "desk"
    folder.mkdir()
    (folder / "four.yaml").write_text(STUDY)
    (folder / "four.points.csv").write_text(POINTS)
    return folder


def verify(*words: str) -> int:
    return main(["verify", *words, "executor=inline"])


@pytest.mark.long
def test_a_folder_is_a_validation(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its sweep has rows and a page, and the second command simulates nothing."""
    assert verify("desk") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "at 100 GB/s 0.015 s 0.015 s +0.00% ±1% within" in told
    assert "at 200 GB/s 0.008 s 0.0075 s -6.25% ±1% OUTSIDE" in told
    assert "faster twice as fast 2.0 x holds" in told
    assert "source: a desk" in told and "note: a note" in told
    assert "1 of 2 values within" in told and "results/four" in told
    assert Path("results/four/report/report.html").is_file()
    before = sorted(file.name for file in Path("results/four").glob("part-*"))
    assert verify("desk/four.yaml", "--json") == 1
    value, other, claim = json.loads(capsys.readouterr().out)
    assert (value["ours"], value["verdict"], other["verdict"]) == (0.015, True, False)
    assert (claim["ours"], claim["verdict"], claim["kind"]) == ("2.0 x", True, "shape")
    assert sorted(file.name for file in Path("results/four").glob("part-*")) == before
    assert len(load(Path("results/four"))) == 2


@pytest.mark.long
def test_measurements_and_another_study_are_tables(mine: Path) -> None:
    (mine / "four.desk.csv").write_text("gigabytes,seconds\n1,0.0151\n1,0.0149\n")
    (mine / "slow.yaml").write_text(STUDY.replace("[100 GB/s, 200 GB/s]", "[50 GB/s]"))
    (mine / "four.views.sql").write_text("CREATE MACRO half() AS (SELECT max(time_s) FROM slow);")
    (mine / "four.points.csv").write_text(
        HEADER
        + "mean,0,s,1,a desk,,(SELECT avg(seconds) FROM desk),\n"
        + "slow,0.03,s,1%,a desk,,half(),\n"
    )
    found = find_points(StudyFiles(mine / "four.yaml"), "executor=inline")
    assert [point.ours for point in found.points] == pytest.approx([0.015, 0.03])
    assert all(point.holds for point in found.points)


@pytest.mark.long
def test_a_picture_is_drawn_of_the_rows(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("desk", "--picture", "x.png") == 1
    assert "--picture: four has no picture" in capsys.readouterr().err
    for kind in ("bars", "stack", "dots", "columns", "lines"):
        (mine / "four.picture.yaml").write_text(PICTURE.replace("bars", kind))
        assert verify("desk", "--picture", f"{kind}.svg") == 1
        assert "Twice the bandwidth" in Path(f"{kind}.svg").read_text()


ONE = "it,1,s,1%,a desk,,"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("name,published\n", "missing column unit, tolerance, source, note, ours"),
        (HEADER.replace("holds", "hold"), "unknown column 'hold'"),
        (HEADER, "four.points.csv: "),
        ("", "missing column name"),
        (HEADER + "it,1,s\n", "line 2: the row has 3 cells"),
        (HEADER + ONE + ",\n", "line 2: the column ours"),
        (HEADER + "it,fast,s,1%,a desk,,1,\n", "line 2: published: 'fast'"),
        (HEADER + "it,nan,s,1%,a desk,,1,\n", "line 2: published: 'nan'"),
        (HEADER + "it,1,s,near,a desk,,1,\n", "tolerance 'near'"),
        (HEADER + "it,1,s,5 to 4,a desk,,1,\n", "tolerance '5 to 4'"),
        (HEADER + "it,fast,s,,a desk,,1,true\n", "line 2: a claim (column `holds`)"),
        (HEADER + '"it,1\n', "it is not a table"),
        (HEADER + ONE + "max(tim_s),\n", "line 2: ours: Binder Error"),
        (HEADER + ONE + "max(,\n", "line 2: ours: Parser Error"),
        (HEADER + ONE + "1); DROP TABLE rows; SELECT (1,\n", "line 2: ours: "),
        (HEADER + ONE + "(SELECT 1 FROM desc),\n", "line 2: ours"),
        (HEADER + ONE + "time_s,\n", "'time_s' has 2 values"),
        (HEADER + ONE + "max(time_s) FILTER (WHERE trial = 9),\n", "line 2: ours: 'max(time_s)"),
        (HEADER + ONE + "'fast',\n", "line 2: ours: \"'fast'\" is 'fast'"),
        (HEADER + ONE + "'inf'::DOUBLE,\n", " is inf"),
        (HEADER + ONE + "true,\n", " is True"),
        (HEADER + "it,fast,,,a desk,,1,1\n", "line 2: holds: '1' is 1"),
        (HEADER + "it,fast,,,a desk,,1,cell = 1\n", "line 2: holds: 'cell = 1' has 2 values"),
    ],
)
def test_a_wrong_table_ends_in_a_sentence(
    mine: Path, text: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine / "four.points.csv").write_text(text)
    assert verify("desk") == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and what in error and "four.points.csv" in error


def test_expressions_are_read_before_anything_is_simulated(mine: Path) -> None:
    (mine / "four.points.csv").write_text(HEADER + ONE + "max(tim_s),\n")
    assert verify("desk") == 1
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("change", "word", "what"),
    [
        (lambda desk: (desk / "four.points.csv").unlink(), "desk", "desk: "),
        (lambda desk: (desk / "four.points.csv").unlink(), "desk/four.yaml", "four.points.csv: "),
        (lambda desk: (desk / "four.yaml").unlink(), "desk", "four.yaml: "),
        (lambda desk: (desk / "x.points.csv").touch(), "desk", "four.points.csv, x.points.csv"),
        (lambda desk: None, "desk/five.yaml", "desk/five.yaml: "),
        (lambda desk: None, "des", "No such command 'des'"),
        (lambda desk: (desk / "four.views.sql").write_text("CREATE"), "desk", "four.views.sql"),
        (lambda desk: (desk / "four.views.sql").write_bytes(b"\xff"), "desk", "four.views.sql"),
        (lambda desk: (desk / "four.picture.yaml").write_text("a: 1"), "desk", "picture.yaml"),
        (
            lambda desk: (desk / "four.picture.yaml").write_text(PICTURE.replace("trial", "tial")),
            "desk",
            "picture.yaml",
        ),
    ],
)
def test_a_wrong_folder_ends_in_a_sentence(
    mine: Path,
    change: Callable[[Path], object],
    word: str,
    what: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(mine)
    assert verify(word) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and what in error


@pytest.mark.parametrize("text", ["", "x", "1%%", "% to 1", "-1%", "nan", "1 to inf", "5 to 4"])
def test_what_is_no_tolerance_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Tolerance.parse(text)


@given(st.integers(0, 999), st.integers(0, 999))
def test_a_tolerance_is_read_as_it_is_written(first: int, second: int) -> None:
    low, high = sorted((first / 100, second / 100))
    for tolerance in (within_amount(high), within_range(low, high)):
        assert Tolerance.parse(str(tolerance)) == tolerance
    assert Tolerance.parse(f"{high}%").high == pytest.approx(within_share(high / 100).high)


@pytest.mark.long
@pytest.mark.parametrize("name", find_published())
def test_the_published_studies_ask_what_rows_can_answer(name: str) -> None:
    """Their expressions fit the columns that their sweeps will have, and none needs a network."""
    files = find_published()[name]
    of = read_queries(files)
    tables = {}
    for table, file in of.find_files("study"):
        grid = tuple(compose([f"study={file}"]).config.grid)
        tables[table] = add_bounds(row_schema(4, grid, ()).empty_table(), {})
    with Answers.connect(tables | of.read_tables(), files.views) as answers:
        for query, where in of.queries:
            answers.check(query, where)
    assert files.title.endswith(("?", "."))
    assert len({(line.name, line.holds) for line in of.lines}) == len(of.lines)
    if files.picture is not None:
        assert read_picture(files.picture).title


def test_a_study_without_points_is_no_verification() -> None:
    with pytest.raises(DimsweepError, match="cannot read the table: No such file"):
        find_points(StudyFiles(Path("studies/libra_gpt3_4d.yaml")))


# --- claims that do not hold ----------------------------------------------------------------------


def answer(study: str, rows: pa.Table, expression: str) -> object:
    """What a study's expression says of rows that are made up."""
    with Answers.connect({"rows": rows}, find_published()[study].views) as answers:
        return answers.evaluate(expression, "here")


def test_faster_npus_that_hide_more_are_not_as_published() -> None:
    faster = ["16 TFLOP/s", "32 TFLOP/s", "512 TFLOP/s"]
    for exposed, holds in (([1.0, 1.0, 3.0], True), ([1.0, 0.9, 3.0], False), ([3, 1, 1], False)):
        columns = {"cell": [0, 1, 2], "workload": ["w"] * 3, "npu.flops": faster}
        times = {"time_s": [9.0, 5.0, 4.0], "compute_s": [8.0, 4.0, 1.0], "exposed_s": exposed}
        rows = pa.table(columns | times)
        assert answer("compute_capability", rows, "grows('w')") is holds
        told = answer("compute_capability", rows, "hidden('w')")
        assert str(told).endswith("; 32 times the compute, 2.2 x as fast")


def test_a_split_that_beats_its_bound_is_not_as_published() -> None:
    searched = {"cell": [0, 0, 1, 1], "workload": ["gpt3_libra"] * 4}
    searched |= {"origin": ["equal", "descent"] * 2, "time_s": [1.2, 1.0, 1.2, 1.1]}
    variants = {"collective.order": ["baseline"] * 2 + ["themis"] * 2}
    variants |= {"collective.algorithms": ["auto"] * 4}
    claims = read_lines(find_published()["what_is_left"].points)
    holding = {claim.name: claim.holds for claim in claims if claim.holds}
    bounds, gain = holding["proven bounds"], holding["GPT-3: gain"]
    for bound, best, holds in ((0.9, 1.15, (True, True)), (1.05, 1.01, (False, False))):
        searched["time_s"][3] = best
        rows = pa.table(searched | variants | {"bound": [bound] * 4})
        found = answer("what_is_left", rows, bounds), answer("what_is_left", rows, gain)
        assert found == holds


def test_memory_expansion_moves_the_best_degree_down() -> None:
    """COMET's claims, each by rows that keep it and by rows that do not."""
    degrees = ["8", "16", "32"] * 2
    own = {"memory": ["cxl"] * 3 + ["none"] * 3, "workload.parallel.tensor": degrees}
    own |= {"time_s": [1.0, 2, 3, None, 2, 3], "memory_bytes": [300e9, 200e9, 100e9, None, 9, 9]}
    wider = {"workload.parallel.tensor": ["8", "16"], "time_s": [1.0, 2.0]}
    rows = comet(rows=own, comet_expansion=wider)
    assert rows("best_with() < best_without()") is True
    assert rows("misfits()") == "1 degrees (8)" and rows("most_gained()") == 2.0
    assert rows("falls('Transformer-1T')") is True
    assert str(rows("held_by('Transformer-1T')")).startswith("8: 300 GB, 16: 200 GB")
    own["memory_bytes"][1], wider["time_s"] = 300e9, [4.0, 1.0]
    rows = comet(rows=own, comet_expansion=wider)
    assert rows("falls('Transformer-1T')") is False
    assert rows("best_with() < best_without()") is False


@pytest.mark.parametrize(
    ("times", "holds"),
    [([3.0, 1, 2], True), ([1.0, 2, 3], False), ([3.0, 2, 1], False), ([2.0, 3, 1, 4], False)],
)
def test_a_curve_with_one_flank_is_no_u(times: list[float], holds: bool) -> None:
    n = len(times)
    degrees = [str(2**i) for i in range(n)]
    columns = {"topology": ["flat_1024"] * n, "workload.parallel.tensor": degrees}
    rows = comet(comet_degrees=columns | {"time_s": times})
    assert rows("is_u('flat_1024')") is holds


def test_a_cluster_counts_at_its_best_degree() -> None:
    columns = {"cell": [0, 1, 2], "npu": ["peak_a100", "peak_a100", "peak_h100"]}
    columns |= {"topology": ["hgx", "hgx", "nvl"], "memory": ["none", "none", "cxl"]}
    columns |= {"workload.parallel.tensor": ["8", "16", "8"], "time_s": [50.0, 40.0, 10.0]}
    rows = comet(comet_clusters=columns)
    assert rows("apart()") == 4.0
    assert rows("both_ends()") == "h100 on nvl + expansion 10.0 s, a100 on hgx 40 s"


def comet(**made_up: dict[str, Any]) -> Callable[[str], object]:
    """What COMET's expressions say of rows that are made up, others being without any."""
    grid = ("memory", "topology", "npu", "workload.parallel.tensor", "workload.parallel.expert")
    schema = row_schema(1, grid, ())

    def ask(expression: str) -> object:
        tables = {
            name: pa.Table.from_pylist(as_rows(made_up.get(name, {})), schema)
            for name in ("rows", "comet_dlrm", "comet_degrees", "comet_expansion", "comet_clusters")
        }
        if not tables["rows"]:
            tables["rows"] = pa.Table.from_pylist([{}], schema)
        with Answers.connect(tables, find_published()["comet"].views) as answers:
            return answers.evaluate(expression, "here")

    return ask


def as_rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(
    ("changed", "holds"), [({}, True), ({(256, 256): 9.0}, False), ({(256, 128): 3.9}, False)]
)
def test_a_knee_bends_at_equal_rates(changed: dict[tuple[int, int], float], holds: bool) -> None:
    """The slowest stage sets the rate; a step below equal rates gains 15 % and more."""
    rates = [64, 128, 256, 512]
    knee = [
        {
            "memory.fabric_bandwidth": f"{fabric} GB/s",
            "memory.bandwidth": f"{group} GB/s",
            "time_s": changed.get((fabric, group), 256 / min(fabric, group)),
        }
        for fabric in rates
        for group in rates
    ]
    grid = ("memory", "workload.model.sequence", "memory.fabric_bandwidth", "memory.bandwidth")
    schema = row_schema(1, grid, ())
    names = ("rows", "hierarchical_memory_rate", "hierarchical_memory_knee")
    tables = {name: pa.Table.from_pylist(knee, schema) for name in names}
    with Answers.connect(tables, find_published()["hierarchical_memory"].views) as answers:
        assert answers.evaluate("bends()", "here") is holds
        assert answers.evaluate("corner()", "here") == 8.0
