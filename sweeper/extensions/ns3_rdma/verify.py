"""Simulate recorded runs of ns-3's RDMA model again; compare them to the nanosecond."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import click
import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, model_validator
from rich.console import Console
from rich.table import Table

from dimsweep.engine import DimsweepError
from dimsweep.engine.extensions.ns3_rdma import Build, Scenario, Topology, simulate_scenario
from dimsweep.engine.formats import parse_json, read_json, read_text, validated
from dimsweep.engine.kernels.packet import PacketRun
from dimsweep.sweeper.extensions.ns3_rdma import VERIFICATION
from dimsweep.sweeper.extensions.verify.points import (
    Point,
    Shape,
    Value,
    find_recorded,
    json_option,
    print_json,
    print_left_out,
    within_amount,
    within_share,
)
from dimsweep.sweeper.terminal import print_line, showing_progress

_PINT = 10  # its CC_MODE
_SHARED = ("topologies.json", "scenarios.json", "base_config.json")
_CASES = "cases_*.jsonl"
_MOST_BYTES = 10**9  # of all flows of a scenario
_MOST_PACKETS = 2 * 10**6

_Count = Annotated[int, Field(ge=0, le=10**6)]
_Rate = Annotated[str, Field(pattern=r"^\d{1,7}(\.\d{1,6})?Mb/s$")]
_Map = Annotated[str, Field(pattern=r"^\d{1,3}( \d{1,13} \d{1,9}(\.\d{1,9})?)+$")]
_Microseconds = Annotated[int, Field(ge=1, le=10**9)]


class _Checked(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class _Config(_Checked):
    """The keys that are read from the simulator's configuration file; it has further keys."""

    PACKET_PAYLOAD_SIZE: Annotated[int, Field(ge=1, le=2**20)]
    SIMULATOR_STOP_TIME: Annotated[float, Field(gt=0, le=10)]  # s; timers run to the end
    ALPHA_RESUME_INTERVAL: _Microseconds
    RATE_DECREASE_INTERVAL: _Microseconds
    RP_TIMER: _Microseconds
    EWMA_GAIN: Annotated[float, Field(gt=0, le=1)]
    FAST_RECOVERY_TIMES: _Count
    RATE_AI: _Rate
    RATE_HAI: _Rate
    MIN_RATE: _Rate
    DCTCP_RATE_AI: _Rate
    VAR_WIN: Literal[0, 1]
    FAST_REACT: Literal[0, 1]
    U_TARGET: Annotated[float, Field(gt=0, le=1)]
    MI_THRESH: _Count
    INT_MULTI: Annotated[int, Field(ge=1, le=1024)]
    KMAX_MAP: _Map
    KMIN_MAP: _Map
    PMAX_MAP: _Map
    BUFFER_SIZE: Annotated[int, Field(ge=1, le=2**20)]

    @model_validator(mode="after")
    def _rates(self) -> Self:
        if not float(self.MIN_RATE.removesuffix("Mb/s")):
            raise ValueError("MIN_RATE must be more than 0")
        for text in (self.KMAX_MAP, self.KMIN_MAP, self.PMAX_MAP):
            if int(text.split()[0]) * 2 != len(text.split()) - 1:
                raise ValueError(f"{text!r} has not as many rates and values as it says")
        return self


class _Out(_Checked):
    run_cpu_s: Annotated[float, Field(ge=0)]
    host_data_packets: int
    fct_ns: list[int] = Field(min_length=1)
    pfc_pauses: int
    ports: list[Annotated[list[int], Field(min_length=3)]]
    switch_mmu: list[Annotated[list[int], Field(min_length=1)]]


class _Line(_Checked):
    """The fields of a line of the file of recorded runs."""

    id: str
    build: Build
    scenario: str
    variant: str
    cc_mode: int
    has_win: int
    rng_run: Annotated[int, Field(ge=0, lt=2**51)]  # of its generator's substreams
    out: _Out


class _Topology(_Checked):
    nodes: Annotated[int, Field(ge=2, le=65_536)]
    switches: tuple[int, ...]
    links_a_b_bps_delayns: tuple[
        tuple[
            int,
            int,
            Annotated[int, Field(ge=10**6, le=10**14)],
            Annotated[int, Field(ge=0, le=10**9)],
        ],
        ...,
    ]

    @model_validator(mode="after")
    def _nodes(self) -> Self:
        named = {*self.switches, *(n for a, b, *_ in self.links_a_b_bps_delayns for n in (a, b))}
        if strange := sorted(n for n in named if not 0 <= n < self.nodes):
            raise ValueError(f"there is no node {strange[0]} of {self.nodes}")
        ends = [frozenset((a, b)) for a, b, *_ in self.links_a_b_bps_delayns]
        if len(set(ends)) < len(ends) or any(len(pair) < 2 for pair in ends):
            raise ValueError("a link is given twice, or joins a node to itself")
        hosts = [n for pair in ends for n in pair if n not in self.switches]
        if len(set(hosts)) < len(hosts) or len(hosts) < 2:
            raise ValueError("each host has one link, and there are two hosts at least")
        return self


class _Scenario(_Checked):
    topology: str
    flows: Annotated[
        list[
            tuple[
                int,
                int,
                Annotated[int, Field(ge=1, le=_MOST_BYTES)],
                Annotated[int, Field(ge=0, le=10**12)],
                list[int],
            ]
        ],
        Field(min_length=1),
    ]
    config_overrides: dict[str, Any] = {}

    @model_validator(mode="after")
    def _order(self) -> Self:
        waits = nx.DiGraph((i, each) for i, (*_, after) in enumerate(self.flows) for each in after)
        for missing in {*waits} - {*range(len(self.flows))}:
            waiting = next(waits.predecessors(missing))
            raise ValueError(f"flow {waiting} waits for flow {missing}, which does not exist")
        if not nx.is_directed_acyclic_graph(waits):
            raise ValueError("flows wait for each other in a circle")
        if (n_bytes := sum(flow[2] for flow in self.flows)) > _MOST_BYTES:
            raise ValueError(f"its flows have {n_bytes:,} bytes, more than {_MOST_BYTES:,}")
        return self

    def check(self, topology: _Topology) -> None:
        """Raise ValueError for a flow without a path from its source to its target."""
        links, switches = topology.links_a_b_bps_delayns, set(topology.switches)
        graph = nx.Graph((a, b) for a, b, *_ in links)
        for source, target, *_ in self.flows:
            if source == target or not {source, target} <= graph.nodes - switches:
                raise ValueError(f"a flow from {source} to {target}, which are no two hosts")
            if not nx.has_path(graph, source, target):
                raise ValueError(f"there is no way from {source} to {target}")


@dataclass(frozen=True)
class Case:
    """A recorded run: its line of the file, and its scenario."""

    line: dict[str, Any]
    scenario: Scenario

    @property
    def name(self) -> str:
        return f"{self.line['build']} {self.line['id']}"

    @property
    def left_out(self) -> str:
        """Reason why the run is not simulated; "" if it is."""
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


def read_cases(folder: Path) -> Iterator[Case]:
    """Yield the cases of every file cases_*.jsonl in ``folder``.

    Raises :class:`DimsweepError` naming file, line and key of an invalid record.
    """
    for name in _SHARED:
        if not (folder / name).exists():
            hint = f"a folder with {', '.join(_SHARED)} and {_CASES}, as tests/golden/roce"
            what = "there is no such file beside the recorded runs"
            raise DimsweepError(what, where=str(folder / name), hint=hint, code="missing")
    of_topologies, of_scenarios, of_config = (folder / name for name in _SHARED)
    topologies = validated(dict[str, _Topology], read_json(of_topologies), of_topologies)
    scenarios = validated(dict[str, _Scenario], read_json(of_scenarios), of_scenarios)
    base = read_json(of_config)
    files = sorted(folder.glob(_CASES))
    if not files:
        raise DimsweepError(f"no file {_CASES}", where=str(folder), code="missing")
    for file in files:
        for number, text in enumerate(read_text(file, "file").splitlines(), 1):
            where = f"{file}: line {number}"
            line = validated(_Line, parse_json(text, where), where)
            scenario = scenarios.get(line.scenario)
            topology = topologies.get(scenario.topology) if scenario else None
            if scenario is None or topology is None:
                raise DimsweepError(
                    f"unknown scenario {line.scenario!r}", where=where, code="unknown-name"
                )
            yield _case(line, scenario, topology, base, where)


def _case(
    line: _Line, scenario: _Scenario, topology: _Topology, base: dict[str, Any], where: str
) -> Case:
    config = validated(_Config, base | scenario.config_overrides, f"{where}: configuration")
    try:
        scenario.check(topology)
    except ValueError as error:
        raise DimsweepError(
            f"scenario {line.scenario!r} has {error}", where=where, code="mismatch"
        ) from error
    if len(line.out.fct_ns) != len(scenario.flows):
        what = f"{len(line.out.fct_ns)} completion times of {len(scenario.flows)} flows"
        raise DimsweepError(what, where=where, code="mismatch")
    if (n := sum(flow[2] for flow in scenario.flows) // config.PACKET_PAYLOAD_SIZE) > _MOST_PACKETS:
        raise DimsweepError(
            f"{n:,} packets, more than {_MOST_PACKETS:,}", where=where, code="too-many"
        )
    wired = Topology(topology.nodes, topology.switches, topology.links_a_b_bps_delayns)
    return Case(line.model_dump(), Scenario(wired, scenario.flows, config.model_dump()))


_CLOSE = 0.03  # of the mean completion time, where a run is not equal


@dataclass
class Compared:
    """The recorded runs of one build and variant, and the differences from ours."""

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
        difference_text = f"{fault} (mean completion time {difference:.2%} off)"
        self.faults += [f"{case.name}: {difference_text}"] if fault and not close else []
        source = VERIFICATION.source
        if fault and not close:
            find_recorded = (
                f"{out['pfc_pauses']} pauses, a mean completion time of {expected:,.0f} ns"
            )
            self.points.append(
                Shape(case.name, find_recorded, difference_text, False, source, basis="recorded")
            )
        else:
            allowed = within_share(_CLOSE) if fault else within_amount(0)
            self.points.append(Value(case.name, expected, mean, allowed, source, "ns", fault))


def compare(folder: Path, *, as_json: bool) -> int:
    """Simulate the recorded runs, print the differences and a table.

    The exit code is 1 if a run differs.
    """
    console = Console(stderr=as_json)
    compared: dict[tuple[str, str], Compared] = {}
    left_out = list[str]()
    with showing_progress("simulating recorded runs", console):
        for case in read_cases(folder):
            if case.left_out:
                left_out.append(case.left_out)
                continue
            if not compared:
                case.simulate()  # once before, so that no time is the compiler's
            key = str(case.line["variant"]), str(case.line["build"])
            compared.setdefault(key, Compared()).add(case, case.simulate())
    print_left_out(left_out, "run", console)
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
        print_line(fault, console)
    runs, equal = (sum(getattr(of, name) for of in compared.values()) for name in ("runs", "equal"))
    print_line(
        f"{equal} of {runs} runs are equal: every completion time, pause count and queue", console
    )
    return 1 if faults else 0


def _fault(out: dict[str, Any], run: PacketRun) -> str:
    """Return the first difference between our run and the recorded one; "" if they agree."""
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
@click.argument(
    "folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@json_option
def command(folder: Path | None, as_json: bool) -> int:
    """Compare recorded runs of ns-3's RDMA model, flow by flow, to the nanosecond.

    FOLDER holds topologies.json, scenarios.json, base_config.json and cases_*.jsonl; the
    recorded ones unless given. A run whose
    marks are drawn otherwise must have a mean completion time within 3% and pauses where the
    recorded one has some; the exit code is 1 if any has not.

    \b
    Example:
      dimsweep verify packets tests/golden/roce
    """
    return compare(folder or find_recorded("roce", "FOLDER"), as_json=as_json)
