"""A guess which ranks are alike is taken only if they are: the partition must be equitable."""

import networkx as nx
import numpy as np
import pytest

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    GraphBuilder,
    Group,
    Operator,
    Receive,
    Send,
    Topology,
    Workload,
)
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.kernels.messages import lower_by_rank, network_of
from dimsweep.engine.kernels.messages.folding import Parts, Twins, find_twins, list_parts, refine
from dimsweep.engine.kernels.messages.tables import build_tables
from dimsweep.engine.network.graph import Network

ALL_REDUCE = CollectiveKind.ALL_REDUCE


def graph(duration: int = 1000, group: str = "all", *, sends: bool = False) -> tuple[Operator, ...]:
    builder = GraphBuilder()
    first = builder.add("compute", Compute(duration=duration))
    if sends:
        builder.add("send", Send(1e5, (1,), 0), [first])
        builder.add("receive", Receive((-1,), 0))
    else:
        builder.add("reduce", Collective(ALL_REDUCE, 4e5, group), [first])
    return builder.build()


def parts(*graphs: tuple[Operator, ...], slow: float = 1.0, groups: int = 4) -> Parts:
    """Of four ranks on a ring, the first of whose links may be slower; each runs its graph."""
    ring = nx.DiGraph()
    for npu in range(4):
        for to in ((npu + 1) % 4, (npu - 1) % 4):
            ring.add_edge(npu, to, bandwidth=1e10 * (slow if npu == 0 else 1.0), latency=5)
    topology = Topology.build("Ring(4)", bandwidth=[2e10], latency=[5])
    model = NetworkModel(graph=Network(ring))
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=2), network=model)
    all_groups = {"all": Group((groups,), (1,)), "pairs": Group((2,), (2,))}
    used = {op.work.group for g in graphs for op in g if isinstance(op.work, Collective)}
    own = {name: group for name, group in all_groups.items() if name in used}
    of_rank = np.arange(4) % len(graphs)
    program = lower_by_rank(Workload(graphs, own, of_rank), cluster)
    network = network_of(program)
    tables = build_tables(program, network)
    return list_parts(program.structure, tables, network.links)


def alike(found: Parts, *colour: int) -> bool:
    return isinstance(find_twins(found, np.array(colour)), Twins)


@pytest.mark.parametrize("sends", [False, True])
def test_only_equitable_partitions_of_a_ring_pass(sends: bool) -> None:
    """Everybody sends to the next: halves of the ring meet others in another order."""
    ring = parts(graph(sends=sends))
    assert alike(ring, 0, 0, 0, 0) and alike(ring, 0, 1, 0, 1) and alike(ring, 0, 1, 2, 3)
    assert not alike(ring, 0, 0, 1, 1) and not alike(ring, 0, 1, 1, 0)
    assert not alike(ring, 0, 0, 0, 1)
    colour = refine(ring, 4)
    assert colour is not None and set(colour) == {0}


@pytest.mark.parametrize(
    "graphs",
    [(graph(1000), graph(1001)), (graph(sends=True), graph(999, sends=True))],
)
def test_what_computes_longer_is_another_rank(graphs: tuple[tuple[Operator, ...], ...]) -> None:
    found = parts(*graphs)
    assert not alike(found, 0, 0, 0, 0) and alike(found, 0, 1, 0, 1)
    colour = refine(found, 4)
    assert colour is not None and colour.tolist() == [0, 1, 0, 1]


def test_a_slower_link_is_another_link() -> None:
    found = parts(graph(), slow=0.5)
    assert not alike(found, 0, 0, 0, 0) and refine(found, 4) is None


def test_every_part_tells_ranks_apart() -> None:
    """Whatever is changed of one rank alone is seen."""
    found = parts(graph())
    for name in ("nodes", "messages"):
        rows = getattr(found, name)
        known = rows.known.copy()
        known[rows.rank == 2, -1] += 1
        assert not alike(found._replace(**{name: rows._replace(known=known)}), 0, 0, 0, 0), name
    for name in ("flows", "lines", "links"):
        thing = getattr(found, name)
        known = thing.known.copy()
        known[thing.of[thing.rows.rank == 2][0]] += 1
        changed = alike(found._replace(**{name: thing._replace(known=known)}), 0, 0, 0, 0)
        assert changed == (len(thing.known) == 1), name  # where all share one thing, it is theirs


@pytest.mark.parametrize("name", ["flows", "links"])
def test_who_has_a_part_in_what_is_seen(name: str) -> None:
    """One rank's message goes to another flow, or over another link, than those of the others."""
    found = parts(graph(sends=True))
    thing = getattr(found, name)
    of = thing.of.copy()
    (row,) = np.flatnonzero(thing.rows.rank == 2)[:1]
    of[row] = of[np.flatnonzero(thing.rows.rank == 3)[0]]
    assert alike(found, 0, 0, 0, 0)
    assert not alike(found._replace(**{name: thing._replace(of=of)}), 0, 0, 0, 0)


def test_flows_of_a_rank_must_have_an_order() -> None:
    builder = GraphBuilder()
    for i in range(2):
        builder.add(str(i), Collective(ALL_REDUCE, 4e5, "all"))
    found = parts(builder.build())
    assert alike(found, 0, 0, 0, 0)
    assert not alike(found._replace(keys=np.zeros_like(found.keys)), 0, 0, 0, 0)
