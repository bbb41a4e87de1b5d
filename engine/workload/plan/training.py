"""A training iteration as a workload: one graph for each pipeline stage, of any number of ranks."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.graph import (
    Amount,
    Footprint,
    Graph,
    Kernel,
    Receive,
    Send,
    Workload,
    find_fullest,
)
from dimsweep.engine.workload.models.model import (
    AccessStep,
    CollectiveStep,
    Graphs,
    LayerBlock,
    Model,
    Step,
    WaitStep,
    elementwise,
    launch_by_graph,
)
from dimsweep.engine.workload.plan.memory import PIECES, footprint, state_bytes
from dimsweep.engine.workload.plan.mesh import COPIES, EXPERT_REPLICAS, SHARDS, DeviceMesh
from dimsweep.engine.workload.plan.plan import GradientExchange, Offload, ParallelPlan
from dimsweep.engine.workload.plan.schedule import (
    Action,
    Part,
    actions,
    find_repeats,
    n_passes,
    pair_actions,
)
from dimsweep.engine.workload.plan.stages import Stage, divide_stages
from dimsweep.engine.workload.plan.steps import Item, RankGraph, compile_steps, split_overlapped

_GRADIENTS, _SHARD, _STORED = "gradients", "shard of gradients", "stored gradients"
_FORWARD, _BACKWARD, _MIRROR = _DIRECTIONS = range(3)  # tags


def training(
    model: Model, plan: ParallelPlan, mesh: DeviceMesh, name: str = "training"
) -> Workload:
    """Return one iteration of ``model`` under ``plan`` as a workload.

    Parameters
    ----------
    model
        The model to train.
    plan
        Batch, schedule, sharding and exchanges.
    mesh
        The process groups of the plan on a network.
    name
        Name of the workload.

    Raises
    ------
    DimsweepError
        With the key of the plan that does not divide.
    """
    plan = plan.without_idle_keys(mesh)
    mesh = add_plan_groups(plan, mesh)
    with collector_paused():  # tens of thousands of passes and operators, and no cycles among them
        stages = _stages(model, plan, mesh)
        graphs = tuple(_StageProgram(stage, plan, mesh, order).build() for stage, order in stages)
        return Workload(
            graphs,
            dict(mesh.groups),
            name=name,
            stages="pipeline" if len(stages) > 1 else None,
            footprint=_fullest(stages, plan, mesh),
            amount=training_amount(model, plan),
        )


def training_amount(model: Model, plan: ParallelPlan) -> Amount:
    """Return the samples, tokens and FLOPs of an iteration of :func:`training`.

    The bytes of a checkpoint count the weights and the optimizer's state once.
    """
    return model.amount(plan.batch, kept=plan.value + state_bytes(plan), narrow=plan.narrow)


def training_footprint(model: Model, plan: ParallelPlan, mesh: DeviceMesh) -> Footprint:
    """Return the peak memory of the fullest rank of :func:`training` without building its graph."""
    plan = plan.without_idle_keys(mesh)
    mesh = add_plan_groups(plan, mesh)
    return _fullest(_stages(model, plan, mesh), plan, mesh)


def passes(block: LayerBlock, plan: ParallelPlan, *, sums: bool) -> tuple[list[Item], list[Item]]:
    """Return the operators of a block's forward and backward pass, without gradient exchange.

    With ``sums`` the backward pass adds its gradients to the sum of earlier micro-batches.
    """
    zero = 0 if sums else 2
    alone = replace(plan, zero=zero, whole_sums=False, interleave=1, overlap_parameters=False)
    stage = Stage(0, 1, ((block,),), 0.0, message_is_cut=True, tied=0.0)
    order = [Action(backward, i, 0) for i in range(2) for backward in (False, True)]
    program = _StageProgram(stage, alone, DeviceMesh({}), order)
    return program.forward_items(0), program.backward_items(0)


def add_plan_groups(plan: ParallelPlan, mesh: DeviceMesh) -> DeviceMesh:
    """Return ``mesh`` with the further process groups that ``plan`` uses (sharding, experts)."""
    mesh = mesh.group_replicas(plan.shard_ranks)
    mesh = mesh.with_whole_experts() if plan.whole_experts else mesh
    return mesh.with_expert_nodes() if plan.experts_by_node else mesh


_Ordered = tuple[Stage, Sequence[Action]]


def _stages(model: Model, plan: ParallelPlan, mesh: DeviceMesh) -> list[_Ordered]:
    network = model.for_rank(plan.shard(mesh)).launched_by(plan.graphs)
    n_micro_batches = mesh.n_micro_batches(plan.batch, plan.micro_batch)
    n, both_ways = mesh.degree("pipeline"), plan.schedule.both_ways
    stages = divide_stages(network, n, plan.interleave, plan.stage_layers, both_ways=both_ways)
    return [
        (
            stage,
            actions(
                plan.schedule,
                stage=stage.number,
                n_stages=len(stages),
                n_chunks=plan.interleave,
                n_micro_batches=n_micro_batches,
            ),
        )
        for stage in stages
    ]


def _fullest(stages: list[_Ordered], plan: ParallelPlan, mesh: DeviceMesh) -> Footprint:
    return find_fullest([footprint(stage, plan, mesh, order) for stage, order in stages])


class _StageProgram:
    """Builder of a pipeline stage's graph: passes, messages, exchanges, the optimizer's step."""

    def __init__(
        self, stage: Stage, plan: ParallelPlan, mesh: DeviceMesh, order: Sequence[Action]
    ) -> None:
        self._stage, self._plan, self._mesh, self._order = stage, plan, mesh, order
        self._axis, self._n_shards = mesh.shard_axis, mesh.degree(mesh.shard_axis)
        self._n_expert_replicas = mesh.degree(EXPERT_REPLICAS)
        self._n_micro_batches = n_passes(order) // len(stage.chunks)
        self._gathers = plan.zero == 3 and self._n_shards > 1
        chunks = range(len(stage.chunks))
        # Else a concurrent pass would issue its collectives after all of the other pass.
        apart = "forward" if plan.overlap_experts else ""
        self._gathers_ahead = plan.overlap_parameters and self._n_shards > 1
        self._forward = [
            [self._compiled(self._forward_steps(c, first=first), apart) for c in chunks]
            for first in (False, True)
        ]
        parts = {action.part for action in order if action.backward}
        self._backward = {
            part: [
                [self._compiled(self._backward_steps(c, part, last=last)) for c in chunks]
                for last in (False, True)
            ]
            for part in parts
        }
        self._exchange = [compile_steps(self._exchange_steps(c)) for c in chunks]
        self._gather = compile_steps(stage.gather(mesh.degree("tensor")))
        self._graph = RankGraph(tags=stage.places * len(_DIRECTIONS))
        self._hops: dict[int, tuple[int, ...]] = {}

    def forward_items(self, chunk: int) -> list[Item]:
        """Return the operators of a chunk's forward pass for all micro-batches but the first."""
        return self._forward[False][chunk]

    def backward_items(self, chunk: int) -> list[Item]:
        """Return the operators of a chunk's backward pass for all micro-batches but the last."""
        return self._backward[Part.WHOLE][False][chunk]

    def _compiled(self, steps: Iterable[Step], apart: str = "") -> list[Item]:
        return compile_steps(self._launched(split_overlapped(steps, self._plan.overlap)), apart)

    def _launched(self, steps: Iterable[Step]) -> Iterable[Step]:
        return launch_by_graph(steps) if self._plan.graphs is Graphs.STEP else steps

    def build(self) -> Graph:
        """Return the graph of one iteration of the stage."""
        final = {a.chunk: a for a in self._order if a.backward}  # the last one of each chunk
        begin = {a.chunk: a for a in reversed(self._order) if not a.backward}
        edges = {*map(id, (*final.values(), *begin.values()))}
        steps = list(pair_actions(self._order, self._plan.overlap_experts))
        micro_batches = [step[0].micro_batch for step in steps]
        kinds = [
            tuple(
                [
                    (a.backward, a.part, a.chunk, id(a) in edges, a.micro_batch - number)
                    for a in step
                ]
            )
            for number, step in zip(micro_batches, steps, strict=True)
        ]
        n = self._stage.n_stages * len(self._stage.chunks)
        if self._gathers_ahead:
            self._graph.run("", compile_steps(self._gather_ahead()))
        for start, period, times, by in find_repeats(kinds, micro_batches, (1, 2, n, 2 * n)):

            def part(time: int, start: int = start, period: int = period) -> None:
                for step in steps[start + time * period : start + (time + 1) * period]:
                    self._graph.run_concurrently(
                        *(partial(self._run, a, edge=id(a) in edges) for a in step)
                    )

            self._graph.repeat(part, times, by)
        if self._plan.zero < 2:
            for exchange in self._exchange:
                self._graph.run("", exchange)
        self._tie()
        self._share()
        self._graph.run("", compile_steps(self._launched(self._finish())))
        return self._graph.build()

    def _run(self, action: Action, *, edge: bool) -> None:
        """Add the operators of one action, with its messages.

        ``edge``: it is the first forward or the last backward pass of its chunk.
        """
        late = action.part is Part.WEIGHTS
        if not late:
            self._receive(action)
        prefix = f"{('W' if late else 'B') if action.backward else 'F'}{{}}.{action.chunk} "
        chunk, number = action.chunk, action.micro_batch
        passes = self._backward[action.part] if action.backward else self._forward
        self._graph.run(prefix, passes[edge][chunk], number)
        if not late:
            self._send(action)
        if action.backward and self._plan.zero >= 2:
            # Sent first: the previous stage continues during the exchange.
            self._graph.run(prefix, self._exchange[chunk], number)

    # --- between stages -------------------------------------------------------------------------

    def _hop(self, target: int) -> tuple[int, ...]:
        """Return the coordinate offset to this rank's peer in stage ``target``."""
        if target not in self._hops:
            self._hops[target] = self._mesh.hop(self._stage.number, target)
        return self._hops[target]

    def _receive(self, action: Action) -> None:
        place = self._stage.place(action.chunk)
        source = place + (1 if action.backward else -1)
        if not 0 <= source < self._stage.places:
            return
        hop = self._hop(self._stage.stage_at(source, action.chunk))
        message = Receive(hop, self._tag(max(place, source), action))
        self._graph.receive(f"receive {_named(action)}", message, action.micro_batch)
        self._graph.run("", self._gather)

    def _send(self, action: Action) -> None:
        place = self._stage.place(action.chunk)
        target = place + (-1 if action.backward else 1)
        if not 0 <= target < self._stage.places:
            return
        message = Send(
            self._stage.message / self._stage.shared_among(self._mesh.degree("tensor")),
            self._hop(self._stage.stage_at(target, action.chunk)),
            self._tag(max(place, target), action),
            stream=f"pipeline {'backward' if action.backward else 'forward'}",
        )
        wait = self._plan.blocking_messages
        self._graph.send(f"send {_named(action)}", message, action.micro_batch, wait=wait)

    def _tag(self, boundary: int, action: Action) -> int:
        """Return the tag of messages that cross a boundary between chunks in one direction."""
        return boundary * len(_DIRECTIONS) + (_BACKWARD if action.backward else _FORWARD)

    def _tie(self) -> None:
        """Add the exchange of the embedding's gradients, which first and last stage both hold."""
        n, here = self._stage.n_stages, self._stage.number
        if not self._stage.tied or here not in (0, n - 1):
            return
        self._swap("embedding gradient", self._stage.tied)

    def _share(self) -> None:
        """Add the exchange of gradients with the stage that holds the same layers (DualPipe)."""
        if self._stage.both_ways:
            dense, experts = (
                self._stage.parameters,
                self._stage.reached_parameters(self._n_micro_batches),
            )
            if self._plan.zero:
                dense, experts = dense / self._n_shards, experts / self._n_expert_replicas
            self._swap("gradients", dense + experts)

    def _swap(self, what: str, values: float) -> None:
        """Add the exchange of ``values`` gradients with the stage at the pipeline's other end."""
        n_bytes, offset = values * self._plan.gradient_value, self._hop(self._stage.mirror)
        message = Send(n_bytes, offset, _MIRROR, stream="pipeline forward")
        self._graph.send(f"send {what}", message)
        self._graph.receive(f"receive {what}", Receive(offset, _MIRROR))

    # --- steps ----------------------------------------------------------------------------------

    def _forward_steps(self, chunk: int, *, first: bool) -> Iterator[Step]:
        blocks = self._stage.chunks[chunk]
        ahead = self._gathered(chunk) if first and self._gathers_ahead else {}
        for i, block in enumerate(blocks):
            yield from self._arrive(blocks, i, backward=False)
            if i in ahead:
                yield WaitStep(_weights(chunk, i))
            yield from block.forward
            if self._keeps_away(Offload.ACTIVATIONS) and block.activations:
                yield AccessStep(block.activations, "stored", store=True)

    def _backward_steps(self, chunk: int, part: Part, *, last: bool) -> Iterator[Step]:
        if part is Part.WEIGHTS:
            yield from self._late_steps(chunk, last=last)
            return
        blocks = self._stage.chunks[chunk][::-1]
        buckets = _Buckets(self.limit(chunk), self)
        exchanges = self._plan.overlap_gradients and (last or self._plan.zero >= 2)
        exchanges = exchanges and not self._plan.weight_streaming
        for i, block in enumerate(blocks):
            yield from self._arrive(blocks, i, backward=True)
            yield from block.again
            if part is Part.INPUTS:
                yield from (step for step in block.backward if not _weight_gradients(step))
                continue
            for step in block.backward:
                yield from self._summing(step)
            if self._plan.weight_streaming:
                yield from self._stream(block.parameters * self._plan.gradient_value, store=True)
            else:
                yield from self._sum_up(block)
            if exchanges:
                yield from buckets.add(block)
            if exchanges and self._plan.zero == 3:
                yield from buckets.rest()  # a block's come and go at once, as its weights do
        if exchanges:
            yield from buckets.rest()

    def _late_steps(self, chunk: int, *, last: bool) -> Iterator[Step]:
        """Yield a chunk's deferred gradients of weights, and their exchange in the last pass."""
        buckets = _Buckets(self.limit(chunk), self)
        for block in self._stage.chunks[chunk][::-1]:
            for step in block.backward:
                if _weight_gradients(step):
                    yield from self._summing(step)
            yield from self._sum_up(block)
            if last and self._plan.overlap_gradients:
                yield from buckets.add(block)
        if last and self._plan.overlap_gradients:
            yield from buckets.rest()

    def _sum_up(self, block: LayerBlock) -> Iterator[Step]:
        """Yield the kernel that adds a micro-batch's gradients to a sum, unless products do so."""
        parameters = block.parameters + block.reached_parameters(1)
        if self._fuses:
            parameters -= sum(map(_weight_gradients, block.backward))
        if self._sums and parameters > 0:
            yield elementwise("sum of gradients", parameters * sum_bytes(self._plan))

    @property
    def _sums(self) -> bool:
        """True if a rank sums up the gradients of its micro-batches: ZeRO does not divide them."""
        return self._n_micro_batches > 1 and self._plan.zero < 2

    @property
    def _fuses(self) -> bool:
        return self._sums and self._plan.fused_sums and not self._plan.weight_streaming

    def _summing(self, step: Step) -> Iterator[Step]:
        """Yield ``step``; if sums are fused, a weight-gradient product also adds to the sum.

        A large product hides the additional traffic. Products of experts one after another are too
        small for that: each ends with the reads and writes of its last tiles (SimuMax measured 0.81
        to 1.12 of the sum of both on B200, ``configs/system/b200_bf16_ceperm.json``).
        """
        values = _weight_gradients(step) if self._fuses else 0.0
        if not values:
            yield step
            return
        assert isinstance(step, Kernel) and step.matmul is not None
        more = values * (2 * self._plan.gradient_value - self._plan.value)
        if step.matmul.apart:
            yield step
            yield elementwise(f"{step.name} sum", more)._replace(launched=False)
        else:
            yield step._replace(n_bytes=step.n_bytes + more)

    def limit(self, chunk: int) -> float:
        """Return the number of parameters in a chunk's gradient bucket; 0: each block at once."""
        plan = self._plan
        if plan.bucket is not None:
            return plan.bucket / plan.gradient_value
        return plan.stack.bucket(
            gradient=plan.gradient_value,
            replicas=self._n_shards,
            first=self._stage.place(chunk) == 0,
            chunks=len(self._stage.chunks),
        )

    def _gathered(self, chunk: int) -> dict[int, tuple[float, float]]:
        """Return a chunk's weight gathers: dense and expert parameters, by each first block."""
        limit, found, first = self.limit(chunk), dict[int, tuple[float, float]](), 0
        for i, block in enumerate(self._stage.chunks[chunk]):
            dense, experts = found.get(first, (0.0, 0.0))
            if dense + experts >= limit:
                first, dense, experts = i, 0.0, 0.0
            found[first] = (dense + block.parameters, experts + block.expert_parameters)
        return found

    def _gather_ahead(self) -> Iterator[Step]:
        """Yield the gathers of divided weights, which overlap the first forward passes.

        The passes wait for them by bucket. The share that does not overlap is gathered first, at
        once.
        """
        overlap, chunks = self._plan.overlap, range(len(self._stage.chunks))
        parts = {
            _weights(chunk, first): values
            for chunk in chunks
            for first, values in self._gathered(chunk).items()
        }
        if overlap < 1:
            whole, of_experts = (math.fsum(values) for values in zip(*parts.values(), strict=True))
            yield from self._gather_values(whole, of_experts, 1 - overlap)
        for label, (dense, experts) in parts.items():
            yield from self._gather_values(dense, experts, overlap, label)

    def _gather_values(
        self, dense: float, experts: float, share: float = 1.0, label: str = ""
    ) -> Iterator[Step]:
        """Yield the all-gathers of a ``share`` (0 to 1) of ``dense`` and ``experts`` parameters."""
        for parameters, axis, n in self._shares(dense, experts):
            n_bytes = parameters * self._plan.gathered / n * share
            yield CollectiveStep(Kind.ALL_GATHER, n_bytes, axis, label)

    def _exchange_steps(self, chunk: int) -> Iterator[Step]:
        """Yield the exchange of a chunk's gradients if it does not overlap the backward pass."""
        if self._plan.overlap_gradients or self._plan.weight_streaming:
            return
        buckets = _Buckets(self.limit(chunk), self)
        for block in self._stage.chunks[chunk][::-1]:
            yield from buckets.add(block)
        yield from buckets.rest()

    def _arrive(self, blocks: tuple[LayerBlock, ...], i: int, *, backward: bool) -> Iterator[Step]:
        """Yield the fetch of the next block, and the wait for block ``i``'s weights."""
        if self._plan.weight_streaming:
            yield from self._stream(blocks[i].parameters * self._plan.value, store=False)
        if not (self._gathers or self._plan.offload):
            return
        if i == 0:
            yield from self._fetch(blocks[0], 0, backward=backward)
        if i + 1 < len(blocks):
            yield from self._fetch(blocks[i + 1], i + 1, backward=backward)
        yield WaitStep(f"block {i}")

    def _fetch(self, block: LayerBlock, i: int, *, backward: bool) -> Iterator[Step]:
        """Yield the loads and gathers of a block's weights; backward, also of its activations."""
        ready = f"block {i}"
        for parameters, axis, n in (
            (block.parameters, self._axis, self._n_shards),
            (block.expert_parameters, EXPERT_REPLICAS, self._n_expert_replicas),
        ):
            gathers = self._gathers and n > 1
            share = parameters * self._plan.value / (n if gathers else 1)
            loaded = ""
            if gathers and share and self._plan.gathers_on_load:
                yield AccessStep(share, ready, axis=axis)
                continue
            if self._keeps_away(Offload.WEIGHTS) and share:
                loaded = f"{axis} {i}" if gathers else ready
                yield AccessStep(share, loaded)
            if gathers and share:
                yield CollectiveStep(Kind.ALL_GATHER, share, axis, ready, loaded)
        if backward and self._keeps_away(Offload.ACTIVATIONS) and block.activations:
            yield AccessStep(block.activations, ready)

    def _stream(self, n_bytes: float, *, store: bool) -> Iterator[Step]:
        """Yield a load of weights or a store of gradients by all replicas, and the wait for it."""
        axis = self._axis if self._n_shards > 1 else ""
        if n_bytes:
            yield AccessStep(n_bytes, "streamed", store=store, axis=axis, shared=bool(axis))
            yield WaitStep("streamed")

    def _keeps_away(self, what: Offload) -> bool:
        return what in self._plan.offload

    def _shares(self, dense: float, experts: float) -> Iterator[tuple[float, str, int]]:
        """Yield parameters with several copies, the axis that holds the copies, and its degree."""
        if dense and self._n_shards > 1:
            yield dense, self._axis, self._n_shards
        if experts and self._n_expert_replicas > 1:
            yield experts, EXPERT_REPLICAS, self._n_expert_replicas

    def gradients(self, block: LayerBlock) -> tuple["_Gradients", "_Gradients"]:
        """Return a block's gradients to exchange at once: dense parameters, then experts."""
        together = self._n_micro_batches if self._plan.zero < 2 else 1
        return (
            _Gradients(block.parameters, block.parameters),
            _Gradients(
                block.reached_parameters(together),
                block.reached_parameters(together * self._n_expert_replicas),
            ),
        )

    def reduce(
        self, dense: "_Gradients", experts: "_Gradients", waited: float = 0.0
    ) -> Iterator[Step]:
        """Yield the collectives that sum up gradients over all replicas.

        They overlap the backward pass if the plan says so. With ``waited`` they block, and move
        ``waited`` times the bytes of all gradients.
        """
        label = _GRADIENTS if self._plan.overlap_gradients and not waited else ""
        value = self._plan.gradient_value * (waited or (self._plan.overlap if label else 1.0))
        sums = {self._axis: dense.summed, EXPERT_REPLICAS: experts.summed}
        for parameters, axis, n in self._shares(dense.own, experts.own):
            n_bytes = parameters * value
            if self._plan.gradient_exchange is GradientExchange.PARAMETER_SERVER:
                yield CollectiveStep(Kind.ALL_TO_ALL, n_bytes, axis, label)
            elif self._plan.reduces_on_store:
                yield AccessStep(n_bytes / n, label or _STORED, store=True, axis=axis)
            elif axis == SHARDS:
                yield CollectiveStep(Kind.REDUCE_SCATTER, n_bytes, axis, label and _SHARD)
                follows = label and _SHARD
                yield CollectiveStep(Kind.ALL_REDUCE, n_bytes / n, COPIES, label, follows)
            elif self._plan.zero and not self._plan.whole_sums:
                yield CollectiveStep(Kind.REDUCE_SCATTER, n_bytes, axis, label)
            elif sums[axis] == parameters:
                yield CollectiveStep(Kind.ALL_REDUCE, n_bytes, axis, label)
            else:  # copies that reach other rows each gather more than they scatter
                yield CollectiveStep(Kind.REDUCE_SCATTER, n_bytes, axis, label and _SHARD)
                follows, share = label and _SHARD, sums[axis] * value / n
                yield CollectiveStep(Kind.ALL_GATHER, share, axis, label, follows)

    def _reduce_rest(self) -> Iterator[Step]:
        """Yield the exchange of the gradients that do not overlap, after the last backward pass.

        So no stage waits for it in the middle of a pipeline.
        """
        if self._plan.overlap == 1 or not self._plan.overlap_gradients:
            return
        dense, experts = _Gradients(), _Gradients()
        for block in itertools.chain.from_iterable(self._stage.chunks):
            more = self.gradients(block)
            dense, experts = dense.plus(more[0]), experts.plus(more[1])
        times = self._n_micro_batches if self._plan.zero >= 2 else 1
        yield from self.reduce(dense, experts, times * (1 - self._plan.overlap))

    @property
    def _updated(self) -> float:
        """Number of expert parameters that have gradients at the end of an iteration."""
        return self._stage.reached_parameters(self._n_micro_batches * self._n_expert_replicas)

    def _finish(self) -> Iterator[Step]:
        """Yield the last steps of an iteration: late exchanges, the optimizer, weight gathers."""
        if self._plan.weight_streaming:
            return
        yield WaitStep(_GRADIENTS)
        yield from self._reduce_rest()
        yield WaitStep(_STORED)
        served = self._plan.gradient_exchange is GradientExchange.PARAMETER_SERVER
        cut = bool(self._plan.zero) or served
        dense, experts = self._stage.parameters, self._updated
        own = dense / (self._n_shards if cut else 1)
        own += experts / (self._n_expert_replicas if cut else 1)
        if served:
            came = dense + self._stage.reached_parameters(self._n_micro_batches)
            copies = came * self._plan.gradient_value
            yield elementwise("sum of gradients", copies)
        yield from self._update(own)
        if cut and self._plan.zero < 3 and not self._gathers_ahead:
            yield from self._gather_values(dense, experts)

    def _update(self, own: float) -> Iterator[Step]:
        """Yield the optimizer's step on ``own`` parameters.

        Offloaded state is loaded and stored in pieces; each piece is loaded one piece ahead.
        """
        if not self._keeps_away(Offload.OPTIMIZER):
            yield elementwise("optimizer", own * optimizer_bytes(self._plan))
            return
        piece = own / PIECES
        loaded = piece * state_bytes(self._plan) + self._stored() / PIECES
        yield AccessStep(loaded, "piece 0")
        for i in range(PIECES):
            if i + 1 < PIECES:
                yield AccessStep(loaded, f"piece {i + 1}")
            yield WaitStep(f"piece {i}")
            yield elementwise("optimizer", piece * optimizer_bytes(self._plan))
            yield AccessStep(piece * state_bytes(self._plan), "updated", store=True)
        if self._keeps_away(Offload.WEIGHTS):
            yield AccessStep(own * self._plan.value, "updated", store=True)
        yield WaitStep("updated")

    def _stored(self) -> float:
        """Return the bytes of gradients that remote memory reduces while they are stored."""
        if not self._plan.reduces_on_store:
            return 0.0
        shares = self._shares(self._stage.parameters, self._updated)
        return sum(parameters * self._plan.gradient_value / n for parameters, _, n in shares)


def _weights(chunk: int, first: int) -> str:
    """Return the label of the gather that block ``first`` of a chunk waits for."""
    return f"weights {chunk}.{first}"


def _weight_gradients(step: Step) -> float:
    """Return the number of weight gradients that a step computes; 0 for all other steps.

    Only products for weight gradients have a transposed factor.
    """
    product = step.matmul if isinstance(step, Kernel) else None
    return product.products * product.m * product.n if product and product.transposed else 0.0


def _named(action: Action) -> str:
    """Return the name of a message for ``action``, with ``{}`` for its micro-batch."""
    return f"{'gradient' if action.backward else 'activation'} {{}}.{action.chunk}"


class _Gradients(NamedTuple):
    """Numbers of gradient values: ``own`` of one rank, and ``summed`` over all its copies.

    ``summed`` is larger if copies of embedding tables have gradients of different rows.
    """

    own: float = 0.0
    summed: float = 0.0

    def plus(self, other: "_Gradients", times: int = 1) -> "_Gradients":
        return _Gradients(self.own + times * other.own, self.summed + times * other.summed)


class _Buckets:
    """Gradients that wait until their bucket is full; experts have separate buckets."""

    def __init__(self, limit: float, program: _StageProgram) -> None:
        self._limit = limit  # parameters; 0: a block's at once
        self._program = program
        self._waiting = [_Gradients(), _Gradients()]

    def add(self, block: LayerBlock) -> Iterator[Step]:
        """Add a block's gradients, and yield the exchange of each bucket that they fill."""
        if not self._limit:
            for kind, more in enumerate(self._program.gradients(block)):
                yield from self._reduce(kind, more)
            return
        for kind, more in enumerate(self._program.gradients(block)):
            waiting = self._waiting[kind].plus(more)
            n_full = int(waiting.own // self._limit)
            if n_full:
                full = _Gradients(self._limit, self._limit * (waiting.summed / waiting.own))
                yield from list(self._reduce(kind, full)) * n_full
                waiting = waiting.plus(full, -n_full)
            self._waiting[kind] = waiting

    def rest(self) -> Iterator[Step]:
        """Yield the exchange of the gradients left in buckets that are not full."""
        for kind, left in enumerate(self._waiting):
            yield from self._reduce(kind, left)
        self._waiting = [_Gradients(), _Gradients()]

    def _reduce(self, kind: int, some: _Gradients) -> Iterator[Step]:
        none = _Gradients()
        return self._program.reduce(*((some, none) if kind == 0 else (none, some)))


def sum_bytes(plan: ParallelPlan) -> float:
    """Return the bytes of memory traffic a parameter when a kernel adds a gradient to a sum.

    The gradient is read, and the sum is read and written.
    """
    return plan.value + 2 * plan.gradient_value


def optimizer_bytes(plan: ParallelPlan) -> float:
    """Return the bytes of memory traffic a parameter of the optimizer's step.

    The gradient is read, the state is read and written, and the weight is written (and read, if it
    is its own master copy).
    """
    weight = plan.value if plan.has_master_copy else 2 * plan.value
    return plan.gradient_value + 2 * state_bytes(plan) + weight
