"""Files of HPCC's ns-3 and of the simulators that use it: topology, flows and configuration.

Formats: ``topology.txt``, ``flow.txt`` and ``config.txt`` of
alibaba-edu/High-Precision-Congestion-Control (``simulation/scratch/third.cc``), and the topology
with NVSwitches and ``SimAI.conf`` of aliyun/SimAI (``astra-sim-alibabacloud/inputs``).  ASTRA-sim's
ns-3 reads HPCC's.

    nodes switches links                                  HPCC
    nodes gpus_per_server nvswitches switches links gpu   SimAI
    NODE ...                                              the nodes that are switches
    NODE NODE RATE DELAY LOSS                             a link: 0 2 100Gbps 0.001ms 0

ns-3 reads the numbers of links and flows that the first line states; further lines are comments.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dimsweep.engine.cluster.packet_model import Mark
from dimsweep.engine.cluster.transports import TRANSPORTS, Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.reading import Line, read_lines, whole_number
from dimsweep.engine.network import Network
from dimsweep.engine.workload import FlowList, ListedFlow

_MOST_NODES, _MOST_LINKS = 1 << 20, 1 << 20
_MOST_BYTES = 1 << 50
_SECONDS = 1e6  # of a start, at most
_GROUPS = 8  # priority groups
# ns-3's units of rates (bits/s) and of times (ps).
_PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES = {"s": 10**12, "ms": 10**9, "us": 10**6, "ns": 10**3, "ps": 1}
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([kKMGT]?)(b|B)(?:ps|/s)")
_DELAY = re.compile(r"\+?(\d{1,15}(?:\.\d{1,15})?)(s|ms|us|ns|ps)")


class Ns3Link(NamedTuple):
    """A link between two nodes, equal in both directions: rate in bits/s, delay in ps."""

    one: int
    other: int
    rate: int
    delay: int


class Ns3Topology(NamedTuple):
    """A topology of ns-3: nodes numbered from 0, which are switches or hosts (GPUs), and links."""

    n_nodes: int
    nvswitches: tuple[int, ...]
    switches: tuple[int, ...]
    links: tuple[Ns3Link, ...]

    @property
    def hosts(self) -> tuple[int, ...]:
        """Numbers of the nodes that are hosts: NPU i is the i-th of them."""
        switches = {*self.switches, *self.nvswitches}
        return tuple(node for node in range(self.n_nodes) if node not in switches)

    def network(self) -> Network:
        """Return the network: hosts are NPUs in the order of their numbers."""
        import networkx as nx  # a slow import

        names: dict[int, int | str] = {host: npu for npu, host in enumerate(self.hosts)}
        names |= {node: f"NVSwitch {node}" for node in self.nvswitches}
        names |= {node: f"switch {node}" for node in self.switches}
        graph = nx.DiGraph()
        graph.add_nodes_from(names.values())
        for one, other, rate, delay in self.links:
            ends = names[one], names[other]
            for pair in (ends, ends[::-1]):
                graph.add_edge(*pair, bandwidth=rate / 8, latency=delay)
        return Network(graph, hosts=self.hosts)


def read_ns3_topology(path: Path) -> Ns3Topology:
    """Return the topology in a file of HPCC's or SimAI's ns-3.

    Raises :class:`DimsweepError` naming file and line for anything malformed, for links that occur
    twice (ns-3 uses the last), and for links that lose packets.
    """
    lines = read_lines(path, "topology")
    first = next(lines, None)
    if first is None:
        raise DimsweepError("the topology is empty", where=str(path), code="missing")
    n_nodes, n_nvswitches, n_switches, n_links = _sizes(first)
    nodes = _Nodes(lines, n_nodes, path)
    nvswitches, switches = nodes.switches(n_nvswitches), nodes.switches(n_switches)
    if nodes.rest:
        problem = f"more than the {n_nvswitches + n_switches} switches that the first line states"
        raise nodes.line.error(problem, code="mismatch")
    links, known = list[Ns3Link](), dict[frozenset[int], str]()
    for line in islice(lines, n_links):
        link = _link(line, n_nodes)
        ends = frozenset(link[:2])
        if ends in known:
            raise line.error(
                f"a second link between nodes {link.one} and {link.other}",
                f"see {known[ends]}",
                "duplicate",
            )
        known[ends] = line.where
        links.append(link)
    if len(links) < n_links:
        problem = f"the first line states {n_links:,} links, but the file has {len(links):,}"
        raise DimsweepError(problem, where=first.where, code="mismatch")
    return Ns3Topology(n_nodes, nvswitches, switches, tuple(links))


def _sizes(line: Line) -> tuple[int, int, int, int]:
    """Return the numbers of nodes, NVSwitches, switches and links from the first line."""
    is_simai = len(line.words) == 6
    if len(line.words) not in (3, 6):
        hint = "nodes, switches, links; SimAI: nodes, GPUs of a server, NVSwitches, switches, links"
        raise line.error(
            f"the first line has {len(line.words)} words", f"expected {hint}, type of GPU"
        )
    n_nodes = line.whole_number(0, "the number of nodes", 2, _MOST_NODES)
    n_nvswitches = line.whole_number(2, "the number of NVSwitches", 0, n_nodes) if is_simai else 0
    n_switches = line.whole_number(3 if is_simai else 1, "the number of switches", 0, n_nodes)
    n_links = line.whole_number(4 if is_simai else 2, "the number of links", 1, _MOST_LINKS)
    if n_nodes - n_nvswitches - n_switches < 2:
        problem = (
            f"{n_nvswitches + n_switches} switches of {n_nodes} nodes leave fewer than two hosts"
        )
        raise line.error(problem, code="mismatch")
    return n_nodes, n_nvswitches, n_switches, n_links


class _Nodes:
    """Reader of the list of switch numbers, which may span several lines."""

    def __init__(self, lines: Iterator[Line], n_nodes: int, path: Path) -> None:
        self._lines, self._n_nodes, self._known = lines, n_nodes, set[int]()
        self.line, self.rest = Line([], str(path)), list[str]()

    def switches(self, n: int) -> tuple[int, ...]:
        """Return the next ``n`` switch numbers; raise unless all of them differ."""
        found = []
        for _ in range(n):
            if not self.rest:
                self.line = next(self._lines, Line([], self.line.where))
                self.rest = self.line.words[::-1]
            word = self.rest.pop() if self.rest else ""
            node = whole_number(word, "a switch", self.line.where, 0, self._n_nodes - 1)
            if node in self._known:
                raise self.line.error(f"switch {node} is listed twice", code="duplicate")
            self._known.add(node)
            found.append(node)
        return tuple(found)


def _link(line: Line, n_nodes: int) -> Ns3Link:
    if len(line.words) != 5:
        hint = "node, node, rate, delay, loss, such as 0 2 100Gbps 0.001ms 0"
        raise line.error(f"the link has {len(line.words)} words", f"expected {hint}")
    one, other = (line.whole_number(place, "a node", 0, n_nodes - 1) for place in (0, 1))
    if one == other:
        raise line.error(f"the link joins node {one} to itself")
    rate = parse_rate(line.words[2], line.where)
    delay = _parsed_time(line.words[3], line.where)
    if line.number(4, "the error rate", 1):
        raise line.error(
            f"the link's error rate is {line.words[4]}; losses are not simulated",
            "set it to 0",
            "unsupported",
        )
    return Ns3Link(one, other, rate, delay)


def parse_rate(word: str, where: str) -> int:
    """Return a rate in bits/s from ns-3's notation: ``100Gbps``, ``50Mb/s``."""
    found = _RATE.fullmatch(word)
    rate = int(
        Decimal(found[1]) * _PREFIXES[found[2]] * (8 if found[3] == "B" else 1) if found else 0
    )
    if not found or not 1 <= rate <= 10**15:
        raise DimsweepError(
            f"invalid rate {word[:40]!r}",
            where=where,
            hint="write it as 100Gbps",
            code="bad-syntax",
        )
    return rate


def _parsed_time(word: str, where: str) -> int:
    """Return a time in picoseconds from ns-3's notation: ``0.001ms``."""
    found = _DELAY.fullmatch(word)
    time = round(Decimal(found[1]) * _TIMES[found[2]]) if found else -1
    if not 0 <= time <= 10**15:
        raise DimsweepError(
            f"invalid delay {word[:40]!r}",
            where=where,
            hint="write it as 0.001ms or 1us",
            code="bad-syntax",
        )
    return time


def read_ns3_flows(path: Path) -> FlowList:
    """Return the flows in a ``flow.txt``: its first line is their number, then a line for each.

    A line is ``source target priority_group port bytes start`` (seconds).  Hosts are nodes of a
    topology.  Raises :class:`DimsweepError` naming file and line for anything malformed, and for
    flows of several priority groups.
    """
    lines = read_lines(path, "flows")
    first = next(lines, None)
    if first is None or len(first.words) != 1:
        hint = "begin with the number of flows, then one line for each"
        raise DimsweepError(
            "not a list of flows",
            where=first.where if first else str(path),
            hint=hint,
            code="bad-syntax",
        )
    n = first.whole_number(0, "the number of flows", 1, 10**7)
    flows, groups = list[ListedFlow](), set[int]()
    for line in islice(lines, n):
        flows.append(_flow(line))
        groups.add(line.whole_number(2, "the priority group", 0, _GROUPS - 1))
        if len(groups) > 1:
            problem = f"flows of priority groups {' and '.join(map(str, sorted(groups)))}"
            hint = "use one priority group: all flows share one queue of each port"
            raise line.error(problem, hint, "unsupported")
    if len(flows) < n:
        problem = f"the first line states {n:,} flows, but the file has {len(flows):,}"
        raise DimsweepError(problem, where=first.where, code="mismatch")
    return FlowList(tuple(flows), is_by_node=True)


def _flow(line: Line) -> ListedFlow:
    if len(line.words) != 6:
        hint = "source, target, priority group, port, bytes, start in seconds: 2 1 3 100 20000 2"
        raise line.error(f"the flow has {len(line.words)} words", f"expected {hint}")
    source, target = (line.whole_number(place, "a host", 0, _MOST_NODES) for place in (0, 1))
    if source == target:
        raise line.error(f"the flow is from host {source} to itself")
    line.whole_number(3, "the port", 0, 1 << 16)
    n_bytes = line.whole_number(4, "the size in bytes", 1, _MOST_BYTES)
    line.number(5, "the start in seconds", _SECONDS)
    start = round(Decimal(line.words[5]) * 10**12)
    return ListedFlow(source, target, n_bytes, start, where=line.where)


_PINT = 10  # CC_MODE of HPCC-PINT
_MODES = {1: "dcqcn", 3: "hpcc", 7: "timely", 8: "dctcp"}  # others: static
_US, _KB, _MB = 10**6, 1000, 2**20  # ps; bytes
# The key of the file for each key of a transport; times are us.
_ADD = {"add": "RATE_AI", "add_fast": "RATE_HAI", "least": "MIN_RATE"}
_KEYS: dict[str, dict[str, str]] = {
    "dcqcn": {
        "gain": "EWMA_GAIN",
        "alpha_every": "ALPHA_RESUME_INTERVAL",
        "cut_every": "RATE_DECREASE_INTERVAL",
        "raise_every": "RP_TIMER",
        "recoveries": "FAST_RECOVERY_TIMES",
        **_ADD,
    },
    "hpcc": {
        "eta": "U_TARGET",
        "add": "RATE_AI",
        "least": "MIN_RATE",
        "stages": "MI_THRESH",
        "react_fast": "FAST_REACT",
    },
    "timely": _ADD,
    "dctcp": {"gain": "EWMA_GAIN", "add": "DCTCP_RATE_AI", "least": "MIN_RATE"},
    "static": {},
}
_CONFIG_TIMES = ("ALPHA_RESUME_INTERVAL", "RATE_DECREASE_INTERVAL", "RP_TIMER")
_RATES = ("RATE_AI", "RATE_HAI", "MIN_RATE", "DCTCP_RATE_AI")
_SHARES = ("EWMA_GAIN", "U_TARGET")
_COUNTS = ("FAST_RECOVERY_TIMES", "MI_THRESH")
_READ = (
    *("CC_MODE", "HAS_WIN", "FAST_REACT", "PACKET_PAYLOAD_SIZE", "BUFFER_SIZE"),
    *("KMIN_MAP", "KMAX_MAP", "PMAX_MAP", *_CONFIG_TIMES, *_RATES, *_SHARES, *_COUNTS),
)
# The only values that are simulated, of keys that nothing here can change.
_SIMULATED = {
    "ENABLE_QCN": "1",
    "CLAMP_TARGET_RATE": "0",
    "ERROR_RATE_PER_LINK": "0",
    "L2_ACK_INTERVAL": "1",
    "GLOBAL_T": "0",
    "VAR_WIN": "1",
    "MULTI_RATE": "0",
    "SAMPLE_FEEDBACK": "0",
    "RATE_BOUND": "1",
    "ACK_HIGH_PRIO": "0",
    "LINK_DOWN": "0 0 0",
}
# Keys that change no result here: files, options of recordings, how precisely HPCC's telemetry is
# written, how lost packets are retransmitted (none is lost), and keys that ns-3 does not use.
_IDLE = (
    *("TOPOLOGY_FILE", "FLOW_FILE", "TRACE_FILE", "TRACE_OUTPUT_FILE", "FCT_OUTPUT_FILE"),
    *("PFC_OUTPUT_FILE", "QLEN_MON_FILE", "BW_MON_FILE", "RATE_MON_FILE", "CNP_MON_FILE"),
    *("ENABLE_TRACE", "TRACE_NODE", "QLEN_MON_START", "QLEN_MON_END", "MON_START", "MON_END"),
    *("QP_MON_INTERVAL", "QLEN_MON_INTERVAL", "BW_MON_INTERVAL", "SIMULATOR_STOP_TIME"),
    *("INT_MULTI", "PINT_LOG_BASE", "PINT_PROB", "L2_CHUNK_SIZE", "L2_BACK_TO_ZERO"),
    *("USE_DYNAMIC_PFC_THRESHOLD", "PAUSE_TIME", "DATA_RATE", "LINK_DELAY"),
    "NIC_TOTAL_PAUSE_TIME",
)


class Ns3Config(NamedTuple):
    """The settings of a :class:`PacketModel` that a file gives, and the lines without effect."""

    packets: dict[str, Any]
    ignored: tuple[str, ...]


def read_ns3_config(path: Path) -> Ns3Config:
    """Return the packet model in a configuration of HPCC's or SimAI's ns-3.

    CC_MODE chooses the transport, whose keys follow.  Marking thresholds are given for each rate.
    ``ignored`` has the lines that are not simulated: unknown keys, and known ones of another value
    than the one that is.  Raises :class:`DimsweepError` naming file and line for anything
    malformed, keys that occur twice, HPCC-PINT, and a file without CC_MODE.
    """
    lines = dict[str, Line]()
    for line in read_lines(path, "configuration"):
        key, *values = line.words
        comment = next((i for i, word in enumerate(values) if word.startswith("{")), len(values))
        if key in lines:
            raise line.error(f"{key} occurs twice", f"see {lines[key].where}", "duplicate")
        lines[key] = Line([key, *values[:comment]], line.where)
    if "CC_MODE" not in lines:
        hint = "give config.txt of HPCC's ns-3, or SimAI.conf"
        raise DimsweepError("CC_MODE is missing", where=str(path), hint=hint, code="missing")
    packets: dict[str, Any] = {"transport": _transport(lines), **dict(_buffer_sizes(lines))}
    if "HAS_WIN" in lines:
        packets["window"] = bool(lines["HAS_WIN"].whole_number(1, "HAS_WIN", 0, 1))
    if marks := _marks(lines):
        packets["marks"] = marks
    return Ns3Config(packets, tuple(_ignored(lines)))


def _transport(lines: Mapping[str, Line]) -> Transport:
    mode = lines["CC_MODE"].whole_number(1, "CC_MODE", 0, 1 << 16)
    if mode == _PINT:
        raise lines["CC_MODE"].error("HPCC-PINT is not simulated", "3 is HPCC", "unsupported")
    kind = _MODES.get(mode, "static")
    keys = {name: _value(key, lines[key]) for name, key in _KEYS[kind].items() if key in lines}
    try:
        return TRANSPORTS[kind](**keys)
    except DimsweepError as error:
        raise lines[_KEYS[kind][error.where]].error(error.problem, error.hint, error.code) from None


def _value(key: str, line: Line) -> float | int | bool:
    if key in _RATES:
        return parse_rate(line.words[1] if len(line.words) > 1 else "", line.where)
    if key in _CONFIG_TIMES:
        return round(line.number(1, key, 1e9) * _US)
    if key in _SHARES:
        return line.number(1, key, 1)
    if key == "FAST_REACT":
        return bool(line.whole_number(1, key, 0, 1))
    return line.whole_number(1, key, 0, 10**6)


def _buffer_sizes(lines: Mapping[str, Line]) -> Iterator[tuple[str, int]]:
    for name, key, unit in (("payload", "PACKET_PAYLOAD_SIZE", 1), ("buffer", "BUFFER_SIZE", _MB)):
        if key in lines:
            yield name, unit * lines[key].whole_number(1, key, 1, 2**20)


def _marks(lines: Mapping[str, Line]) -> tuple[Mark, ...]:
    """Return the ECN marking thresholds of each rate that all three maps contain."""
    maps = [_map(lines[key]) for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP") if key in lines]
    if len(maps) < 3:
        return ()
    low, high, most = maps
    marks = list[Mark]()
    for rate in low:
        if rate in high and rate in most:
            try:
                marks.append(Mark(rate, low[rate] * _KB, high[rate] * _KB, most[rate]))
            except DimsweepError as error:
                raise lines["KMIN_MAP"].error(f"{rate} bit/s: {error.problem}") from None
    return tuple(marks)


def _map(line: Line) -> dict[int, float]:
    """Return the values of a map ``N RATE VALUE RATE VALUE ...``, by rate in bits/s."""
    n = line.whole_number(1, "the number of rates", 0, 1000)
    if len(line.words) != 2 + 2 * n:
        raise line.error(f"{n} rates are promised, and {len(line.words) - 2} words follow")
    places = range(2, len(line.words), 2)
    return {
        line.whole_number(i, "a rate", 1, 10**15): line.number(i + 1, "a value", 1e9)
        for i in places
    }


def _ignored(lines: Mapping[str, Line]) -> Iterator[str]:
    """Yield the lines whose settings change results in ns-3, but are not simulated here."""
    for key, line in lines.items():
        text = " ".join(line.words)
        if key in _SIMULATED:
            if not _is_equal(line.words[1:], _SIMULATED[key].split()):
                yield f"{text} (simulated is {_SIMULATED[key]})"
        elif key not in _READ and key not in _IDLE:
            yield f"{text} (an unknown key)"


def _is_equal(words: list[str], simulated: list[str]) -> bool:
    """Return whether two lists of words are equal as numbers."""
    try:
        return list(map(float, words)) == list(map(float, simulated))
    except ValueError:
        return False
