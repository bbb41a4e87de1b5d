"""Workloads of published models under parallel plans."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError, InfeasibleError, check_memory
from dimsweep.engine.registry import Registry
from dimsweep.engine.workload import NO_ROOM, suggested_degrees
from dimsweep.engine.workload.models import (
    ConvNet,
    Dlrm,
    Gnmt,
    Graphs,
    Transformer,
)
from dimsweep.engine.workload.plan import (
    DeviceMesh,
    Offload,
    ParallelPlan,
    Serving,
    serving,
    training,
    training_footprint,
)
from dimsweep.sweeper.config.workload.layers import check_size
from dimsweep.sweeper.config.workload.workload import PRECISIONS, ModelParallel, Workload
from dimsweep.sweeper.part import (
    KeyBounds,
    Number,
    ValueParser,
    VariantParser,
    WholeNumber,
    default,
    member_set_type,
    mirror,
    naming_key,
)

# A new family is one file in engine/workload/models, and one line here: model.family -> its class.
FAMILIES: Registry[type[Any]] = Registry(
    "family of models",
    {"transformer": Transformer, "convnet": ConvNet, "dlrm": Dlrm, "gnmt": Gnmt},
)
AUTO = "auto"  # keep as little in remote memory as makes the rest fit
_MODEL = VariantParser(FAMILIES, "family", "family of models")
Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "fp8", "fp8_block", "mxfp8", "nvfp4"]


_OFFLOADS = member_set_type(Offload)


def _parse_offload(value: Any) -> Any:
    """Parse the key ``offload``: "auto", or the kinds of state that are kept in remote memory."""
    return value if value == AUTO else _OFFLOADS.parse(value)


Offloading = Annotated[Any, ValueParser(_parse_offload, choices=(AUTO, *Offload))]
# Settings of the engine in bytes, which the configuration gives as precisions.
_BYTES = ("value", "gradient_value", "gathered_value", "dispatch_value", "narrow")


class Plan(
    mirror(  # type: ignore[misc]
        ParallelPlan,
        without=(*_BYTES, "overlap", "offload"),  # overlap: the NPU says it
        unset=("batch", "micro_batch", "graphs"),
    )
):
    """How a model is trained or served: settings of :class:`ParallelPlan` and further keys.

    ``batch`` counts the samples of all replicas; ``micro_batches`` per replica may be given
    instead. ``micro_batch`` is 1 by default, and in a decode all sequences of a replica. By default
    CUDA graphs launch all kernels of a decode, as in vLLM (its default
    ``CUDAGraphMode`` is ``FULL_AND_PIECEWISE`` since vllm-project/vllm#25444), and no kernels of
    another task.
    """

    #: `training`, `prefill` (prompts), or `decode` (one more token for each sequence).
    task: Literal["training", "prefill", "decode"] = "training"
    #: Micro-batches of each replica, instead of `batch`; one of the two must be null.
    micro_batches: WholeNumber | None = None
    #: Number format of weights, activations and products.
    precision: Precision = "bf16"
    #: Number format of gradients; by default the format of `precision`.
    gradients: Precision | None = None
    #: Number format of tokens on the way to experts; by default the format of weights (DeepSeek-V3:
    #: fp8).
    dispatch: Precision | None = None
    #: Number format in which weights are gathered after an update; by default their own.
    gathers: Precision | None = None
    #: State that is kept in remote memory (`memory=host`, `memory=nvme`): some of [optimizer,
    #: activations, weights]. `auto` moves as little as possible, in this order, until the rest
    #: fits.
    offload: Offloading = AUTO

    def offloading(self, plan: ParallelPlan, *, holds: bool) -> Iterator[ParallelPlan]:
        """Yield the plan with the given ``offload``.

        If it is auto, plans with more and more state offloaded. Without remote memory (``holds`` is
        False) nothing is offloaded automatically.
        """
        if self.offload != AUTO:
            yield replace(plan, offload=self.offload)
            return
        for n in range(len(Offload) + 1 if holds else 1):
            yield replace(plan, offload=frozenset(list(Offload)[:n]))

    def batch_on(self, mesh: DeviceMesh) -> int:
        """Return the batch of all replicas, in samples."""
        if (self.batch is None) == (self.micro_batches is None):
            raise DimsweepError(
                "give the batch of all replicas, or the micro-batches of each, not both",
                where="batch",
                hint="set the other one to null",
                code="conflict",
            )
        if self.batch is not None:
            return self.batch
        return (self.micro_batches or 0) * (self.micro_batch or 1) * _replicas(mesh)

    def micro_batch_on(self, mesh: DeviceMesh) -> int:
        """Return the sequences or samples that a replica works on at once."""
        if self.micro_batch is not None or self.task != "decode":
            return self.micro_batch or 1
        return max(1, self.batch_on(mesh) // _replicas(mesh))

    def in_turn(self, mesh: DeviceMesh) -> int:
        """Return the approximate number of micro-batches that each replica runs in sequence."""
        return self.batch_on(mesh) // max(1, _replicas(mesh) * self.micro_batch_on(mesh))

    def serving(self, mesh: DeviceMesh) -> Serving:
        """Return the engine's plan of an inference."""
        return Serving(
            batch=self.batch_on(mesh),
            micro_batch=self.micro_batch_on(mesh),
            decode=self.task == "decode",
            sequence_parallel=self.sequence_parallel,
            graphs=self.graphs or (Graphs.STEP if self.task == "decode" else Graphs.NONE),
            value=PRECISIONS[self.precision].stored,
            narrow=PRECISIONS[self.precision].narrow,
        )

    def training(self, mesh: DeviceMesh) -> ParallelPlan:
        """Return the engine's plan of a training iteration, without offloading."""
        precision = PRECISIONS[self.precision]
        value, gradient = precision.value, precision.gradient
        if self.gradients is not None:
            gradient = PRECISIONS[self.gradients].value
        plain = self.settings(ParallelPlan)
        del plain["batch"], plain["offload"]
        plain["micro_batch"] = self.micro_batch_on(mesh)
        plain["graphs"] = self.graphs or Graphs.NONE
        plain |= {"value": value, "gradient_value": gradient, "narrow": precision.narrow}
        for name, own in (("gathered_value", self.gathers), ("dispatch_value", self.dispatch)):
            plain[name] = PRECISIONS[own].stored if own else None
        return ParallelPlan(self.batch_on(mesh), **plain)


def _replicas(mesh: DeviceMesh) -> int:
    return mesh.degree("data") * mesh.degree("expert")


class Model(Workload):
    """A model described by its dimensions, under a parallel plan."""

    #: Degrees of the axes tensor, context, expert, pipeline and data.
    parallel: ModelParallel = default(dict)
    #: Factor on the bytes of collectives and messages.
    scale: Annotated[Number, KeyBounds(above=0)] = 1.0
    #: The family transformer, convnet, dlrm or gnmt, and its keys (:mod:`engine.workload.models`).
    model: Annotated[Any, ValueParser(_MODEL.parse, _MODEL.write)]
    plan: Plan = default(Plan)

    @property
    def arithmetic(self) -> str:
        return PRECISIONS[self.plan.precision].arithmetic

    @property
    def narrow(self) -> str:
        return PRECISIONS[self.plan.precision].narrow

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        return _scale_communication(self._build(cluster), self.scale)

    def _build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        with naming_key("workload"):
            try:
                mesh = DeviceMesh.place(
                    self.parallel, cluster.topology.sizes, cluster.symmetric_dims
                )
            except InfeasibleError as error:
                raise self._with_runnable_degrees(error, cluster) from None
            with naming_key("plan"):
                in_turn = self.plan.in_turn(mesh)
            layers = getattr(self.model, "layers", 1)  # other families have a fixed number
            check_size(layers + getattr(self.model, "mtp_layers", 0), in_turn)
            if self.plan.task != "training":
                with naming_key("plan"):
                    serve = self.plan.serving(mesh)
                return serving(self.model, serve, mesh, self.name)
            with naming_key("plan"):
                plan = self.plan.training(mesh)
            plan = replace(plan, overlap=min(npu.overlap for npu in cluster.npus.kinds))
            plan = self._offloading(plan, mesh, cluster)
            need = training_footprint(self.model, plan, mesh)
        # Before its graph is built, which takes a thousand times as long.
        check_memory(need, cluster, mesh.groups.get("pipeline"))
        with naming_key("workload"):
            return training(self.model, plan, mesh, self.name)

    def _with_runnable_degrees(self, error: InfeasibleError, cluster: Cluster) -> InfeasibleError:
        """Return ``error`` with a hint that names only degrees with which the model can run."""
        axis = error.where.rpartition(".")[2]
        degree = self.parallel.get(axis)
        if not isinstance(degree, int) or NO_ROOM not in error.problem:
            return error
        hint = suggested_degrees(
            degree,
            cluster.topology.sizes,
            lambda other: self._runs({**self.parallel, axis: other}, cluster),
        )
        return InfeasibleError(error.problem, where=error.where, hint=hint)

    def _runs(self, parallel: Mapping[str, Any], cluster: Cluster) -> bool:
        """Return whether the model can be divided by these degrees; memory is not checked."""
        try:
            mesh = DeviceMesh.place(parallel, cluster.topology.sizes, cluster.symmetric_dims)
            training_footprint(self.model, self.plan.training(mesh), mesh)
        except DimsweepError:
            return False
        return True

    def _offloading(self, plan: ParallelPlan, mesh: DeviceMesh, cluster: Cluster) -> ParallelPlan:
        """Return the plan with its offloading: as given, or the least that fits the memory."""
        capacities = [
            npu.usable_memory for npu in cluster.npus.kinds if npu.usable_memory is not None
        ]
        holds = cluster.memory is not None and cluster.memory.HOLDS and bool(capacities)
        for spilled in self.plan.offloading(plan, holds=holds):
            if not holds or training_footprint(self.model, spilled, mesh).total <= min(capacities):
                break
        return spilled


def _scale_communication(
    workload: dimsweep.engine.Workload, scale: float
) -> dimsweep.engine.Workload:
    """Return the workload with the bytes of all communication multiplied by ``scale``."""

    def scaled(operator: dimsweep.engine.Operator) -> dimsweep.engine.Operator:
        work = operator.work
        if not isinstance(work, dimsweep.engine.Collective | dimsweep.engine.Send):
            return operator
        return replace(operator, work=replace(work, n_bytes=work.n_bytes * scale))

    if scale == 1:
        return workload
    return replace(workload, graphs=tuple(tuple(map(scaled, graph)) for graph in workload.graphs))
