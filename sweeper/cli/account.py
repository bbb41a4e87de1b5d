"""Print the account of one simulated iteration in the terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from dimsweep.engine import ClassAccount, Path, PathAccount, Result, units
from dimsweep.engine.bound import CutTime, time_by_cuts
from dimsweep.engine.kernels.messages import MessageRun
from dimsweep.engine.kernels.packet import PortAccount
from dimsweep.engine.network import InterconnectPlan
from dimsweep.sweeper.report.words import cost_of, known_merits, not_exceeded, waiting
from dimsweep.sweeper.simulation.simulate import JobTime
from dimsweep.sweeper.table import Column, Table
from dimsweep.sweeper.terminal import SCREEN, count_lines, format_count, plain_table, print_line

_BOUND = {"memory": "compute that memory bounds"}
_CLASSES_SHOWN = 16
# Rows of the summary that a screen without room leaves out first, from the last one.
_DISPENSABLE = {"cost of tokens", "energy of an iteration", "performance per watt"}


def print_result(result: Result, title: str, console: Console, npu_price: float = 0.0) -> None:
    """Print the components of an iteration's time and the load of each dimension.

    ``npu_price`` (USD) is the price of one NPU, which the cost includes.
    """
    print_line(f"{title}, {_size(result)}", console)
    for table in tables_of(result, npu_price):
        console.print(plain_table(table))


def print_screen(
    result: Result,
    title: str,
    console: Console,
    npu_price: float,
    jobs: Mapping[str, JobTime],
    reserved: int,
) -> None:
    """Print the account of an iteration on one screen.

    ``reserved`` lines of the screen are left to the caller. Collectives are left out.  If the rest
    has no room, details of figures go first, then the rows of ``_DISPENSABLE``, then the last rows.
    """
    heading = f"{title}, {_size(result)}"
    print_line(heading, console)
    room = SCREEN - reserved - count_lines(heading, console.width)
    rows = [row for row in _summary(result, npu_price) if not row[0].startswith("    ")]
    if result.renewal is not None:
        rows.append(
            ("time for training (ETTR)", "", f"{float(result.renewal.effective_share):.1%}")
        )
    for name, job in jobs.items():
        time = units.format_time(round(job.time * units.PICOSECONDS))
        rows.append((f"job {name}", time, f"{job.slowdown:.3f}x alone"))
    dimensions = list(_dimensions(result).rows)
    n_parts = sum(row[0].startswith("  ") for row in rows[: len(dimensions) + 4]) + 1
    details = [row for row in rows[n_parts:] if row[0].startswith("  ")]
    for row in [*details[::-1], *(row for row in rows[::-1] if row[0] in _DISPENSABLE)]:
        if len(rows) > room:
            rows.remove(row)
    del rows[max(room, 1) :]
    console.print(plain_table(Table("", ("", "", ""), rows)))
    if len(rows) + len(dimensions) + 2 <= room:
        console.print(plain_table(_dimensions(result)))


def tables_of(result: Result, npu_price: float = 0.0) -> Iterator[Table]:
    """Yield the tables of an iteration that have content, the summary first."""
    yield Table("", ("", "", ""), list(_summary(result, npu_price)))
    if len(classes := _distinct_classes(result)) > 1:
        yield _classes(result, classes)
    yield _dimensions(result)
    if result.breakdown.path is not None and result.breakdown.per_bandwidth is not None:
        yield _critical_path(result, result.breakdown.path, result.breakdown.per_bandwidth)
    if result.links:
        yield _busiest_links(result)
    yield from traffic_tables(result)


def print_jobs(jobs: Mapping[str, JobTime], console: Console) -> None:
    """Print the time of each job next to the other jobs, and in isolation."""
    if not jobs:
        return
    rows = [
        (
            name,
            f"{job.ranks:,}",
            *(units.format_time(round(each * units.PICOSECONDS)) for each in (job.time, job.alone)),
            f"{job.slowdown:.3f}",
        )
        for name, job in jobs.items()
    ]
    heads = ("job", "ranks", "among others", "alone", "slowdown")
    console.print(plain_table(Table("", heads, rows)))


def plain(result: Result) -> dict[str, Any]:
    """Return the figures of an iteration that no row of a study has, as data for JSON, in seconds.

    They are the critical path, by computation and by dimension of communication, and the account of
    the ranks of each class.
    """
    found: dict[str, Any] = {}
    if result.path_account is not None:
        found["path_by_compute_s"] = _seconds(result.path_account.compute)
        found["path_by_collective_s"] = {
            name: _seconds(dict(zip(result.program.names.dims, by_dim.tolist(), strict=True)))
            for name, by_dim in result.path_account.communication.items()
        }
    if (least := _bound_by_cuts(result)) is not None:
        found["cut_bound_s"] = least.picoseconds / units.PICOSECONDS
        found["cut_bound_by"] = least.reason
    found["classes"] = [
        {"ranks": cls.ranks, "first_rank": cls.first}
        | _seconds({f"{k}_s": v for k, v in cls._asdict().items() if k not in ("ranks", "first")})
        for cls in result.classes
    ]
    return found


def _seconds(picoseconds: Mapping[str, int | None]) -> dict[str, float]:
    return {k: v / units.PICOSECONDS for k, v in picoseconds.items() if v is not None}


def _size(result: Result) -> str:
    n_npus = f"{result.program.n_npus:,} NPUs"
    if isinstance(result.run, MessageRun):
        if result.run.n_simulated is not None:
            n_npus += f" in {format_count(result.run.n_simulated, 'class')}"
        return f"{n_npus}, {len(result.run.links):,} links, {result.run.n_messages:,} messages"
    return f"{n_npus} in {format_count(len(result.program.names.class_count), 'class')}"


def _summary(result: Result, npu_price: float) -> Iterator[tuple[str, str, str]]:
    """Yield the components of the time: name, amount, and share of the whole."""
    time = units.format_time(result.time_ps)
    share = "100.0%" if result.time_ps else ""
    yield "iteration", time, share
    lines = (
        _list_rank_parts(result)
        if result.path_account is None
        else _list_path_parts(result, result.path_account)
    )
    for name, picoseconds in lines:
        share = f"{picoseconds / result.time_ps:.1%}" if result.time_ps else ""
        yield name, units.format_time(picoseconds), share
    if (bubble := _bubble(result)) is not None:
        yield "pipeline bubble, mean of ranks", units.format_time(bubble), _share(result, bubble)
    if (least := _bound_by_cuts(result)) is not None:
        share = f"{least.picoseconds / result.time_ps:.1%}" if result.time_ps else ""
        yield "no algorithm or route takes less than", units.format_time(least.picoseconds), share
        yield f"  {least.reason}", "", ""
    for merit in known_merits(result.merits):
        value = merit.show(result.merits[merit.column])
        yield merit.title or "performance per watt", value, ""
    if isinstance(result.run, MessageRun) and result.run.plan is not None:
        for done, count in _remedies(result, result.run.plan):
            yield done, count, ""
    memory = result.program.workload.footprint
    if memory is not None:
        yield "memory of the fullest NPU", units.format_bytes(memory.total), ""
        yield "  at its peak", memory.peak, ""
        if (reserved := result.merits.get("memory_reserved_bytes")) is not None:
            yield "  PyTorch may reserve", units.format_bytes(reserved), ""
        if memory.remote:
            yield "  and remote memory", units.format_bytes(memory.remote), ""
    if result.cost is not None:
        yield cost_of(npu_price), units.format_money(result.cost), ""
    if result.perf_per_cost is not None:
        efficiency = units.format_performance_per_cost(result.perf_per_cost)
        yield "performance per cost", efficiency, ""


def _share(result: Result, picoseconds: float) -> str:
    return f"{picoseconds / result.time_ps:.1%}" if result.time_ps else ""


def _bubble(result: Result) -> float | None:
    """Return the mean time (ps) in which a rank waits for pipeline stages; None without stages."""
    classes = result.classes
    if "receive" not in result.exposed_by_collective or not classes:
        return None
    total = sum(cls.ranks * (cls.waiting + cls.idle) for cls in classes)
    return total / sum(cls.ranks for cls in classes)


def _bound_by_cuts(result: Result) -> CutTime | None:
    """Return the lower bound by the cuts of a network graph; None without a graph."""
    run = result.run
    if not isinstance(run, MessageRun) or result.program.communication.network.graph is None:
        return None
    return time_by_cuts(result.program, run.network)


def _list_path_parts(result: Result, along: PathAccount) -> Iterator[tuple[str, float]]:
    """Yield the components of the critical path in picoseconds; they add up to the iteration."""
    for name, picoseconds in along.compute.items():
        yield f"  {_BOUND.get(name, name)}", picoseconds
    for d, dim in enumerate(result.program.names.dims):
        found = {name: int(by_dim[d]) for name, by_dim in along.communication.items()}
        if total := sum(found.values()):
            yield f"  {dim}", total
            yield from ((f"    {name}", time) for name, time in found.items() if time)


def _list_rank_parts(result: Result) -> Iterator[tuple[str, float]]:
    """Yield the time components of the ranks that finish last, used without a critical path."""
    of = f" of {last}" if (last := _name_last_rank(result)) else ""
    yield f"  compute{of}", float(result.breakdown.compute[0])
    yield f"  exposed communication{of}", float(result.breakdown.exposed[0])
    for name, seconds in result.exposed_by_collective.items():
        if seconds:
            yield f"    {name}", seconds * units.PICOSECONDS
    if result.exposed_by_dim["waiting"]:
        what = waiting(result.exposed_by_collective)
        what = "waiting, no dimension in use" if _has_memory(result) else what
        yield f"    {what}", result.exposed_by_dim["waiting"] * units.PICOSECONDS


def _name_last_rank(result: Result) -> str:
    """Return the name of the rank that finishes last; "" if all ranks are equivalent."""
    if len(_distinct_classes(result)) == 1:
        return ""
    return f"rank {result.classes[result.last_class].first}, the last"


def _has_memory(result: Result) -> bool:
    return "memory" in result.program.names.stream


def _classes(result: Result, classes: Sequence[ClassAccount]) -> Table:
    """Return a table of how the ranks of each class spend the time of the iteration."""
    columns = ["rank", "with\nalike", "compute", "communi-\ncation", "waiting", "idle"]
    columns[4] += ",\nmemory" if _has_memory(result) else ""
    columns += [] if result.path_account is None else ["critical\npath"]
    rows = []
    for cls in classes[:_CLASSES_SHOWN]:
        times = (cls.compute, cls.communication, cls.waiting, cls.idle, cls.path)
        shown = (units.format_time(time) for time in times if time is not None)
        rows.append([str(cls.first), f"{cls.ranks:,}", *shown])
    return shortened(columns, rows, len(classes))


def _distinct_classes(result: Result) -> list[ClassAccount]:
    """Return the classes of ranks with different accounts; the class of the critical path is first.

    Without a critical path the classes that finish last are first.
    """
    ends = result.run.measures.end[0].tolist()
    alike: dict[tuple[int | None, ...], ClassAccount] = {}
    for end, cls in sorted(zip(ends, result.classes, strict=True), key=lambda each: -each[0]):
        known = alike.get(what := (end, *cls[2:]))
        ranks, first = (0, cls.first) if known is None else known[:2]
        alike[what] = cls._replace(ranks=ranks + cls.ranks, first=min(first, cls.first))
    return sorted(alike.values(), key=lambda cls: -(cls.path or 0))


def _remedies(result: Result, plan: InterconnectPlan) -> Iterator[tuple[str, str]]:
    """Yield how groups were handled that the interconnect cannot serve as they are."""
    interconnect = result.program.communication.network.interconnect
    assert interconnect is not None  # whose plan it is
    if plan.n_serialised:
        rounds = f"{format_count(plan.n_serialised, 'group')}, in {plan.n_rounds} rounds"
        yield f"serialised on the {interconnect.noun}", rounds
    if plan.decomposed:
        yield "decomposed into rings", format_count(len(plan.decomposed), "group")
    if plan.n_moved:
        yield f"placed anew on the {interconnect.noun}", format_count(plan.n_moved, "rank")


def _dimensions(result: Result) -> Table:
    """Return a table of the traffic of each dimension, and its exposed communication."""
    row, names, last = result.breakdown, result.program.names.dims, _name_last_rank(result)
    columns = [
        Column("dimension", lambda d: names[d]),
        Column("bandwidth", lambda d: units.format_bandwidth(result.bandwidth_by_dim[names[d]])),
        Column("sent by an NPU", lambda d: units.format_bytes(float(row.bytes_sent[0, d]))),
        Column("busy", lambda d: f"{row.busy[0, d] / max(result.time_ps, 1):.1%}"),
        Column("util.", lambda d: f"{row.utilisation[0, d]:.1%}"),
        Column(
            f"exposed at\n{last}" if last else "exposed",
            lambda d: units.format_time(float(row.exposed_by_dim[0, d])),
        ),
    ]
    rows = [[column.show(d) for column in columns] for d in range(len(names))]
    return Table("", [column.head for column in columns], rows)


def _critical_path(result: Result, path: Path, per_bandwidth: np.ndarray) -> Table:
    """Return a table of the critical path in each dimension, and the gain of more bandwidth.

    The gain of 1,000 USD is shown only if they buy at most a tenth of the bandwidth.
    """
    names = ["critical path", "transfer", "latency", "endpoint", "next GB/s\nsaves"]
    per_usd, prices = result.per_usd or {}, result.program.prices
    priced = not np.isnan([*per_usd.values()]).all()  # whole parts have no price of a GB/s
    rows = []
    for d, name in enumerate(result.program.names.dims):
        parts = (path.transfer, path.latency, path.endpoint)
        cells = [units.format_time(float(part[0, d])) for part in parts]
        cells.append(units.format_time(-per_bandwidth[0, d] * 1e9 * units.PICOSECONDS))
        if priced:
            assert prices is not None
            is_little = prices.per_bandwidth[d] * result.bandwidth_by_dim[name] >= 1e4
            saved = -per_usd[name] * 1e3 * units.PICOSECONDS
            cells.append(units.format_time(saved) if is_little else "-")
        rows.append([name, *cells])
    return Table("", [*names, "next k USD\nsaves"] if priced else names, rows)


def _busiest_links(result: Result) -> Table:
    """Return a table of the links in use longest, with the number of other used links."""
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


LINKS_SHOWN = 5


def traffic_tables(result: Result) -> Iterator[Table]:
    """Yield tables of completion times, of waiting packets and of paused links.

    Tables without rows are left out.
    """
    traffic = result.traffic
    if traffic is None:
        return
    if result.completion_times:
        yield _completion_times(result)
    packets = traffic.packets
    if packets is not None and any(port.longest_queue for port in packets.ports):
        yield _longest_queues(result, packets.ports)
    if packets is not None and packets.pausings:
        yield _paused_links(result, packets.ports, traffic.roots)


def shortened(
    columns: Sequence[str], rows: Sequence[Sequence[str]], n: int, left: int = 1
) -> Table:
    """Return a table of the first rows of ``n``, with a last line that counts the others."""
    more = [(f"... and {n - len(rows):,} more",)] if n > len(rows) else []
    return Table("", columns, [*rows, *more], left)


def _completion_times(result: Result) -> Table:
    """Return a table of the median and 99th percentile of each collective's message times."""
    rows = [
        (name, f"{len(times):,}", *(not_exceeded(times, share) for share in (0.5, 0.99, 1.0)))
        for name, times in result.completion_times.items()
    ]
    return Table("", ("completion times", "messages", "p50", "p99", "longest"), rows)


def _longest_queues(result: Result, ports: Sequence[PortAccount]) -> Table:
    """Return a table of the ports where most packets waited, and of lost packets."""
    drops, trims = (any(getattr(port, name) for port in ports) for name in ("dropped", "trimmed"))
    queued = [link for link, port in enumerate(ports) if port.longest_queue]
    ranked = sorted(queued, key=lambda link: -ports[link].longest_queue)
    rows = []
    for link in ranked[:LINKS_SHOWN]:
        port = ports[link]
        cells = [units.format_bytes(port.longest_queue), f"{port.data:,}", f"{port.marked:,}"]
        lost = [f"{port.dropped:,}"] * drops + [f"{port.trimmed:,}"] * trims
        rows.append((result.links[link].link.name, *cells, *lost))
    columns = ["longest queues", "at most", "packets", "marked"]
    columns += ["dropped"] * drops + ["trimmed"] * trims
    return shortened(columns, rows, len(ranked))


def _paused_links(
    result: Result, ports: Sequence[PortAccount], roots: Mapping[int, Counter[int]]
) -> Table:
    """Return a table of the paused links, with the most frequent root of each link's pauses."""
    paused = sorted(roots, key=lambda link: -ports[link].paused)
    rows = []
    for link in paused[:LINKS_SHOWN]:
        port = ports[link]
        ((root, times), *others) = roots[link].most_common()
        total = times + sum(n for _, n in others)
        share = f" ({times / total:.0%})" if others else ""
        names = [result.links[link].link.name, result.links[root].link.name + share]
        rows.append((*names, f"{port.pauses:,}", units.format_time(port.paused)))
    columns = ("paused links", "root of the tree of pauses", "pauses", "paused")
    return shortened(columns, rows, len(paused), left=2)
