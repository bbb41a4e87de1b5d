"""What a program's collectives do: the phases of their chunks, and the lines that run them."""

from __future__ import annotations

import math
from functools import lru_cache

from engine.collective.algorithms import AUTO, Algorithm, algorithm_for, all_to_all_of
from engine.kernels.message.exchange import Crossing, Line, Phase
from engine.kernels.phase.phase_time import empty_phase_times, time_phases
from engine.lower import program as p
from engine.network.fabric import Auto
from engine.workload.graph import CollectiveKind


class Plans:
    """Phases and lines of a program at its point, worked out when first asked for.

    The order in which a chunk visits the dimensions is the phase kernel's; durations are not taken
    from it.
    """

    def __init__(self, program: p.Program) -> None:
        self._program = program
        self._times = empty_phase_times(program.structure)
        time_phases(program.structure, program.bandwidth, program.latency, self._times)
        # A cache around the method itself would keep all programs for ever.
        self.phases = lru_cache(maxsize=None)(self._phases)
        self.line = lru_cache(maxsize=None)(self._line)
        self._messages = lru_cache(maxsize=None)(self._messages_of_collective)

    def crossing(self, flow: int) -> Crossing:
        """A message from point to point, of a program in which every rank is a class."""
        s = self._program.structure
        record = s.flows[flow]
        form, span = s.forms[record["form"]], self._times.spans[record["form"]]
        return Crossing(
            dim=int(self._times.phases[span["start"]]["dim"]),
            target=int(s.nodes[record["receiver"]]["cls"]),
            n_bytes=float(form["n_bytes"]),
            crosses=tuple(s.uses[form["use_start"] : form["use_end"]]["dim"].tolist()),
        )

    def n_messages(self) -> int:
        """How many messages all ranks will send; classes may stand for many ranks."""
        s, names = self._program.structure, self._program.names
        total = 0
        for flow, group in zip(s.flows, names.flow_group, strict=True):
            members = s.members["cls"][flow["member_start"] : flow["member_end"]]
            ranks = sum(names.class_count[cls] for cls in members)
            if group:
                collectives = ranks // self._program.workload.groups[group].n_members
                total += collectives * self._messages(int(flow["form"]), group)
            else:
                total += ranks
        return total

    def _phases(self, form_number: int, chunk: int) -> tuple[Phase, ...]:
        """The phases that a chunk of a form goes through."""
        s = self._program.structure
        form, span = s.forms[form_number], self._times.spans[form_number]
        first = span["start"] + (chunk % span["variants"]) * span["length"]
        entries = self._times.phases[first : first + span["length"]]
        entries = entries[entries["dim"] >= 0]
        kinds = [CollectiveKind(form["kind"])] * len(entries)
        if form["kind"] == CollectiveKind.ALL_REDUCE:
            up = int(form["use_end"] - form["use_start"])
            kinds = [CollectiveKind.REDUCE_SCATTER] * up
            if len(entries) < 2 * up:  # fused on the last dimension
                kinds[-1] = CollectiveKind.ALL_REDUCE
            kinds += [CollectiveKind.ALL_GATHER] * (len(entries) - up)
        cluster = self._program.cluster
        dims = cluster.topology.dims
        names = cluster.collectives.algorithms or (AUTO,) * len(dims)

        def algorithm(d: int, kind: CollectiveKind) -> Algorithm:
            if kind is CollectiveKind.ALL_TO_ALL:
                return all_to_all_of(dims[d].block)
            return algorithm_for(dims[d].block, names[d])

        return tuple(
            Phase(d, kind, algorithm(d, kind), n_bytes)
            for (d, n_bytes), kind in zip(entries[["dim", "n_bytes"]].tolist(), kinds, strict=True)
        )

    def _line(self, group_name: str, dim: int, rank: int) -> Line:
        """The members of the rank's group that differ from it in ``dim`` only."""
        group = self._program.workload.groups[group_name]
        cluster = self._program.cluster
        sizes, members, stride = cluster.topology.sizes, group.sizes[dim], group.strides[dim]
        unit = math.prod(sizes[:dim])
        coordinate = rank // unit % sizes[dim]
        corner = rank - (coordinate // stride % members) * stride * unit
        ranks = tuple(corner + i * stride * unit for i in range(members))
        fabric = cluster.network.fabrics[dim] if cluster.network.fabrics else Auto()
        return Line(ranks, fabric.circles(cluster.topology.dims[dim], members, stride))

    def _messages_of_collective(self, form: int, group: str) -> int:
        total = 0
        for phase in self.phases(form, 0):
            line = self.line(group, phase.dim, 0)
            lines = self._program.workload.groups[group].n_members // len(line.ranks)
            total += lines * phase.n_messages(line)
        return total * int(self._program.structure.forms[form]["chunks"])
