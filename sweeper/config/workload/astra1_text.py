"""An ASTRA-sim 1.0 workload file."""

from collections.abc import Mapping

from dimsweep.engine import Group, within
from dimsweep.engine.formats import read_astra1_layers
from dimsweep.engine.workload import Layer
from dimsweep.sweeper.config.parts.part import File, Part, default
from dimsweep.sweeper.config.parts.places import found
from dimsweep.sweeper.config.workload.layered import Layered


class PassGroups(Part):
    """The axis that each pass of a layer communicates over."""

    forward: str = "tensor"
    input_grad: str = "tensor"
    weight_grad: str = "data"


class Astra1Text(Layered):
    """An ASTRA-sim 1.0 workload file; ``groups``: the axis that each pass communicates over.  The
    parallel plan must be that of the file's header, if it has one."""

    file: File
    groups: PassGroups = default(PassGroups)

    @property
    def axes(self) -> list[str]:
        return list(dict(self.groups).values())

    def build_layers(self, groups: Mapping[str, Group]) -> list[Layer]:
        degrees = {axis: group.n_members for axis, group in groups.items()}
        with within("file"):
            return read_astra1_layers(found(self.file), dict(self.groups), degrees)
