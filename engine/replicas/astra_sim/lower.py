"""Traces to tables: what of a run does not depend on the network's bandwidth and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DimsweepError
from engine.formats.astra_sim.inputs import Inputs
from engine.formats.chakra.node import COMMUNICATION, Node
from engine.formats.chakra.trace import NodeType
from engine.replicas.astra_sim.delays import ways
from engine.replicas.astra_sim.fold import Folding
from engine.replicas.astra_sim.greedy import GREEDY
from engine.replicas.astra_sim.memory import PER_NPU, access_time
from engine.replicas.astra_sim.plans import Form, NotLoweredError, Origin, PlanTables, Question
from engine.replicas.astra_sim.profile import Profiles
from engine.replicas.astra_sim.tables import (
    CHUNK,
    COLLECTIVE,
    COMM,
    CPU,
    GPU,
    INSTANT,
    LONGEST,
    N_SLOTS,
    NO_SLOT,
    NODE,
    PLAN,
    RANK,
    RECEIVE,
    RECIPE,
    SEND,
    STEP,
    TERM,
    TIMED,
    Tables,
)
from engine.replicas.astra_sim.workload import (
    AT_ONCE,
    check_peer,
    is_gpu,
    kind_of,
    members_of,
    own_time,
    slot_of,
)

_SLOTS = {"cpu": CPU, "gpu": GPU, "comm": COMM, "": NO_SLOT}


@dataclass(frozen=True)
class Lowered:
    """``gpu``: ns that the GPU of each kind computes; ``origins`` of the plans; ``questions``: the
    recipes that Profiles answer."""

    tables: Tables
    gpu: tuple[int, ...]
    origins: tuple[Origin, ...]
    questions: tuple[Question, ...]


def lower_tables(inputs: Inputs, traces: Sequence[Sequence[Node]], folding: Folding) -> Lowered:
    """Lower one trace of each kind.

    Raises :class:`NotLoweredError` for what the kernel does not do: it must be interpreted, and so
    must what makes no sense, which is told when it is met.
    """
    _check(inputs)
    try:
        return _Lowering(inputs, traces, folding).result()
    except DimsweepError as error:
        raise NotLoweredError(error.what) from error


def _check(inputs: Inputs) -> None:
    options = inputs.options
    reasons = {
        "messages queue for links": options.aware,
        "rendezvous": options.rendezvous,
        "phases share a memory bus": inputs.system.bus is not None,
        "custom collectives": bool(inputs.custom),
        "no endpoint delay": int(inputs.system.endpoint_delay * options.injection_scale) < 1,
    }
    for reason, holds in reasons.items():
        if holds:
            raise NotLoweredError(reason)


class _Lowering:
    def __init__(self, inputs: Inputs, traces: Sequence[Sequence[Node]], folding: Folding) -> None:
        self._inputs, self._folding = inputs, folding
        self._plans = PlanTables(inputs, Profiles(ways(inputs.network), folding.kind))
        self._matches: dict[tuple[int, int, int, int], int] = {}
        self._nodes: list[tuple[int, ...]] = []
        self._following: list[int] = []
        self._ranks: list[tuple[int, int, tuple[int, ...]]] = []
        self._gpu = [self._add_rank(rank, traces[rank]) for rank in folding.first]

    def result(self) -> Lowered:
        plans, options = self._plans, self._inputs.options
        return Lowered(
            Tables(
                nodes=np.array(self._nodes, NODE),
                following=np.array(self._following, np.int32),
                ranks=np.array(self._ranks, RANK),
                apart=np.array([a != b for _, a, b, _ in self._matches], np.int32),
                plans=np.array(plans.plans, PLAN),
                chunks=np.array(plans.chunks, CHUNK),
                steps=np.array(plans.steps, STEP),
                recipes=np.array(plans.recipes, RECIPE),
                terms=np.array(plans.terms, TERM),
                n_ticks=plans.n_ticks,
                n_queues=len(self._inputs.network.sizes) * options.queues_per_dim,
                limit=-(-self._inputs.system.active_chunks // options.queues_per_dim),
            ),
            tuple(self._gpu),
            tuple(plans.origins),
            tuple(plans.questions),
        )

    def _add_rank(self, rank: int, trace: Sequence[Node]) -> int:
        """Add its nodes; returns what its GPU computes (ns)."""
        nodes = sorted(trace, key=lambda node: node.id)
        start = len(self._nodes)
        number = {node.id: start + i for i, node in enumerate(nodes)}
        following: dict[int, list[int]] = {}
        for node in nodes:
            for before in node.dependencies:
                following.setdefault(before, []).append(number[node.id])
        if len(number) < len(nodes):
            raise NotLoweredError("nodes with the same id")
        times = [own_time(node, self._inputs.system) for node in nodes]
        first_plan = self._first_plans(rank, nodes, times)
        counts = [0] * N_SLOTS
        for node, time in zip(nodes, times, strict=True):
            slot = _SLOTS[slot_of(node)]
            counts[slot] += 1
            kind, what, match, duration = self._work(rank, node, time, first_plan)
            if duration > LONGEST:
                raise NotLoweredError("a node lasts very long")
            next_start = len(self._following)
            self._following += following.get(node.id, ())
            ends = (next_start, len(self._following))
            talks = node.type in COMMUNICATION
            waits = len(node.dependencies)
            row = (kind, slot, len(self._ranks), waits, *ends, talks, what, match, duration)
            self._nodes.append(row)
        heaps = tuple(start + sum(counts[:slot]) for slot in range(N_SLOTS))
        self._ranks.append((start, len(self._nodes), heaps))
        return sum(
            time or 0
            for node, time in zip(nodes, times, strict=True)
            if is_gpu(node) and time != AT_ONCE
        )

    def _first_plans(
        self, rank: int, nodes: Sequence[Node], times: Sequence[int | None]
    ) -> dict[Form, int]:
        collectives = [
            node
            for node, time in zip(nodes, times, strict=True)
            if time is None and node.type is NodeType.COMM_COLL
        ]
        themis = self._inputs.system.inter_dimension in GREEDY
        if themis and collectives and (len(collectives) > 1 or len(self._folding.first) > 1):
            raise NotLoweredError("Themis' loads depend on more than one collective")
        forms = {self._form(rank, node): None for node in collectives}
        return self._plans.add_rank(rank, list(forms), len(collectives))

    def _form(self, rank: int, node: Node) -> Form:
        if node.on_cpu:
            raise NotLoweredError("a collective of the CPU")
        kind = kind_of(node, rank)
        ranks = members_of(node, rank, self._inputs)
        if ranks is None:
            return Form(kind, node.size, node.involved, "", ())
        return Form(kind, node.size, (), node.group, tuple(ranks))

    def _work(
        self, rank: int, node: Node, time: int | None, first_plan: dict[Form, int]
    ) -> tuple[int, int, int, int]:
        """Kind, first plan or recipe, match, and duration."""
        if time == AT_ONCE:
            return INSTANT, -1, -1, 0
        if time is not None:
            return TIMED, -1, -1, time
        if node.type is NodeType.COMM_COLL:
            first = first_plan[self._form(rank, node)]
            if self._plans.is_empty(first):
                return TIMED, -1, -1, 0
            return COLLECTIVE, first, -1, 0
        if node.type in (NodeType.MEM_LOAD, NodeType.MEM_STORE):
            if self._inputs.memory.kind != PER_NPU:
                raise NotLoweredError("memory that ranks share")
            return TIMED, -1, -1, access_time(self._inputs.memory, rank, node.tensor)
        sends = node.type is NodeType.COMM_SEND
        peer = node.target if sends else node.source
        check_peer(node, rank, peer, self._inputs.network.n_npus)
        if sends and node.on_cpu:
            raise NotLoweredError("a send of the CPU")
        mine, theirs = self._folding.kind[rank], self._folding.kind[peer]
        source, target = (mine, theirs) if sends else (theirs, mine)
        key = (node.tag, source, target, node.size)
        match = self._matches.setdefault(key, len(self._matches))
        if not sends:
            return RECEIVE, -1, match, 0
        return SEND, self._plans.send(rank, peer, node.size), match, 0
