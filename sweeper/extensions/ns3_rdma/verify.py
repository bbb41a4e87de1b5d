"""Recorded runs of ns-3's RDMA model, simulated again and compared to the nanosecond."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dimsweep.engine.kernels.packet import PacketRun
from dimsweep.sweeper.extensions.ns3_rdma import VERIFICATION
from dimsweep.sweeper.extensions.ns3_rdma.cases import Case, read_cases
from dimsweep.sweeper.extensions.verify.golden import recorded
from dimsweep.sweeper.extensions.verify.points import (
    Point,
    Shape,
    Value,
    absolute,
    json_option,
    print_json,
    relative,
    say_left_out,
)
from dimsweep.sweeper.terminal import say, waiting

_CLOSE = 0.03  # of the mean completion time, where a run is not equal


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
        source = VERIFICATION.source
        if fault and not close:
            recorded = f"{out['pfc_pauses']} pauses, a mean completion time of {expected:,.0f} ns"
            self.points.append(Shape(case.name, recorded, told, False, source, basis="recorded"))
        else:
            allowed = relative(_CLOSE) if fault else absolute(0)
            self.points.append(Value(case.name, expected, mean, allowed, source, "ns", fault))


def compare(folder: Path, *, as_json: bool) -> int:
    """Simulate the recorded runs, print what differs and a table; the exit code is 1 if some do."""
    console = Console(stderr=as_json)
    compared: dict[tuple[str, str], Compared] = {}
    left_out = list[str]()
    with waiting("simulating recorded runs", console):
        for case in read_cases(folder):
            if case.left_out:
                left_out.append(case.left_out)
                continue
            if not compared:
                case.simulate()  # once before, so that no time is the compiler's
            key = str(case.line["variant"]), str(case.line["build"])
            compared.setdefault(key, Compared()).add(case, case.simulate())
    say_left_out(left_out, "run", console)
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
    return compare(folder or recorded("roce", "FOLDER"), as_json=as_json)
