"""Parallel plans: settings of training a model on the ranks."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, NamedTuple

from dimsweep.engine.errors import InfeasibleError
from dimsweep.engine.settings import Bounds, Count, Index, check_settings
from dimsweep.engine.units import BYTES
from dimsweep.engine.workload.models.model import (
    ContextExchange,
    Graphs,
    Module,
    Recompute,
    Shard,
    TensorOverlap,
)
from dimsweep.engine.workload.plan.mesh import EXPERT_NODES, REPLICAS, DeviceMesh
from dimsweep.engine.workload.plan.schedule import Schedule

# --- training frameworks --------------------------------------------------------------------------


_PYTORCH = 25e6  # bytes


class Stack(StrEnum):
    """Training framework, which determines the buckets of gradient exchanges and weight gathers.

    ``ddp``: PyTorch's DistributedDataParallel, 25 MB (its ``bucket_cap_mb``).  ``fsdp``: PyTorch's
    fully sharded data parallelism, a block at once.  ``megatron``: Megatron-Core's distributed
    optimizer (NeMo 2, Megatron-Bridge), max(40,000,000, 1,000,000 a replica) parameters in the
    first chunk of a pipeline's first stage, and one bucket for each other chunk
    (``megatron/core/distributed/distributed_data_parallel.py``; the million a replica since 0.7,
    April 2024).  ``nemo``: NeMo 1 with Apex's distributed Adam, a chunk at once if stages are
    interleaved, else a layer (``configure_optimizers`` of ``megatron_gpt_model.py``).
    ``deepspeed``: 500,000,000 parameters (ZeRO's ``reduce_bucket_size``, and
    ``MEMORY_OPT_ALLREDUCE_SIZE`` of pipelines).
    """

    DDP = "ddp"
    FSDP = "fsdp"
    MEGATRON = "megatron"
    NEMO = "nemo"
    DEEPSPEED = "deepspeed"

    def bucket(self, *, gradient: float, replicas: int, first: bool, chunks: int) -> float:
        """Return the parameters of a bucket; infinite for a chunk at once, 0 for a block at once.

        Gradients have ``gradient`` bytes each, and a stage has ``chunks`` chunks. ``first`` says
        whether the chunk is the first one of the first stage.
        """
        if self is Stack.DDP:
            return _PYTORCH / gradient
        if self is Stack.DEEPSPEED:
            return 500e6
        if self is Stack.MEGATRON:
            return max(40e6, 1e6 * replicas) if first else math.inf
        return math.inf if self is Stack.NEMO and chunks > 1 else 0.0

    def flat_buffers(self, held: "Held") -> float:
        """Return the bytes of buffers that do not fit into the memory of freed activations.

        They are larger than any block of activations, and PyTorch's cache never joins its segments
        (``c10/cuda/CUDACachingAllocator.cpp``).

        Only DeepSpeed's are known (v0.6): a bucket of gradients (``ipg_buffer``, or the flattened
        bucket of ``allreduce_bucket``); at the update, with ZeRO, the rank's part of the gradients
        in their precision and in fp32 (``step`` of ``zero/stage_1_and_2.py``), without ZeRO the
        gradients of all parameters in fp32 twice, one by one and joined
        (``fp16/fused_optimizer.py``); if sums are fp32 and values are not, the incoming gradients,
        and the largest layer's in fp32 (``bf16_optimizer.py``).
        """
        if self is not Stack.DEEPSPEED:
            return 0.0
        found = min(500e6, held.parameters) * held.gradient
        if held.value >= 4:
            return found
        if held.gradient > held.value:
            return found + held.value * held.parameters + 4 * held.largest
        if held.is_cut:
            return found + (held.gradient + 4) * held.updated
        return found + 8 * held.parameters


class Held(NamedTuple):
    """Numbers of parameters of a rank, and their bytes."""

    parameters: float
    largest: float
    updated: float
    is_cut: bool
    value: float
    gradient: float


# --- plans ----------------------------------------------------------------------------------------


class Optimizer(StrEnum):
    """The optimizer: Adam keeps two moments of every weight, SGD its momentum, plain SGD nothing.

    Adagrad's sum of squares takes as much as a momentum.
    """

    ADAM = "adam"
    SGD = "sgd"
    PLAIN_SGD = "plain_sgd"

    @property
    def moments(self) -> int:
        """Number of values that the optimizer keeps of each weight."""
        return {Optimizer.ADAM: 2, Optimizer.SGD: 1, Optimizer.PLAIN_SGD: 0}[self]


class GradientExchange(StrEnum):
    """The exchange of gradients among replicas: directly, or through parameter servers.

    Every replica is the parameter server of its share of the weights (Li et al., OSDI 2014).
    """

    ALL_REDUCE = "all_reduce"
    PARAMETER_SERVER = "parameter_server"


class Offload(StrEnum):
    """State kept in remote memory (ZeRO-Infinity, Rajbhandari et al., SC 2021).

    The order is by preference: the least traffic for the freed memory first.
    """

    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    WEIGHTS = "weights"


@dataclass(frozen=True)
class ParallelPlan:
    """Settings of an iteration over ``batch`` sequences (or samples)."""

    #: Sequences or samples of an iteration, over all replicas.
    batch: Count
    #: Sequences or samples that a replica processes at once.
    micro_batch: Count = 1
    #: Order of the forward and backward passes in a pipeline. `zb_h1` fills bubbles with the
    #: gradients of weights (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024; one chunk a
    #: stage, ZeRO 0 or 1). `dualpipe` is DeepSeek-V3's: micro-batches enter at both ends, and each
    #: stage holds the layers of two stages. With `overlap_experts`, a forward pass of one direction
    #: overlaps a backward pass of the other. The two stages with the same layers exchange gradients
    #: at the end, and both update their weights.
    schedule: Schedule = Schedule.ONE_F_ONE_B
    #: Chunks of layers of each pipeline stage.
    interleave: Count = 1
    #: Layers of each chunk of each stage, in the order in which a micro-batch passes them, such as
    #: [7, 8, 8, 7]. By default as equal as possible: if the layers do not divide evenly, the
    #: embedding and the logits count as a layer each.
    stage_layers: tuple[int, ...] = ()
    #: Whether tensor parallelism also divides norms, dropout and residuals, along the sequence.
    sequence_parallel: bool = False
    #: Activations that the backward pass recomputes: none, the attention's core (`selective`), or
    #: all (`full`).
    recompute: Recompute = Recompute.NONE
    #: Modules of a layer that are recomputed separately: `core` is the module of `selective`, and
    #: `linear` is every second linear layer (torchtitan). `qkv`, `projection` and `expansion` are
    #: the attention's linear layers and the first one of the MLP (MaxText's policies).
    recompute_modules: frozenset[Module] = frozenset()
    #: ZeRO stage, the state that replicas divide among themselves: 1 the optimizer's state, 2 also
    #: gradients, 3 also weights, as FSDP does (Rajbhandari et al., SC 2020). Without replicas it
    #: has no effect.
    zero: Annotated[int, Bounds(at_least=0, at_most=3)] = 0
    #: Whether every replica receives all summed gradients under `zero: 1`: an all-reduce instead of
    #: a reduce-scatter (DeepSpeed's stage 1).
    whole_sums: bool = False
    #: Whether a matrix product adds its gradient to the sum over earlier micro-batches itself,
    #: which saves a kernel and memory traffic (Megatron-LM's gradient accumulation fusion).
    fused_sums: bool = True
    #: Number of neighbouring replicas that divide the state of `zero`. Groups of this size hold
    #: copies and sum up gradients (hybrid sharding, HSDP). 0: all replicas.
    shard_ranks: int = 0
    #: The optimizer: Adam keeps two moments of every weight, SGD its momentum, and plain SGD
    #: nothing.
    optimizer: Optimizer = Optimizer.ADAM
    #: How replicas sum up gradients: by all-reduce, or through parameter servers. Every replica is
    #: the parameter server of its share of the weights (Li et al., OSDI 2014).
    gradient_exchange: GradientExchange = GradientExchange.ALL_REDUCE
    #: Whether the gradient exchange overlaps the backward pass. Without overlap it starts after the
    #: last backward pass, when the activations' gradient has been sent to the stage before.
    overlap_gradients: bool = True
    #: Tensor-parallel collectives that overlap matrix products: none; in the backward pass, the
    #: collectives of column-parallel matrices (`backward`, Megatron-LM since 2022); or, under
    #: sequence parallelism, all, divided into pieces (`pieces`, Transformer Engine's userbuffers,
    #: PyTorch's async TP).
    overlap_tensor: TensorOverlap = TensorOverlap.BACKWARD
    #: Whether tensor-parallel ranks hold different experts, as expert-parallel ranks do, instead of
    #: parts of each expert (Megatron-LM's expert tensor parallelism of 1).
    whole_experts: bool = False
    #: Whether one kernel computes the products of all experts of a rank; otherwise a kernel for
    #: each expert (Transformer Engine's grouped linear layers).
    fused_experts: bool = False
    #: Kernels that CUDA graphs launch, after `npu.graph_launch` and without host time: all kernels
    #: of an iteration (`step`, full-iteration graphs), or the kernels of the layers, with experts
    #: up to the router (`layer`, Transformer Engine's graphs). `none`: the host issues each kernel.
    graphs: Graphs = Graphs.NONE
    #: Rows of a tile in the kernel that computes all experts of a rank. A tile that holds rows of
    #: two experts is computed twice (MaxText's megablox). 0: no tile is computed twice.
    expert_tile: Index = 0
    #: Whether PyTorch runs a transformer operator by operator. Kernels of their own then rearrange
    #: queries, keys and values, multiply the two halves of a gated network, and compute the loss in
    #: fp32 step by step. Gathered inputs are kept for the backward pass, and so are the gradients
    #: of all weights until it ends. Otherwise kernels are fused as in Megatron-Core.
    eager: bool = False
    #: Whether a token is sent once to each node that holds its experts, and within a node once to
    #: each rank (DeepSeek-AI's DeepEP). Otherwise each expert is sent a copy.
    experts_by_node: bool = False
    #: With `experts_by_node`: largest number of nodes that hold a token's experts (node-limited
    #: routing, DeepSeek-V3, section 2.1.2); 0: no limit.
    nodes_a_token: int = 0
    #: Whether a backward pass runs concurrently with the next forward pass, so that the tokens of
    #: one travel during the products of the other (Megatron-LM's overlap of expert parallelism in
    #: 1F1B).
    overlap_experts: bool = False
    #: How context-parallel ranks share keys and values: gathered before the scores (`gather`, Llama
    #: 3's training), passed round during the scores (`ring`), or exchanged so that each rank has
    #: some heads of all tokens (`all_to_all`).
    context_exchange: ContextExchange = ContextExchange.GATHER
    #: Whether a rank waits until its message to the next stage is sent, as in DeepSpeed's
    #: pipelines. Otherwise the message overlaps the following operators.
    blocking_messages: bool = False
    #: Whether sequence parallelism gathers activations and gradients before the cast to a narrow
    #: precision. Transformer Engine gathers after it.
    wide_gathers: bool = False
    #: Whether each pass of each micro-batch loads a block's weights from remote memory without
    #: prefetching, and stores its gradients there, with the optimizer.
    weight_streaming: bool = False
    #: Training framework. It sets the number of gradients in an exchange, and of weights in a
    #: gather.
    stack: Stack = Stack.DDP
    #: Bytes of gradients in an exchange, instead of the value of `stack`; larger gradients are
    #: split.
    bucket: Annotated[float, BYTES, Bounds(above=0)] | None = None
    #: Whether the gather of `zero: 1` or 2 overlaps the first forward pass of each chunk, instead
    #: of following the update.
    overlap_parameters: bool = False
    #: Whether the switches of a hierarchical memory gather divided weights during loads, and reduce
    #: gradients during stores.
    memory_collectives: bool = False
    #: Bytes of a weight or activation.
    value: float = 2.0
    #: Bytes of a gradient.
    gradient_value: float = 2.0
    #: Bytes of a weight that is gathered after an update; by default the bytes of `value`.
    gathered_value: float | None = None
    #: Bytes of a token's value on the way to experts; by default the bytes of `value`.
    dispatch_value: float | None = None
    #: Precision of the factors of linear products, if it is narrower.
    narrow: str = ""
    #: State that is kept in remote memory. A block's part is loaded while the block before it runs.
    offload: frozenset[Offload] = frozenset()
    #: Share of an overlapped collective that moves while products run. The NPU computes nothing
    #: during the rest (:attr:`Npu.overlap`).
    overlap: float = 1.0

    @property
    def gathers_on_load(self) -> bool:
        """True if weights are gathered while they are loaded from remote memory."""
        return self.memory_collectives and self.zero == 3 and Offload.WEIGHTS in self.offload

    @property
    def reduces_on_store(self) -> bool:
        """True if gradients are reduced while they are stored to remote memory."""
        return self.memory_collectives and self.zero >= 2 and Offload.OPTIMIZER in self.offload

    @property
    def gathered(self) -> float:
        """Bytes of a weight that is gathered after an update."""
        return self.value if self.gathered_value is None else self.gathered_value

    @property
    def has_master_copy(self) -> bool:
        """True if the optimizer keeps an fp32 copy of narrower weights."""
        return self.value < 4

    def __post_init__(self) -> None:
        check_settings(self)
        if self.zero and self.gradient_exchange is GradientExchange.PARAMETER_SERVER:
            raise InfeasibleError(
                "parameter servers already divide the optimizer's state; ZeRO cannot",
                where="zero",
                hint="zero: 0",
            )
        self._check_experts()
        if self.schedule.cuts_backward:
            self._check_parts()
        if self.shard_ranks and not self.zero:
            raise InfeasibleError(
                "shard_ranks needs ZeRO", where="shard_ranks", hint="zero: 3, or shard_ranks: 0"
            )
        if self.memory_collectives and (self.zero < 2 or self.shard_ranks):
            raise InfeasibleError(
                "collectives of the memory need ZeRO 2 or 3 over all replicas",
                where="memory_collectives",
                hint="zero: 3 and shard_ranks: 0",
            )
        if self.weight_streaming and (self.zero or self.offload):
            raise InfeasibleError(
                "streamed weights cannot be divided among replicas or offloaded",
                where="weight_streaming",
                hint="zero: 0 and offload: []",
            )
        if self.whole_sums and self.zero > 1:
            raise InfeasibleError(
                "ZeRO 2 and 3 divide gradients, so replicas do not hold whole sums",
                where="whole_sums",
                hint="zero: 1",
            )
        if self.overlap_parameters and self.zero not in (1, 2):
            raise InfeasibleError(
                "only ZeRO 1 and 2 gather weights once an iteration",
                where="overlap_parameters",
                hint="zero: 1",
            )

    def _check_experts(self) -> None:
        if self.nodes_a_token < 0 or (self.nodes_a_token and not self.experts_by_node):
            raise InfeasibleError(
                "nodes_a_token must be 0 or more, and needs experts_by_node",
                where="nodes_a_token",
                hint="experts_by_node: true, or nodes_a_token: 0",
            )
        if self.whole_experts and not self.sequence_parallel:
            raise InfeasibleError(
                "tensor-parallel ranks with whole experts need separate tokens",
                where="whole_experts",
                hint="sequence_parallel: true",
            )

    def _check_parts(self) -> None:
        """Refuse settings for which late gradients of weights are not modelled."""
        for where, wrong, hint in (
            ("interleave", self.interleave > 1, "interleave: 1"),
            ("zero", self.zero > 1, "zero: 1"),
            (
                "overlap_experts",
                self.overlap_experts and not self.schedule.both_ways,
                "overlap_experts: false",
            ),
            ("offload", bool(self.offload), "offload: []"),
            ("weight_streaming", self.weight_streaming, "weight_streaming: false"),
        ):
            if wrong:
                problem = (
                    f"{self.schedule} with divided backward passes is not modelled with {where}"
                )
                raise InfeasibleError(problem, where=where, hint=hint)

    def without_idle_keys(self, mesh: DeviceMesh) -> "ParallelPlan":
        """Return the plan without settings that have no effect on ``mesh``.

        ZeRO and parameter servers have none if no other rank holds the same weights, or if ZeRO
        divides them among single ranks.
        """
        has_replicas = mesh.degree(REPLICAS) > 1
        if has_replicas and self.shard_ranks != 1:
            return self
        # DeepSpeed's optimizers for ZeRO keep other buffers, also where they divide nothing.
        differs = bool(self.zero) and self.stack is Stack.DEEPSPEED and not has_replicas
        return replace(
            self,
            zero=int(differs),
            shard_ranks=0,
            whole_sums=False,
            overlap_parameters=False,
            memory_collectives=False,
            gradient_exchange=GradientExchange.ALL_REDUCE,
        )

    def shard(self, mesh: DeviceMesh) -> Shard:
        """Return one rank's part of the work."""
        return Shard(
            batch=self.micro_batch,
            tensor=mesh.degree("tensor"),
            context=mesh.degree("context"),
            expert=mesh.degree("expert") * (mesh.degree("tensor") if self.whole_experts else 1),
            sequence_parallel=self.sequence_parallel,
            recompute=self.recompute,
            recompute_modules=self.recompute_modules,
            value=self.value,
            narrow=self.narrow,
            wide_gathers=self.wide_gathers,
            overlap_tensor=self.overlap_tensor,
            context_exchange=self.context_exchange,
            whole_experts=self.whole_experts,
            fused_experts=self.fused_experts,
            expert_tile=self.expert_tile,
            eager=self.eager,
            graphs=self.graphs,
            experts_by_node=self.experts_by_node,
            expert_nodes=mesh.degree(EXPERT_NODES),
            nodes_a_token=self.nodes_a_token,
            dispatch_value=self.dispatch_value,
        )
