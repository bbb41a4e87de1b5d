"""Networks in files, whichever tool wrote them."""

from pathlib import Path

from dimsweep.engine.formats.nccl_topology import is_nccl_topology, read_nccl_topology
from dimsweep.engine.network import Network, read_network


def read_any_network(path: Path) -> Network:
    """GraphML or node-link JSON, InfraGraph in YAML, or NCCL's XML, by the name and the root.

    Raises :class:`DimsweepError` as :func:`engine.network.read_network` does.
    """
    if path.suffix.lower() in (".yaml", ".yml"):
        # Its schema takes a twentieth of a second, which no other network needs.
        from dimsweep.engine.formats.infragraph import read_infragraph

        return read_infragraph(path)
    if path.suffix.lower() == ".xml" and is_nccl_topology(path):
        return read_nccl_topology(path)
    return read_network(path)
