"""Workloads that are read from files: Chakra traces, flows, GOAL schedules."""

from typing import Annotated

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError, Fidelity, Program, naming_place
from dimsweep.engine.formats import START_UNITS, read_flows, read_goal
from dimsweep.engine.formats.chakra import read_chakra_workload, read_groups
from dimsweep.engine.workload import FlowList, ListedFlow, flows_workload
from dimsweep.sweeper.config.workload.workload import Workload
from dimsweep.sweeper.part import FileName, ValueParser, default, parse_name
from dimsweep.sweeper.places import find_file


class ChakraTraces(Workload):
    """A workload of Chakra execution traces. Their files may also be in studies/."""

    #: PREFIX of PREFIX.<rank>.et, or one .et file for all ranks.
    traces: FileName
    #: File of communicator groups.
    groups: FileName | None = None

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        groups = None if self.groups is None else find_file(self.groups)
        with naming_place("workload.groups"):
            read_groups(groups, cluster.topology.n_npus)
        with naming_place("workload.traces"):
            return read_chakra_workload(
                find_file(self.traces), groups, cluster.topology.sizes, self.name
            )


_FIDELITIES = Fidelity.FLOW, Fidelity.PACKET


def _start_unit(value: object) -> str:
    return parse_name(value, START_UNITS)


class Flows(Workload):
    """A list of flows (messages with start times). The flows of a rank share the rank's links."""

    #: Connection matrix of htsim (.cm), or flow.txt of HPCC's ns-3.
    file: FileName
    #: Unit of start times in a connection matrix: us or ps.
    start: Annotated[str, ValueParser(_start_unit, choices=START_UNITS)] = default("us")

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        """Return the flows as a workload; hosts of ``network.file`` are the NPUs."""
        with naming_place("workload.file"):
            listed = read_flows(find_file(self.file), self.start)
            sizes = cluster.topology.sizes
            return flows_workload(_map_hosts(listed, cluster), sizes, self.name)

    def program(
        self, cluster: Cluster, *, fidelity: Fidelity, fold: bool, network: str | None
    ) -> Program:
        if fidelity not in _FIDELITIES:
            raise DimsweepError(
                f"flows share links, but fidelity={fidelity} sends one message after another",
                where="fidelity",
                hint="choose fidelity=flow or packet",
                code="unsupported",
            )
        return super().program(cluster, fidelity=fidelity, fold=fold, network=network)


def _map_hosts(listed: FlowList, cluster: Cluster) -> tuple[ListedFlow, ...]:
    """Return the flows with the rank of each host; files of ns-3 number hosts among all nodes."""
    n, graph = cluster.topology.n_npus, cluster.network.graph
    if listed.n_hosts not in (None, n):
        problem = f"the flows are between {listed.n_hosts:,} hosts; the topology has {n:,} NPUs"
        hint = f"topology.shape='Switch({listed.n_hosts})'"
        raise DimsweepError(problem, hint=hint, code="mismatch")
    hosts = graph.hosts if graph is not None and listed.is_by_node else ()
    if not hosts:
        return listed.flows
    ranks = cluster.network.placement or range(len(hosts))
    rank = {hosts[npu]: i for i, npu in enumerate(ranks)}
    for flow in listed.flows:
        if strange := sorted({flow.source, flow.target} - rank.keys()):
            problem = f"node {strange[0]} is not a host of network.file with a rank"
            hint = "flows are between hosts"
            raise DimsweepError(problem, where=flow.where, hint=hint, code="mismatch")
    return tuple(
        flow._replace(source=rank[flow.source], target=rank[flow.target]) for flow in listed.flows
    )


class Goal(Workload):
    """A schedule in GOAL, the language of LogGOPSim and ATLAHS."""

    #: List of sends, receives and calculations (ns) for each rank.
    file: FileName

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        with naming_place("workload.file"):
            return read_goal(find_file(self.file), cluster.topology.sizes, self.name)
