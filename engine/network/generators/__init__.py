"""Generators of networks, one file each."""

from dimsweep.engine.network.generators.atop import Atop, Between, Within
from dimsweep.engine.network.generators.bcube import BCube
from dimsweep.engine.network.generators.dragonfly import DragonflyNetwork, DragonflyPlus
from dimsweep.engine.network.generators.fat_tree import FatTree, Roft
from dimsweep.engine.network.generators.generator import Generator, Wires, fold
from dimsweep.engine.network.generators.hamming_mesh import HammingMesh
from dimsweep.engine.network.generators.hpn import Hpn
from dimsweep.engine.network.generators.hyperx import HyperX
from dimsweep.engine.network.generators.jellyfish import Jellyfish
from dimsweep.engine.network.generators.nvl_racks import NvlRacks
from dimsweep.engine.network.generators.ocs_torus import OcsTorus
from dimsweep.engine.network.generators.rail_only import RailOnly
from dimsweep.engine.network.generators.slim_fly import SlimFly
from dimsweep.engine.network.generators.zcube import ZCube
from dimsweep.engine.registry import Registry

#: All generators by their kinds.  A new one is one file with a subclass, and one line here.
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
    """Makes a generator of a plug-in known by its ``kind``.

    Raises :class:`DimsweepError` if there is one of that kind already.
    """
    GENERATORS[generator.kind] = generator
