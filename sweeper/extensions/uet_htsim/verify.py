"""Simulate recorded runs of Ultra Ethernet's public simulator; compare first and last flow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import click
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dimsweep.engine import DimsweepError
from dimsweep.engine.extensions.uet_htsim import Experiment, Options, Tree
from dimsweep.engine.formats import (
    parse_json,
    read_connection_matrix,
    read_htsim_topology,
    read_text,
    validated,
)
from dimsweep.engine.kernels.packet.transports import Balance
from dimsweep.sweeper.extensions.uet_htsim import VERIFICATION
from dimsweep.sweeper.extensions.verify.points import (
    Value,
    create_console,
    find_recorded,
    json_option,
    print_json,
    print_left_out,
    within_share,
)
from dimsweep.sweeper.report.summary import Floats
from dimsweep.sweeper.terminal import format_count, make_table, print_line, showing_progress

_RUNS = "runs.jsonl"
_MOST_NODES, _MOST_UPLINKS, _MOST_PACKETS = 1 << 14, 1 << 16, 2 * 10**6
_USUAL = 100 * 10**9, 1000  # of a link: bits/s, ns
_MSS = 4086  # bytes of a full packet's payload

_Time = Annotated[float, Field(gt=0, le=1e9)]  # us
_Whole = Annotated[int, Field(ge=1, le=1 << 16)]


class _Line(BaseModel):
    """The fields of a line of the file of recorded runs."""

    model_config = ConfigDict(allow_inf_nan=False)

    suite: str
    name: str
    matrix: str
    arguments: str
    first_us: _Time
    last_us: _Time
    summary: Annotated[str, Field(pattern=r"Rtx: \d+ ")]
    cpu_s: Annotated[float, Field(ge=0)]


class _Arguments(BaseModel):
    """The simulator's command-line arguments that can be repeated here, by name."""

    sender_cc_only: bool = False
    receiver_cc_only: bool = False
    conn_reuse: bool = False
    end: _Time = 1000
    paths: _Whole = 64
    q: _Whole | None = None
    cwnd: _Whole | None = None
    load_balancing_algo: Balance = Balance.MIXED
    sack_threshold: _Whole = 16384
    failed: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    topo: str | None = None


@dataclass(frozen=True)
class Recorded:
    """A recorded run, and the experiment that repeats it."""

    name: str
    first: float  # end of the first flow, us
    last: float  # end of the last flow, us
    resent: int  # retransmitted packets
    cpu: float  # CPU seconds
    experiment: Experiment | None
    left_out: str = ""  # the reason why there is no experiment


def read_runs(folder: Path) -> Iterator[Recorded]:
    """Yield the runs of ``runs.jsonl`` in ``folder``, with its matrices and topologies.

    Raises :class:`DimsweepError` naming file, line and key of an invalid record.
    """
    file = folder / _RUNS
    if not file.exists():
        hint = f"a folder with {_RUNS} and what it names, as tests/golden/uet"
        raise DimsweepError("no such file", where=str(file), hint=hint, code="missing")
    for number, text in enumerate(read_text(file, "file").splitlines(), 1):
        where = f"{file}: line {number}"
        line = validated(_Line, parse_json(text, where), where)
        suite = line.suite.removeprefix("validate_").removesuffix(".txt")
        (resent,) = re.findall(r"Rtx: (\d+)", line.summary)
        find_recorded = f"{suite}: {line.name} ({Path(line.matrix).stem})"
        found = _experiment(folder, line, where)
        experiment, why = (None, found) if isinstance(found, str) else (found, "")
        yield Recorded(
            find_recorded, line.first_us, line.last_us, int(resent), line.cpu_s, experiment, why
        )


def _experiment(folder: Path, line: _Line, where: str) -> Experiment | str:
    """Return the experiment that repeats a run, or the reason why it cannot be repeated here."""
    arguments = _by_name(line.arguments)
    if strange := sorted(arguments.keys() - _Arguments.model_fields.keys()):
        return f"the argument -{strange[0]} is not simulated"
    given = validated(_Arguments, arguments, f"{where}: arguments")
    if given.receiver_cc_only == given.sender_cc_only:
        return "neither NSCC nor RCCC alone"
    if given.failed and given.topo:
        return "links that fail in a network of two levels"
    n, flows = _matrix(folder / line.matrix)
    if given.conn_reuse:
        flows = _joined(flows)
    if len({flow[:2] for flow in flows}) < len(flows):
        return "messages of one connection that do not end with full packets at once"
    tree = Tree.build(n, given.failed) if given.topo is None else _tree(folder / given.topo)
    if tree.hosts != n:
        raise DimsweepError(
            f"{n} nodes, and {tree.hosts} of the topology", where=where, code="mismatch"
        )
    if (packets := sum(flow[2] for flow in flows) // _MSS) > _MOST_PACKETS:
        raise DimsweepError(
            f"{packets:,} packets, more than {_MOST_PACKETS:,}", where=where, code="too-many"
        )
    options = Options(
        given.load_balancing_algo,
        given.paths,
        given.q,
        given.cwnd,
        given.sack_threshold,
        given.receiver_cc_only,
    )
    return Experiment(tree, flows, options)


def _by_name(arguments: str) -> dict[str, Any]:
    """Return the values of arguments ``-name value`` by name; ``-name`` without a value is True."""
    found: dict[str, Any] = {}
    for word in arguments.split():
        if word.startswith("-"):
            name = word.removeprefix("-")
            found[name] = True
        elif found:
            found[name] = word
    return found


def _matrix(file: Path) -> tuple[int, tuple[tuple[int, int, int, int], ...]]:
    """Read a traffic matrix: number of nodes, and flows (source, target, bytes, start in us)."""
    matrix = read_connection_matrix(file)
    for flow in matrix.flows:
        if flow.after:
            raise DimsweepError(
                "flows with triggers are not compared", where=flow.where, code="unsupported"
            )
    if matrix.n_hosts is None or matrix.n_hosts > _MOST_NODES:
        raise DimsweepError(f"more than {_MOST_NODES:,} nodes", where=str(file), code="too-many")
    flows = ((each.source, each.target, each.n_bytes, each.start // 10**6) for each in matrix.flows)
    return matrix.n_hosts, tuple(flows)


def _joined(flows: tuple[tuple[int, int, int, int], ...]) -> tuple[tuple[int, int, int, int], ...]:
    """Return the flows, with those that a connection is given at once joined to one message."""
    sizes: dict[tuple[int, int, int], int] = {}
    for source, target, size, start in flows:
        if size % _MSS:
            return flows
        key = source, target, start
        sizes[key] = sizes.get(key, 0) + size
    return tuple((source, target, size, at) for (source, target, at), size in sizes.items())


def _tree(file: Path) -> Tree:
    """Read a topology file, and return a leaf-spine network of equal links."""
    tree = read_htsim_topology(file)
    is_usual = all((tier.speed, tier.latency) == _USUAL for tier in tree.tiers)
    leaf = tree.tiers[0]
    if len(tree.tiers) != 2 or not is_usual or not 0 < tree.counts[0] * leaf.up <= _MOST_UPLINKS:
        hint = "two tiers of links of 100 Gb/s and 1000 ns"
        raise DimsweepError(
            "this topology is not simulated", where=str(file), hint=hint, code="unsupported"
        )
    return Tree(tree.hosts, leaf.down, leaf.up, levels=2)


_SEEDS = 5
_EXACT = 0.001  # of the last completion, where nothing depends on chance
_DEVIATIONS = 3  # of the last completion over seeds, where something does

_COLUMNS = ("run", "first", "ours", "last", "ours", "", "+-", "sent again", "ours", "CPU")


@dataclass(frozen=True)
class Compared:
    """A recorded run, and ours by seed: first and last completions (us), retransmissions, CPU."""

    run: Recorded
    firsts: Floats
    lasts: Floats
    resent: Floats
    cpu: float

    @property
    def point(self) -> Value:
        """The last completion; its tolerance follows from the standard deviation over our seeds."""
        deviation = float(self.lasts.std(ddof=1))
        mean = float(self.lasts.mean())
        allowed = max(_EXACT, _DEVIATIONS * deviation * (1 + 1 / _SEEDS) ** 0.5 / mean)
        source = VERIFICATION.source
        return Value(
            self.run.name,
            self.run.last,
            mean,
            within_share(allowed),
            source,
            "us",
            basis="recorded",
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the table's columns."""
        run, point = self.run, self.point
        _, _, _, difference, allowed, verdict = point.cells
        return (
            f"{run.name}{'' if point.holds else f' ({verdict})'}",
            *(f"{x:,.1f}" for x in (run.first, self.firsts.mean(), run.last, self.lasts.mean())),
            difference,
            allowed.removeprefix("±"),
            f"{run.resent:,}",
            f"{self.resent.mean():,.0f}",
            f"{run.cpu / self.cpu:.0f}x" if self.cpu else "",
        )


def _compared(run: Recorded) -> Compared:
    assert run.experiment is not None
    began = process_time()
    ours = [run.experiment.run(seed) for seed in range(_SEEDS)]
    cpu = (process_time() - began) / _SEEDS
    ends = np.array([each.ends for each in ours]) / 10**6
    resent = np.array([each.resent.sum() for each in ours], np.float64)
    return Compared(run, ends.min(1), ends.max(1), resent, cpu)


def compare(folder: Path, *, as_json: bool) -> int:
    """Simulate the recorded runs, and print both results.

    The exit code is 1 if the last completion of a run differs by more than chance explains.
    """
    console = create_console(as_json)
    compared, left_out, compiled = list[Compared](), list[str](), set[bool]()
    with showing_progress("simulating recorded runs", console):
        for run in read_runs(folder):
            if run.experiment is None:
                left_out.append(run.left_out)
                continue
            if (kernel := run.experiment.options.credits) not in compiled:
                run.experiment.run()  # once before, so that no time is the compiler's
                compiled.add(kernel)
            compared.append(_compared(run))
    print_left_out(left_out, "run", console)
    if as_json:
        print_json([each.point for each in compared])
    else:
        console.print(make_table(_COLUMNS, [each.cells for each in compared]))
        good = sum(each.point.holds for each in compared)
        near = "last within 0.1% or three deviations of ours over seeds"
        print_line(f"{good} of {format_count(len(compared), 'run')}: {near}; times in us", console)
    return int(not all(each.point.holds for each in compared))


@click.command("uet")
@click.argument(
    "folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@json_option
def command(folder: Path | None, as_json: bool) -> int:
    """Compare recorded runs of Ultra Ethernet's public simulator, by first and last flow.

    FOLDER holds runs.jsonl, and the connection matrices and topologies that it names; the recorded
    ones unless given. Each is simulated with five seeds. The last completion must be within 0.1%,
    or three standard deviations of ours where hashes and draws decide; the exit code is 1 if any
    is not. CPU is how many times less ours takes, set-up included.

    \b
    Example:
      dimsweep verify uet tests/golden/uet
    """
    return compare(folder or find_recorded("uet", "FOLDER"), as_json=as_json)
