"""Serving a transformer: read prompts (prefill), or add a token to each sequence (decode)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.settings import Count, check_settings
from dimsweep.engine.workload.graph import Footprint, Graph, Receive, Send, Workload, find_fullest
from dimsweep.engine.workload.models.model import (
    Graphs,
    LayerBlock,
    Shard,
    Step,
    Task,
    elementwise,
    launch_by_graph,
)
from dimsweep.engine.workload.models.transformer import Transformer
from dimsweep.engine.workload.plan.mesh import DeviceMesh
from dimsweep.engine.workload.plan.stages import Stage, divide_stages
from dimsweep.engine.workload.plan.steps import RankGraph, compile_steps


@dataclass(frozen=True)
class Serving:
    """Settings of one serving pass over a batch of sequences: prefill or decode."""

    #: Sequences of all replicas.
    batch: Count
    #: Sequences that a replica works on at once.
    micro_batch: Count = 1
    #: Whether each sequence holds the model's `sequence` tokens already, and gets one more;
    #: otherwise the sequences are prompts of that length.
    decode: bool = False
    #: Whether tensor-parallel ranks divide the sequence outside of attention and MLPs.
    sequence_parallel: bool = False
    #: Kernels that CUDA graphs launch.
    graphs: Graphs = Graphs.NONE
    #: Bytes of a weight, activation or cached key.
    value: float = 2.0
    #: Precision of linear layers, where it is narrower than the precision of other kernels.
    narrow: str = ""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def task(self) -> Task:
        """The task of the pass: prefill (read prompts) or decode (add a token)."""
        return Task.DECODE if self.decode else Task.PREFILL


def serving(
    model: Transformer, plan: Serving, mesh: DeviceMesh, name: str = "inference"
) -> Workload:
    """Return the workload of one serving pass of a batch of ``model`` on ``mesh``.

    The time of the workload is the time to the first token (prefill), or between two tokens
    (decode).

    Raises :class:`DimsweepError` with the key of the plan that does not divide, and for a model
    that is not a transformer.
    """
    if not isinstance(model, Transformer):
        raise DimsweepError("only transformers can be served", where="model", code="unsupported")
    n = mesh.n_micro_batches(plan.batch, plan.micro_batch)
    shard = Shard(
        batch=plan.micro_batch,
        tensor=mesh.degree("tensor"),
        context=mesh.degree("context"),
        expert=mesh.degree("expert"),
        sequence_parallel=plan.sequence_parallel,
        value=plan.value,
        task=plan.task,
        narrow=plan.narrow,
        graphs=plan.graphs,
    )
    if plan.decode and shard.context > 1:
        raise InfeasibleError(
            "the cache of a sequence cannot be divided",
            where="parallel.context",
            hint="use data parallelism instead",
        )
    model = replace(model, dropout=False)
    network = model.for_rank(shard).launched_by(plan.graphs)
    stages = divide_stages(network, mesh.degree("pipeline"), 1)
    graphs = tuple(_graph(stage, shard, mesh, n) for stage in stages)
    footprints = [
        Footprint(
            stage=stage.number,
            weights=(stage.parameters + stage.expert_parameters) * shard.value,
            gradients=0.0,
            optimizer=0.0,
            activations=n * sum(block.cache for block in stage.chunks[0]),
            transient=max(block.activations for block in stage.chunks[0]),
            peak="all sequences cached",
        )
        for stage in stages
    ]
    return Workload(
        graphs,
        dict(mesh.groups),
        name=name,
        stages="pipeline" if len(stages) > 1 else None,
        footprint=find_fullest(footprints),
        amount=model.amount(plan.batch, plan.task, narrow=plan.narrow),
    )


def _graph(stage: Stage, shard: Shard, mesh: DeviceMesh, n: int) -> Graph:
    graph = RankGraph(tags=1)
    here, last = stage.number, stage.n_stages - 1
    steps = _steps(stage.chunks[0], shard)
    if shard.graphs is Graphs.STEP:
        steps = launch_by_graph(steps)
    items = compile_steps(steps)
    parts, gather = stage.shared_among(shard.tensor), compile_steps(stage.gather(shard.tensor))

    def part(i: int) -> None:
        if here:
            graph.receive("receive activation {}", Receive(mesh.hop(here, here - 1)), i)
            graph.run("", gather)
        graph.run("F{} ", items, i)
        if here < last:
            message = Send(stage.message / parts, mesh.hop(here, here + 1), stream="pipeline")
            graph.send("send activation {}", message, i)

    graph.repeat(part, n, 1)
    return graph.build()


def _steps(blocks: tuple[LayerBlock, ...], shard: Shard) -> Iterator[Step]:
    for block in blocks:
        yield from block.forward
        if block.cache and not shard.decode:
            yield elementwise("cache", block.cache)
