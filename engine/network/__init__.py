"""Networks as graphs of devices and links: fabrics that build them, network files, and routing."""

from dimsweep.engine.network.bill import Bill, Item, build_bill, list_needs
from dimsweep.engine.network.degrade import Change, Selection, degrade_network
from dimsweep.engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh, build_network
from dimsweep.engine.network.graph import Device, Kind, Link, LinkRate, Medium, Network
from dimsweep.engine.network.graph_files import parse_network, read_network, write_network
from dimsweep.engine.network.interconnect import (
    Interconnect,
    InterconnectPlan,
    compute_busiest_load,
)
from dimsweep.engine.network.levels import Level, build_levels
from dimsweep.engine.network.parts import (
    LEVELS,
    Amount,
    Cabling,
    Need,
    Part,
    PartKind,
    PriceList,
)
from dimsweep.engine.network.paths import PathLengths, Spread, Wiring, measure_path_lengths
from dimsweep.engine.network.routing import Routing, has_equal_paths
