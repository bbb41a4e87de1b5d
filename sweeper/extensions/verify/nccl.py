"""Compare published measurements by nccl-tests with simulations with ``collective=nccl``."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean

import click
from rich.console import Console

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    Group,
    Result,
    Topology,
    Workload,
    lower,
    run_one,
)
from dimsweep.engine.cluster import Nccl
from dimsweep.engine.formats import read_table
from dimsweep.sweeper.extensions.verify.points import (
    Value,
    find_recorded,
    json_option,
    print_json,
    print_left_out,
    within_share,
)
from dimsweep.sweeper.terminal import format_count, make_table, print_line, showing_progress

_LARGE = 16 * 2**20  # bytes
AIMS = {True: 0.10, False: 0.25}  # mean error from _LARGE up, and below
_COLUMNS = ("source", "gpu", "gpus", "nodes", "op", "bytes", "time_us", "note")
_KINDS = tuple(map(str, CollectiveKind))
_OPS = {"alltoall": "all_to_all"}
# Kinds of GPU by a part of the name, longer names first: GB/s of a GPU's links in its node, and of
# its network adapter unless the place has another one.
_GPUS = {
    "gb300": (900, 100),
    "b300": (900, 100),
    "gb200": (900, 50),
    "b200": (900, 50),
    "h200": (450, 50),
    "h100": (450, 50),
    "a100": (300, 25),
    "l40s": (32, 12.5),
}
_RAILS = {"jean zay": 6.25}  # 4 adapters of 100 Gb/s for 8 GPUs
_ADAPTERS = re.compile(r"\b(\d+) ?x ?(\d+) ?Gb/s")  # of a node
_A_NODE = 8  # GPUs that share them
_FITTED = ("a100", "h100", "b200", "l40s")  # of the source below, on one node
_SOURCE = "ai-dynamo/aiconfigurator"
# Patterns of notes that exclude a row, and the reason.
_NO_TARGETS = {
    "outlier|misconfigured|below expect": "the source says that its cluster is misconfigured",
    "cold trial": "the source says that it is a cold trial",
    # Its job file has NCCL_ALGO=COLLNETCHAIN: switches of the network reduce.
    "sharp-mpijob|sharp, ": "the network reduces (SHARP), which is not simulated",
}


@dataclass(frozen=True)
class Row:
    """A measured collective: its kind, size, GPUs and time."""

    source: str
    place: str  # GPU and machine, as the source names them
    gpu: str  # key of _GPUS, or ""
    ranks: int
    nodes: int
    kind: str
    n_bytes: int  # as nccl-tests count them
    seconds: float  # measured
    note: str

    @property
    def left_out(self) -> str:
        """The reason why the row is not compared; "" if it is."""
        if not self.gpu:
            return f"the GPU of {self.place!r} is unknown"
        if self.kind not in _KINDS:
            return f"{self.kind} is not simulated"
        if self.ranks < 2 or self.ranks % self.nodes:
            return f"{self.ranks} GPUs do not divide among {self.nodes} nodes"
        text = f"{self.place} {self.note}".lower()
        return next((why for words, why in _NO_TARGETS.items() if re.search(words, text)), "")

    @property
    def rail(self) -> float:
        """Bandwidth of a GPU to the network (GB/s): noted in the row, or usual for the machine."""
        place = f"{self.place} {self.note}"
        adapters = _ADAPTERS.search(place)
        if adapters:
            return int(adapters[1]) * float(adapters[2]) / 8 / _A_NODE
        known = [rail for name, rail in _RAILS.items() if name in place.lower()]
        return known[0] if known else _GPUS[self.gpu][1]

    @property
    def is_of_fitted_machine(self) -> bool:
        """True if constants were fitted to collectives of this machine."""
        return self.source.startswith(_SOURCE) and self.gpu in _FITTED and self.nodes == 1

    @property
    def is_large(self) -> bool:
        """True if the collective's size is 16 MiB or more."""
        return self.n_bytes >= _LARGE


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a CSV file, or of all files *nccl*.csv in a folder.

    Raises :class:`DimsweepError` naming the file and line of an invalid row.
    """
    files = sorted(path.glob("*nccl*.csv")) if path.is_dir() else [path]
    rows = [_parse_row(*row) for file in files for row in read_table(file, _COLUMNS)]
    if not rows:
        raise DimsweepError(
            "no measured collectives",
            where=str(path),
            hint="give a CSV file, or a folder with *nccl*.csv, of the columns "
            + ", ".join(_COLUMNS),
            code="missing",
        )
    return rows


def _parse_row(where: str, found: dict[str, str]) -> Row:
    place = f"{found['gpu']} {found['note']}".lower()
    gpu = next((name for name in _GPUS if name in found["gpu"].lower()), "")
    try:
        ranks, nodes = int(found["gpus"]), int(found["nodes"])
        if "nvl72" in place:  # its switches join a rack of 72
            nodes = -(-ranks // 72)
        n_bytes, seconds = int(float(found["bytes"])), float(found["time_us"]) / 1e6
    except (ValueError, OverflowError) as error:
        problem = f"invalid number: {error}"
        raise DimsweepError(problem, where=where, code="wrong-type") from error
    if n_bytes < 1 or not seconds > 0 or nodes < 1:
        raise DimsweepError(
            f"invalid measurement: {n_bytes} bytes in {seconds * 1e6:g} us on {nodes} nodes",
            where=where,
            hint="all three must be greater than 0",
            code="out-of-range",
        )
    kind, note = _OPS.get(found["op"], found["op"]), found["note"]
    return Row(found["source"], found["gpu"], gpu, ranks, nodes, kind, n_bytes, seconds, note)


def simulate_row(row: Row) -> float:
    """Return the simulated seconds of a collective."""
    cluster = _build_cluster(row.gpu, row.ranks // row.nodes, row.nodes, row.rail)
    kind = CollectiveKind(row.kind)  # type: ignore[arg-type]
    held = row.n_bytes / row.ranks if kind is CollectiveKind.ALL_GATHER else row.n_bytes
    sizes = cluster.topology.sizes
    whole = Group(sizes, (1,) * len(sizes))
    workload = Workload.of_one(Collective(kind, held, "all"), whole)
    return Result(run_one(lower(workload, cluster))).time


@lru_cache
def _build_cluster(gpu: str, ranks_a_node: int, nodes: int, rail: float) -> Cluster:
    sizes, bandwidth = (ranks_a_node, nodes), (_GPUS[gpu][0] * 1e9, rail * 1e9)
    shape = "_".join(f"Switch({size})" for size in sizes if size > 1)
    used = [b for size, b in zip(sizes, bandwidth, strict=True) if size > 1]
    topology = Topology.build(shape, bandwidth=used, latency=[0] * len(used))
    model = CollectiveModel(
        chunks=16, library=Nccl(gpu), node_dimensions=0 if ranks_a_node == 1 else 1
    )
    return Cluster(topology, collectives=model)


@click.command("nccl")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="A CSV file, or a folder with *nccl*.csv; the recorded ones unless given.",
)
@click.option("--rows", is_flag=True, help="Print every row.")
@json_option
def command(data: Path | None, rows: bool, as_json: bool) -> int:
    """Compare measured NCCL collectives on A100, H100, B200 and L40S.

    The aims are a mean error of 10 % from 16 MiB up and of 25 % below, for each kind of GPU; the
    exit code is 1 if one is missed. Machines to which constants were fitted have separate rows.

    \b
    Example:
      dimsweep verify nccl --data nccl.csv
    """
    console = Console(stderr=as_json)
    found = read_rows(data or find_recorded("nccl.csv", "--data"))
    compared = [row for row in found if not row.left_out]
    with showing_progress(f"simulating {format_count(len(compared), 'collective')}", console):
        errors = {row: simulate_row(row) / row.seconds - 1 for row in compared}
    if as_json:
        print_json([_build_point(row, error) for row, error in errors.items()])
    if rows:
        _print_rows(errors, console)
    _print_table(errors, console)
    print_left_out((row.left_out for row in found if row.left_out), "row", console)
    return _print_summary(errors, console)


def _build_point(row: Row, error: float) -> Value:
    """Return a row as a point, whose tolerance is the aim for the mean error of its size."""
    nodes = format_count(row.nodes, "node")
    name = f"{row.kind} of {row.n_bytes:,} bytes, {row.ranks} {row.gpu} on {nodes}"
    measured, tolerance = row.seconds * 1e6, within_share(AIMS[row.is_large])
    return Value(name, measured, measured * (1 + error), tolerance, row.source, "us", row.note)


def _print_rows(errors: dict[Row, float], console: Console) -> None:
    columns = ("place", "op", "GPUs", "nodes", "bytes", "measured", "ours", "error")
    console.print(
        make_table(
            columns,
            [
                (
                    *(row.place, row.kind, f"{row.ranks}", f"{row.nodes}", f"{row.n_bytes:,}"),
                    *(f"{row.seconds * 1e6:,.1f} us", f"{row.seconds * (1 + e) * 1e6:,.1f} us"),
                    f"{e:+.0%}",
                )
                for row, e in errors.items()
            ],
            left=2,
        )
    )


def _print_table(errors: dict[Row, float], console: Console) -> None:
    grouped: dict[tuple[str, str, str], list[tuple[bool, float]]] = {}
    for row, error in errors.items():
        seen = "fitted" if row.is_of_fitted_machine else "not fitted"
        for kind in (row.kind, "all"):
            grouped.setdefault((seen, row.gpu, kind), []).append((row.is_large, error))
    lines = []
    for (seen, gpu, kind), found in sorted(grouped.items()):
        cells = []
        for large in (False, True):
            part = [error for is_large, error in found if is_large == large]
            cells += [f"{len(part)}", *(_format_mean_and_worst(part) if part else ("", ""))]
        lines.append((seen, gpu, kind, *cells))
    columns = ("machine", "GPU", "op", "< 16 MiB", "mean", "worst", "more", "mean", "worst")
    console.print(make_table(columns, lines, left=3))


def _format_mean_and_worst(errors: list[float]) -> tuple[str, str]:
    return f"{fmean(map(abs, errors)):.1%}", f"{max(errors, key=abs):+.0%}"


def _print_summary(errors: dict[Row, float], console: Console) -> int:
    missed = 0
    for gpu in dict.fromkeys(row.gpu for row in errors):
        words = []
        for large, aim in AIMS.items():
            part = [abs(e) for row, e in errors.items() if (row.gpu, row.is_large) == (gpu, large)]
            if not part:
                continue
            missed += fmean(part) > aim
            where = "from 16 MiB up" if large else "below"
            words.append(
                f"{fmean(part):.1%} {where} (aim {aim:.0%}, {format_count(len(part), 'row')})"
            )
        print_line(f"{gpu}: mean error {', '.join(words)}", console)
    return int(missed > 0)
