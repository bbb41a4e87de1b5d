"""Inputs and traces for ASTRA-sim's simulation, drawn at random."""

import math

from hypothesis import strategies as st

from dimsweep.engine import CollectiveKind, FullyConnected, Ring, Switch
from dimsweep.engine.formats.astra_sim import Inputs, Network, Options, RemoteMemory, System
from dimsweep.engine.formats.chakra import NodeType, TraceNode
from dimsweep.engine.formats.chakra.node import Node, node_of
from dimsweep.engine.topology import BLOCKS

ALGORITHMS = {
    Ring(): ["ring", "direct"],
    FullyConnected(): ["direct", "direct2"],
    Switch(): ["halvingDoubling", "direct", "ring"],
}
KINDS = [0, 2, 7]  # all-reduce, all-gather, reduce-scatter


def ring_of_four(*, replay_only: bool = False, **more: object) -> Inputs:
    """Four NPUs, one chunk."""
    system = System(
        algorithms=dict.fromkeys(CollectiveKind, ("ring",)),
        optimization="localBWAware",
        local_memory_gigabytes=1600.0,
        replay_only=replay_only,
    )
    network = Network((Ring(),), (4,), (50.0,), (500.0,))
    return Inputs(network, system, RemoteMemory(), **more)


@st.composite
def inputs(draw: st.DrawFn) -> Inputs:
    blocks = draw(st.lists(st.sampled_from(list(BLOCKS.values())), min_size=1, max_size=3))
    sizes = [draw(st.sampled_from([2, 4] if len(blocks) > 1 else [2, 4, 8])) for _ in blocks]
    names = tuple(draw(st.sampled_from(ALGORITHMS[block])) for block in blocks)
    exchange = tuple("ring" if name == "ring" else "direct" for name in names)
    n = math.prod(sizes)
    groups = {str(i + 1): tuple(range(i * n // 2, (i + 1) * n // 2)) for i in range(2)}
    return Inputs(
        Network(
            tuple(blocks),
            tuple(sizes),
            tuple(draw(st.sampled_from([50.0, 100.0, 33.3])) for _ in blocks),
            tuple(draw(st.sampled_from([0.0, 500.0, 50.0])) for _ in blocks),
        ),
        System(
            algorithms={
                **dict.fromkeys(CollectiveKind, names),
                CollectiveKind.ALL_TO_ALL: exchange,
            },
            splits=draw(st.sampled_from([1, 3, 4])),
            endpoint_delay=draw(st.sampled_from([1, 10])),
            active_chunks=draw(st.sampled_from([1, 1, 2])),
            optimization=draw(st.sampled_from(["localBWAware", "baseline"])),
            inter_dimension=draw(st.sampled_from(["baseline", "themis", "roundRobin"])),
            intra_dimension=draw(st.sampled_from(["FIFO", "SCF"])),
            local_memory_gigabytes=1600.0,
            teraflops=900.0,
            roofline=True,
        ),
        RemoteMemory(),
        groups,
        Options(queues_per_dim=draw(st.sampled_from([1, 1, 2]))),
    )


@st.composite
def traces(draw: st.DrawFn, given_inputs: Inputs) -> list[list[Node]]:
    """The same on all ranks, but that half of them may compute longer before group collectives."""
    n = given_inputs.network.n_npus
    skewed = draw(st.booleans())
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["compute", "all", "group"]),
                st.sampled_from(KINDS),
                st.sampled_from([4096, 100_000, 2**20]),
                st.booleans(),
            ),
            min_size=1,
            max_size=4,
        )
    )
    ranks = []
    for rank in range(n):
        half = 2 * rank // n
        nodes: list[TraceNode] = []
        for number, (what, kind, size, waits) in enumerate(steps):
            after = (number - 1,) if number and waits else ()
            attributes: dict[str, object] = {"comm_type": kind, "comm_size": size}
            if what == "compute":
                longer = 1 + half * skewed
                attributes = {"num_ops": size * 10**6 * longer, "tensor_size": size}
            elif what == "group":
                attributes["pg_name"] = str(half + 1)
            type_ = NodeType.COMP if what == "compute" else NodeType.COMM_COLL
            nodes.append(TraceNode(number, what, type_, after, (), 0, 0, attributes))
        ranks.append([node_of(node) for node in nodes])
    return ranks


@st.composite
def pipelines(draw: st.DrawFn, n: int) -> list[list[Node]]:
    """Two halves of the ranks with a random graph each of all kinds of nodes; each rank of the
    first half sends to the one in its place of the second.  Some of them deadlock."""
    whats = ["compute", "compute", "nothing", "cpu", "metadata", "load", "broadcast"]
    whats += ["group", "group", "all", "message", "message"]
    halves: tuple[list[TraceNode], list[TraceNode]] = ([], [])
    for number in range(draw(st.integers(2, 12))):
        what = draw(st.sampled_from(whats))
        size = draw(st.sampled_from([4096, 100_000, 2**20]))
        for half, nodes in enumerate(halves):
            before = [node.id for node in nodes]
            after = draw(st.sets(st.sampled_from(before), max_size=2)) if before else ()
            node = _node(number, what, size * (1 + half * draw(st.integers(0, 1))), half)
            nodes.append(node._replace(data_dependencies=tuple(after)))
    return [[node_of(_on(node, rank, n)) for node in halves[2 * rank // n]] for rank in range(n)]


def _node(number: int, what: str, size: int, half: int) -> TraceNode:
    types = {
        "compute": NodeType.COMP,
        "nothing": NodeType.COMP,
        "cpu": NodeType.COMP,
        "metadata": NodeType.METADATA,
        "load": NodeType.MEM_LOAD,
        "message": (NodeType.COMM_SEND, NodeType.COMM_RECV)[half],
    }
    attributes: dict[str, object] = {
        "comm_size": 4096 if what == "message" else size,
        "comm_tag": 7,
        "comm_type": 5 if what == "broadcast" else 0,
        "pg_name": str(half + 1) if what == "group" else "",
        "is_cpu_op": what == "cpu",
        "tensor_size": size,
        "num_ops": 0 if what == "nothing" else size * 10**6,
    }
    type_ = types.get(what, NodeType.COMM_COLL)
    return TraceNode(number, what, type_, (), (), 0, size // 997 + number, attributes)


def _on(node: TraceNode, rank: int, n: int) -> TraceNode:
    source = rank % (n // 2)
    ends = {"comm_src": source, "comm_dst": source + n // 2}
    return node._replace(attributes={**node.attributes, **ends})
