"""The account of one simulated iteration, for the terminal."""

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from engine import Path, Result, units
from engine.kernels.message import MessageRun
from engine.network.wafer import WaferPlan
from sweeper.cli.traffic import LINKS_SHOWN, shortened, traffic_tables
from sweeper.report.merits import known
from sweeper.report.words import cost_of, waiting
from sweeper.terminal import plural, say, table


def print_result(
    result: Result,
    title: str,
    console: Console,
    npu_price: float = 0.0,
) -> None:
    """Print where the time of an iteration goes and what each dimension carries; ``npu_price``
    (USD) is in the cost."""
    say(f"{title}, {_size(result)}", console)
    console.print(table(("", "", ""), _summary(result, npu_price)))
    console.print(_dimensions(result))
    if result.breakdown.path is not None and result.breakdown.per_bandwidth is not None:
        console.print(_critical_path(result, result.breakdown.path, result.breakdown.per_bandwidth))
    if result.links:
        console.print(_busiest_links(result))
    for found in traffic_tables(result):
        console.print(found)


def _size(result: Result) -> str:
    n_npus = f"{result.program.n_npus:,} NPUs"
    if isinstance(result.run, MessageRun):
        if result.run.n_simulated is not None:
            n_npus += f" in {plural(result.run.n_simulated, 'class')}"
        return f"{n_npus}, {len(result.run.links):,} links, {result.run.n_messages:,} messages"
    return f"{n_npus} in {plural(len(result.program.names.class_count), 'class')}"


def _summary(result: Result, npu_price: float) -> Iterator[tuple[str, str, str]]:
    """What the time is made of: names, amounts, and shares of the whole."""

    def line(name: str, seconds: float) -> tuple[str, str, str]:
        share = f"{seconds / result.time:.1%}" if result.time else ""
        return name, units.format_time(seconds * units.PICOSECONDS), share

    yield line("iteration", result.time)
    yield line("  compute", result.compute)
    yield line("  exposed communication", result.exposed)
    for name, seconds in result.exposed_by_collective.items():
        if seconds:
            yield line(f"    {name}", seconds)
    if result.exposed_by_dim["waiting"]:
        remote = "memory" in result.program.names.stream
        what = "of it with no dimension in use" if remote else waiting(result.exposed_by_collective)
        yield line(f"    {what}", result.exposed_by_dim["waiting"])
    for merit in known(result.merits):
        value = merit.show(result.merits[merit.column])
        yield merit.title or "performance per watt", value, ""
    if isinstance(result.run, MessageRun) and result.run.plan is not None:
        for done, count in _remedies(result.run.plan):
            yield done, count, ""
    memory = result.program.workload.footprint
    if memory is not None:
        yield "memory of the fullest NPU", units.format_bytes(memory.total), ""
        yield "  at its peak", memory.peak, ""
        if memory.remote:
            yield "  and remote memory", units.format_bytes(memory.remote), ""
    if result.cost is not None:
        yield cost_of(npu_price), units.format_money(result.cost), ""
    if result.perf_per_cost is not None:
        efficiency = units.format_performance_per_cost(result.perf_per_cost)
        yield "performance per cost", efficiency, ""


def _remedies(plan: WaferPlan) -> Iterator[tuple[str, str]]:
    """What became of groups that a wafer cannot serve as they are."""
    if plan.serialised:
        rounds = f"{plural(plan.serialised, 'group')}, in {plan.n_rounds} rounds"
        yield "serialised on the wafer", rounds
    if plan.decomposed:
        yield "decomposed into rings", plural(len(plan.decomposed), "group")
    if plan.moved:
        yield "placed anew on the wafer", plural(plan.moved, "rank")


def _dimensions(result: Result) -> Table:
    """What each dimension carries, and how long communication over it is exposed."""
    program, row = result.program, result.breakdown
    return table(
        ("dimension", "bandwidth", "sent by an NPU", "busy", "util.", "exposed"),
        (
            (
                name,
                units.format_bandwidth(float(program.bandwidth[d])),
                units.format_bytes(float(row.bytes_sent[0, d])),
                f"{row.busy[0, d] / max(result.time_ps, 1):.1%}",
                f"{row.utilisation[0, d]:.1%}",
                units.format_time(float(row.exposed_by_dim[0, d])),
            )
            for d, name in enumerate(program.names.dims)
        ),
    )


def _critical_path(result: Result, path: Path, per_bandwidth: np.ndarray) -> Table:
    """What the time is made of, and what a little more bandwidth in each dimension is worth."""
    names = ["critical path", "transfer", "latency", "endpoint", "next GB/s\nsaves"]
    rows = [["compute", units.format_time(float(path.compute[0]))]]
    if path.memory[0]:
        rows.append(["memory", units.format_time(float(path.memory[0]))])
    for d, name in enumerate(result.program.names.dims):
        parts = (path.transfer, path.latency, path.endpoint)
        cells = [units.format_time(float(part[0, d])) for part in parts]
        cells.append(units.format_time(-per_bandwidth[0, d] * 1e9 * units.PICOSECONDS))
        if result.per_usd:
            saved = -result.per_usd[name] * 1e3 * units.PICOSECONDS
            cells.append(units.format_time(saved))
        rows.append([name, *cells])
    return table([*names, "next k USD\nsaves"] if result.per_usd else names, rows)


def _busiest_links(result: Result) -> Table:
    """The links that were in use longest, and how many others were in use."""
    columns = ("busiest links", "bandwidth", "carried", "busy", "utilisation", "longest queue")
    ranked = sorted(result.links, key=lambda account: (-account.busy, -account.longest_queue))
    rows = [
        (
            account.link.name,
            units.format_bandwidth(account.link.bandwidth),
            units.format_bytes(account.n_bytes),
            f"{account.busy / max(result.time_ps, 1):.1%}",
            f"{account.utilisation:.1%}",
            str(account.longest_queue),
        )
        for account in ranked[:LINKS_SHOWN]
    ]
    return shortened(columns, rows, len(ranked))
