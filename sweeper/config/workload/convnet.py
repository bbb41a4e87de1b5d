"""A convolutional network with measured durations."""

from collections.abc import Mapping

import dimsweep.engine.workload
from dimsweep.engine import Group
from dimsweep.engine.workload import Layer, data_parallel
from dimsweep.sweeper.config.parts.part import Part, Time, Whole
from dimsweep.sweeper.config.workload.layered import Layered


class Convolution(Part):
    """Input and output channels, kernel width, measured durations."""

    name: str
    inputs: Whole
    outputs: Whole
    kernel: Whole = 1
    forward: Time
    input_grad: Time
    weight_grad: Time


class ConvNet(Layered):
    """A convolutional network, data parallel."""

    bytes_per_value: Whole = 2
    layers: tuple[Convolution, ...] = ()

    def build_layers(self, groups: Mapping[str, Group]) -> list[Layer]:
        convolutions = [
            dimsweep.engine.workload.Convolution(**dict(layer)) for layer in self.layers
        ]
        return data_parallel(convolutions, self.bytes_per_value)
