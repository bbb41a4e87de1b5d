"""What NCCL finds in a node: the XML that it writes where ``NCCL_TOPO_DUMP_FILE`` says.

Elements and attributes are those of NCCL (github.com/NVIDIA/nccl, ``src/graph/xml.cc`` and
``topo.cc`` of version 2.28), and so is what it takes a link to carry (``topo.h``), which the file
does not say: 18 to 40.1 GB/s an NVLink by the GPU's compute capability, a PCIe lane's rate, and
what joins two sockets by the make of the processor.
"""

import itertools
import math
from pathlib import Path
from xml.etree import ElementTree

from dimsweep.engine.cluster.blocks.block import Node
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.content import read_bytes
from dimsweep.engine.network import Kind, Network

ROOT = "system"
_NVSWITCH, _PROCESSOR = "0x068000", "0x068001"  # classes of PCI devices at the far end of an NVLink
_MEGABITS = 100 / 8 * 1e6  # bytes/s of 100 Mb/s, in which NCCL has a lane's rate
# GT/s of a lane, and its rate in 100 Mb/s; of others, that of PCIe 3.
_LANES = {"2.5": 15, "5": 30, "5.0": 30, "8": 60, "8.0": 60, "16": 120, "16.0": 120, "32": 240}
_LANES |= {"32.0": 240, "64.0": 480}
_PCIE_3 = 60
_NVLINKS = ((100, 40.1e9), (90, 20.6e9), (87, 20e9), (86, 12e9), (70, 20e9), (60, 18e9))
_UNKNOWN_NIC = 10_000  # Mb/s, of a NIC whose speed is -1
_ONE_CHIP = 5e12  # of makes that NCCL does not know
_SOCKETS = {"AuthenticAMD": 16e9, "arm64": 6e9, "ppc64": 32e9}
# Of Intel's family 6, by the least model: Emerald Rapids, Sapphire Rapids, Skylake, and before.
_INTEL = ((0xCF, 40e9), (0x8F, 22e9), (0x55, 10e9), (0, 6e9))


def is_nccl_topology(path: Path) -> bool:
    """Whether an XML file is NCCL's, and no GraphML."""
    try:
        with path.open("rb") as file:
            for _, element in ElementTree.iterparse(file, events=("start",)):
                return element.tag == ROOT
    except (OSError, ValueError, LookupError, ElementTree.ParseError):
        pass
    return False


def read_nccl_topology(path: Path) -> Network:
    """The network of a node: GPUs are NPUs, in the order of their ranks; NVSwitches are one switch,
    as NCCL has them, PCIe switches are switches, processors hosts, and network devices NICs, each
    with the speed of its port; what they lead to, the file does not know.

    Latencies are 0 but for those of network devices that tell one: NCCL measures none.  The end
    of a GPU at PCIe is a switch of its own, so that NVLink is nearer than a PCIe switch that two
    GPUs share.  Raises :class:`DimsweepError` naming the file and the element for what NCCL does
    not write.
    """
    try:
        root = ElementTree.fromstring(read_bytes(path, "topology"))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DimsweepError(f"it is no XML: {error}", where=str(path)) from error
    try:
        return _Node(root).network()
    except RecursionError as error:
        raise DimsweepError("it is nested too deeply", where=str(path)) from error
    except DimsweepError as error:
        raise error.within(path) from None


class _Node:
    def __init__(self, root: ElementTree.Element) -> None:
        import networkx as nx  # which few runs need

        if root.tag != ROOT:
            what, hint = f"its root is {root.tag}", "what NCCL writes at NCCL_TOPO_DUMP_FILE"
            raise DimsweepError(what, hint=hint)
        self._graph: nx.DiGraph = nx.DiGraph()
        self._cpus = root.findall("cpu")
        gpus = [(_whole(gpu, "rank"), gpu) for gpu in root.iter("gpu")]
        ranks = sorted(rank for rank, _ in gpus)
        if len({*ranks}) < len(ranks):
            twice = next(a for a, b in itertools.pairwise(ranks) if a == b)
            raise DimsweepError(f"two GPUs have rank {twice}")
        self._rank = {id(gpu): ranks.index(rank) for rank, gpu in gpus}
        self._at: dict[str, int] = {}  # GPUs by their place on the PCI bus
        for pci in root.iter("pci"):
            for gpu in pci.findall("gpu"):
                self._at[_text(pci, "busid")] = self._rank[id(gpu)]

    def network(self) -> Network:
        """All that is below the processors, and NVLinks."""
        for rank in sorted(self._rank.values()):
            self._graph.add_node(rank)
        names = [f"cpu {i}" for i in range(len(self._cpus))]
        for name, cpu in zip(names, self._cpus, strict=True):
            self._graph.add_node(name, kind=Kind.HOST)
            self._cpu = name
            self._below(cpu)
        for one, other in itertools.permutations(range(len(names)), 2):
            bandwidth = _socket(self._cpus[one])
            self._graph.add_edge(names[one], names[other], bandwidth=bandwidth, latency=0)
        return Network(self._graph)

    def _below(self, cpu: ElementTree.Element) -> None:
        for pci in cpu.findall("pci"):
            self._pci(pci, self._cpu)
        for nic in cpu.findall("nic"):
            self._nic(nic, self._cpu, None)

    def _pci(self, pci: ElementTree.Element, above: str) -> None:
        name = f"pci {_text(pci, 'busid')}"
        if name in self._graph:
            raise DimsweepError("two devices are there", where=name)
        width = _whole(pci, "link_width", 0) or 16
        speed = _LANES.get(pci.get("link_speed", "").partition(" ")[0], _PCIE_3)
        bandwidth = width * speed * _MEGABITS
        self._graph.add_node(name)
        self._cable(name, above, bandwidth)
        for gpu in pci.findall("gpu"):
            rank = self._rank[id(gpu)]
            self._cable(rank, name, bandwidth)
            self._nvlinks(gpu, rank, name)
        for nic in pci.findall("nic"):
            self._nic(nic, name, bandwidth)
        for below in pci.findall("pci"):
            self._pci(below, name)

    def _nvlinks(self, gpu: ElementTree.Element, rank: int, name: str) -> None:
        each = next((rate for least, rate in _NVLINKS if _whole(gpu, "sm") >= least), 20e9)
        total = dict[Node, float]()
        for link in gpu.findall("nvlink"):
            kind, target = link.get("tclass", ""), _text(link, "target")
            far: Node = "NVSwitch"
            if kind == _PROCESSOR:
                far = self._cpu
            elif kind != _NVSWITCH:
                if target not in self._at:
                    what = f"an NVLink leads to {target}, and no GPU is there"
                    raise DimsweepError(what, where=name)
                far = self._at[target]
            total[far] = total.get(far, 0.0) + each * _whole(link, "count", 1, least=1)
        for c2c in gpu.findall("c2c"):
            far = self._cpu
            rate = _whole(c2c, "bw", least=1) * 1e6 * _whole(c2c, "count", 1, least=1)
            total[far] = total.get(far, 0.0) + rate
        for far, bandwidth in total.items():
            self._graph.add_edge(rank, far, bandwidth=bandwidth, latency=0)
            if isinstance(far, str):
                self._graph.add_edge(far, rank, bandwidth=bandwidth, latency=0)

    def _nic(self, nic: ElementTree.Element, above: str, bandwidth: float | None) -> None:
        for net in nic.findall("net"):
            name = f"nic {_text(net, 'name')}"
            if name in self._graph:
                name = f"{name} {_text(net, 'dev')}"
            if name in self._graph:
                raise DimsweepError("two network devices are called so", where=name)
            speed = _whole(net, "speed", 0)
            rate = (speed if speed > 0 else _UNKNOWN_NIC) * 1e6 / 8
            self._graph.add_node(name, kind=Kind.NIC)
            self._cable(name, above, min(rate, bandwidth or rate), _latency(net))

    def _cable(self, one: Node, other: Node, bandwidth: float, latency: int = 0) -> None:
        for ends in ((one, other), (other, one)):
            self._graph.add_edge(*ends, bandwidth=bandwidth, latency=latency)


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.get(name)
    if not found:
        raise DimsweepError(f"a {element.tag} without {name!r}")
    return found


def _whole(
    element: ElementTree.Element, name: str, usual: int | None = None, *, least: int | None = None
) -> int:
    """A whole number; ``usual`` where there is none."""
    text = element.get(name)
    if not text and usual is not None:
        return usual
    try:
        found = int(_text(element, name), 0)
    except ValueError:
        found = None
    if found is None or abs(found) > 10**12 or (least is not None and found < least):
        what = f"{name!r} of a {element.tag} is {text!r}"
        raise DimsweepError(what, hint="a whole number" + (f" from {least} on" if least else ""))
    return found


def _latency(net: ElementTree.Element) -> int:
    """Picoseconds; the file has microseconds."""
    text = net.get("latency") or "0"
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1e6:
        raise DimsweepError(f"'latency' of a net is {text!r}", hint="microseconds, such as 1.5")
    return round(found * 1e6)


def _socket(cpu: ElementTree.Element) -> float:
    """What joins a processor to the others, in bytes/s."""
    vendor, arch = cpu.get("vendor", ""), cpu.get("arch", "")
    if vendor == "GenuineIntel":
        model = _whole(cpu, "modelid", 0)
        return next((rate for least, rate in _INTEL if model >= least), _INTEL[-1][1])
    return _SOCKETS.get(vendor, _SOCKETS.get(arch, _ONE_CHIP))
