"""Readers of networks and flows that recognise a file's format by its content."""

import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.htsim import read_connection_matrix, read_htsim_topology
from dimsweep.engine.formats.nccl_topology import ROOT, read_nccl_topology
from dimsweep.engine.formats.ns3 import read_ns3_flows, read_ns3_topology
from dimsweep.engine.formats.reading import decode_text, read_bytes, read_lines
from dimsweep.engine.network import LinkRate, Network, parse_network
from dimsweep.engine.workload import FlowList

_HEAD = 1 << 16  # bytes of a file from which its format is recognised
_READ = (
    "GraphML, node-link JSON, InfraGraph (YAML or JSON), the XML that NCCL and RCCL write at "
    "NCCL_TOPO_DUMP_FILE, topologies of HPCC's and SimAI's ns-3, and htsim's .topo"
)
_AS_GRAPHML = (
    "networkx reads it and writes GraphML: networkx.write_graphml(networkx.{}(FILE), "
    "'net.graphml'); then give each NPU its rank as `npu`, each edge `bandwidth` and `latency`"
)
# Unsupported formats by the root of their XML: the problem, and the way to a supported network.
_ROOTS = {
    "graphs": (
        "it is NCCL's graph of channels (NCCL_GRAPH_DUMP_FILE)",
        "set NCCL_TOPO_DUMP_FILE instead: that file has the links of the node",
    ),
    "topology": (
        "it is hwloc's (lstopo), which has no bandwidths",
        "run NCCL on that node with NCCL_TOPO_DUMP_FILE=topo.xml, and give topo.xml",
    ),
    "gexf": ("it is GEXF", _AS_GRAPHML.format("read_gexf")),
}
_GML = re.compile(r"\A(?:\s*(?:#.*|(?:Creator|Version|comment)\b.*)\n)*\s*graph\s*\[", re.I)
_DOT = re.compile(r"\A(?:\s*(?://.*|#.*)\n)*\s*(?:strict\s+)?(?:di)?graph\b[^\[]*\{", re.I)
_ASTRA_SIM = re.compile(r"""(?m)^[{"' ]*(?:npus_count|dimensions-count)["']?\s*:""")
_LEAD = r"\A(?:\s*(?:#.*)?\n)*\s*"  # empty lines and comments
_HTSIM = re.compile(rf"{_LEAD}(?:nodes|tiers|podsize)[ \t]+\d+", re.I)
_MATRIX = re.compile(r"(?m)^\s*(?:Connections[ \t]+\d+|\d+->\d+ )")
_NS3 = re.compile(rf"{_LEAD}\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+[ \t]+\d+[ \t]+\S+)?[ \t]*\r?\n")
_TEXTS = (
    (_GML, "it is GML", _AS_GRAPHML.format("read_gml")),
    (_DOT, "it is DOT (Graphviz)", _AS_GRAPHML.format("nx_agraph.read_dot")),
    (_MATRIX, "it is htsim's connection matrix", "give it as workload=flows workload.file=FILE"),
    (_ASTRA_SIM, "it is ASTRA-sim's network configuration", "give it as topology.file"),
)
_KEYS = "(?:infrastructure|devices|instances)"
_INFRAGRAPH = re.compile(rf'(?m)^{_KEYS}\s*:|"{_KEYS}"\s*:')


def _read_infragraph(path: Path, rates: Mapping[str, LinkRate] | None = None) -> Network:
    # Only this reader needs its schema, which takes 50 ms to build.
    from dimsweep.engine.formats.infragraph import read_infragraph

    return read_infragraph(path, rates)


# Supported formats, neither XML nor JSON, by a pattern in the first bytes of the text.
_READERS: tuple[tuple[re.Pattern[str], Callable[[Path], Network]], ...] = (
    (_INFRAGRAPH, _read_infragraph),
    (_HTSIM, lambda path: read_htsim_topology(path).network()),
    (_NS3, lambda path: read_ns3_topology(path).network()),
)


def read_any_network(path: Path, rates: Mapping[str, LinkRate] | None = None) -> Network:
    """Return the network in a file of any supported format, plain or gzip.

    The format is recognised by the content, not by the name.  ``rates`` are the rates of
    InfraGraph's links by name; links of other formats have no names.

    Raises :class:`DimsweepError` as :func:`engine.network.read_network` does, and naming the format
    for files of other tools.
    """
    content = read_bytes(path, "network")
    head = decode_text(content[:_HEAD], "replace").lstrip()
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    if rates:
        if head.startswith("<") or not _INFRAGRAPH.search(head):
            raise DimsweepError(
                "rates are given by link name, and only links of InfraGraph have names",
                where=str(path),
                code="conflict",
            )
        return _read_infragraph(path, rates)
    if head.startswith("<"):
        return _read_xml(path, content)
    for pattern, problem, hint in _TEXTS:
        if pattern.search(head):
            raise DimsweepError(problem, where=str(path), hint=hint, code="unsupported")
    is_json = head.startswith(("{", "[")) and not is_yaml
    if is_json and ('"nodes"' in head or not _INFRAGRAPH.search(head)):
        return parse_network(content, path, is_json=True)
    for pattern, read in _READERS:
        if pattern.search(head):
            return read(path)
    if is_yaml:  # its errors say what InfraGraph needs
        return _read_infragraph(path)
    raise DimsweepError(
        "unknown format of the network",
        where=str(path),
        hint=f"supported formats: {_READ}",
        code="bad-syntax",
    )


def _read_xml(path: Path, content: bytes) -> Network:
    root = _root(content)
    if root == ROOT:
        return read_nccl_topology(path)
    if root in _ROOTS:
        problem, hint = _ROOTS[root]
        raise DimsweepError(problem, where=str(path), hint=hint, code="unsupported")
    if root not in ("", "graphml"):
        problem = f"XML with the root {root!r} is not a network"
        raise DimsweepError(
            problem, where=str(path), hint=f"supported formats: {_READ}", code="unsupported"
        )
    return parse_network(content, path, is_json=False)


def _root(content: bytes) -> str:
    """Return the name of an XML file's root element without namespace, or "" for other content."""
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(content), events=("start",)):
            return str(element.tag).rpartition("}")[2]
    except (ValueError, LookupError, ElementTree.ParseError):
        pass
    return ""


def read_flows(path: Path, start: str = "us") -> FlowList:
    """Return the flows in a file: htsim's connection matrix, or ``flow.txt`` of HPCC's ns-3.

    ``start`` is the unit of starts in a connection matrix (see :func:`read_connection_matrix`).
    Raises :class:`DimsweepError` naming file and line for anything malformed.
    """
    first = next(read_lines(path, "flows"), None)
    if first is None:
        raise DimsweepError("the list of flows is empty", where=str(path), code="missing")
    if first.words[0][0].isdigit() and "->" not in first.words[0]:
        return read_ns3_flows(path)
    return read_connection_matrix(path, start)
