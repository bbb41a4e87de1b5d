"""Workloads of layers in sequence: listed, read from a file, or built from dimensions."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated

import dimsweep.engine
from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    Compute,
    DimsweepError,
    Group,
    naming_place,
    place,
)
from dimsweep.engine import workload as engine
from dimsweep.engine.formats import read_astra1_layers
from dimsweep.engine.workload import (
    AXES,
    Communication,
    TrainingLoop,
    TransformerSlice,
    data_parallel,
    training_iteration,
)
from dimsweep.sweeper.config.workload.workload import Workload
from dimsweep.sweeper.part import (
    Bytes,
    BytesOrNone,
    ComputeRate,
    FileName,
    Flag,
    KeyBounds,
    Operations,
    Part,
    Time,
    WholeNumber,
    default,
    member_type,
    naming_key,
)
from dimsweep.sweeper.places import find_file

# Measured on GPT-3 175B in 8 interleaved stages with 8 to 2,048 micro-batches: 24 to 26 nodes for
# each layer and micro-batch, and 300 to 320 bytes for each node while it is lowered.
_NODES_PER_LAYER, _BYTES_PER_NODE = 25, 320
MAX_NODES = 20_000_000  # of all pipeline stages together


def check_size(layers: int, micro_batches: int = 1) -> None:
    """Raise :class:`DimsweepError` if a model's graph has more than :data:`MAX_NODES` nodes."""
    nodes = layers * micro_batches * _NODES_PER_LAYER
    if nodes <= MAX_NODES:
        return
    raise DimsweepError(
        f"the graph of {layers} layers and {micro_batches} micro-batches in turn would have about "
        f"{nodes:.2g} nodes and take {nodes * _BYTES_PER_NODE / 1e9:.2g} GB",
        hint=f"{MAX_NODES:,} nodes are possible: give fewer layers, or a larger plan.micro_batch",
        code="too-many",
    )


PASSES = ("forward", "input_grad", "weight_grad")


class Layered(Workload):
    """Base class of workloads whose layers run in sequence."""

    #: Overlap of communication with compute.
    loop: Annotated[TrainingLoop, member_type(TrainingLoop)] = default("no_overlap")
    #: Whether a layer's weight gradients precede the gradients of its input.
    weight_gradients_first: Flag = False

    @property
    def axes(self) -> list[str]:
        """Parallel axes that the layers name, in addition to the axes of all models."""
        return []

    @abstractmethod
    def build_layers(self, groups: Mapping[str, Group]) -> list[engine.Layer]:
        """Return the engine's layers, which communicate over ``groups``."""

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        with naming_key("workload"):
            return self._build(cluster)

    def _build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        known = [*AXES, *sorted({*self.axes} - {*AXES})]
        with naming_key("parallel"):
            groups = place(self.parallel, cluster.topology.sizes, known)
        layers = self.build_layers(groups)
        for layer in layers:
            for part in (layer.forward, layer.input_grad, layer.weight_grad):
                if part.communication and part.communication.group not in groups:
                    raise DimsweepError(
                        f"layer {layer.name!r} communicates over {part.communication.group!r}, "
                        "which is not an axis of the parallel plan",
                        where="parallel",
                        hint=f"axes: {', '.join(groups) or 'none'}",
                        code="unknown-name",
                    )
        graph = training_iteration(
            layers, self.loop, weight_gradients_first=self.weight_gradients_first
        )
        return dimsweep.engine.Workload((graph,), groups, name=self.name)


class Pass(Part):
    """One pass of a layer: a load from remote memory, then a computation, then a collective.

    The computation has a measured ``duration``, or ``flops`` and ``bytes`` for the NPU's roofline.
    The optional ``collective`` of ``size`` bytes runs over the parallel axis ``group``.
    """

    load: Bytes | None = None
    duration: Time | None = None
    flops: Operations | None = None
    bytes: Bytes | None = None
    collective: Annotated[CollectiveKind, member_type(CollectiveKind)] | None = None
    size: BytesOrNone | None = None
    group: str | None = None

    def build(self) -> engine.Pass:
        """Return the engine's pass.

        Raises :class:`DimsweepError` for keys that exclude each other.
        """
        if self.duration is None:
            compute = Compute(self.flops or 0.0, self.bytes or 0.0)
        elif self.flops is not None or self.bytes is not None:
            problem = "give a duration, or flops and bytes, not both"
            raise DimsweepError(problem, where="duration", code="conflict")
        else:
            compute = Compute(duration=self.duration)
        return engine.Pass(compute, self._communication(), self.load or 0.0)

    def _communication(self) -> Communication | None:
        if self.collective is None and self.size is None and self.group is None:
            return None
        if self.collective is None or self.size is None or self.group is None:
            absent = next(
                name for name in ("collective", "group", "size") if getattr(self, name) is None
            )
            problem = "a collective needs its kind, its size and its group"
            raise DimsweepError(problem, where=absent, code="missing")
        return Communication(self.collective, self.size, self.group)


class Layer(Part):
    """A layer with its passes, which the model repeats ``repeat`` times."""

    name: str
    repeat: Annotated[WholeNumber, KeyBounds(at_least=1, at_most=100_000)] = 1
    forward: Pass = default(Pass)
    input_grad: Pass = default(Pass)
    weight_grad: Pass = default(Pass)

    def passes(self) -> dict[str, Pass]:
        """Return the forward pass and the two backward passes, by name."""
        return {name: getattr(self, name) for name in PASSES}


class Layers(Layered):
    """A workload whose layers are listed in the configuration."""

    layers: tuple[Layer, ...] = ()

    @property
    def axes(self) -> list[str]:
        passes = (part for layer in self.layers for part in layer.passes().values())
        return [part.group for part in passes if part.group is not None]

    def build_layers(self, groups: Mapping[str, Group]) -> list[engine.Layer]:
        built = []
        for i, layer in enumerate(self.layers):
            passes = []
            for name, part in layer.passes().items():
                with naming_key(f"layers[{i}].{name}"):
                    passes.append(part.build())
            forward, input_grad, weight_grad = passes
            made = engine.Layer(layer.name, forward, input_grad, weight_grad)
            built += [made] * layer.repeat
        if not built:
            raise DimsweepError("the workload has no layers", where="layers", code="missing")
        return built


class Convolution(Part):
    """A convolutional layer with measured durations of its passes."""

    name: str
    inputs: WholeNumber
    outputs: WholeNumber
    kernel: WholeNumber = 1
    forward: Time
    input_grad: Time
    weight_grad: Time


class ConvNet(Layered):
    """A convolutional network under data parallelism."""

    bytes_per_value: WholeNumber = 2
    layers: tuple[Convolution, ...] = ()

    def build_layers(self, groups: Mapping[str, Group]) -> list[engine.Layer]:
        convolutions = [engine.Convolution(**dict(layer)) for layer in self.layers]
        return data_parallel(convolutions, self.bytes_per_value)


class Transformer(Layered):
    """Transformer blocks built from dimensions (see engine.workload.TransformerSlice)."""

    hidden: WholeNumber
    layers: WholeNumber
    batch: WholeNumber
    sequence: WholeNumber
    bytes_per_value: WholeNumber = 2
    flops: ComputeRate

    def build_layers(self, groups: Mapping[str, Group]) -> list[engine.Layer]:
        check_size(self.layers)
        names = ("hidden", "layers", "batch", "sequence", "bytes_per_value", "flops")
        tensor = groups["tensor"].n_members if "tensor" in groups else 1
        return TransformerSlice(
            tensor=tensor, **{name: getattr(self, name) for name in names}
        ).build()


class PassGroups(Part):
    """The parallel axis over which each pass of a layer communicates."""

    forward: str = "tensor"
    input_grad: str = "tensor"
    weight_grad: str = "data"


class Astra1Text(Layered):
    """A workload file of ASTRA-sim 1.0.

    ``groups`` are the parallel axes that passes communicate over. The parallel plan must agree with
    the file's header, if it has one.
    """

    file: FileName
    groups: PassGroups = default(PassGroups)

    @property
    def axes(self) -> list[str]:
        return list(dict(self.groups).values())

    def build_layers(self, groups: Mapping[str, Group]) -> list[engine.Layer]:
        degrees = {axis: group.n_members for axis, group in groups.items()}
        with naming_place("file"):
            return read_astra1_layers(find_file(self.file), dict(self.groups), degrees)
