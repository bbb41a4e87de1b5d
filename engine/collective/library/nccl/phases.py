"""NCCL's collectives as phases: steps, the latency of protocols, and their bandwidth.

Inside a node the times follow from :class:`engine.collective.library.nccl.gpus.Cost`; between
nodes a step takes the time of NCCL's tuning, and the bandwidth is the NPU's own rail.
"""

import math
from dataclasses import dataclass

from dimsweep.engine.cluster.cluster import CollectiveModel
from dimsweep.engine.collective.library.nccl import nvls
from dimsweep.engine.collective.library.nccl.gpus import (
    DIRECT,
    LL,
    LL128,
    SIMPLE,
    Algorithm,
    Choice,
    Cost,
    Gpu,
    Hardware,
    Protocol,
)
from dimsweep.engine.collective.library.nccl.tuning import (
    CARD,
    NVLS,
    PAT,
    PEER,
    TREE,
    choose,
    network_hop,
    pat_overhead,
)
from dimsweep.engine.collective.request import Answer, Phases, Request
from dimsweep.engine.collective.steps import PhaseSteps, Step
from dimsweep.engine.kinds import CollectiveKind

_MICROSECOND = 1_000_000  # ps
_SENDS = 32 * 512 * 2**10  # bytes in the buffers of all blocks of threads: NCCL_P2P_NVL_CHUNKSIZE
_PIECE = 4 * 2**20  # bytes of a channel's buffer: less is not cut into chunks
# Shares of a rail's bandwidth: in NCCL's predictions, and left by a protocol.
_NETWORK = {Protocol.LL: CARD / 2, Protocol.LL128: CARD * 120 / 128, Protocol.SIMPLE: CARD}
_RING = {Protocol.LL: LL, Protocol.LL128: LL128, Protocol.SIMPLE: SIMPLE}


def message_shares(gpu: Gpu) -> tuple[float, float]:
    """Return the fraction of the bandwidth that a message gets inside a node, and between nodes."""
    return gpu.costs[DIRECT].bandwidth / gpu.link, _NETWORK[DIRECT.protocol]


def answer(
    gpu: Gpu, request: Request, model: CollectiveModel, choice: Choice | None = None
) -> Answer:
    """Return the phases in which NCCL runs the collective of ``request``.

    ``choice`` defaults to NCCL's own at the request's bandwidths. A collective that crosses
    dimensions or nodes is cut into at most ``model.chunks`` chunks, so that a message need not wait
    for all of it.
    """
    n_dims, choice = len(request.settings), choice or choose(gpu, request)
    is_cut = n_dims > 1 or request.nodes > 1
    pieces = min(model.chunks, math.ceil(request.n_bytes / _PIECE)) if is_cut else 1
    chunks = max(1, pieces)
    run = _Run(gpu, request, choice)
    return Answer(chunks, tuple(run.dimension(i) for i in range(n_dims)))


@dataclass(frozen=True)
class _Run:
    """Builder of the phases of a collective that NCCL runs by a given choice."""

    gpu: Gpu
    request: Request
    choice: Choice

    def dimension(self, i: int) -> Phases:
        """Return the phases in the group's i-th dimension; the last has the costs paid once."""
        kind, last = self.request.kind, i == len(self.request.settings) - 1
        if kind is CollectiveKind.ALL_TO_ALL:
            return Phases(self._phase(kind, i, once=last))
        reduces = kind is CollectiveKind.ALL_REDUCE
        return Phases(
            scatter=self._phase(CollectiveKind.REDUCE_SCATTER, i, once=last),
            gather=self._phase(CollectiveKind.ALL_GATHER, i, once=last),
            fused=self._phase(kind, i, once=True) if reduces and last else None,
        )

    def _phase(self, kind: CollectiveKind, i: int, *, once: bool) -> PhaseSteps:
        setting, inside = self.request.settings[i], i < self.request.in_node
        p = setting.p
        step = self._in_node(kind, i) if inside else self._between_nodes(kind, i)
        steps = (self._step(1, 0, 0.0, self._base), step) if once else (step,)
        share = _NETWORK[self.choice.protocol]
        if self.choice.algorithm is Algorithm.PAT:
            share *= PAT
        if inside:
            share = self._rate / self.gpu.link
            share *= self.gpu.crowded(self.request.ranks_a_node, self.choice.algorithm)
        elif self.gpu.rails is not None:
            share = min(share, self.gpu.rails.find(self.request.kind, self.request.nodes))
        growth, sent = 1.0, _passes(kind) * (p - 1) / p
        if kind is CollectiveKind.REDUCE_SCATTER:
            growth = 1 / p
        elif kind is CollectiveKind.ALL_GATHER:
            growth, sent = float(p), p - 1.0
        return PhaseSteps(steps, setting.use.share * share, growth, sent)

    def _in_node(self, kind: CollectiveKind, i: int) -> Step:
        setting, hop = self.request.settings[i], self._cost.hop
        p, hops = setting.p, setting.use.hops
        held = p if kind is CollectiveKind.ALL_GATHER else 1
        if self.choice.algorithm is Algorithm.NVLS:
            # The switch pulls all of a member's bytes, and its shard of the result goes to all: a
            # whole and a shard leave each member, half of that in each half of an all-reduce.
            part = 1.0 if kind is CollectiveKind.ALL_REDUCE else 0.5
            loops = 1 + nvls.waiting(self.gpu, self.request)
            return self._step(1, hops, part * held * loops * (1 + 1 / p), 0.0)
        if self.choice == DIRECT and self.gpu.hardware is Hardware.NVLINK:
            # All bytes pass one after another if copying takes longer than the links.  Peers read
            # from a buffer, which is half a buffer late.
            copied = self._cost.bandwidth / self.gpu.copies
            late = min(1.0, _SENDS / self.request.n_bytes) / 2 if self.gpu.reads else 0.0
            return self._step(1, hops, max((p - 1) / p, copied) + late, 0.0)
        steps = _passes(kind) * (p - 1)
        # Sends go beside the copy of a member's own shard, which is another block of threads';
        # with LL they are too short for that to matter.
        own = 0.0 if self.choice == DIRECT else self.gpu.own_copy
        if self.choice.algorithm is Algorithm.TREE and self.request.nodes == 1:
            own += _passes(kind)  # all bytes pass each member of a chain, not only the others
        return self._step(steps, hops, held * (steps + own) / p, hop)

    def _between_nodes(self, kind: CollectiveKind, i: int) -> Step:
        setting, hop = self.request.settings[i], network_hop(self.choice, self.request)
        p, passes, inner = setting.p, _passes(kind), self.request.ranks_before(i)
        held = p if kind is CollectiveKind.ALL_GATHER else 1
        steps, n_bytes = passes * math.ceil(math.log2(p)), passes * (p - 1) / p
        if self.choice.algorithm is Algorithm.RING:
            # It goes through every rank, so a rail carries the shards of all the others.
            steps, hop = passes * (p - 1), hop + (inner - 1) * self._cost.hop
            n_bytes = passes * (inner * p - 1) / (inner * p)
        elif self.choice.algorithm is Algorithm.DIRECT:
            steps, hop = (p - 1) * inner, PEER  # one for each peer there
        elif kind is CollectiveKind.ALL_REDUCE:
            # A member passes half of it up one tree and down to two children, where there are so
            # many, and is a leaf of the other tree.
            n_bytes = min(2.0, p / 2)
            if self.choice.algorithm is Algorithm.NVLS:  # only the heads' rails
                n_bytes *= self.request.ranks_a_node / nvls.heads(self.request)
        return self._step(steps, setting.use.hops, held * n_bytes, hop)

    def _step(self, count: int, hops: int, n_bytes: float, each: float) -> Step:
        """Return ``count`` steps that send ``n_bytes`` (per held byte) in all, each ``each`` us.

        A stream of chunks pays ``each`` once, as a port serves the next chunk meanwhile: while a
        protocol waits for one piece, others are in flight.
        """
        return Step(count, hops, n_bytes / count, fixed=round(each * _MICROSECOND))

    @property
    def _cost(self) -> Cost:
        """Cost of the choice inside a node; a tree is a chain there, and PAT has Simple's base."""
        own = self.gpu.costs.get(self.choice)
        return own or self.gpu.costs[_RING[self.choice.protocol]]

    @property
    def _rate(self) -> float:
        """Bandwidth inside a node in GB/s."""
        if self.choice.algorithm is Algorithm.NVLS:  # as NCCL says
            passed = nvls.believed(self.gpu, self.request)
            return passed * (1 + 1 / self.request.ranks_a_node)
        rate = self._cost.bandwidth
        # Its links serve the way to the tree and back at once.
        return rate * (TREE if self.choice.algorithm is Algorithm.TREE else 1.0)

    @property
    def _base(self) -> float:
        if self.choice.algorithm is Algorithm.NVLS:
            return NVLS
        base = self._cost.base
        if self.choice.algorithm is Algorithm.PAT:
            base += pat_overhead(self.request.ranks)
        if self.choice.algorithm is Algorithm.DIRECT and self.request.nodes > 1:
            base += network_hop(self.choice, self.request)
        return base


def _passes(kind: CollectiveKind) -> int:
    """Return how many times each shard passes all members: 2 for all-reduces, else 1."""
    return 2 if kind is CollectiveKind.ALL_REDUCE else 1
