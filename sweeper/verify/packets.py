"""Recorded runs of ns-3's RDMA model, simulated again and compared to the nanosecond."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from engine import DimsweepError
from engine.kernels.packet import PacketRun
from engine.replicas.ns3_rdma import Build, Scenario, Topology, simulate_scenario
from sweeper.terminal import plural, say, waiting
from sweeper.verify import VERIFICATIONS
from sweeper.verify.points import (
    Point,
    Shape,
    Value,
    absolute,
    json_option,
    print_json,
    relative,
)

_PINT = 10  # its CC_MODE
_CLOSE = 0.03  # of the mean completion time, where a run is not equal
_CASES = "cases_*.jsonl"
_T = TypeVar("_T")


class _Out(BaseModel):
    run_cpu_s: float
    host_data_packets: int
    fct_ns: list[int] = Field(min_length=1)
    pfc_pauses: int
    ports: list[list[int]]
    switch_mmu: list[list[int]]


class _Line(BaseModel):
    """What is read of a line of cases."""

    id: str
    build: Build
    scenario: str
    variant: str
    cc_mode: int
    has_win: int
    rng_run: int
    out: _Out


class _Topology(BaseModel):
    nodes: int
    switches: tuple[int, ...]
    links_a_b_bps_delayns: tuple[tuple[int, int, int, int], ...]


class _Scenario(BaseModel):
    topology: str
    flows: list[tuple[int, int, int, int, list[int]]]
    config_overrides: dict[str, Any] = {}


@dataclass(frozen=True)
class Case:
    """A recorded run: its line of the file, and what it ran."""

    line: dict[str, Any]
    scenario: Scenario

    @property
    def name(self) -> str:
        return f"{self.line['build']} {self.line['id']}"

    @property
    def left_out(self) -> str:
        """Why it is not simulated, or nothing."""
        if self.line["cc_mode"] == _PINT:
            return "HPCC-PINT is no transport here"
        if any(usable < 0 for *_, usable in self.line["out"]["switch_mmu"]):
            return "the headroom exceeds the buffer, and the recorded simulator wrapped a number"
        return ""

    def simulate(self) -> PacketRun:
        return simulate_scenario(
            self.scenario,
            self.line["cc_mode"],
            window=bool(self.line["has_win"]),
            build=Build(self.line["build"]),
            run=self.line["rng_run"],
        )


@dataclass
class Compared:
    """The runs of one build and variant."""

    runs: int = 0
    equal: int = 0
    worst: float = 0.0  # of the mean completion times, relative
    faults: list[str] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    cpu: float = 0.0
    recorded_cpu: float = 0.0
    packets: int = 0

    def add(self, case: Case, run: PacketRun) -> None:
        out = case.line["out"]
        self.runs += 1
        self.cpu += run.cpu
        self.recorded_cpu += out["run_cpu_s"]
        self.packets += out["host_data_packets"]
        fault = _fault(out, run)
        self.equal += not fault
        mean, expected = float(run.completion_times.mean()), sum(out["fct_ns"]) / len(out["fct_ns"])
        difference = abs(mean / expected - 1)
        self.worst = max(self.worst, difference)
        close = difference <= _CLOSE and (run.pauses > 0) == (out["pfc_pauses"] > 0)
        told = f"{fault} (mean completion time {difference:.2%} off)"
        self.faults += [f"{case.name}: {told}"] if fault and not close else []
        source = VERIFICATIONS["packets"].source
        if fault and not close:
            recorded = f"{out['pfc_pauses']} pauses, a mean completion time of {expected:,.0f} ns"
            self.points.append(Shape(case.name, recorded, told, False, source, basis="recorded"))
        else:
            allowed = relative(_CLOSE) if fault else absolute(0)
            self.points.append(Value(case.name, expected, mean, allowed, source, "ns", fault))


def read_cases(folder: Path) -> Iterator[Case]:
    """The cases of every file cases_*.jsonl in ``folder``."""
    topologies = _read(folder, "topologies.json", dict[str, _Topology])
    scenarios = _read(folder, "scenarios.json", dict[str, _Scenario])
    base = _read(folder, "base_config.json", dict[str, Any])
    files = sorted(folder.glob(_CASES))
    if not files:
        raise DimsweepError(f"there is no file {_CASES}", where=str(folder))
    for file in files:
        for number, text in enumerate(_text(file).splitlines(), 1):
            where = f"{file}: line {number}"
            line = _validated(_Line, text, where)
            scenario = scenarios.get(line.scenario)
            topology = topologies.get(scenario.topology) if scenario else None
            if scenario is None or topology is None:
                raise DimsweepError(f"there is no scenario {line.scenario!r}", where=where)
            yield Case(line.model_dump(), _scenario(scenario, topology, base))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DimsweepError(
            f"the recorded runs cannot be read: {reason}",
            where=str(file),
            hint="a folder with topologies.json, scenarios.json, base_config.json and "
            f"{_CASES}, as tests/golden/roce",
        ) from error


def _read(folder: Path, name: str, kind: type[_T]) -> _T:
    return _validated(kind, _text(folder / name), str(folder / name))


def _validated(kind: type[_T], text: str, where: str) -> _T:
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        where = f"{where}: {place}" if place else where
        raise DimsweepError(f"it cannot be read: {first['msg']}", where=where) from error


def _scenario(scenario: _Scenario, topology: _Topology, base: dict[str, Any]) -> Scenario:
    return Scenario(
        Topology(topology.nodes, topology.switches, topology.links_a_b_bps_delayns),
        scenario.flows,
        base | scenario.config_overrides,
    )


def compare(folder: Path, *, as_json: bool = False) -> int:
    """Simulate the recorded runs, print what differs and a table; the exit code is 1 if some do."""
    console = Console(stderr=as_json)
    compared: dict[tuple[str, str], Compared] = {}
    left_out: dict[str, int] = {}
    with waiting("simulating recorded runs", console):
        for case in read_cases(folder):
            if case.left_out:
                left_out[case.left_out] = left_out.get(case.left_out, 0) + 1
                continue
            if not compared:
                case.simulate()  # once before, so that no time is the compiler's
            key = str(case.line["variant"]), str(case.line["build"])
            compared.setdefault(key, Compared()).add(case, case.simulate())
    for why, n in left_out.items():
        say(f"left out: {plural(n, 'run')}: {why}", console)
    if as_json:
        print_json([point for of in compared.values() for point in of.points])
    return _report(compared, console)


def _report(compared: dict[tuple[str, str], Compared], console: Console) -> int:
    table = Table("variant", "build", "runs", "equal", "worst mean", "CPU time, recorded / ours")
    for (variant, build), of in sorted(compared.items()):
        speed = f"{of.recorded_cpu / of.cpu:.1f}" if of.cpu else ""
        table.add_row(variant, build, str(of.runs), str(of.equal), f"{of.worst:.2%}", speed)
    console.print(table)
    faults = [fault for of in compared.values() for fault in of.faults]
    for fault in faults:
        say(fault, console)
    runs, equal = (sum(getattr(of, name) for of in compared.values()) for name in ("runs", "equal"))
    say(f"{equal} of {runs} runs are equal: every completion time, pause count and queue", console)
    return 1 if faults else 0


def _fault(out: dict[str, Any], run: PacketRun) -> str:
    """What differs first from the recorded run, or nothing."""
    for i, (ours, expected) in enumerate(
        zip(run.completion_times.tolist(), out["fct_ns"], strict=True)
    ):
        if ours != expected:
            return f"flow {i} takes {ours} ns, recorded {expected}"
    if run.pauses != out["pfc_pauses"]:
        return f"{run.pauses} pauses, recorded {out['pfc_pauses']}"
    queues = {(port.node, port.to): port.longest_queue for port in run.ports}
    for node, to, longest, *_ in out["ports"]:
        if queues[node, to] != longest:
            return f"port {node} - {to} holds {queues[node, to]} bytes, recorded {longest}"
    return ""


@click.command("packets")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@json_option
def command(folder: Path, as_json: bool) -> int:
    """Compare recorded runs of ns-3's RDMA model, flow by flow, to the nanosecond.

    FOLDER holds topologies.json, scenarios.json, base_config.json and cases_*.jsonl. A run whose
    marks are drawn otherwise must have a mean completion time within 3% and pauses where the
    recorded one has some; the exit code is 1 if any has not.

    \b
    Example:
      dimsweep verify packets tests/golden/roce
    """
    return compare(folder, as_json=as_json)
