"""Transformer blocks from their dimensions."""

from collections.abc import Mapping

from dimsweep.engine import Group
from dimsweep.engine.workload import Layer, TransformerSlice
from dimsweep.sweeper.config.parts.part import ComputeRate, Whole
from dimsweep.sweeper.config.workload.layered import Layered
from dimsweep.sweeper.config.workload.size import check_size


class Transformer(Layered):
    """Transformer blocks from their dimensions (see engine.TransformerSlice)."""

    hidden: Whole
    layers: Whole
    batch: Whole
    sequence: Whole
    bytes_per_value: Whole = 2
    flops: ComputeRate

    def build_layers(self, groups: Mapping[str, Group]) -> list[Layer]:
        check_size(self.layers)
        names = ("hidden", "layers", "batch", "sequence", "bytes_per_value", "flops")
        tensor = groups["tensor"].n_members if "tensor" in groups else 1
        return TransformerSlice(
            tensor=tensor, **{name: getattr(self, name) for name in names}
        ).build()
