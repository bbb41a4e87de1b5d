"""Recorded runs of ultraethernet/uet-htsim: their files, read and checked."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import parse_json, read_text, validated
from dimsweep.engine.kernels.packet.transports import Balance
from dimsweep.engine.replicas.uet_htsim import Experiment, Options, Tree

_RUNS = "runs.jsonl"
_MOST_NODES, _MOST_UPLINKS, _MOST_PACKETS = 1 << 14, 1 << 16, 2 * 10**6
_MSS = 4086  # bytes of a full packet's payload

_Time = Annotated[float, Field(gt=0, le=1e9)]  # us
_Whole = Annotated[int, Field(ge=1, le=1 << 16)]


class _Line(BaseModel):
    """What is read of a line of runs."""

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
    """The arguments that are understood, by their names."""

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
    """A run: what it was, when its first and its last flow ended (us), packets that were sent
    again, CPU seconds; and the experiment, or why it is ``left_out``."""

    name: str
    first: float
    last: float
    resent: int
    cpu: float
    experiment: Experiment | None
    left_out: str = ""


def read_runs(folder: Path) -> Iterator[Recorded]:
    """The runs of ``runs.jsonl`` in ``folder``, whose matrices and topologies lie beside it.

    Raises :class:`DimsweepError` naming file, line and key for what is no recorded run."""
    file = folder / _RUNS
    if not file.exists():
        hint = f"a folder with {_RUNS} and what it names, as tests/golden/uet"
        raise DimsweepError("there is no such file", where=str(file), hint=hint)
    for number, text in enumerate(read_text(file, "file").splitlines(), 1):
        where = f"{file}: line {number}"
        line = validated(_Line, parse_json(text, where), where)
        suite = line.suite.removeprefix("validate_").removesuffix(".txt")
        (resent,) = re.findall(r"Rtx: (\d+)", line.summary)
        recorded = f"{suite}: {line.name} ({Path(line.matrix).stem})"
        found = _experiment(folder, line, where)
        experiment, why = (None, found) if isinstance(found, str) else (found, "")
        yield Recorded(
            recorded, line.first_us, line.last_us, int(resent), line.cpu_s, experiment, why
        )


def _experiment(folder: Path, line: _Line, where: str) -> Experiment | str:
    """What the run simulates, or why that cannot be simulated here."""
    arguments = _by_name(line.arguments)
    if strange := sorted(arguments.keys() - _Arguments.model_fields.keys()):
        return f"the argument -{strange[0]} is not simulated"
    told = validated(_Arguments, arguments, f"{where}: arguments")
    if told.receiver_cc_only == told.sender_cc_only:
        return "neither NSCC nor RCCC alone"
    if told.failed and told.topo:
        return "links that fail in a network of two levels"
    n, flows = _matrix(folder / line.matrix)
    if told.conn_reuse:
        flows = _joined(flows)
    if len({flow[:2] for flow in flows}) < len(flows):
        return "messages of one connection that do not end with full packets at once"
    tree = Tree.of(n, told.failed) if told.topo is None else _tree(folder / told.topo)
    if tree.hosts != n:
        raise DimsweepError(f"{n} nodes, and {tree.hosts} of the topology", where=where)
    if (packets := sum(flow[2] for flow in flows) // _MSS) > _MOST_PACKETS:
        raise DimsweepError(f"{packets:,} packets, more than {_MOST_PACKETS:,}", where=where)
    options = Options(
        told.load_balancing_algo,
        told.paths,
        told.q,
        told.cwnd,
        told.sack_threshold,
        told.receiver_cc_only,
    )
    return Experiment(tree, flows, options)


def _by_name(arguments: str) -> dict[str, Any]:
    """``-name value``, or ``-name`` alone, which is true."""
    found: dict[str, Any] = {}
    for word in arguments.split():
        if word.startswith("-"):
            name = word.removeprefix("-")
            found[name] = True
        elif found:
            found[name] = word
    return found


_FLOW = re.compile(r"(\d{1,6})->(\d{1,6})((?: \w+ \d{1,12}| msg)*)")


def _matrix(file: Path) -> tuple[int, tuple[tuple[int, int, int, int], ...]]:
    """Nodes, and flows: source, target, bytes, start (us)."""
    n, flows = 0, []
    for number, text in enumerate(read_text(file, "file").splitlines(), 1):
        where = f"{file}: line {number}"
        word, _, value = text.strip().partition(" ")
        if word == "Nodes" and value.isdecimal() and 2 <= int(value) <= _MOST_NODES:
            n = int(value)
        elif word and word not in ("Connections", "Triggers"):
            found = _FLOW.fullmatch(text.strip())
            told = dict(re.findall(r"(\w+) (\d+)", found[3])) if found else {}
            if not found or not {"start", "size"} <= told.keys() <= {"start", "size", "id"}:
                hint = "1->0 id 1 start 0 size 2000000"
                raise DimsweepError(f"{text[:60]!r} is no flow", where=where, hint=hint)
            ends = int(found[1]), int(found[2])
            if not max(ends) < n or ends[0] == ends[1] or int(told["size"]) == 0:
                raise DimsweepError(f"a flow among {n} nodes: {text[:60]!r}", where=where)
            flows.append((*ends, int(told["size"]), int(told["start"])))
    if not flows:
        raise DimsweepError("there is no flow", where=str(file))
    return n, tuple(flows)


def _joined(flows: tuple[tuple[int, int, int, int], ...]) -> tuple[tuple[int, int, int, int], ...]:
    """Messages of full packets that a connection is given at once, as one."""
    sizes: dict[tuple[int, int, int], int] = {}
    for source, target, size, start in flows:
        if size % _MSS:
            return flows
        key = source, target, start
        sizes[key] = sizes.get(key, 0) + size
    return tuple((source, target, size, at) for (source, target, at), size in sizes.items())


def _tree(file: Path) -> Tree:
    """A leaf-spine network of links alike, as the file says it."""
    text = read_text(file, "file")
    told = [(word, int(n)) for word, n in re.findall(r"^(\w+) (\d{1,6})\s*$", text, re.MULTILINE)]
    first = dict(reversed(told))  # what is said of hosts' links; spines come behind
    per_leaf, up = first.get("Radix_Down", 0), first.get("Radix_Up", 0)
    usual = ("Tiers", 2), ("Downlink_speed_Gbps", 100), ("Downlink_Latency_ns", 1000)
    nodes = first.get("Nodes", 0)
    is_known = all(value == n for name, n in usual for word, value in told if word == name)
    is_known &= 0 < nodes <= _MOST_NODES and per_leaf > 0 and nodes % per_leaf == 0
    if not is_known or not 0 < nodes // per_leaf * up <= _MOST_UPLINKS:
        hint = "two tiers of links of 100 Gb/s and 1000 ns, with Nodes, Radix_Down and Radix_Up"
        raise DimsweepError("no topology that is simulated here", where=str(file), hint=hint)
    return Tree(nodes, per_leaf, up, levels=2)
