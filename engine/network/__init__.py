"""Networks as graphs of devices and links: the fabrics that build them, files, and routing."""

from engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh, build_network
from engine.network.files import read_network
from engine.network.graph import Link, Network
from engine.network.routing import Routing

__all__ = [
    "Auto",
    "Clos",
    "Dragonfly",
    "Fabric",
    "Link",
    "Mesh",
    "Network",
    "Routing",
    "build_network",
    "read_network",
]
