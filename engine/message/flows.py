"""Flows: collectives as chunks that go from phase to phase, and messages from point to point."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from engine.cluster.topology import Block
from engine.collective.algorithm import AUTO, algorithm_for
from engine.lower import program as p
from engine.message.exchange import Crossing, Line, Phase
from engine.message.servers import Job
from engine.network.fabric import Mesh
from engine.run.price import empty_prices, price
from engine.workload.graph import CollectiveKind

_KINDS = {
    p.ALL_REDUCE: CollectiveKind.ALL_REDUCE,
    p.REDUCE_SCATTER: CollectiveKind.REDUCE_SCATTER,
    p.ALL_GATHER: CollectiveKind.ALL_GATHER,
    p.ALL_TO_ALL: CollectiveKind.ALL_TO_ALL,
}


class _Place(NamedTuple):
    """Where a chunk's phase takes place: the line's first member stands for it."""

    flow: int
    chunk: int
    phase: int
    first: int


class Flows:
    """The flows of a program in which every rank is a class of its own.

    ``submit`` queues a job; ``done(flow, rank)`` is called when a rank has done its part of a flow.
    """

    def __init__(
        self,
        program: p.Program,
        submit: Callable[[Job], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._program, self._submit, self._done = program, submit, done
        self._prices = empty_prices(program.structure)
        price(program.structure, program.bandwidth, program.latency, self._prices)
        self._chunks_left: dict[tuple[int, int], int] = {}  # of a flow, on a rank
        self._gathering: dict[_Place, int] = {}  # members that have not come yet
        # A method's cache would keep the object alive; these live and die with it.
        self._phases = lru_cache(maxsize=None)(self._read_phases)
        self._line = lru_cache(maxsize=None)(self._find_line)
        self._messages = lru_cache(maxsize=None)(self._count_messages)

    def start(self, flow: int) -> None:
        """All members have arrived."""
        s = self._program.structure
        record = s.flows[flow]
        form = s.forms[record["form"]]
        if form["kind"] == p.POINT_TO_POINT:
            self._send(flow)
            return
        ranks = s.members["cls"][record["member_start"] : record["member_end"]].tolist()
        for rank in ranks:
            self._chunks_left[flow, rank] = int(form["chunks"])
        for chunk in range(form["chunks"]):
            for rank in ranks:
                self._enter(flow, chunk, 0, rank)

    def n_messages(self) -> int:
        """How many messages members will send one another."""
        flows, groups = self._program.structure.flows, self._program.names.flow_group
        return sum(
            self._messages(form, group) if group else 1
            for form, group in zip(flows["form"].tolist(), groups, strict=True)
        )

    def _enter(self, flow: int, chunk: int, number: int, rank: int) -> None:
        """``rank`` is ready for the chunk's phase ``number``."""
        record = self._program.structure.flows[flow]
        phases = self._phases(int(record["form"]), chunk)
        if number == len(phases):
            self._chunks_left[flow, rank] -= 1
            if not self._chunks_left[flow, rank]:
                self._done(flow, rank)
            return
        phase = phases[number]
        line = self._line(self._program.names.flow_group[flow], phase.dim, rank)
        place = _Place(flow, chunk, number, line.ranks[0])
        missing = self._gathering.pop(place, len(line.ranks)) - 1
        if missing:
            self._gathering[place] = missing
            return
        self._submit(
            Job(
                phase,
                line,
                self._name(flow),
                (int(record["key"]), chunk),
                int(self._program.structure.forms[record["form"]]["priority"]),
                done=partial(self._enter, flow, chunk, number + 1),
            )
        )

    def _send(self, flow: int) -> None:
        s = self._program.structure
        record = s.flows[flow]
        form, span = s.forms[record["form"]], self._prices.spans[record["form"]]
        source = int(s.members["cls"][record["member_start"]])
        crossing = Crossing(
            dim=int(self._prices.phases[span["start"]]["dim"]),
            target=int(s.nodes[record["receiver"]]["cls"]),
            n_bytes=float(form["n_bytes"]),
            crosses=tuple(s.uses[form["use_start"] : form["use_end"]]["dim"].tolist()),
        )
        line = Line((source,), Block.SWITCH, closed=False)
        done = partial(self._done, flow)
        self._submit(Job(crossing, line, self._name(flow), (int(record["key"]), 0), 0, done))

    def _name(self, flow: int) -> str:
        record = self._program.structure.flows[flow]
        node = self._program.structure.members["node"][record["member_start"]]
        return self._program.names.node[node]

    def _read_phases(self, form_number: int, chunk: int) -> tuple[Phase, ...]:
        """The phases that the phase kernel would take the chunk through, in the same order."""
        s = self._program.structure
        form, span = s.forms[form_number], self._prices.spans[form_number]
        first = span["start"] + (chunk % span["variants"]) * span["length"]
        entries = self._prices.phases[first : first + span["length"]]
        entries = entries[entries["dim"] >= 0]
        kinds = [_KINDS[int(form["kind"])]] * len(entries)
        if form["kind"] == p.ALL_REDUCE:
            up = int(form["use_end"] - form["use_start"])
            kinds = [CollectiveKind.REDUCE_SCATTER] * up
            if len(entries) < 2 * up:  # fused on the last dimension
                kinds[-1] = CollectiveKind.ALL_REDUCE
            kinds += [CollectiveKind.ALL_GATHER] * (len(entries) - up)
        cluster = self._program.cluster
        dims = cluster.topology.dims
        names = cluster.collectives.algorithms or (AUTO,) * len(dims)
        return tuple(
            Phase(d, kind, algorithm_for(dims[d].block, names[d]), n_bytes)
            for (d, _, n_bytes), kind in zip(entries.tolist(), kinds, strict=True)
        )

    def _find_line(self, group_name: str, dim: int, rank: int) -> Line:
        """The members of rank's group that differ from it in ``dim`` only."""
        group = self._program.workload.groups[group_name]
        cluster = self._program.cluster
        sizes, p_members, stride = cluster.topology.sizes, group.sizes[dim], group.strides[dim]
        unit = math.prod(sizes[:dim])
        coordinate = rank // unit % sizes[dim]
        corner = rank - (coordinate // stride % p_members) * stride * unit
        ranks = tuple(corner + i * stride * unit for i in range(p_members))
        # Two NPUs on a ring are joined by one link, which has both directions' bandwidth.
        fabrics = cluster.network.fabrics
        ends = bool(fabrics) and isinstance(fabrics[dim], Mesh)
        all_round = p_members * stride == sizes[dim] > 2
        return Line(ranks, cluster.topology.dims[dim].block, all_round and not ends)

    def _count_messages(self, form: int, group: str) -> int:
        """The messages of one collective."""
        total = 0
        for phase in self._phases(form, 0):
            line = self._line(group, phase.dim, 0)
            lines = self._program.workload.groups[group].n_members // len(line.ranks)
            total += lines * phase.n_messages(line)
        return total * int(self._program.structure.forms[form]["chunks"])
