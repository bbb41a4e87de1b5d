"""Layers written out."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

import dimsweep.engine.workload
from dimsweep.engine import CollectiveKind, Compute, DimsweepError, Group
from dimsweep.engine.workload import Communication
from dimsweep.sweeper.config.parts.part import (
    Bytes,
    BytesOrNone,
    Operations,
    Part,
    Time,
    Whole,
    default,
    key,
    member,
)
from dimsweep.sweeper.config.workload.layered import PASSES, Layered


class Pass(Part):
    """One pass of a layer: a measured ``duration``, or ``flops`` and ``bytes`` for the NPU's
    roofline; then perhaps a ``collective`` of ``size`` over an axis (``group``).  Before all that
    ``load`` is loaded from remote memory (``memory``)."""

    load: Bytes | None = None
    duration: Time | None = None
    flops: Operations | None = None
    bytes: Bytes | None = None
    collective: Annotated[CollectiveKind, member(CollectiveKind)] | None = None
    size: BytesOrNone | None = None
    group: str | None = None

    def build(self) -> dimsweep.engine.workload.Pass:
        """The pass; raises :class:`DimsweepError` for what does not go together."""
        if self.duration is None:
            compute = Compute(self.flops or 0.0, self.bytes or 0.0)
        elif self.flops is not None or self.bytes is not None:
            raise DimsweepError("give a duration, or flops and bytes, not both", where="duration")
        else:
            compute = Compute(duration=self.duration)
        return dimsweep.engine.workload.Pass(compute, self._communication(), self.load or 0.0)

    def _communication(self) -> Communication | None:
        if self.collective is None and self.size is None and self.group is None:
            return None
        if self.collective is None or self.size is None or self.group is None:
            absent = next(
                name for name in ("collective", "group", "size") if getattr(self, name) is None
            )
            raise DimsweepError("a collective needs its kind, its size and its group", where=absent)
        return Communication(self.collective, self.size, self.group)


class Layer(Part):
    """``repeat`` equal layers."""

    name: str
    repeat: Annotated[Whole, Field(ge=1, le=100_000)] = 1
    forward: Pass = default(Pass)
    input_grad: Pass = default(Pass)
    weight_grad: Pass = default(Pass)

    def passes(self) -> dict[str, Pass]:
        """The three passes by name."""
        return {name: getattr(self, name) for name in PASSES}


class Layers(Layered):
    """Layers written out."""

    layers: tuple[Layer, ...] = ()

    @property
    def axes(self) -> list[str]:
        passes = (part for layer in self.layers for part in layer.passes().values())
        return [part.group for part in passes if part.group is not None]

    def build_layers(self, groups: Mapping[str, Group]) -> list[dimsweep.engine.workload.Layer]:
        built = []
        for i, layer in enumerate(self.layers):
            passes = []
            for name, part in layer.passes().items():
                with key(f"layers[{i}].{name}"):
                    passes.append(part.build())
            forward, input_grad, weight_grad = passes
            made = dimsweep.engine.workload.Layer(layer.name, forward, input_grad, weight_grad)
            built += [made] * layer.repeat
        if not built:
            raise DimsweepError("a workload without layers", where="layers")
        return built
