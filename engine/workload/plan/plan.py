"""A parallel plan: how a model's training is divided among ranks, and in which order they work."""

from dataclasses import dataclass, replace
from enum import StrEnum

from dimsweep.engine.errors import DimsweepError, InfeasibleError, check_least
from dimsweep.engine.workload.models.rank import (
    ContextExchange,
    Module,
    Recompute,
    Shard,
    TensorOverlap,
)
from dimsweep.engine.workload.plan.mesh import EXPERT_NODES, REPLICAS, DeviceMesh
from dimsweep.engine.workload.plan.schedule import Schedule
from dimsweep.engine.workload.plan.stack import Stack


class Optimizer(StrEnum):
    """Adam keeps two moments of every weight, SGD its momentum."""

    ADAM = "adam"
    SGD = "sgd"


class GradientExchange(StrEnum):
    """How replicas sum up their gradients: among themselves, or over parameter servers, of which
    every replica is one for its share of the weights (Li et al., OSDI 2014)."""

    ALL_REDUCE = "all_reduce"
    PARAMETER_SERVER = "parameter_server"


class Offload(StrEnum):
    """What is kept in remote memory and comes when it is needed (ZeRO-Infinity, Rajbhandari et al.,
    SC 2021).  The order is that of preference: first what causes the least traffic for the memory
    that it frees."""

    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    WEIGHTS = "weights"


@dataclass(frozen=True)
class ParallelPlan:
    """How an iteration over ``batch`` sequences (or samples) is run.

    ``zero`` 1 cuts the optimizer's state among the replicas, 2 the gradients too, 3 the weights too
    (Rajbhandari et al., SC 2020; stage 3 is what FSDP does).  ``bucket`` bytes of gradients are
    summed up at once, those that ``stack`` takes unless given, beside the rest of the backward pass
    if ``overlap_gradients``.  What stage 1 or 2 divided is gathered in the same buckets after the
    update, or beside the first forward pass of each chunk if ``overlap_parameters``; a gathered
    weight has ``gathered_value`` bytes.
    ``whole_experts``: tensor-parallel ranks divide the experts as expert-parallel ones do, and cut
    none of them (Megatron's expert tensor parallelism of 1).
    ``fused_experts``: one kernel has the products of all experts of a rank, which else are done one
    after another (Transformer Engine's grouped linear layers).
    ``experts_by_node``: a token is sent once to each node that has experts for it, and copied to
    them there (DeepSeek-AI's DeepEP), to ``nodes_a_token`` nodes at most unless that is 0
    (node-limited routing, DeepSeek-V3, section 2.1.2).  A token's values have ``dispatch_value``
    bytes on the way to experts, if that is given (DeepSeek-V3's fp8 dispatch).
    ``overlap_experts``: a backward pass and the forward pass
    after it run at once, so that the way of one's tokens goes beside the other's products
    (Megatron-LM's overlap of expert parallelism in 1F1B).
    ``whole_sums``: every replica gets all sums of gradients though ``zero`` cuts the optimizer's
    state (an all-reduce in the place of a reduce-scatter, as DeepSpeed's stage 1); ``fused_sums``:
    a product adds its gradient to the sum of earlier micro-batches' by itself (Megatron-LM's
    gradient accumulation fusion).
    ``shard_ranks``: neighbouring replicas that divide among themselves what ``zero`` divides, while
    groups of them hold copies (hybrid sharding); 0: all replicas divide it.
    ``value`` and ``gradient_value``: bytes of a weight or activation, and of a gradient; ``narrow``
    the precision that the layers' linear products cast their factors to, if they do;
    ``wide_gathers``: sequence parallelism gathers what is not cast yet.
    ``blocking_messages``: a rank waits until its message to the next stage is sent, as in
    DeepSpeed's pipelines; else what follows goes on beside it.
    ``stage_layers``: the layers of each chunk of each stage, in the order in which a micro-batch
    passes them; as equal as can be unless given.
    ``weight_streaming``: a block's weights come from remote memory for its forward and its backward
    pass of each micro-batch, nothing ahead of time, and its gradients leave for there, summed up on
    the way; the optimizer is there, too.
    ``offload``: what lives in remote memory; a block's part of it is loaded while the block before
    it runs.  ``memory_collectives``: what ZeRO divides is gathered by the memory's switches as it
    is loaded, and gradients are reduced by them as they are stored.
    ``overlap``: of a collective that goes beside products, the share that does; the NPU does
    nothing else for the rest (:attr:`Npu.overlap`).
    """

    batch: int
    micro_batch: int = 1
    schedule: Schedule = Schedule.ONE_F_ONE_B
    interleave: int = 1
    stage_layers: tuple[int, ...] = ()
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    recompute_modules: frozenset[Module] = frozenset()
    zero: int = 0
    whole_sums: bool = False
    fused_sums: bool = True
    shard_ranks: int = 0
    optimizer: Optimizer = Optimizer.ADAM
    gradient_exchange: GradientExchange = GradientExchange.ALL_REDUCE
    overlap_gradients: bool = True
    overlap_tensor: TensorOverlap = TensorOverlap.BACKWARD
    context_exchange: ContextExchange = ContextExchange.GATHER
    whole_experts: bool = False
    fused_experts: bool = False
    experts_by_node: bool = False
    nodes_a_token: int = 0
    overlap_experts: bool = False
    blocking_messages: bool = False
    stack: Stack = Stack.DDP
    bucket: float | None = None
    overlap_parameters: bool = False
    value: float = 2.0
    gradient_value: float = 2.0
    gathered_value: float | None = None
    dispatch_value: float | None = None
    narrow: str = ""
    wide_gathers: bool = False
    weight_streaming: bool = False
    offload: frozenset[Offload] = frozenset()
    memory_collectives: bool = False
    overlap: float = 1.0

    @property
    def gathers_on_load(self) -> bool:
        """Whether weights are gathered on their way from remote memory."""
        return self.memory_collectives and self.zero == 3 and Offload.WEIGHTS in self.offload

    @property
    def reduces_on_store(self) -> bool:
        """Whether gradients are reduced on their way to remote memory, where the optimizer's state
        is."""
        return self.memory_collectives and self.zero >= 2 and Offload.OPTIMIZER in self.offload

    @property
    def gathered(self) -> float:
        """Bytes of a weight that is gathered after an update."""
        return self.value if self.gathered_value is None else self.gathered_value

    @property
    def has_master_copy(self) -> bool:
        """Whether the optimizer keeps the weights in fp32, beside narrower ones."""
        return self.value < 4

    def __post_init__(self) -> None:
        check_least(self, 1, "batch", "micro_batch", "interleave")
        if self.zero not in (0, 1, 2, 3):
            raise DimsweepError(f"there is no stage {self.zero}", where="zero", hint="0, 1, 2 or 3")
        if self.zero and self.gradient_exchange is GradientExchange.PARAMETER_SERVER:
            raise InfeasibleError(
                "parameter servers hold the optimizer's state already", where="zero", hint="zero: 0"
            )
        self._check_experts()
        if self.schedule.cuts_backward:
            self._check_parts()
        if self.shard_ranks and not self.zero:
            raise InfeasibleError(
                "replicas divide nothing without ZeRO", where="shard_ranks", hint="zero: 3"
            )
        if self.memory_collectives and (self.zero < 2 or self.shard_ranks):
            raise InfeasibleError(
                "memory gathers and reduces what ZeRO 2 or 3 divides among all replicas",
                where="memory_collectives",
                hint="zero: 3 and shard_ranks: 0",
            )
        if self.weight_streaming and (self.zero or self.offload):
            raise InfeasibleError(
                "weights that stream are neither divided among replicas nor offloaded",
                where="weight_streaming",
                hint="zero: 0 and offload: []",
            )
        if self.whole_sums and self.zero > 1:
            raise InfeasibleError(
                "replicas that divide gradients do not hold all of them",
                where="whole_sums",
                hint="zero: 1",
            )
        if self.bucket is not None and not self.bucket > 0:
            raise DimsweepError(f"a bucket of {self.bucket:g} bytes", where="bucket")
        if self.overlap_parameters and self.zero not in (1, 2):
            raise InfeasibleError(
                "stages 1 and 2 gather weights once an iteration, 0 never, 3 all the time",
                where="overlap_parameters",
                hint="zero: 1",
            )

    def _check_experts(self) -> None:
        if self.nodes_a_token < 0 or (self.nodes_a_token and not self.experts_by_node):
            raise InfeasibleError(
                "only tokens that are sent once to each node count nodes",
                where="nodes_a_token",
                hint="experts_by_node: true, and 1 or more",
            )
        if self.whole_experts and not self.sequence_parallel:
            raise InfeasibleError(
                "tensor-parallel ranks that hold other experts have other tokens",
                where="whole_experts",
                hint="sequence_parallel: true",
            )

    def _check_parts(self) -> None:
        """Gradients of weights that come late are known for one chunk a stage, whose gradients are
        exchanged at the end."""
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
                what = f"{self.schedule} cuts backward passes in two"
                raise InfeasibleError(what, where=where, hint=hint)

    def without_idle_keys(self, mesh: DeviceMesh) -> "ParallelPlan":
        """Return the plan that this one is on ``mesh``: without ZeRO and parameter servers, if no
        other rank holds the same weights, or if ZeRO divides them among single ranks."""
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
        """One rank's part of the work."""
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
            expert_nodes=mesh.degree(EXPERT_NODES),
            nodes_a_token=self.nodes_a_token,
            dispatch_value=self.dispatch_value,
        )
