"""Generators of well-known networks, one module per family."""

from dimsweep.engine.network.generators.atop import Atop, Between, Within
from dimsweep.engine.network.generators.clos import FatTree, Hpn, NvlRacks, RailOnly, Roft
from dimsweep.engine.network.generators.generator import Generator, build_folded_clos
from dimsweep.engine.network.generators.lattices import HammingMesh, OcsTorus
from dimsweep.engine.network.generators.low_diameter import (
    DragonflyNetwork,
    DragonflyPlus,
    HyperX,
    Jellyfish,
    SlimFly,
)
from dimsweep.engine.network.generators.server_centric import BCube, ZCube
from dimsweep.engine.network.wires import Wires
from dimsweep.engine.registry import Registry

__all__ = [
    "GENERATORS",
    "Atop",
    "BCube",
    "Between",
    "DragonflyNetwork",
    "DragonflyPlus",
    "FatTree",
    "Generator",
    "HammingMesh",
    "Hpn",
    "HyperX",
    "Jellyfish",
    "NvlRacks",
    "OcsTorus",
    "RailOnly",
    "Roft",
    "SlimFly",
    "Wires",
    "Within",
    "ZCube",
    "build_folded_clos",
    "register",
]

#: All generators by their kinds.  A new one is a subclass, and one line here.
GENERATORS: Registry[type[Generator]] = Registry(
    "generator",
    {
        generator.kind: generator
        for generator in (
            FatTree,
            Roft,
            RailOnly,
            Hpn,
            DragonflyNetwork,
            DragonflyPlus,
            HyperX,
            HammingMesh,
            BCube,
            ZCube,
            SlimFly,
            Jellyfish,
            OcsTorus,
            NvlRacks,
            Atop,
        )
    },
)


def register(generator: type[Generator]) -> None:
    """Register a plug-in's generator class under its ``kind``, the name in configurations.

    Raises :class:`DimsweepError` if the kind is taken.
    """
    GENERATORS[generator.kind] = generator
