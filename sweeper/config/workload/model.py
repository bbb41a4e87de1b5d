"""Workloads of real models under parallel plans."""

from dataclasses import fields, replace
from enum import StrEnum
from typing import Annotated, Any, Literal

import engine
from engine import Cluster, DimsweepError, check_memory, suggestion
from engine.model import (
    ContextExchange,
    ConvNet,
    Dlrm,
    Gnmt,
    Module,
    Recompute,
    TensorOverlap,
    Transformer,
)
from engine.plan import (
    DeviceMesh,
    GradientExchange,
    Offload,
    Optimizer,
    ParallelPlan,
    Schedule,
    Serving,
    serving,
    training,
    training_footprint,
)
from sweeper.config.parts.part import Bytes, Flag, OneOf, Parsed, Part, Whole, default, key, member
from sweeper.config.parts.precision import PRECISIONS
from sweeper.config.workload.size import check_size
from sweeper.config.workload.workload import ModelParallel, Workload

# A new family is one file in engine/model, and one line here: model.family -> its class.
FAMILIES: dict[str, type[Any]] = {
    "transformer": Transformer,
    "convnet": ConvNet,
    "dlrm": Dlrm,
    "gnmt": Gnmt,
}
_MODEL = OneOf(FAMILIES, "family", "family of models")
Precision = Literal["fp32", "fp16", "bf16", "fp8", "fp8_block", "mxfp8", "nvfp4"]


def _some_of(kind: type[StrEnum], value: Any) -> frozenset[Any]:
    """A list of members."""
    if not isinstance(value, (list, tuple, frozenset)):
        raise DimsweepError(f"{value!r} is no list", hint=f"some of [{', '.join(kind)}]")
    for what in value:
        if what not in list(kind):
            raise DimsweepError(
                f"{what!r} is none of {', '.join(kind)}", hint=suggestion(str(what), kind)
            )
    return frozenset(map(kind, value))


def _modules(value: Any) -> frozenset[Module]:
    """What is computed again by itself."""
    return _some_of(Module, value)


def _offload(value: Any) -> Any:
    """ "auto", or what is kept in remote memory."""
    return value if value == "auto" else _some_of(Offload, value)


class Plan(Part):
    """How a model is trained or served (see engine.plan.ParallelPlan and Serving): ``batch``
    sequences or samples in all, or ``micro_batches`` of each replica."""

    task: Literal["training", "prefill", "decode"] = "training"
    batch: Whole | None = None
    micro_batches: Whole | None = None
    micro_batch: Whole = 1
    precision: Precision = "bf16"
    gradients: Precision | None = None
    schedule: Annotated[Schedule, member(Schedule)] = default("1f1b")
    interleave: Whole = 1
    stage_layers: tuple[Whole, ...] = ()
    sequence_parallel: Flag = False
    recompute: Annotated[Recompute, member(Recompute)] = default("none")
    recompute_modules: Annotated[frozenset[Module], Parsed(_modules, sorted)] = default(list)
    zero: Whole = 0
    whole_sums: Flag = False
    fused_sums: Flag = True
    shard_ranks: Whole = 0
    optimizer: Annotated[Optimizer, member(Optimizer)] = default("adam")
    gradient_exchange: Annotated[GradientExchange, member(GradientExchange)] = default("all_reduce")
    overlap_gradients: Flag = True
    overlap_tensor: Annotated[TensorOverlap, member(TensorOverlap)] = default("backward")
    whole_experts: Flag = False
    experts_by_node: Flag = False
    overlap_experts: Flag = False
    context_exchange: Annotated[ContextExchange, member(ContextExchange)] = default("gather")
    blocking_messages: Flag = False
    wide_gathers: Flag = False
    weight_streaming: Flag = False
    bucket: Bytes = default("25 MB")
    offload: Annotated[
        Any, Parsed(_offload, lambda what: what if what == "auto" else sorted(map(str, what)))
    ] = "auto"
    memory_collectives: Flag = False

    def batch_on(self, mesh: DeviceMesh) -> int:
        """The batch of all replicas."""
        if (self.batch is None) == (self.micro_batches is None):
            raise DimsweepError(
                "give the batch of all replicas, or the micro-batches of each, not both",
                where="batch",
                hint="set the other one to null",
            )
        if self.batch is not None:
            return self.batch
        replicas = mesh.degree("data") * mesh.degree("expert")
        return (self.micro_batches or 0) * self.micro_batch * replicas

    def in_turn(self, mesh: DeviceMesh) -> int:
        """About how many micro-batches each replica works on, one after the other."""
        replicas = mesh.degree("data") * mesh.degree("expert")
        return self.batch_on(mesh) // max(1, replicas * self.micro_batch)

    def serving(self, mesh: DeviceMesh) -> Serving:
        """The plan of an inference."""
        return Serving(
            batch=self.batch_on(mesh),
            micro_batch=self.micro_batch,
            decode=self.task == "decode",
            sequence_parallel=self.sequence_parallel,
            value=PRECISIONS[self.precision].stored,
            narrow=PRECISIONS[self.precision].narrow,
        )

    def training(self, mesh: DeviceMesh) -> ParallelPlan:
        """The plan of a training iteration; nothing is offloaded yet."""
        precision = PRECISIONS[self.precision]
        value, gradient = precision.value, precision.gradient
        if self.gradients is not None:
            gradient = PRECISIONS[self.gradients].value
        names = [each.name for each in fields(ParallelPlan) if each.name in type(self).model_fields]
        plain = {name: getattr(self, name) for name in names if name not in ("batch", "offload")}
        plain |= {"value": value, "gradient_value": gradient, "narrow": precision.narrow}
        return ParallelPlan(self.batch_on(mesh), **plain)


class Model(Workload):
    """A model from its dimensions: ``family`` transformer, convnet, dlrm or gnmt, and that family's
    keys (see engine.Transformer and so on); ``parallel`` has the axes tensor, context, expert,
    pipeline and data."""

    parallel: ModelParallel = default(dict)
    model: Annotated[Any, Parsed(_MODEL.parse, _MODEL.write)]
    plan: Plan = default(Plan)

    @property
    def arithmetic(self) -> str:
        return PRECISIONS[self.plan.precision].arithmetic

    @property
    def narrow(self) -> str:
        return PRECISIONS[self.plan.precision].narrow

    def build(self, cluster: Cluster) -> engine.Workload:
        with key("workload"):
            mesh = DeviceMesh.place(self.parallel, cluster.topology.sizes, cluster.symmetric)
            with key("plan"):
                in_turn = self.plan.in_turn(mesh)
            check_size(getattr(self.model, "layers", 1), in_turn)  # other families have a fixed one
            if self.plan.task != "training":
                with key("plan"):
                    serve = self.plan.serving(mesh)
                return serving(self.model, serve, mesh, self.name)
            with key("plan"):
                plan = self.plan.training(mesh)
            plan = self._offloading(plan, mesh, cluster)
            need = training_footprint(self.model, plan, mesh)
        # Before its graph is built, which takes a thousand times as long.
        check_memory(need, cluster)
        with key("workload"):
            return training(self.model, plan, mesh, self.name)

    def _offloading(self, plan: ParallelPlan, mesh: DeviceMesh, cluster: Cluster) -> ParallelPlan:
        """What is kept in remote memory: as told, or no more than makes the rest fit."""
        if self.plan.offload != "auto":
            return replace(plan, offload=self.plan.offload)
        capacity = cluster.npu.memory
        if cluster.memory is None or not cluster.memory.HOLDS or capacity is None:
            return plan
        for n in range(len(Offload) + 1):
            spilled = replace(plan, offload=frozenset(list(Offload)[:n]))
            if training_footprint(self.model, spilled, mesh).total <= capacity:
                break
        return spilled
