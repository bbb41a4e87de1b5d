"""Files of htsim: topologies (``.topo``) and connection matrices (``.cm``, ``.tm``).

Formats: ``FatTreeTopology::load`` and ``ConnectionMatrix::load`` of Broadcom/csg-htsim and
ultraethernet/uet-htsim.  A topology is a fat tree of two or three tiers:

    Nodes 1024
    Tiers 2
    Podsize 1024
    Tier 0                      the switches above the hosts; Tier 1 and 2 are those above
    Downlink_speed_Gbps 100     of a link down
    Radix_Down 32               links down
    Radix_Up 8                  links up
    Downlink_Latency_ns 1000

and may say Oversubscribed, Bundle (links between two switches), Switch_Latency_ns, Queue_Up and
Queue_Down of each tier.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.formats.reading import Line, read_lines
from dimsweep.engine.network import Network
from dimsweep.engine.network.wires import MAX_LINKS
from dimsweep.engine.workload import FlowList, ListedFlow

_MOST_NODES = 1 << 20
_HEADER = ("nodes", "tiers", "podsize")
# Of a tier: the keys of a file, and the largest value of each.
_OF_TIER = {
    "downlink_speed_gbps": 10**6,
    "downlink_latency_ns": 10**9,
    "radix_down": 1 << 16,
    "radix_up": 1 << 16,
    "oversubscribed": 1 << 16,
    "bundle": 1 << 10,
    "switch_latency_ns": 10**9,
    "queue_up": 10**6,
    "queue_down": 10**6,
}
_NEEDED = ("downlink_speed_gbps", "downlink_latency_ns", "radix_down")


class Tier(NamedTuple):
    """One tier of switches in a fat tree: links down (bits/s, ns), links up, and ns in a switch."""

    speed: int
    latency: int
    down: int
    up: int
    bundle: int
    switch_latency: int


class FatTree(NamedTuple):
    """A fat tree of htsim: number of ``hosts``, hosts of a ``pod``, and tiers, lowest first."""

    hosts: int
    pod: int
    tiers: tuple[Tier, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of switches of each tier."""
        leaves = self.hosts // self.tiers[0].down
        found = [leaves]
        for below, tier in zip(self.tiers, self.tiers[1:], strict=False):
            found.append(found[-1] * below.up // tier.down)
        return tuple(found)

    def network(self) -> Network:
        """Return the network, wired as htsim wires it.

        All links of a bundle are one link of several lanes.  The time in a switch is part of the
        latency of the links that lead to it.
        """
        import networkx as nx  # a slow import

        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.hosts))
        for tier, below, above in self._links():
            ends: tuple[int | str, str] = below, above
            of = self.tiers[tier]
            known: dict[str, Any] = {
                "bandwidth": of.speed / 8 * of.bundle,
                "lanes": of.bundle,
            }
            into = self.tiers[tier - 1].switch_latency if tier else 0
            graph.add_edge(*ends, latency=1000 * (of.latency + of.switch_latency), **known)
            graph.add_edge(*ends[::-1], latency=1000 * (of.latency + into), **known)
        return Network(graph)

    def _links(self) -> Iterator[tuple[int, int | str, str]]:
        """Yield the links down of each tier, as (tier, lower end, upper end)."""
        for host in range(self.hosts):
            yield 0, host, f"leaf {host // self.tiers[0].down}"
        leaves, uppers, *cores = self.counts
        of_pod = self.pod // self.tiers[0].down if cores else leaves  # leaves of a pod
        upper_of_pod = uppers * of_pod // leaves
        for leaf in range(leaves):
            for i in range(upper_of_pod):
                yield 1, f"leaf {leaf}", f"{self._upper} {leaf // of_pod * upper_of_pod + i}"
        for upper in range(uppers if cores else 0):
            for i in range(self.tiers[1].up // self.tiers[2].bundle):
                core = upper % upper_of_pod + upper_of_pod * i
                yield 2, f"{self._upper} {upper}", f"core {core}"

    @property
    def _upper(self) -> str:
        return "aggregation" if len(self.tiers) == 3 else "spine"


def read_htsim_topology(path: Path) -> FatTree:
    """Return the fat tree in an htsim ``.topo`` file.

    Raises :class:`DimsweepError` naming file and line for anything malformed, and naming the tier
    for numbers that make no fat tree.
    """
    header, tiers = _read_tiers(path)
    n = header["tiers"].whole_number(1, "tiers", 2, 3)
    if missing := [tier for tier in range(n) if tier not in tiers]:
        raise DimsweepError(f"tier {missing[0]} of {n} is missing", where=str(path), code="missing")
    read = tuple(_tier(tiers[i], i, i == n - 1, path) for i in range(n))
    hosts = header["nodes"].whole_number(1, "nodes", 2, _MOST_NODES)
    tree = FatTree(hosts, header["podsize"].whole_number(1, "podsize", 1, hosts), read)
    try:
        _check(tree, {i: tiers[i] for i in range(n)})
    except DimsweepError as error:
        raise error.in_place(path) from None
    return tree


def _read_tiers(path: Path) -> tuple[dict[str, Line], dict[int, dict[str, Line]]]:
    """Return the lines before the first tier and the lines of each tier, by their keys."""
    header, tiers = dict[str, Line](), dict[int, dict[str, Line]]()
    into, known = header, [*_HEADER, "tier"]
    for line in read_lines(path, "topology"):
        key = line.words[0].lower()
        if key == "tier":
            tier = line.whole_number(1, "the number of a tier", 0, 2)
            if tier in tiers:
                raise line.error(f"tier {tier} occurs twice", code="duplicate")
            into, known = tiers.setdefault(tier, {}), [*_OF_TIER, "tier"]
            continue
        if key not in known:
            hint = suggest_names(key, known)
            raise line.error(f"unknown key {line.words[0][:40]!r}", hint, "unknown-key")
        if key in into:
            raise line.error(f"{line.words[0]} occurs twice", code="duplicate")
        into[key] = line
    for name in _HEADER:
        if name not in header:
            raise DimsweepError(
                f"{name} is missing", where=str(path), hint=f"{name} NUMBER", code="missing"
            )
    return header, tiers


def _tier(lines: dict[str, Line], number: int, is_top: bool, path: Path) -> Tier:
    needed = _NEEDED if is_top else (*_NEEDED, "radix_up")
    for name in needed:
        if name not in lines:
            raise DimsweepError(
                f"{name} is missing", where=f"{path}: tier {number}", code="missing"
            )
    if is_top and "radix_up" in lines:
        raise lines["radix_up"].error("the highest tier has no links up", "remove it")
    found = {
        name: line.whole_number(1, name, 0 if "latency" in name else 1, _OF_TIER[name])
        for name, line in lines.items()
    }
    return Tier(
        found["downlink_speed_gbps"] * 10**9,
        found["downlink_latency_ns"],
        found["radix_down"],
        found.get("radix_up", 0),
        found.get("bundle", 1),
        found.get("switch_latency_ns", 0),
    )


def _check(tree: FatTree, lines: dict[int, dict[str, Line]]) -> None:
    """Raise :class:`DimsweepError` if the numbers of links of neighbouring tiers do not fit."""
    leaf = tree.tiers[0]
    if tree.hosts % tree.pod or tree.pod % leaf.down:
        problem = (
            f"{tree.hosts} nodes do not divide into pods of {tree.pod} and leaves of {leaf.down}"
        )
        raise DimsweepError(problem, hint="choose multiples", code="mismatch")
    if leaf.bundle > 1:
        raise DimsweepError(
            "hosts with several ports are not supported",
            where="tier 0: bundle",
            hint="set it to 1",
            code="unsupported",
        )
    n_pods, n_links, below = tree.hosts // tree.pod, tree.hosts, tree.hosts // leaf.down
    pods = n_pods if len(tree.tiers) == 3 else 1
    if n_pods > pods:
        problem = f"two tiers do not join {n_pods} pods"
        raise DimsweepError(
            problem,
            where="podsize",
            hint=f"set it to {tree.hosts}, or use three tiers",
            code="mismatch",
        )
    for number, (lower, tier) in enumerate(zip(tree.tiers, tree.tiers[1:], strict=False), 1):
        links, where = below * lower.up, f"tier {number}"
        share = pods if number == 1 else 1  # parts of the tier that are wired separately
        if links % (tier.down * share) or lower.up % tier.bundle or tier.down % tier.bundle:
            problem = f"{links} links of tier {number - 1} ({lower.up} per switch) do not fit "
            problem += f"switches with {tier.down} links down in bundles of {tier.bundle}"
            raise DimsweepError(
                problem,
                where=where,
                hint="choose numbers that divide into switches and bundles",
                code="mismatch",
            )
        n = links // tier.down
        below_each = below // share if number == 1 else n_pods
        if tier.down != below_each * tier.bundle:
            problem = f"{tier.down} links down do not fit {below_each} switches "
            problem += f"in bundles of {tier.bundle}"
            raise DimsweepError(
                problem,
                where=where,
                hint=f"set radix_down to {below_each * tier.bundle}",
                code="mismatch",
            )
        ratios = lower.down * lower.speed / (lower.up * tier.speed), lower.down / lower.up
        line = lines[number - 1].get("oversubscribed")
        if line and line.whole_number(1, "oversubscribed", 1, 1 << 16) not in ratios:
            problem = f"oversubscribed is {line.words[1]}, but the links give {ratios[0]:g}"
            raise line.error(problem, code="mismatch")
        n_links, below = n_links + links, n
    if n_links > MAX_LINKS:
        raise DimsweepError(
            f"the fat tree has more than {MAX_LINKS:,} links",
            hint="use fewer nodes or tiers",
            code="too-many",
        )


# --- connection matrices -------------------------------------------------------------------------

_COUNTS = {"Nodes": _MOST_NODES, "Connections": 10**7, "Triggers": 10**7, "Failures": 10**6}
_WITH_NUMBER = ("start", "size", "id", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
_WITHOUT = ("msg", "addon")
_KINDS = ("oneshot", "barrier", "multishot")
START_UNITS = {"ps": 1, "us": 10**6}  # of starts, in ps


class _Connection(NamedTuple):
    line: Line
    source: int
    target: int
    values: dict[str, int]
    start: int


def read_connection_matrix(path: Path, start: str = "us") -> FlowList:
    """Return the flows in an htsim connection matrix (``.cm`` or ``.tm`` file).

    ``start`` is the unit of start times: uet-htsim's UEC and csg-htsim's Swift take us, csg-htsim's
    NDP, RoCE and HPCC take ps.  A flow with a trigger starts when the flows that fire it have
    arrived. Raises :class:`DimsweepError` naming file and line for anything malformed, for triggers
    of kinds that are not simulated, and for failures.
    """
    counts, connections, triggers = dict[str, Line](), list[_Connection](), dict[int, Line]()
    for line in read_lines(path, "connection matrix"):
        word = line.words[0]
        if word in _COUNTS:
            counts[word] = line
        elif "->" in word:
            connections.append(_connection(line, counts.get("Nodes"), START_UNITS[start]))
        elif word == "trigger":
            triggers[_trigger_id(line)] = line
        elif word == "failure":
            raise line.error("failures are not supported", "use network.degrade", "unsupported")
        else:
            raise line.error(
                f"{word[:40]!r} does not begin a flow", "write 1->0 id 1 start 0 size 2000000"
            )
    for name in ("Nodes", "Connections"):
        if name not in counts:
            raise DimsweepError(
                f"{name} is missing", where=str(path), hint=f"{name} NUMBER", code="missing"
            )
    n_hosts, n = (
        counts[name].whole_number(1, name, 1, _COUNTS[name]) for name in ("Nodes", "Connections")
    )
    if n != len(connections):
        problem = f"the header states {n:,} connections, but the file has {len(connections):,}"
        raise counts["Connections"].error(problem, code="mismatch")
    return FlowList(tuple(_flows(connections, triggers)), n_hosts)


def _connection(line: Line, nodes: Line | None, unit: int) -> _Connection:
    if nodes is None:
        raise line.error("a flow before the number of nodes", "begin with Nodes NUMBER", "missing")
    n = nodes.whole_number(1, "Nodes", 2, _MOST_NODES)
    words = line.words[0].split("->")
    ends = Line(words if len(words) == 2 else ["", ""], line.where)
    source, target = (ends.whole_number(place, "a host", 0, n - 1) for place in (0, 1))
    if source == target:
        raise line.error(f"the flow is from host {source} to itself")
    values, start, place = dict[str, int](), 0.0, 1
    while place < len(line.words):
        word = line.words[place]
        if word not in (*_WITH_NUMBER, *_WITHOUT):
            hint = suggest_names(word, _WITH_NUMBER)
            raise line.error(f"unknown word {word[:40]!r}", hint, "unknown-key")
        if word in values:
            raise line.error(f"{word} occurs twice", code="duplicate")
        if word == "start":
            start = line.number(place + 1, "the start", 1e15 / unit)
        else:
            least = 0 if word in ("prio", *_WITHOUT) else 1
            value = (
                line.whole_number(place + 1, word, least, 1 << 50) if word in _WITH_NUMBER else 1
            )
        values[word] = 0 if word == "start" else value
        place += 2 if word in _WITH_NUMBER else 1
    if "size" not in values or ("start" in values) == ("trigger" in values):
        problem = "a flow needs a size, and either a start or a trigger"
        raise line.error(problem, "write 0->1 start 0 size 1000", "missing")
    if "addon" in values:
        raise line.error("addon is not simulated", code="unsupported")
    return _Connection(line, source, target, values, round(start * unit))


def _trigger_id(line: Line) -> int:
    """Return the number of the trigger in ``line``; raise for a kind that is not simulated."""
    strange = sorted({*line.words[1:]} - {"id", "count", *_KINDS})
    if other := next((word for word in strange if not word.isdigit()), ""):
        hint = suggest_names(other, _KINDS)
        raise line.error(f"unknown word {other[:40]!r}", hint, "unknown-name")
    kinds = [word for word in line.words if word in _KINDS]
    if "id" not in line.words or len(kinds) != 1:
        raise line.error(
            "a trigger needs an id and a kind", "write trigger id 1 oneshot", "missing"
        )
    if kinds == ["multishot"]:
        hint = "use oneshot or barrier"
        raise line.error("multishot triggers are not simulated", hint, "unsupported")
    return line.whole_number(line.words.index("id") + 1, "the id of a trigger", 1, 1 << 32)


def _flows(connections: list[_Connection], triggers: dict[int, Line]) -> Iterator[ListedFlow]:
    firing: dict[int, list[int]] = {}
    for number, each in enumerate(connections):
        for name in ("send_done_trigger", "recv_done_trigger"):
            if name in each.values:
                firing.setdefault(each.values[name], []).append(number)
    of_priority = {each.values["prio"]: each.line for each in connections if "prio" in each.values}
    if len(of_priority) > 1:
        *_, line = of_priority.values()
        problem = "flows have several priorities"
        raise line.error(problem, "use one priority for all flows", "unsupported")
    for each in connections:
        trigger = each.values.get("trigger")
        after = _fired(each.line, trigger, firing, triggers) if trigger else ()
        n_bytes = each.values["size"]
        yield ListedFlow(each.source, each.target, n_bytes, each.start, after, each.line.where)


def _fired(
    line: Line, trigger: int, firing: dict[int, list[int]], triggers: dict[int, Line]
) -> tuple[int, ...]:
    """Return the flows whose arrival fires ``trigger``, which starts the flow in ``line``."""
    if trigger not in triggers:
        hint = f"add trigger id {trigger} oneshot"
        raise line.error(f"unknown trigger {trigger}", hint, "unknown-name")
    fires, line_of_trigger = firing.get(trigger, []), triggers[trigger]
    if "barrier" in line_of_trigger.words:
        place = (
            line_of_trigger.words.index("count") + 1
            if "count" in line_of_trigger.words
            else len(line_of_trigger.words)
        )
        n = line_of_trigger.whole_number(place, "count", 1, 1 << 32)
    else:
        n = 1
    if len(fires) != n:
        problem = f"trigger {trigger} waits for {n} flows, but {len(fires)} fire it"
        hint = f"give {n} flows its send_done_trigger or recv_done_trigger"
        raise line_of_trigger.error(problem, hint, "mismatch")
    return tuple(fires)
