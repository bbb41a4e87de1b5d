"""Lists of flows of several tools: choose the reader by the file's content."""

from pathlib import Path

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.htsim import read_connection_matrix
from dimsweep.engine.formats.ns3 import read_ns3_flows
from dimsweep.engine.formats.words import read_lines
from dimsweep.engine.workload import FlowList


def read_flows(path: Path, start: str = "us") -> FlowList:
    """Return the flows of a connection matrix of htsim or of a ``flow.txt`` of HPCC's ns-3.

    ``start`` is the unit of starts in a connection matrix (see :func:`read_connection_matrix`).
    Raises :class:`DimsweepError` naming file and line for anything malformed.
    """
    first = next(read_lines(path, "flows"), None)
    if first is None:
        raise DimsweepError("the list of flows is empty", where=str(path))
    if first.words[0][0].isdigit() and "->" not in first.words[0]:
        return read_ns3_flows(path)
    return read_connection_matrix(path, start)
