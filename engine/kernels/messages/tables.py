"""The messages of a program as arrays, built once for all its bandwidths.

Links are numbered as in the network, ranks as in the program.  Cascades become gates and launches
(:mod:`engine.kernels.network.gates`): the cascades of reductions by switches, and of transfers
through an interconnect's I/O controllers.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.collective.rounds import MemberRounds, Strand, SwitchRounds
from dimsweep.engine.collector import collector_paused
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.messages import records
from dimsweep.engine.kernels.messages.phases import (
    algorithm_on_line,
    interconnect_plan,
    precedence_of,
)
from dimsweep.engine.kernels.messages.records import Io, Plans, named_records
from dimsweep.engine.kernels.messages.routes import (
    Cascade,
    Launch,
    Passages,
    Train,
    Transfer,
    buffer_rooms,
    io_plan,
    router_of,
)
from dimsweep.engine.kernels.phase.phase_time import empty_phase_times
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import NO_STEPS, Floats, Ints, Longs, Program, Structure, Table
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.interconnect import InterconnectPlan
from dimsweep.engine.topology.coordinates import all_coordinates, member_numbers

_LONGEST_WAY = 5  # links from an NPU to the top, those between switches down again, too

Row = dict[str, float]
# What only some launches have.
_OTHERS: Row = dict.fromkeys(("port", "target", "reduction", "train"), NONE)
_OTHERS |= dict.fromkeys(("up", "down", "copies", "parts"), 0)


class Launches:
    """Builder of the tables of launches and gates of all cascades.

    ``hops`` is the list of links to which the links of launches are appended.
    """

    def __init__(self, hops: list[int]) -> None:
        self._hops = hops
        self._gates: list[Row] = []
        self._launches: list[Row] = []

    def add(self, cascade: Cascade, columns: Callable[[Launch], Row]) -> Row:
        """Add a cascade; return the range of its first launches as columns.

        ``columns`` returns the further columns of a launch.
        """
        gates, at = len(self._gates), len(self._launches)
        self._gates += [
            {"expected": expected, **_span(at, launches)} for expected, launches in cascade.gates
        ]
        for launch in cascade.launches:
            gate = NONE if launch.gate == NONE else gates + launch.gate
            row = {"hop": len(self._hops), "gate": gate, "stored": launch.stored}
            self._launches.append(_OTHERS | row | columns(launch))
            self._hops.append(launch.link)
        return _span(at, cascade.first)

    def tables(self) -> tuple[Table, Table]:
        """Return all launches and all gates, as tables of LAUNCH and GATE."""
        return named_records(self._launches, records.LAUNCH), named_records(
            self._gates, records.GATE
        )


def _span(at: int, launches: tuple[int, int]) -> Row:
    start, end = launches
    return {"launch": at + start, "launch_end": at + end}


class Reductions:
    """Builder of the table of all reductions by switches of all lines."""

    def __init__(self, passages: Passages, launches: Launches) -> None:
        self._passages, self._launches = passages, launches
        self._reductions: list[Row] = []
        self._ways_up: list[tuple[int, ...]] = []  # links, the reduction last
        self._most = 1  # that begin in one step: of a line, or
        self._most_waiting = 0  # of all that take turns

    @property
    def n_per_step(self) -> int:
        """Maximum number of messages that one event can start."""
        return max(self._most, self._most_waiting)

    def add(self, rounds: SwitchRounds, npus: Sequence[int], ports: Sequence[int]) -> range:
        """Add the reductions of a line with its members' NPUs and ports; return their numbers."""
        passage, before = self._passages.passage(npus), len(self._reductions)
        port_of = dict(zip(npus, ports, strict=True)) | {NONE: NONE}
        for sources, up, targets, down in rounds.rounds:
            ends = (tuple(npus[member] for member in members) for members in (sources, targets))
            cascade = self._passages.cascade(*ends)
            first = self._write(cascade, up, down, port_of)
            self._most_waiting += 0 if passage.turn == NONE else len(sources)
            self._reductions.append(
                {
                    **first,
                    "n_messages": len(cascade.launches),
                    "n_targets": len(targets),
                    "turn": passage.turn,
                    "round": passage.round,
                    "line": passage.line,
                    "next": NONE,
                }
            )
        self._most = max(self._most, sum(len(round_.sources) for round_ in rounds.rounds))
        return range(before, len(self._reductions))

    def _write(self, cascade: Cascade, up: float, down: float, port_of: Mapping[int, int]) -> Row:
        """Add the launches of the next reduction, and its links to the top; return its columns."""
        number = len(self._reductions)

        def columns(launch: Launch) -> Row:
            return {
                "up": up if launch.up else 0.0,
                "down": down if launch.copies else 0.0,
                "copies": launch.copies,
                "parts": launch.parts,
                "target" if launch.gate == NONE else "port": port_of[launch.who],
                "reduction": number,
            }

        for links in cascade.ways_up:
            self._ways_up.append((*links, *[NONE] * (_LONGEST_WAY - len(links)), number))
        return self._launches.add(cascade, columns)

    def tables(self) -> tuple[Table, Ints]:
        """Return the table of REDUCTION, and the links from each source to the top switch."""
        ways = np.array(self._ways_up, dtype=np.int32).reshape(-1, _LONGEST_WAY + 1)
        return named_records(self._reductions, records.REDUCTION), ways


def latencies_of(ways: Ints, latency: Longs, n: int) -> Longs:
    """Return, for each of ``n`` reductions, the maximum latency (ps) over its ``ways``.

    A way leads from a source up to the top switch, and between switches down again.
    """
    known = np.append(latency, 0)  # for what is no link
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, ways[:, -1], known[ways[:, :-1]].sum(axis=1))
    return longest


def io_tables(transfers: Sequence[Transfer], launches: Launches) -> tuple[Io, int]:
    """Return the tables of all I/O transfers, and the maximum number of pieces that start at once.

    Their messages are added to ``launches``.
    """
    rows, members, trains = list[Row](), list[Row](), list[Row]()
    known: dict[int, tuple[int, int]] = {}  # the trains that transfers between the same ranks share
    most: dict[int, int] = defaultdict(int)  # by rank: of a piece's hops, those that begin it
    for number, transfer in enumerate(transfers):
        of, start = transfer.trains, len(members)
        members += [
            {"late": late, "transfer": number, "node": node}
            for late, node in zip(of.late, transfer.nodes, strict=True)
        ]
        if id(of) not in known:
            before = len(trains)
            trains += [_row(before + i, train, launches) for i, train in enumerate(of.trains)]
            known[id(of)] = before, len(trains)
        first, end = known[id(of)]
        rows.append(
            {
                "n_bytes": transfer.n_bytes * of.share,
                "member": start,
                "member_end": len(members),
                "train": first,
                "train_end": end,
                "store": transfer.store,
                "n_pieces": of.n_pieces,
                "n_messages": of.n_messages,
            }
        )
        begin = sum(end - start for start, end in (train.cascade.first for train in of.trains))
        most[transfer.ranks[0]] = max(most[transfer.ranks[0]], begin)
    tables = Io(
        named_records(rows, records.TRANSFER),
        named_records(members, records.IO_MEMBER),
        named_records(trains, records.TRAIN),
    )
    return tables, sum(most.values())


def _row(number: int, train: Train, launches: Launches) -> Row:
    """Add the launches of a train, and return the train's row of the table TRAIN."""

    def columns(launch: Launch) -> Row:
        return {"target": launch.who, "train": number}

    first = launches.add(train.cascade, columns)
    return {**first, "pieces": train.pieces, "ends": train.n_ends}


N_KINDS = len(CollectiveKind)


@dataclass(frozen=True)
class Tables:
    """All messages of a program as tables, and the table sizes that its ports need."""

    plans: Plans
    flows: Table  # FLOW, before anything has happened
    routes: Table  # ROUTE
    ends: list[tuple[int, int, int]]  # of each route: from which NPU to which, by which way
    hops: Ints
    shares: Floats  # of a message on each of these; empty where each takes one way
    n_strands: NDArray[np.int64]  # (D,) of a port
    n_slots: NDArray[np.int64]  # (D,)
    n_gathered: int
    reductions: Table  # REDUCTION
    launches: Table  # LAUNCH
    gates: Table  # GATE
    ways_up: Ints  # of the reductions (see engine.kernels.messages.tables)
    n_turns: int  # sets of lines that take turns
    io: Io
    interconnect: InterconnectPlan | None
    n_sends: int  # that one step may make
    largest: float  # share of what a member holds that a message has


# A round by the numbers of slots and pairs: what it receives, reduces and sends.
_NumberedRound = tuple[tuple[int, ...], float, tuple[tuple[float, int], ...]]


class _Pair(NamedTuple):
    """Messages of ``member`` to ``peer`` over route ``way``, for one strand of the peer.

    ``slot`` is the peer's slot in which they arrive.
    """

    member: int
    peer: int
    way: int
    strand: int
    slot: int


_PAIR = np.dtype([(name, "i4") for name in _Pair._fields])


@dataclass
class _Plan:
    """The index in the tables of the plan of a line: its first MEMBER_PLAN, and its pairs."""

    members: int
    pairs: Table  # of _PAIR, those of one member after another
    switched: SwitchRounds | None = None  # what switches do instead


class _Plans:
    """Builder of the plans; each is built once per algorithm, and equal strands are stored once."""

    def __init__(self) -> None:
        self.members: list[tuple[int, ...]] = []
        self.strands: list[tuple[int, int]] = []
        self.rounds: list[tuple[float, int, int, int, int]] = []
        self.receives: list[int] = []
        self.sends: list[tuple[float, int]] = []
        self.n_sends, self.largest = 1, 0.0
        self._known: dict[object, tuple[int, int]] = {}

    def add(self, rounds: MemberRounds | SwitchRounds, p: int) -> _Plan:
        """Add the plan of one phase on any line of ``p`` members."""
        if isinstance(rounds, SwitchRounds):
            ends = Counter(
                m for round_ in rounds.rounds for m in (*round_.sources, *round_.targets)
            )
            self.members += [(0, 0, 0, ends[member], 0, 0) for member in range(p)]
            return _Plan(len(self.members) - p, np.zeros(0, _PAIR), rounds)
        slots = [_slots(strands) for strands in rounds.strands]
        first, all_pairs = len(self.members), list[_Pair]()
        for member, strands in enumerate(rounds.strands):
            pairs: dict[_Pair, int] = {}
            own = [
                self._strand(member, number, strand, slots, pairs)
                for number, strand in enumerate(strands)
            ]
            n_sends = sum(len(round_.send) for strand in strands for round_ in strand)
            self.members.append(
                (
                    len(self.strands),
                    len(own),
                    len(slots[member]),
                    len(own) + n_sends,
                    len(all_pairs),
                    int(rounds.asked),
                )
            )
            self.strands += own
            per_step = sum(map(_maximum_burst, strands))
            if rounds.asked:  # a strand may ask for as many in one step, which then set out
                per_step += sum(max(len(each.receive) for each in strand) for strand in strands)
            self.n_sends = max(self.n_sends, per_step)
            all_pairs += pairs
        return _Plan(first, np.array(all_pairs, dtype=_PAIR))

    def _strand(
        self,
        member: int,
        number: int,
        strand: Strand,
        slots: Sequence[dict[tuple[int, int], int]],
        pairs: dict[_Pair, int],
    ) -> tuple[int, int]:
        """Add the rounds of a strand unless equal ones are stored; return their range."""
        # By identity, since a round's hash is that of all it sends; most strands repeat a few.
        own, numbered = slots[member], dict[int, _NumberedRound]()
        for round_ in strand:
            if id(round_) in numbered:
                continue
            sent = []
            for peer, fraction, way in round_.send:
                pair = _Pair(member, peer, way, number, slots[peer][number, member])
                sent.append((fraction, pairs.setdefault(pair, len(pairs))))
            receives = tuple([own[number, sender] for sender in round_.receive])
            numbered[id(round_)] = receives, round_.reduce, tuple(sent)
        key = tuple([numbered[id(round_)] for round_ in strand])
        known = self._known.get(key)
        if known is None:
            start = len(self.rounds)
            for receives, reduce, sends in key:
                at = len(self.receives), len(self.sends)
                self.receives += receives
                self.sends += sends
                self.largest = max([self.largest, *(fraction for fraction, _ in sends)])
                self.rounds.append(
                    (reduce, at[0], len(self.receives), at[1], len(self.sends)),
                )
            known = self._known[key] = start, len(self.rounds)
        return known


def _slots(strands: Sequence[Strand]) -> dict[tuple[int, int], int]:
    """Return a member's slot numbers, by (strand, sender)."""
    found: dict[tuple[int, int], int] = {}
    for number, strand in enumerate(strands):
        for round_ in strand:
            for sender in round_.receive:
                found.setdefault((number, sender), len(found))
    return found


def _maximum_burst(strand: Strand) -> int:
    """Return the maximum number of messages that one event can make a strand send.

    Rounds that wait for nothing are sent together with the round before.
    """
    most = now = 0
    for round_ in strand:
        now = len(round_.send) + (0 if round_.receive else now)
        most = max(most, now)
    return most


class _Lines(NamedTuple):
    """All lines of all groups: ranks, dimension, and whether they close a ring."""

    places: Table  # (groups, D + 1, R) of PLACE
    ranks: list[tuple[int, ...]]
    dims: list[int]
    circles: list[bool]


@collector_paused()  # many small objects, and no circles among them
def build_tables(program: Program, network: Network) -> Tables:
    """Build the tables of a program with one class per rank."""
    names = [name for name in dict.fromkeys(program.names.flow_group) if name]
    lines, interconnect, plans = _lines(program, names), interconnect_plan(program), _Plans()
    places = interconnect.places if interconnect else range(network.n_npus)
    routes = _Routes(program, network, places)
    launches = Launches(routes.hops)  # of links, those of routes come last
    io, most = io_tables(io_plan(program, network, interconnect), launches)
    passages = Passages(network, program.communication.network, interconnect)
    reductions = Reductions(passages, launches)
    wanted = _list_line_plans(program, network, names, lines, plans, interconnect)
    of = np.zeros((len(lines.ranks), N_KINDS), dtype=records.LINE_PLAN)
    of["members"] = NONE  # for what a line never runs
    n_dims = program.structure.shape.n_dims
    n_strands, n_slots = np.ones(n_dims, np.int64), np.ones(n_dims, np.int64)
    for line, kind, plan in wanted:
        d, ranks = lines.dims[line], lines.ranks[line]
        of[line, kind]["members"] = plan.members
        if plan.switched is not None:
            ports = [rank * n_dims + d for rank in ranks]
            added = reductions.add(plan.switched, [places[rank] for rank in ranks], ports)
            of[line, kind]["reductions"] = added.start
            of[line, kind]["reductions_end"] = added.stop
        for _, count, slots, *_ in plans.members[plan.members : plan.members + len(ranks)]:
            n_strands[d], n_slots[d] = max(n_strands[d], count), max(n_slots[d], slots)
    ways = _ways(wanted, lines, routes, of, n_strands, n_slots)
    flows, n_gathered = _flows(program, names, routes)
    all_launches, gates = launches.tables()
    all_reductions, ways_up = reductions.tables()
    return Tables(
        plans=_build_plans(plans, lines, of, ways),
        flows=flows,
        routes=routes.table(),
        ends=routes.ends,
        hops=np.array(routes.hops, dtype=np.int32),
        shares=routes.shares(),
        n_strands=n_strands,
        n_slots=n_slots,
        n_gathered=n_gathered,
        reductions=all_reductions,
        launches=all_launches,
        gates=gates,
        ways_up=ways_up,
        n_turns=passages.n_turns,
        io=io,
        interconnect=interconnect,
        n_sends=max(plans.n_sends, reductions.n_per_step, most),
        largest=plans.largest,
    )


def _build_plans(plans: _Plans, lines: _Lines, line_plans: Table, ways: Table) -> Plans:
    starts = np.cumsum([0, *map(len, lines.ranks)])
    return Plans(
        members=np.array(plans.members, dtype=records.MEMBER_PLAN),
        strands=np.array(plans.strands, dtype=records.PLAN_STRAND),
        rounds=np.array(plans.rounds, dtype=records.ROUND),
        receives=np.array(plans.receives, dtype=np.int32),
        sends=np.array(plans.sends, dtype=records.SEND),
        line_plans=line_plans,
        ways=ways,
        places=lines.places,
        lines=np.array(list(zip(starts, map(len, lines.ranks), strict=False)), dtype=records.LINE),
        line_ranks=np.array([rank for line in lines.ranks for rank in line], dtype=np.int32),
    )


def _list_line_plans(
    program: Program,
    network: Network,
    names: Sequence[str],
    lines: _Lines,
    plans: _Plans,
    interconnect: InterconnectPlan | None,
) -> list[tuple[int, int, _Plan]]:
    """Return (line, kind of phase, plan) for all phases that lines may run."""
    algorithms = program.communication.algorithms
    known: dict[object, _Plan] = {}
    found = []
    for line, number in _phases(program, names, lines):
        d, ranks, circle = lines.dims[line], lines.ranks[line], lines.circles[line]
        kind = CollectiveKind(number)
        of = algorithms[d].select_algorithm(kind).adapt_to_members(network, ranks, d)
        algorithm = algorithm_on_line(of, kind, ranks, interconnect)
        key = algorithm, kind, len(ranks), circle
        if key not in known:
            known[key] = plans.add(algorithm.rounds(kind, len(ranks), circle), len(ranks))
        found.append((line, number, known[key]))
    return found


def _ways(
    wanted: Sequence[tuple[int, int, _Plan]],
    lines: _Lines,
    routes: "_Routes",
    line_plans: Table,
    n_strands: NDArray[np.int64],
    n_slots: NDArray[np.int64],
) -> Table:
    """Return the WAY of each pair on each line; write each line's first one into ``line_plans``."""
    n_ranks = lines.places.shape[-1]
    first_strand, first_slot = first_indices(n_strands, n_ranks), first_indices(n_slots, n_ranks)
    ways, n_ways = [], 0
    for line, kind, plan in wanted:
        line_plans[line, kind]["ways"] = n_ways
        d, ranks = lines.dims[line], np.array(lines.ranks[line])
        pairs, there = plan.pairs, ranks[plan.pairs["peer"]]
        ends = ranks[pairs["member"]].tolist(), there.tolist(), pairs["way"].tolist()
        own = np.zeros(len(pairs), records.WAY)
        own["route"] = list(map(routes.number, *ends))
        own["strand"] = first_strand[there, d] + pairs["strand"]
        own["slot"] = first_slot[there, d] + pairs["slot"]
        ways.append(own)
        n_ways += len(own)
    return np.concatenate(ways) if ways else np.zeros(0, records.WAY)


def first_indices(each: NDArray[np.int64], n_ranks: int) -> NDArray[np.int64]:
    """Return the index of each port's first strand or slot, shape (ranks, D).

    ``each``, shape (D,), is the number of strands or slots of a port in each dimension.
    """
    counts = np.tile(each, n_ranks)
    return (np.cumsum(counts) - counts).reshape(n_ranks, len(each))


def _lines(program: Program, names: Sequence[str]) -> _Lines:
    communication = program.communication
    sizes = communication.topology.sizes
    at = all_coordinates(sizes)
    steps = np.concatenate(([1], np.cumprod(sizes)[:-1]))
    places = np.zeros((len(names), len(sizes) + 1, len(at)), dtype=records.PLACE)
    places["line"] = NONE
    found = _Lines(places, [], [], [])
    known: dict[tuple[int, int, int, int], int] = {}
    for g, name in enumerate(names):
        group = communication.groups[name]
        places["coordinate"][g, -1] = member_numbers(group, at)
        for d, (p, stride) in enumerate(zip(group.sizes, group.strides, strict=True)):
            if p == 1:
                continue
            place = at[:, d] // stride % p
            places["coordinate"][g, d] = place
            step, circle = stride * int(steps[d]), communication.closes_ring(group, d)
            lowest_ranks, inverse = np.unique(
                np.arange(len(at)) - place * step, return_inverse=True
            )
            numbers = []
            for first in lowest_ranks.tolist():
                key = d, p, stride, first
                if key not in known:
                    known[key] = len(found.ranks)
                    found.ranks.append(tuple(range(first, first + p * step, step)))
                    found.dims.append(d)
                    found.circles.append(circle)
                numbers.append(known[key])
            places["line"][g, d] = np.array(numbers)[inverse]
    return found


def _phases(program: Program, names: Sequence[str], lines: _Lines) -> Iterator[tuple[int, int]]:
    """Yield (line, kind of phase) for all phases that lines may run."""
    s = program.structure
    forms: dict[str, set[int]] = {name: set() for name in names}
    for form, name in zip(s.flows["form"].tolist(), program.names.flow_group, strict=True):
        if name:
            forms[name].add(form)
    seen: set[tuple[int, int]] = set()
    for g, name in enumerate(names):
        for form in sorted(forms[name]):
            record = s.forms[form]
            for use in s.uses[record["use_start"] : record["use_end"]]:
                steps = {int(use[part]) for part in ("scatter", "gather", "fused")} - {NO_STEPS}
                kinds = {int(s.phase_steps[step]["kind"]) for step in steps}
                for line in np.unique(lines.places["line"][g, use["dim"]]).tolist():
                    seen |= {(line, kind) for kind in kinds}
    yield from sorted(seen)


class _Routes:
    """Builder of the routes of messages between ranks; each route is computed once."""

    def __init__(self, program: Program, network: Network, places: Sequence[int]) -> None:
        model = program.communication.network
        self._router = router_of(network, model)
        self._places = places
        self._known: dict[tuple[int, int, int], int] = {}
        self.rooms = np.array(buffer_rooms(network, model), np.int64)
        self._shares: dict[int, Floats] = {}  # by where they begin
        self._starts: list[int] = []
        self.ends: list[tuple[int, int, int]] = []
        self.hops: list[int] = []

    def number(self, source: int, target: int, way: int) -> int:
        """Return the number of the route between two ranks with the tie-breaker ``way``."""
        key = source, target, way
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.ends)
            self.ends.append((self._places[source], self._places[target], way))
            start = len(self.hops)
            self._starts.append(start)
            self.hops += self._links(*self.ends[-1], start)
        return number

    def _links(self, source: int, target: int, way: int, start: int) -> Iterable[int]:
        """Return the links of one route, or of all shortest routes if messages are sprayed."""
        if way < 0 or not self._router.sprays:
            return self._router.route(source, target, way)
        spread = self._router.spread(source, target)
        self._shares[start] = np.array([*spread.values()])
        return spread

    def shares(self) -> Floats:
        """Return the fraction of a message on each hop; empty if no message is sprayed."""
        if not self._shares:
            return np.zeros(0)
        shares = np.ones(len(self.hops))
        for start, own in self._shares.items():
            shares[start : start + len(own)] = own
        return shares

    def table(self) -> Table:
        """Return all routes as a table, without latencies, which differ between points."""
        table = np.zeros(len(self.ends), dtype=records.ROUTE)
        if not len(table):
            return table
        table["start"] = self._starts
        table["end"] = np.append(table["start"][1:], len(self.hops))
        unlimited = np.iinfo(np.int64).max
        rooms = np.where(self.rooms == NONE, unlimited, self.rooms)[self.hops]
        rooms[table["end"] - 1] = unlimited  # an NPU takes in all that comes
        least = np.minimum.reduceat(rooms, table["start"])
        table["room"] = np.where(least == unlimited, NONE, least)
        return table


def _flows(program: Program, names: Sequence[str], routes: _Routes) -> tuple[Table, int]:
    """Return the table of all flows, and the number of arrival counters that they need."""
    s, groups = program.structure, program.names.flow_group
    numbers = {"": NONE} | {name: g for g, name in enumerate(names)}
    known = np.zeros(len(s.flows), records.FLOW)
    known["group"] = [numbers[name] for name in groups]
    known["precedence"] = [precedence_of(name) for name in groups]
    for flow in np.flatnonzero(known["group"] == NONE).tolist():
        source = int(s.members["cls"][s.flows["member_start"][flow]])
        target = int(s.nodes["cls"][s.flows["receiver"][flow]])
        known["route"][flow] = routes.number(source, target, 0)
    return join_forms(s, known)


def join_forms(s: Structure, known: Table) -> tuple[Table, int]:
    """Return a table of a structure's flows, joined with their forms and the columns ``known``.

    Also return the number of arrival counters that the flows need.
    """
    of, flows = s.flows["form"], known.copy()
    for table in (s.flows, s.forms[of]):
        for name in table.dtype.names or ():
            flows[name] = table[name]
    spans = empty_phase_times(s).spans[of]
    for name, of_span in (("phase", "start"), ("n_phases", "length"), ("variants", "variants")):
        flows[name] = spans[of_span]
    flows["n_members"] = flows["member_end"] - flows["member_start"]
    counts = flows["n_members"] * flows["chunks"] * flows["n_phases"]
    gathered = np.where(flows["group"] == NONE, 0, counts)
    flows["gather"] = np.cumsum(gathered) - gathered
    return flows, int(gathered.sum())
