"""Reductions by switches as gates and launches (:mod:`engine.kernels.network.reduction`)."""

from collections.abc import Sequence

import numpy as np

from engine.collective.rounds import SwitchRounds
from engine.kernels.core.none import NONE
from engine.kernels.messages.cascades import Cascade, Passages
from engine.kernels.messages.records import GATE, LAUNCH, REDUCTION, named_records
from engine.lower.program import Ints, Longs, Table

_LONGEST_WAY = 5  # links from an NPU to the top, those between switches down again, too


class Reductions:
    """All reductions of all lines.  ``hops`` is the list of links that routes share."""

    def __init__(self, passages: Passages, hops: list[int]) -> None:
        self._passages, self._hops = passages, hops
        self._reductions: list[dict[str, float]] = []
        self._gates: list[dict[str, float]] = []
        self._launches: list[dict[str, float]] = []
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
            at = len(self._launches)
            self._write(cascade, up, down, port_of)
            self._most_waiting += 0 if passage.turn == NONE else len(sources)
            self._reductions.append(
                {
                    "launch": at + cascade.first[0],
                    "launch_end": at + cascade.first[1],
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

    def _write(self, cascade: Cascade, up: float, down: float, port_of: dict[int, int]) -> None:
        """Write the gates and launches of the next reduction, and its ways up."""
        gates, launches, number = len(self._gates), len(self._launches), len(self._reductions)
        for expected, (start, end) in cascade.gates:
            self._gates.append(gate_row(expected, launches + start, launches + end))
        for launch in cascade.launches:
            ends = launch.gate == NONE
            self._launches.append(
                {
                    "up": up if launch.up else 0.0,
                    "down": down if launch.copies else 0.0,
                    "copies": launch.copies,
                    "parts": launch.parts,
                    "hop": len(self._hops),
                    "gate": NONE if ends else gates + launch.gate,
                    "port": NONE if ends else port_of[launch.who],
                    "target": port_of[launch.who] if ends else NONE,
                    "reduction": number,
                }
            )
            self._hops.append(launch.link)
        for links in cascade.ways_up:
            self._ways_up.append((*links, *[NONE] * (_LONGEST_WAY - len(links)), number))

    def tables(self) -> tuple[Table, Table, Table, Ints]:
        """REDUCTION, LAUNCH, GATE, and the ways up."""
        ways = np.array(self._ways_up, dtype=np.int32).reshape(-1, _LONGEST_WAY + 1)
        return (
            named_records(self._reductions, REDUCTION),
            named_records(self._launches, LAUNCH),
            named_records(self._gates, GATE),
            ways,
        )


def gate_row(expected: int, start: int, end: int) -> dict[str, float]:
    """The columns of a GATE that no message has reached yet."""
    return {"expected": expected, "launch": start, "launch_end": end}


def latencies_of(ways: Ints, latency: Longs, n: int) -> Longs:
    """The longest way up, and between switches down again, of each of ``n`` reductions (ps)."""
    known = np.append(latency, 0)  # for what is no link
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, ways[:, -1], known[ways[:, :-1]].sum(axis=1))
    return longest
