"""Reductions by switches as gates and launches (:mod:`engine.kernels.network.reduction`)."""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.cluster.network import NetworkModel
from engine.collective.rounds import SwitchRound, SwitchRounds
from engine.kernels.core.none import NONE
from engine.kernels.messages.records import GATE, LAUNCH, REDUCTION, records_of
from engine.kernels.messages.routes import shared_switch
from engine.lower.program import Ints, Longs, Table
from engine.network.graph import Network
from engine.network.wafer import Tree, WaferPlan

_LONGEST_WAY = 5  # links from an NPU to the top, those between switches down again, too


class Reductions:
    """All reductions of all lines.  ``hops`` is the list of links that routes share."""

    def __init__(
        self,
        network: Network,
        model: NetworkModel,
        plan: WaferPlan | None,
        hops: list[int],
    ) -> None:
        self._network, self._model, self._hops = network, model, hops
        self._trees: dict[frozenset[int], Tree] = {}
        self._turns: dict[frozenset[int], tuple[int, int, int]] = {}  # turn, round, line
        self.n_turns = 0
        for rounds in plan.rounds if plan else ():
            for number, trees in enumerate(rounds):
                self._trees |= trees
                turn = self.n_turns if len(rounds) > 1 else NONE
                for line in trees:
                    self._turns[line] = turn, number, len(self._turns)
            self.n_turns += len(rounds) > 1
        self.rows: list[tuple[int, ...]] = []  # of REDUCTION
        self.gates: list[tuple[int, int, int, int, int]] = []  # of GATE
        self.launches: list[tuple[float, ...]] = []  # of LAUNCH
        self._ways: list[tuple[int, ...]] = []  # links, the reduction last
        self.most = 1  # that begin in one step

    def add(self, rounds: SwitchRounds, npus: Sequence[int], ports: Sequence[int]) -> range:
        """The reductions of a line: where its members are, and their ports."""
        tree = self._trees.get(frozenset(npus))
        if tree is None:
            switch = shared_switch(self._network, self._model, frozenset(npus))
            tree = Tree({switch: tuple(npus)})
        turn = self._turns.get(frozenset(npus), (NONE, 0, NONE))
        port_of = dict(zip(npus, ports, strict=True))
        before = len(self.rows)
        for round_ in rounds.rounds:
            _Reduction(self, round_, tree, npus, port_of).write(turn)
        self.most = max(self.most, sum(len(round_.sources) for round_ in rounds.rounds))
        return range(before, len(self.rows))

    def at_once(self) -> int:
        """The most messages that begin in one step: of a line, or of all that take turns."""
        waiting = [row for row in self.rows if row[8] != NONE]
        return max(self.most, sum(end - start for _, start, end, *_ in waiting))

    def link(self, source: int | str, target: int | str) -> int:
        return self._network.number[source, target]

    def launch(
        self,
        links: Sequence[tuple[int | str, int | str]],
        size: tuple[float, float, int, int],
        gate: int,
        ports: Sequence[tuple[int, int]] = (),
    ) -> tuple[int, int]:
        """Write launches over ``links`` to one gate, or from or to ``ports``; where they stand."""
        start = len(self.launches)
        for i, ends in enumerate(links):
            source, target = ports[i] if ports else (NONE, NONE)
            self.launches.append(
                (*size[:2], 0, *size[2:], len(self._hops), gate, source, target, len(self.rows))
            )
            self._hops.append(self.link(*ends))
        return start, len(self.launches)

    def gate(self, expected: int, launches: tuple[int, int]) -> int:
        """Write a gate; its number."""
        self.gates.append((0, expected, 0, *launches))
        return len(self.gates) - 1

    def way(self, links: Sequence[int]) -> None:
        """Note a way up of the present reduction."""
        self._ways.append((*links, *[NONE] * (_LONGEST_WAY - len(links)), len(self.rows)))

    def tables(self) -> tuple[Table, Table, Table, Ints]:
        """REDUCTION, LAUNCH, GATE, and the ways up."""
        ways = np.array(self._ways, dtype=np.int32).reshape(-1, _LONGEST_WAY + 1)
        return (
            records_of(self.rows, REDUCTION),
            records_of(self.launches, LAUNCH),
            records_of(self.gates, GATE),
            ways,
        )


class _Reduction:
    """One reduction, written from its end to its beginning."""

    def __init__(
        self,
        all_: Reductions,
        round_: SwitchRound,
        tree: Tree,
        members: Sequence[int],
        port_of: Mapping[int, int],
    ) -> None:
        self._all, self._round, self._tree, self._port_of = all_, round_, tree, port_of
        sources = [members[member] for member in round_.sources]
        targets = [members[member] for member in round_.targets]
        leaves = tree.leaves.items()
        self._from = {leaf: [n for n in sources if n in npus] for leaf, npus in leaves}
        self._to = {leaf: [n for n in targets if n in npus] for leaf, npus in leaves}
        self._rising = [leaf for leaf, npus in self._from.items() if npus]
        self._falling = [leaf for leaf, npus in self._to.items() if npus]

    def write(self, turn: tuple[int, int, int]) -> None:
        tree = self._tree
        fall = {leaf: self._fall(leaf) for leaf in self._to}
        above = self._top(fall) if tree.lanes else []
        links, ports, gates = [], [], []
        for leaf in self._rising:
            npus = self._from[leaf]
            going_on = self._rise(leaf, above) if tree.lanes else fall[leaf]
            gate = self._all.gate(len(npus), going_on)
            for npu in npus:
                links.append((npu, leaf))
                ports.append((self._port_of[npu], NONE))
                gates.append(gate)
                for lane in tree.lanes.get(leaf, ("",)):
                    trunk = [(leaf, lane), (lane, tree.top)] if lane else []
                    ways = [self._all.link(*ends) for ends in trunk]
                    self._all.way([self._all.link(npu, leaf), *ways, *ways])
        size = (self._round.up, 0.0, 0, 1)
        starts = [
            self._all.launch([link], size, gate, [port])
            for link, gate, port in zip(links, gates, ports, strict=True)
        ]
        n_trunks = 2 * tree.n_parts * (len(self._rising) + len(self._falling)) if tree.lanes else 0
        n_messages = n_trunks + len(self._round.sources) + len(self._round.targets)
        n_targets = len(self._round.targets)
        ends = starts[0][0], starts[-1][1]
        self._all.rows.append((0, *ends, n_messages, 0, 0, 0, n_targets, *turn, NONE))

    def _fall(self, leaf: str) -> tuple[int, int]:
        """From a leaf to its targets."""
        npus = self._to[leaf]
        links, ports = [(leaf, npu) for npu in npus], [(NONE, self._port_of[npu]) for npu in npus]
        return self._all.launch(links, (0.0, self._round.down, 1, 1), NONE, ports)

    def _rise(self, leaf: str, above: Sequence[int]) -> tuple[int, int]:
        """From a leaf to the top, each part by a lane of its own."""
        size = (self._round.up, 0.0, 0, self._tree.n_parts)
        lanes = self._tree.lanes[leaf]
        gates = [
            self._all.gate(1, self._all.launch([(lane, self._tree.top)], size, gate))
            for lane, gate in zip(lanes, above, strict=True)
        ]
        starts = [
            self._all.launch([(leaf, lane)], size, gate)
            for lane, gate in zip(lanes, gates, strict=True)
        ]
        return starts[0][0], starts[-1][1]

    def _top(self, fall: Mapping[str, tuple[int, int]]) -> list[int]:
        """The gates at the top, one a part."""
        tree, round_ = self._tree, self._round
        below = {leaf: self._all.gate(tree.n_parts, fall[leaf]) for leaf in self._falling}
        gates = []
        for number in range(tree.n_parts):
            on = []
            for leaf in self._falling:
                size = (round_.up, round_.down, len(self._to[leaf]), tree.n_parts)
                down = self._all.launch([(tree.lanes[leaf][number], leaf)], size, below[leaf])
                on.append((tree.lanes[leaf][number], size, self._all.gate(1, down)))
            starts = [self._all.launch([(tree.top, lane)], size, gate) for lane, size, gate in on]
            gates.append(self._all.gate(len(self._rising), (starts[0][0], starts[-1][1])))
        return gates


def latencies_of(ways: Ints, latency: Longs, n: int) -> Longs:
    """The longest way up, and between switches down again, of each of ``n`` reductions (ps)."""
    known = np.append(latency, 0)  # for what is no link
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, ways[:, -1], known[ways[:, :-1]].sum(axis=1))
    return longest
