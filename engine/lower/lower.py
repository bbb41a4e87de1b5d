"""Lowering: workload + cluster -> :class:`Program`, done once for all bandwidths of a sweep."""

from graphlib import CycleError, TopologicalSorter

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.algorithms import chosen_algorithms
from dimsweep.engine.collector import collector_paused
from dimsweep.engine.errors import DimsweepError, prefixing_errors
from dimsweep.engine.lower import program as p
from dimsweep.engine.lower.choices import Choices
from dimsweep.engine.lower.fold import fold_ranks
from dimsweep.engine.lower.forms import Forms
from dimsweep.engine.lower.memory import Servers, apply_expansion, build_node_group, check_memory
from dimsweep.engine.lower.nodes import Nodes
from dimsweep.engine.lower.tables import structure
from dimsweep.engine.workload.graph import Workload


@collector_paused()  # hundreds of thousands of small objects, and no cycles among them
def lower(workload: Workload, cluster: Cluster, *, fold: bool = True) -> p.Program:
    """Lower ``workload`` on ``cluster`` to a program of flat arrays.

    Parameters
    ----------
    workload, cluster
        The operators, and the NPUs and network that run them.
    fold
        Whether one rank of each class of equal ranks is simulated. Without folding the result
        is the same, and the cost is higher.

    Raises
    ------
    InfeasibleError
        For a workload that does not fit the NPU's memory.
    DimsweepError
        For groups that do not fit, unknown algorithms, members of a collective that disagree,
        and sends without a receive.
    """
    workload.check(cluster.topology.sizes)
    if workload.footprint is not None:
        stages = workload.stages and workload.groups[workload.stages]
        check_memory(workload.footprint, cluster, stages or None)
    if cluster.reliability is not None:
        with prefixing_errors("reliability"):  # before anything is simulated
            cluster.reliability.renewal(cluster.topology.n_npus, workload.state)
    _check_acyclic(workload)
    nodes_shared = build_node_group(workload, cluster)
    cluster = apply_expansion(cluster, workload.footprint)
    sizes, npus = cluster.topology.sizes, cluster.npus
    folding = fold_ranks(workload, sizes, fold=fold, nodes=nodes_shared, npu=npus.of)
    algorithms = chosen_algorithms(cluster)
    forms = Forms(cluster, workload, algorithms)
    nodes = Nodes(workload, cluster, folding, forms, Servers(workload, cluster, folding))
    nodes.match_transfers()
    names = p.Names(
        node=nodes.name,
        stream=nodes.stream_names,
        dims=tuple(f"{d}: {dim.name}" for d, dim in enumerate(cluster.topology.dims)),
        tally=tuple(nodes.tallies),
        class_count=tuple(folding.count),
        class_first=tuple(folding.first),
        flow_group=tuple(nodes.flow_group),
    )
    tables = structure(cluster, folding, nodes, forms, in_order=workload.in_order)
    choices = None if forms.library is None else Choices(forms.library, forms)
    return p.Program.build(
        cluster,
        tables,
        names,
        workload,
        algorithms=algorithms,
        accesses=nodes.accesses(),
        chooser=choices,
    )


def _check_acyclic(workload: Workload) -> None:
    # An operator that waits only for earlier operators is in no circle.
    if workload.is_sorted:
        return
    for number, graph in enumerate(workload.graphs):
        waits = {i: operator.after for i, operator in enumerate(graph) if operator.after}
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            numbers = error.args[1][1:]  # each is waited for by the next, the last by the first
            first = numbers.index(min(numbers))
            circle = [graph[i].name for i in numbers[first:] + numbers[:first]]
            more = f" and {len(circle) - 5} more" if len(circle) > 5 else ""
            raise DimsweepError(
                f"operators wait for each other in a circle: {', '.join(circle[:5])}{more}",
                where=f"graph {number}",
                code="invalid",
            ) from None
