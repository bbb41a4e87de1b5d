"""Cascades as arrays of gates and launches (:mod:`engine.kernels.network.gates`), and what is made
of them: reductions by switches, and what goes through a wafer's I/O controllers."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dimsweep.engine.collective.rounds import SwitchRounds
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages import records
from dimsweep.engine.kernels.messages.cascades import Cascade, Launch, Passages
from dimsweep.engine.kernels.messages.io_plan import Train, Transfer
from dimsweep.engine.kernels.messages.records import Io, named_records
from dimsweep.engine.lower.program import Ints, Longs, Table

_LONGEST_WAY = 5  # links from an NPU to the top, those between switches down again, too

Row = dict[str, float]
# What only some launches have.
_OTHERS: Row = dict.fromkeys(("port", "target", "reduction", "train"), NONE)
_OTHERS |= dict.fromkeys(("up", "down", "copies", "parts"), 0)


class Launches:
    """The launches of all cascades, and their gates.  ``hops`` is the list of links that routes
    share."""

    def __init__(self, hops: list[int]) -> None:
        self._hops = hops
        self._gates: list[Row] = []
        self._launches: list[Row] = []

    def add(self, cascade: Cascade, own: Callable[[Launch], Row]) -> Row:
        """Write a cascade, of whose launches ``own`` says what only some have; the columns of who
        begins it."""
        gates, at = len(self._gates), len(self._launches)
        self._gates += [
            {"expected": expected, **_span(at, launches)} for expected, launches in cascade.gates
        ]
        for launch in cascade.launches:
            gate = NONE if launch.gate == NONE else gates + launch.gate
            row = {"hop": len(self._hops), "gate": gate, "stored": launch.stored}
            self._launches.append(_OTHERS | row | own(launch))
            self._hops.append(launch.link)
        return _span(at, cascade.first)

    def tables(self) -> tuple[Table, Table]:
        """LAUNCH and GATE."""
        return named_records(self._launches, records.LAUNCH), named_records(
            self._gates, records.GATE
        )


def _span(at: int, launches: tuple[int, int]) -> Row:
    start, end = launches
    return {"launch": at + start, "launch_end": at + end}


class Reductions:
    """All reductions of all lines."""

    def __init__(self, passages: Passages, launches: Launches) -> None:
        self._passages, self._launches = passages, launches
        self._reductions: list[Row] = []
        self._ways_up: list[tuple[int, ...]] = []  # links, the reduction last
        self._most = 1  # that begin in one step: of a line, or
        self._most_waiting = 0  # of all that take turns

    @property
    def n_at_once(self) -> int:
        """The most messages that begin in one step."""
        return max(self._most, self._most_waiting)

    def add(self, rounds: SwitchRounds, npus: Sequence[int], ports: Sequence[int]) -> range:
        """The reductions of a line: where its members are, and their ports."""
        passage, before = self._passages.of(npus), len(self._reductions)
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
        """Write the launches of the next reduction, and its ways up."""
        number = len(self._reductions)

        def own(launch: Launch) -> Row:
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
        return self._launches.add(cascade, own)

    def tables(self) -> tuple[Table, Ints]:
        """REDUCTION, and the ways up."""
        ways = np.array(self._ways_up, dtype=np.int32).reshape(-1, _LONGEST_WAY + 1)
        return named_records(self._reductions, records.REDUCTION), ways


def latencies_of(ways: Ints, latency: Longs, n: int) -> Longs:
    """The longest way up, and between switches down again, of each of ``n`` reductions (ps)."""
    known = np.append(latency, 0)  # for what is no link
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, ways[:, -1], known[ways[:, :-1]].sum(axis=1))
    return longest


def io_tables(transfers: Sequence[Transfer], launches: Launches) -> tuple[Io, int]:
    """The tables of all transfers, whose messages are added to ``launches``, and how many pieces
    may begin in one step."""
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
    """A train, whose launches are written."""

    def own(launch: Launch) -> Row:
        return {"target": launch.who, "train": number}

    first = launches.add(train.cascade, own)
    return {**first, "pieces": train.pieces, "ends": train.n_ends}
