"""Read the XML that NCCL and RCCL write at ``NCCL_TOPO_DUMP_FILE``: a node, or an NVLink domain.

Elements and attributes follow NCCL (github.com/NVIDIA/nccl, ``src/graph/xml.cc`` and
``topo.cc`` of version 2.28) and of RCCL (github.com/ROCm/rccl).  Rates that the file lacks
follow them, too (``topo.h``): 18 to 40.1 GB/s an NVLink by the GPU's compute capability, 24 to
48 GB/s an xGMI link by the GPU's architecture, a PCIe lane's rate, and the link between two sockets
by the make of the processor.
"""

import itertools
import math
from pathlib import Path
from xml.etree import ElementTree

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.reading import read_bytes
from dimsweep.engine.network import Kind, Network
from dimsweep.engine.topology.blocks import Node

ROOT = "system"
_NVSWITCH, _PROCESSOR = "0x068000", "0x068001"  # classes of PCI devices at the far end of an NVLink
_MEGABITS = 100 / 8 * 1e6  # bytes/s of 100 Mb/s, in which NCCL has a lane's rate
# Rate of a lane in 100 Mb/s, by its GT/s; lanes of other speeds count as PCIe 3.
_LANES = {"2.5": 15, "5": 30, "5.0": 30, "8": 60, "8.0": 60, "16": 120, "16.0": 120, "32": 240}
_LANES |= {"32.0": 240, "64.0": 480}
_PCIE_3 = 60
_NVLINKS = ((100, 40.1e9), (90, 20.6e9), (87, 20e9), (86, 12e9), (70, 20e9), (60, 18e9))
# xGMI by architecture: gfx90a, or 910 in older files; the last one is for Vega and MI100.
_XGMIS = (("95", 48e9), ("94", 48e9), ("90a", 36e9), ("910", 36e9), ("", 24e9))
_LINKS = ("nvlink", "c2c", "xgmi")  # elements in a <gpu>
_GPU_CLASSES = ("0x03", "0x12")  # of PCI devices: displays, accelerators
_UNKNOWN_NIC = 10_000  # Mb/s, of a NIC whose speed is -1
_ONE_CHIP = 5e12  # of makes that NCCL does not know
_SOCKETS = {"AuthenticAMD": 16e9, "arm64": 6e9, "ppc64": 32e9}
# Intel's family 6, by the lowest model: Emerald Rapids, Sapphire Rapids, Skylake, and before.
_INTEL = ((0xCF, 40e9), (0x8F, 22e9), (0x55, 10e9), (0, 6e9))


def read_nccl_topology(path: Path) -> Network:
    """Return the network of a node, or of the hosts of an NVLink domain.

    GPUs are NPUs, in the order of their ranks.  All NVSwitches are one switch, as in NCCL.  PCIe
    switches are switches, processors are hosts, and network devices are NICs, each with the speed
    of its port; the file does not contain the network behind a NIC.  Links to GPUs that are not in
    the file are left out, as in NCCL.

    Latencies are 0, except for network devices with a latency: NCCL measures none.  The end of a
    GPU at PCIe is a separate switch, so that NVLink is nearer than a PCIe switch that two GPUs
    share.  Raises :class:`DimsweepError` naming the file and the element for malformed files.
    """
    try:
        root = ElementTree.fromstring(read_bytes(path, "topology"))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DimsweepError(
            f"it is not XML: {error}", where=str(path), code="bad-syntax"
        ) from error
    try:
        return _Node(root).network()
    except RecursionError as error:
        raise DimsweepError(
            "it is nested too deeply", where=str(path), code="bad-syntax"
        ) from error
    except DimsweepError as error:
        raise error.in_place(path) from None


class _Node:
    def __init__(self, root: ElementTree.Element) -> None:
        import networkx as nx  # a slow import

        self._graph: nx.DiGraph = nx.DiGraph()
        self._cpus = root.findall("cpu")
        gpus = [(_whole_number(gpu, "rank"), gpu) for gpu in root.iter("gpu") if gpu.get("rank")]
        if not gpus:
            raise _no_gpus(root)
        ranks = sorted(rank for rank, _ in gpus)
        if len({*ranks}) < len(ranks):
            twice = next(a for a, b in itertools.pairwise(ranks) if a == b)
            raise DimsweepError(f"two GPUs have rank {twice}", code="duplicate")
        self._rank = {id(gpu): ranks.index(rank) for rank, gpu in gpus}
        hashes = list(dict.fromkeys(cpu.get("host_hash") for cpu in self._cpus))
        self._hosts = [hashes.index(cpu.get("host_hash")) for cpu in self._cpus]
        self._several = len(hashes) > 1
        self._at: dict[tuple[int, str], int] = {}  # GPUs by host and PCI address
        for cpu, host in zip(self._cpus, self._hosts, strict=True):
            for pci in cpu.iter("pci"):
                for gpu in self._gpus(pci):
                    self._at[host, _text(pci, "busid")] = self._rank[id(gpu)]

    def network(self) -> Network:
        """Return the network of all devices below the CPUs, with PCIe, NVLink and xGMI links."""
        for rank in sorted(self._rank.values()):
            self._graph.add_node(rank)
        names = [f"cpu {i}" for i in range(len(self._cpus))]
        for name, cpu, host in zip(names, self._cpus, self._hosts, strict=True):
            self._graph.add_node(name, kind=Kind.HOST)
            self._cpu, self._host = name, host
            self._add_devices(cpu)
        for one, other in itertools.permutations(range(len(names)), 2):
            if self._hosts[one] == self._hosts[other]:
                bandwidth = _socket(self._cpus[one])
                self._graph.add_edge(names[one], names[other], bandwidth=bandwidth, latency=0)
        return Network(self._graph)

    def _gpus(self, pci: ElementTree.Element) -> list[ElementTree.Element]:
        """Return the GPUs of a PCI device that have a rank; NCCL skips the others, too."""
        return [gpu for gpu in pci.findall("gpu") if id(gpu) in self._rank]

    def _named(self, name: str) -> str:
        return f"host {self._host} {name}" if self._several else name

    def _add_devices(self, cpu: ElementTree.Element) -> None:
        for pci in cpu.findall("pci"):
            self._pci(pci, self._cpu)
        for nic in cpu.findall("nic"):
            self._nic(nic, self._cpu, None)

    def _pci(self, pci: ElementTree.Element, above: str) -> None:
        name = self._named(f"pci {_text(pci, 'busid')}")
        if name in self._graph:
            raise DimsweepError("two devices have this bus address", where=name, code="duplicate")
        width = _whole_number(pci, "link_width", 0) or 16
        speed = _LANES.get(pci.get("link_speed", "").partition(" ")[0], _PCIE_3)
        bandwidth = width * speed * _MEGABITS
        self._graph.add_node(name)
        self._cable(name, above, bandwidth)
        for gpu in self._gpus(pci):
            rank = self._rank[id(gpu)]
            self._cable(rank, name, bandwidth)
            self._links(gpu, rank, name)
        for nic in pci.findall("nic"):
            self._nic(nic, name, bandwidth)
        for below in pci.findall("pci"):
            self._pci(below, name)

    def _links(self, gpu: ElementTree.Element, rank: int, name: str) -> None:
        """Add the links of a GPU: NVLink or xGMI to GPUs and NVSwitches, and to its CPU."""
        total = dict[Node, float]()
        for link in gpu:
            if link.tag not in _LINKS:
                problem, hint = (
                    f"<{link.tag}> in a <gpu> is not supported",
                    f"known: {', '.join(_LINKS)}",
                )
                raise DimsweepError(problem, where=name, hint=hint, code="unsupported")
            far = self._cpu if link.tag == "c2c" else self._far_end(link)
            if far is not None:
                rate = _rate(gpu, link) * _whole_number(link, "count", 1, least=1)
                total[far] = total.get(far, 0.0) + rate
        for far, bandwidth in total.items():
            self._graph.add_edge(rank, far, bandwidth=bandwidth, latency=0)
            if isinstance(far, str):
                self._graph.add_edge(far, rank, bandwidth=bandwidth, latency=0)

    def _far_end(self, link: ElementTree.Element) -> Node | None:
        """Return the node at the end of an NVLink or xGMI link; None for a GPU not in the file."""
        kind = link.get("tclass", "")
        if kind == _PROCESSOR:
            return self._cpu
        if kind == _NVSWITCH:
            return "NVSwitch"
        return self._at.get((self._host, _text(link, "target")))

    def _nic(self, nic: ElementTree.Element, above: str, bandwidth: float | None) -> None:
        for net in nic.findall("net"):
            if not net.get("dev") or net.get("net") == "0":  # NCCL does not use these
                continue
            name = self._named(f"nic {_text(net, 'name')}")
            if name in self._graph:
                name = f"{name} {_text(net, 'dev')}"
            if name in self._graph:
                raise DimsweepError(
                    "two network devices have this name", where=name, code="duplicate"
                )
            speed = _whole_number(net, "speed", 0)
            rate = (speed if speed > 0 else _UNKNOWN_NIC) * 1e6 / 8
            self._graph.add_node(name, kind=Kind.NIC)
            self._cable(name, above, min(rate, bandwidth or rate), _latency(net))

    def _cable(self, one: Node, other: Node, bandwidth: float, latency: int = 0) -> None:
        for ends in ((one, other), (other, one)):
            self._graph.add_edge(*ends, bandwidth=bandwidth, latency=latency)


def _text(element: ElementTree.Element, name: str) -> str:
    found = element.get(name)
    if not found:
        raise DimsweepError(f"a <{element.tag}> lacks the attribute {name!r}", code="missing")
    return found


def _whole_number(
    element: ElementTree.Element, name: str, usual: int | None = None, *, least: int | None = None
) -> int:
    """Return the attribute ``name`` as a whole number, or ``usual`` if it is missing.

    It must be at least ``least``, if given.
    """
    text = element.get(name)
    if not text and usual is not None:
        return usual
    try:
        found = int(_text(element, name), 0)
    except ValueError:
        found = None
    if found is None or abs(found) > 10**12 or (least is not None and found < least):
        problem = f"{name!r} of a <{element.tag}> is {text!r}"
        raise DimsweepError(
            problem,
            hint="expected a whole number" + (f" of {least} or more" if least else ""),
            code="out-of-range",
        )
    return found


def _latency(net: ElementTree.Element) -> int:
    """Return a network device's latency in picoseconds; the file has microseconds."""
    text = net.get("latency") or "0"
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1e6:
        raise DimsweepError(
            f"'latency' of a <net> is {text!r}",
            hint="expected microseconds, such as 1.5",
            code="out-of-range",
        )
    return round(found * 1e6)


def _rate(gpu: ElementTree.Element, link: ElementTree.Element) -> float:
    """Return the bytes/s of one NVLink or xGMI link of ``gpu``."""
    if link.tag == "c2c":
        return _whole_number(link, "bw", least=1) * 1e6
    if link.tag == "xgmi":
        architecture = _text(gpu, "gcn").removeprefix("gfx")
        return next(rate for start, rate in _XGMIS if architecture.startswith(start))
    return next((rate for least, rate in _NVLINKS if _whole_number(gpu, "sm") >= least), 20e9)


def _no_gpus(root: ElementTree.Element) -> DimsweepError:
    """Return the error for a file without GPUs, such as the files that clouds install."""
    places = [pci for pci in root.iter("pci") if pci.get("class", "").startswith(_GPU_CLASSES)]
    return DimsweepError(
        f"no <gpu> has a rank; the file has only the PCI addresses of {len(places)} GPUs",
        hint="a file for NCCL_TOPO_FILE, such as clouds install, has no GPUs: run NCCL on that "
        "machine with it and with NCCL_TOPO_DUMP_FILE=topo.xml, and give topo.xml",
        code="missing",
    )


def _socket(cpu: ElementTree.Element) -> float:
    """Return the bandwidth of the link between two CPU sockets, in bytes/s."""
    vendor, arch = cpu.get("vendor", ""), cpu.get("arch", "")
    if vendor == "GenuineIntel":
        model = _whole_number(cpu, "modelid", 0)
        return next((rate for least, rate in _INTEL if model >= least), _INTEL[-1][1])
    return _SOCKETS.get(vendor, _SOCKETS.get(arch, _ONE_CHIP))
