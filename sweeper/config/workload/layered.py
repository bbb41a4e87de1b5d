"""Workloads of layers one after another."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError, Group, place
from dimsweep.engine.workload import AXES, Layer, TrainingLoop, training_iteration
from dimsweep.sweeper.config.parts.part import Flag, default, key, member
from dimsweep.sweeper.config.workload.workload import Workload

PASSES = ("forward", "input_grad", "weight_grad")


class Layered(Workload):
    """Layers one after another; ``loop``: how communication overlaps with compute;
    ``weight_gradients_first``: a layer's, before those of its input."""

    loop: Annotated[TrainingLoop, member(TrainingLoop)] = default("no_overlap")
    weight_gradients_first: Flag = False

    @property
    def axes(self) -> list[str]:
        """The axes that the layers name, beside those of all models."""
        return []

    @abstractmethod
    def build_layers(self, groups: Mapping[str, Group]) -> list[Layer]:
        """The layers, which communicate over ``groups``."""

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        with key("workload"):
            return self._build(cluster)

    def _build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        known = [*AXES, *sorted({*self.axes} - {*AXES})]
        with key("parallel"):
            groups = place(self.parallel, cluster.topology.sizes, known)
        layers = self.build_layers(groups)
        for layer in layers:
            for part in (layer.forward, layer.input_grad, layer.weight_grad):
                if part.communication and part.communication.group not in groups:
                    raise DimsweepError(
                        f"layer {layer.name!r} communicates over {part.communication.group!r}, "
                        "which is no axis of the parallel plan",
                        where="parallel",
                        hint=f"axes: {', '.join(groups) or 'none'}",
                    )
        graph = training_iteration(
            layers, self.loop, weight_gradients_first=self.weight_gradients_first
        )
        return dimsweep.engine.Workload((graph,), groups, name=self.name)
