"""Doors of what others measured or recorded, and of published studies."""

import io
import json
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from dimsweep.sweeper.extensions.ns3_rdma.verify import read_cases
from dimsweep.sweeper.extensions.uet_htsim.verify import read_runs
from dimsweep.sweeper.extensions.verify import published
from dimsweep.sweeper.extensions.verify.clusters import _predict, _read_measurements
from dimsweep.sweeper.extensions.verify.clusters.measurements import Measurement, find_tables
from dimsweep.sweeper.extensions.verify.clusters.report import read_earlier
from dimsweep.sweeper.extensions.verify.clusters.tried_plans import read_plans
from dimsweep.sweeper.extensions.verify.files import find_study_files
from dimsweep.sweeper.extensions.verify.nccl import read_rows, simulate_row
from dimsweep.sweeper.extensions.verify.networks import compare
from dimsweep.sweeper.extensions.verify.picture import draw_picture, read_picture
from dimsweep.sweeper.extensions.verify.published import Answers, find_points
from tests.faults.doors.door import Files, command, door
from tests.faults.doors.studies import STUDY

ROOT = Path(__file__).parents[3]
PICTURE = """\
title: What was found
height: 4
panels:
  - kind: bars
    query: SELECT name AS x, 'ours' AS series, value AS y, value AS published FROM x
    title: Two of them
    y: seconds
    colours: [blue]
"""
GOLDEN = ROOT / "tests" / "golden"


def _head(file: str, lines: int = 4) -> bytes:
    """A recorded table's first lines."""
    return b"".join((GOLDEN / file).read_bytes().splitlines(keepends=True)[:lines])


@door("verify nccl --data", good=lambda: {"nccl.csv": _head("nccl.csv")})
def measured_collectives() -> None:
    for row in read_rows(Path("nccl.csv")):
        if not row.left_out:
            simulate_row(row)


@door(
    "verify clusters --against",
    good=lambda: {"before.json": b'[{"name": "x line 2", "ours": 1.5, "unit": "s"}]'},
)
def earlier_predictions() -> None:
    read_earlier(Path("before.json"))


@door(
    "verify plans --data",
    good=lambda: {
        f"{name}.csv": _head(f"plans/{name}.csv", 2)
        for name in (
            *("nanotron_h100", "vtrain_a100_single", "mlperf_v6"),
            *("mlperf_vision_dlrm", "tpu_recipes"),
        )
    },
)
def tried_plans() -> None:
    for file, rows in read_plans(Path()).items():
        for _, row in rows:
            if isinstance(row, Measurement) and "nanotron" in file.stem:
                _predict(row)


@door(
    "verify clusters --data",
    "verify clusters TABLES",
    good=lambda: {"iterations.csv": _head("clusters/torchtitan_h100.csv", 2)},
)
def measured_iterations() -> None:
    for file in find_tables(Path()):
        for _, row in _read_measurements(file):
            if isinstance(row, Measurement):
                _predict(row)


_BILLS = b"""\
gpus,topology,switches,radix,port_gbps,copper,fibre,optics,nic_ports
# No row of a publication.
16,"BCube(4,2)",8,4,200,16,16,32,2
64,ROFT,24,8,400,0,192,384,1
"""
_PATHS = b'gpus,topology,apl,apl_fail,apl_star\n16,"BCube(4,2)",3.2,3.25,3.1\n'


@door("verify networks --data", good=lambda: {"bills.csv": _BILLS, "paths.csv": _PATHS})
def counts_of_networks() -> None:
    assert list(compare(Path()))


_CASE = "astra/A/all_gather_Ring64_ring_1MB_c4"


def _recorded_case() -> Files:
    return {f.name: f.read_bytes() for f in (GOLDEN / _CASE).iterdir() if f.is_file()}


@door("verify astra_sim FOLDERS", good=_recorded_case)
def a_recorded_run_of_ASTRA_sim() -> None:  # noqa: N802
    command("verify", "astra_sim", ".")


def _packets() -> Files:
    whole = {f"{name}.json": (GOLDEN / f"roce/{name}.json").read_bytes() for name in _OF_A_CASE}
    return {**whole, "cases_asis.jsonl": _head("roce/cases_asis.jsonl", 2)}


_OF_A_CASE = ("topologies", "scenarios", "base_config")


def _in_a_tar_file() -> Files:
    """The same traces for each rank, as ``w.<rank>.et`` in an archive."""
    found = dict(_recorded_case())
    trace = found.pop("workload.all_ranks.et")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for rank in range(64):
            member = tarfile.TarInfo(f"traces/w.{rank}.et")
            member.size = len(trace)
            tar.addfile(member, io.BytesIO(trace))
    result = json.loads(found["result.json"]) | {"workload_tar": "w.tar.xz"}
    return {**found, "result.json": json.dumps(result).encode(), "w.tar.xz": packed.getvalue()}


@door(good=_in_a_tar_file, own=".xz")
def recorded_traces_in_a_tar_file() -> None:
    command("verify", "astra_sim", ".")


@door("verify packets FOLDER", good=_packets)
def recorded_packets() -> None:
    for case in read_cases(Path()):
        if not case.left_out:
            case.simulate()


_LEAVES_AND_SPINES = b"""Nodes 16
Tiers 2
Podsize 16
Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
"""


def _uet() -> Files:
    matrix, topology = "connection_matrices/one.cm", "topologies/small.topo"
    run = _head("uet/runs.jsonl", 1)
    return {
        "runs.jsonl": run + run.replace(b"-end 1000", f"-end 1000 -topo {topology}".encode()),
        matrix: (GOLDEN / f"uet/{matrix}").read_bytes(),
        topology: _LEAVES_AND_SPINES,
    }


@door("verify uet FOLDER", good=_uet)
def recorded_ultra_ethernet() -> None:
    for run in read_runs(Path()):
        if run.experiment:
            run.experiment.run()


class _EnoughError(Exception):
    """All was read that somebody gave."""


def _stop(plan: object) -> None:
    raise _EnoughError


POINTS = """\
name,published,unit,tolerance,source,note,ours,holds
# What was published.
one layer,1.5,ms,1%,a paper,,"milliseconds(1)",
two layers,1.5,ms,0.5 to 3,a paper,read off,"max(time_s) FILTER (WHERE state = 'complete')",
more is slower,two last longer,,,a paper,,max(time_s),max(time_s) > min(time_s)
"""
VIEWS = """\
-- Milliseconds of an iteration.
CREATE MACRO milliseconds(layers) AS (
  SELECT min(time_s) * 1e3 FROM rows WHERE "workload.layers" = layers
);
CREATE VIEW best AS SELECT cell, min(time_s) AS time_s FROM rows JOIN measured ON true GROUP BY 1;
"""


def _published() -> Files:
    return {
        "mine/asked.yaml": STUDY.encode(),
        "mine/asked.points.csv": POINTS.encode(),
        "mine/asked.views.sql": VIEWS.encode(),
        "mine/asked.picture.yaml": PICTURE.replace("FROM x", "FROM measured").encode(),
        "mine/asked.measured.csv": b"name,value\na,1.5\nb,2\n",
    }


@door(good=_published, own=(".csv", ".sql", "picture.yaml"))
def a_published_study() -> None:
    """All that is read before anything is simulated."""
    with pytest.MonkeyPatch.context() as patch, suppress(_EnoughError):
        patch.setattr(published, "sweep_study", _stop)
        of = find_study_files("mine")
        assert of is not None
        find_points(of, "executor=inline")


@door(good=lambda: {"x.csv": b"name,value\na,1.5\nb,2\n", "x.picture.yaml": PICTURE.encode()})
def a_picture_of_a_table() -> None:
    """What a panel's query finds, drawn."""
    picture = read_picture(Path("x.picture.yaml"))
    with Answers.connect({"x": published._read_measurements(Path("x.csv"))}, None) as answers:
        draw_picture(picture, [answers.rows(panel.query, "x") for panel in picture.panels], "png")


@door(good=lambda: {**_published(), "name.txt": b"mine"}, own="name.txt")
def a_name_of_a_published_study() -> None:
    find_study_files(Path("name.txt").read_text("utf-8", "surrogateescape"))
