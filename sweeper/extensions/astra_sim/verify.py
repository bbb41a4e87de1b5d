"""Simulate recorded runs of ASTRA-sim 2.0 again, and compare them to the cycle."""

import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from lzma import LZMAError
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from dimsweep.engine import DimsweepError, accessing
from dimsweep.engine.extensions.astra_sim import Cycles, simulate_astra
from dimsweep.engine.formats import read_json, validated
from dimsweep.engine.formats.astra_sim import (
    Inputs,
    Options,
    read_inputs,
    read_ranks,
    read_workload,
)
from dimsweep.engine.formats.chakra import Node
from dimsweep.sweeper.extensions.astra_sim import VERIFICATION
from dimsweep.sweeper.extensions.verify.points import (
    Point,
    Shape,
    Value,
    find_recorded,
    json_option,
    print_json,
    within_amount,
)
from dimsweep.sweeper.terminal import format_count, print_line, showing_progress


class _Read(BaseModel):
    model_config = ConfigDict(strict=True)


class _Ranks(_Read):
    cycles: list[int]
    exposed: list[int]


class _Alike(_Read):
    cycles: int
    exposed: int


class _AllAlike(_Read):
    all_ranks: _Alike


class _Nothing(_Read):
    model_config = ConfigDict(extra="forbid")


class _Result(_Read):
    """The keys of a ``result.json`` that are compared."""

    backend: str = ""
    npus: int = Field(ge=1, le=1 << 24)
    args_extra: list[str] = []
    ranks_finished: int | None = None
    workload_tar: str | None = None
    per_rank: _AllAlike | _Ranks | _Nothing | None = None


@dataclass(frozen=True)
class Case:
    """A recorded run: its folder and its ``result.json``."""

    folder: Path
    result: dict[str, Any]

    @property
    def section(self) -> str:
        """Name of the group of runs, which is the folder above the case's."""
        return self.folder.parent.name

    @property
    def left_out(self) -> str:
        """Reason why the run is not compared; "" if it is."""
        find_recorded = self.result.get("per_rank") and self.result.get("ranks_finished")
        return "" if find_recorded else "ASTRA-sim recorded no cycles"

    def expected(self) -> tuple[list[int], list[int]]:
        """Return the recorded cycles, and exposed communication cycles, of each rank."""
        find_recorded = self.result["per_rank"]
        if "all_ranks" in find_recorded:
            n = self.result["npus"]
            alike = find_recorded["all_ranks"]
            return [alike["cycles"]] * n, [alike["exposed"]] * n
        return find_recorded["cycles"], find_recorded["exposed"]


def find_cases(folders: Sequence[Path]) -> list[Case]:
    """Return every folder with a ``result.json``, at or below ``folders``."""
    files = sorted({file for folder in folders for file in folder.rglob("result.json")})
    if not files:
        raise DimsweepError(
            "no recorded case in this folder",
            where=str(folders[0]),
            hint="a recorded case is a folder with a result.json",
            code="missing",
        )
    return [_read(file) for file in files]


def _read(file: Path) -> Case:
    result = read_json(file)
    validated(_Result, result, file)
    case = Case(file.parent, result)
    with accessing(file, "args_extra cannot be read", ValueError):
        _options(case)
    return case


def run_case(case: Case, *, folded: bool = True) -> Cycles:
    """Simulate a recorded run; ``folded``: equal ranks are simulated once."""
    inputs, workload = read_case(case)
    return simulate_astra(inputs, workload, folded=folded)


def read_case(case: Case) -> tuple[Inputs, list[Sequence[Node]]]:
    """Read all files of a recorded run: ASTRA-sim's inputs, and the nodes of each rank's trace."""
    inputs = read_inputs(
        case.folder / "system.json",
        case.folder / "network.yml",
        _if_there(case.folder / "memory.json"),
        _if_there(case.folder / "comm_group.json"),
        _options(case),
    )
    n = inputs.network.n_npus
    if archive := _archive(case):
        known = archive.stat().st_mtime_ns if archive.exists() else 0
        workload = _from_archive(archive, known, n)
    elif (case.folder / "workload.all_ranks.et").exists():
        workload = read_ranks([case.folder / "workload.all_ranks.et"] * n)
    else:
        workload = read_workload(case.folder / "workload" / "et", n)
    return inputs, workload


@lru_cache(maxsize=1)
def _from_archive(archive: Path, _state: int, n: int) -> list[Sequence[Node]]:
    with _unpacked(archive) as traces:
        return read_workload(traces / "w", n)


@click.command("astra_sim")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option("--fold", type=bool, default=True, help="Simulate alike ranks once (the default).")
@json_option
def command(folders: Sequence[Path], fold: bool, as_json: bool) -> int:
    """Compare recorded runs of ASTRA-sim 2.0, rank by rank, to the cycle.

    A recorded run is a folder with a result.json, at or below one of FOLDERS; in a checkout of
    dimsweep those that it has unless given. What differs is printed; the exit code is 1 if anything
    does.

    \b
    Example:
      dimsweep verify astra_sim tests/golden/astra
    """
    compared: dict[str, list[tuple[bool, bool]]] = {}  # by section: does it agree, is it compiled
    left_out, points = 0, list[Point]()
    console = Console(stderr=as_json)
    with showing_progress("simulating recorded runs", console):
        for case in find_cases(folders or [find_recorded("astra", "FOLDERS")]):
            name = f"{case.section}/{case.folder.name}"
            if case.left_out:
                left_out += 1
                print_line(f"left out: {name}: {case.left_out}", console)
                continue
            faults, compiled = _compare(case, fold)
            compared.setdefault(case.section, []).append((not faults, compiled))
            points.append(_point(case, name, faults))
            for fault in faults[:4]:
                print_line(f"{name}: {fault}", console)
    if as_json:
        print_json(points)
    for section, runs in sorted(compared.items()):
        agree, n_compiled = (sum(column) for column in zip(*runs, strict=True))
        print_line(
            f"section {section}: {agree} of {len(runs)} cases agree, {n_compiled} compiled", console
        )
    if left_out:
        print_line(
            f"left out: {format_count(left_out, 'case')} of which ASTRA-sim recorded no cycles",
            console,
        )
    agreements = [agrees for runs in compared.values() for agrees, _ in runs]
    print_line(f"{sum(agreements)} of {len(agreements)} cases agree", console)
    return 0 if all(agreements) else 1


def _compare(case: Case, fold: bool) -> tuple[list[str], bool]:
    """Return the differences from the recorded run, and whether the compiled kernel ran."""
    try:
        ours = run_case(case, folded=fold)
    except DimsweepError as error:
        return [str(error)], False
    return _faults(case, ours), ours.compiled


def _point(case: Case, name: str, faults: list[str]) -> Point:
    """Return a recorded run as a point: the cycles of its last rank, if all ranks agree."""
    source = VERIFICATION.source
    if faults:
        ranks = format_count(len(case.expected()[0]), "rank")
        return Shape(name, f"the cycles of {ranks}", "; ".join(faults[:4]), False, source)
    last = max(case.expected()[0])
    return Value(name, last, last, within_amount(0), source, "cycles", basis="recorded")


def _faults(case: Case, ours: Cycles) -> list[str]:
    faults = []
    for name, expected, got in zip(
        ("cycles", "exposed"), case.expected(), (ours.cycles, ours.exposed), strict=True
    ):
        if len(expected) != len(got):
            return [f"{len(expected)} ranks expected, got {len(got)}"]
        faults += [
            f"rank {rank}: {name}: expected {a}, got {b}"
            for rank, (a, b) in enumerate(zip(expected, got, strict=True))
            if a != b
        ]
    return faults


def _options(case: Case) -> Options:
    extra = dict(
        word.removeprefix("--").split("=", 1) for word in case.result.get("args_extra", [])
    )
    backend = str(case.result.get("backend", ""))
    return Options(
        queues_per_dim=int(extra.get("num-queues-per-dim", 1)),
        injection_scale=float(extra.get("injection-scale", 1.0)),
        rendezvous=extra.get("rendezvous-protocol") == "true",
        aware="congestion_aware" in backend or case.folder.name.lower().endswith("_aware"),
    )


def _if_there(file: Path) -> Path | None:
    return file if file.exists() else None


def _archive(case: Case) -> Path | None:
    """Return the tar file with a case's traces, or None; several cases may share it."""
    named = case.result.get("workload_tar")
    return (case.folder / str(named).split()[0]).resolve() if named else None


@contextmanager
def unpacked(case: Case) -> Iterator[Path | None]:
    """Return a context with the folder of a case's unpacked traces; None without a tar file."""
    if archive := _archive(case):
        with _unpacked(archive) as folder:
            yield folder
    else:
        yield None


@contextmanager
def _unpacked(archive: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            unpack(archive, Path(folder))
        except (OSError, EOFError, LZMAError, tarfile.TarError) as error:
            what = f"the traces cannot be unpacked: {error}"
            raise DimsweepError(what, where=str(archive), code="damaged") from error
        yield Path(folder)


def unpack(archive: Path, folder: Path) -> None:
    """Write the traces in a tar file into ``folder``; folders in the tar file are dropped.

    No member's name can thus lead out of ``folder``. Python's own filters for that came with
    3.11.4, and Debian 12 has 3.11.2.
    """
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content:
                (folder / Path(member.name).name).write_bytes(content.read())
