"""The key ``network.wafer`` of a configuration."""

from typing import Annotated

from pydantic import Field

from dimsweep.engine.extensions.wafer import FredWafer, MeshWafer, Remedy
from dimsweep.engine.network import Interconnect
from dimsweep.engine.registry import Registry
from dimsweep.sweeper.part import Bandwidth, Time, ValueParser, VariantParser, member_type

#: Kinds of wafers: subclasses of :class:`engine.network.Interconnect` by name.
WAFERS: Registry[type[Interconnect]] = Registry(
    "kind of wafer", {"mesh": MeshWafer, "fred": FredWafer}
)
_WAFER = VariantParser(
    WAFERS,
    "kind",
    "wafer",
    link=Bandwidth,
    npu=Bandwidth,
    trunk=Bandwidth,
    io=Bandwidth,
    latency=Time,
    remedy=Annotated[Remedy, member_type(Remedy)],
)
#: The type of the key.
WAFER = Annotated[
    Annotated[Interconnect, ValueParser(_WAFER.parse, _WAFER.write, takes="mapping")] | None,
    Field(
        description="A wafer instead of the topology's dimensions. It defines how collectives run "
        "and which messages are urgent: first messages of tensor-parallel groups, then messages "
        "between stages. It may have more NPUs than the topology."
    ),
]
