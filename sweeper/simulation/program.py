"""Build the engine's program, cluster and workload from a configuration.

Errors name the key (``topology.bandwidth[1]``); :meth:`Origin.add_source` adds the file.
"""

from dataclasses import replace

from dimsweep.engine import Cluster, Program, Workload
from dimsweep.engine.cluster import MEMORIES
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.part import naming_key


def build_program(config: Config, cluster: Cluster | None = None) -> Program:
    """Return the program of a configuration on ``cluster`` (None: the configured one).

    If every message is simulated, the program has every rank separately.
    """
    cluster = build_cluster(config) if cluster is None else cluster
    return config.workload.program(
        cluster, fidelity=config.fidelity, fold=config.fold, network=config.topology.file
    )


def build_cluster(config: Config) -> Cluster:
    """Return the cluster of a configuration.

    On a wafer without other memory, NPUs load and store through its I/O controllers.
    """
    with naming_key("topology"):
        topology = config.topology.build()
    n_dims = len(topology.dims)
    with naming_key("npu"):
        npu = config.npu.build(config.workload.arithmetic, config.workload.narrow)
    with naming_key("memory"):
        memory = config.memory.build()
    with naming_key("collective"):
        collectives = config.collective.build(n_dims)
    with naming_key("network"):
        network = config.network.build(topology, config.fidelity)
    n_npus = topology.n_npus if network.graph is None else network.graph.n_npus
    others = []
    for i, other in enumerate(config.other_npus):
        with naming_key(f"other_npus[{i}]"):
            others.append(other.build(n_npus, config.workload.arithmetic, config.workload.narrow))
    if memory is None and network.interconnect is not None:
        memory = MEMORIES["edge_io"](network.interconnect.stream_bandwidth)
    cluster = Cluster(topology, npu, collectives, network, memory=memory, other_npus=tuple(others))
    with naming_key("reliability"):
        cluster = replace(cluster, reliability=config.reliability.build())
    assert cluster.npus  # which raises for numbers that no NPU has: here it is known whose they are
    bought = config.purchase(topology, network)
    return replace(cluster, prices=bought.prices(), power=bought.watts())


def build_workload(config: Config, cluster: Cluster) -> Workload:
    """Return the operator graphs and process groups of the workload on ``cluster``."""
    return config.workload.build(cluster)
