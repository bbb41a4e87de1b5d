"""Clusters and workloads that the engine's tests draw at random, or write down by hand."""

import numpy as np
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    Dimension,
    DimensionOrder,
    FullyConnected,
    GraphBuilder,
    Group,
    Npu,
    QueueOrder,
    Receive,
    Ring,
    Send,
    SubgroupBandwidth,
    Switch,
    Topology,
    Workload,
    place,
)
from dimsweep.engine.collective.algorithms import list_all_to_alls
from dimsweep.engine.topology import BLOCKS
from dimsweep.engine.workload import Communication, Layer, Pass, TrainingLoop, training_iteration

ALGORITHMS = {
    Ring(): ["ring"],
    FullyConnected(): ["direct"],
    Switch(): [
        "halving_doubling",
        "direct",
        "ring",
        "in_switch",
        "double_binary_tree",
        "rabenseifner",
    ],
}
# Few bandwidths, latencies, sizes and durations, so that many things happen at the same instant;
# some that no power of two divides, so that phases must be rounded.
BANDWIDTHS = [1e9, 2e9, 4e9, 1e9, 3.7e9]
LATENCIES = [0, 1000, 500_000]
SIZES = [0.0, 1.0, 4096.0, 2.0**20, 777_777.0]
DURATIONS = [0, 1, 1000, 1_024_000, 2_048_000, 123_456_789]


def one_collective(
    kind: CollectiveKind, n_bytes: float, sizes: tuple[int, ...], strides: tuple[int, ...] = ()
) -> Workload:
    """A workload of a single collective over groups of ``sizes``."""
    builder = GraphBuilder()
    builder.add("collective", Collective(kind, n_bytes, "all"))
    group = Group(sizes, strides or (1,) * len(sizes))
    return Workload((builder.build(),), {"all": group})


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


@st.composite
def topologies(
    draw: st.DrawFn, *, max_npus: int = 4096, max_dims: int = 4, exact: bool = False
) -> Topology:
    """On ``exact`` ones transfers last whole picoseconds, however often they are halved."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, max_dims))):
        room = max_npus // int(np.prod(sizes))
        choices = [n for n in ((1, 2, 4, 8) if exact else (1, 2, 3, 4, 5, 6, 8)) if n <= room]
        sizes.append(draw(st.sampled_from(choices)))
    bandwidth = st.sampled_from([1e12 / 256, 1e12 / 1024] if exact else BANDWIDTHS)
    return Topology(
        tuple(
            Dimension(
                draw(st.sampled_from(list(BLOCKS.values()))),
                n,
                draw(bandwidth),
                draw(st.sampled_from(LATENCIES)),
            )
            for n in sizes
        )
    )


@st.composite
def collective_models(
    draw: st.DrawFn,
    topology: Topology,
    *,
    queues: tuple[QueueOrder, ...] = tuple(QueueOrder),
    orders: tuple[DimensionOrder, ...] = tuple(DimensionOrder),
) -> CollectiveModel:
    return CollectiveModel(
        chunks=draw(st.integers(1, 16)),
        streams=draw(st.integers(1, 3)),
        order=draw(st.sampled_from(orders)),
        queue=draw(st.sampled_from(queues)),
        subgroup_bandwidth=draw(st.sampled_from(list(SubgroupBandwidth))),
        endpoint_delay=draw(st.sampled_from([0, 10_000])),
        algorithms=tuple(
            draw(st.sampled_from(["auto", *ALGORITHMS[dim.block]])) for dim in topology.dims
        ),
        all_to_all=tuple(
            draw(st.sampled_from(["auto", *list_all_to_alls(dim.block)[1:]]))
            for dim in topology.dims
        ),
    )


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    max_npus: int = 4096,
    max_dims: int = 4,
    queues: tuple[QueueOrder, ...] = tuple(QueueOrder),
    orders: tuple[DimensionOrder, ...] = tuple(DimensionOrder),
) -> Cluster:
    topology = draw(topologies(max_npus=max_npus, max_dims=max_dims))
    npu = Npu(reduce_bandwidth=draw(st.sampled_from([None, 1e12, 3.3e9])))
    model = collective_models(topology, queues=queues, orders=orders)
    return Cluster(topology, npu, draw(model))


@st.composite
def axes(draw: st.DrawFn, sizes: tuple[int, ...]) -> dict[str, Group]:
    """Process groups of a tensor, an expert and a data axis that fill the cluster."""
    tensor = [draw(st.sampled_from(divisors(n))) for n in sizes]
    room = [n // t for n, t in zip(sizes, tensor, strict=True)]
    expert = [draw(st.sampled_from(divisors(r))) for r in room]
    return place({"tensor": tensor, "expert": expert, "data": "rest"}, sizes)


@st.composite
def layers(
    draw: st.DrawFn, groups: dict[str, Group], durations: list[int] = DURATIONS
) -> list[Layer]:
    def a_pass() -> Pass:
        compute = Compute(duration=draw(st.sampled_from(durations)))
        if draw(st.booleans()):
            return Pass(compute)
        kind = draw(st.sampled_from(list(CollectiveKind)))
        n_bytes, group = draw(st.sampled_from(SIZES)), draw(st.sampled_from(sorted(groups)))
        return Pass(compute, Communication(kind, n_bytes, group))

    count = draw(st.integers(1, 6))
    return [Layer(f"layer{i}", a_pass(), a_pass(), a_pass()) for i in range(count)]


@st.composite
def training(
    draw: st.DrawFn,
    sizes: tuple[int, ...],
    loops: tuple[TrainingLoop, ...] = tuple(TrainingLoop),
    durations: list[int] = DURATIONS,
) -> Workload:
    """A training iteration of one to six random layers, the same on every rank."""
    groups = draw(axes(sizes))
    graph = training_iteration(draw(layers(groups, durations)), draw(st.sampled_from(loops)))
    return Workload((graph,), groups)


@st.composite
def tangles(draw: st.DrawFn, sizes: tuple[int, ...]) -> Workload:
    """Operators that wait for any earlier ones, on several streams, with priorities."""
    groups = draw(axes(sizes))
    builder = GraphBuilder()
    for i in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        if draw(st.booleans()):
            work = Compute(duration=draw(st.sampled_from(DURATIONS)))
        else:
            work = Collective(
                draw(st.sampled_from(list(CollectiveKind))),
                draw(st.sampled_from(SIZES)),
                draw(st.sampled_from(sorted(groups))),
                stream=draw(st.sampled_from(["", "a", "b"])),
                priority=draw(st.integers(0, 2)),
            )
        builder.add(f"operator{i}", work, after)
    return Workload((builder.build(),), groups)


@st.composite
def uneven(draw: st.DrawFn, sizes: tuple[int, ...]) -> Workload:
    """All ranks run the same collectives, some of them between longer computations.

    Which ranks those are is random, so ranks are alike in irregular ways.
    """
    groups = draw(axes(sizes))
    steps = [
        Collective(
            draw(st.sampled_from(list(CollectiveKind))),
            draw(st.sampled_from(SIZES)),
            draw(st.sampled_from(sorted(groups))),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    blocks = draw(st.booleans())
    graphs = []
    for _ in range(2):
        builder, last = GraphBuilder(), []
        for i, work in enumerate(steps):
            compute = Compute(duration=draw(st.sampled_from(DURATIONS)))
            last = [builder.add(f"compute{i}", compute, last)]
            done = builder.add(f"collective{i}", work, last)
            last = [done] if blocks else last
        graphs.append(builder.build())
    n = int(np.prod(sizes))
    choice = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return Workload(tuple(graphs), groups, np.array(choice))


@st.composite
def pipelines(draw: st.DrawFn, sizes: tuple[int, ...]) -> Workload:
    """Stages along one dimension that hand micro-batches on and their gradients back."""
    axis = draw(st.integers(0, len(sizes) - 1))
    stages = sizes[axis]
    flat = tuple(1 if d == axis else n for d, n in enumerate(sizes))
    groups = {"stage": Group(flat, (1,) * len(sizes)), "all": Group(sizes, (1,) * len(sizes))}
    batches = draw(st.integers(1, 3))
    activation, gradient = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    ahead = tuple(int(d == axis) for d in range(len(sizes)))
    back = tuple(-step for step in ahead)
    graphs = []
    for stage in range(stages):
        builder, last = GraphBuilder(), []
        forward = Compute(duration=draw(st.sampled_from(DURATIONS)))
        backward = Compute(duration=draw(st.sampled_from(DURATIONS)))
        for name, compute, first, to, origin in (
            ("forward", forward, 0, ahead, back),
            ("backward", backward, stages - 1, back, ahead),
        ):
            tag, final = int(name == "backward"), stages - 1 - first
            for batch in range(batches):
                after = list(last)
                if stage != first:
                    after.append(builder.add(f"receive {name} {batch}", Receive(origin, tag)))
                last = [builder.add(f"{name} {batch}", compute, after)]
                work = Collective(CollectiveKind.ALL_REDUCE, activation, "stage")
                last = [builder.add(f"reduce {name} {batch}", work, last)]
                if stage != final:
                    builder.add(f"send {name} {batch}", Send(activation, to, tag), last)
        builder.add("gradients", Collective(CollectiveKind.ALL_REDUCE, gradient, "all"), last)
        graphs.append(builder.build())
    coordinates = np.unravel_index(np.arange(int(np.prod(sizes))), sizes, order="F")
    return Workload(tuple(graphs), groups, np.array(coordinates[axis]))


def bytes_by_dim(work: Collective, group: Group, rings: tuple[bool, ...]) -> list[float]:
    """What one NPU sends in each dimension, by LIBRA's formulas (its section 3).

    ``rings[d]``: an all-to-all is relayed around a ring there, so its bytes count every hop.
    """
    held, moved = work.n_bytes, [0.0] * len(group.sizes)
    order = [d for d, p in enumerate(group.sizes) if p > 1]
    if work.kind is CollectiveKind.ALL_GATHER:
        order.reverse()
    for d in order:
        p = group.sizes[d]
        if work.kind is CollectiveKind.ALL_TO_ALL:
            moved[d] = held * ((p * p // 4) / p if rings[d] else (p - 1) / p)
        elif work.kind is CollectiveKind.ALL_GATHER:
            moved[d] = held * (p - 1)
            held *= p
        else:
            twice = 2 if work.kind is CollectiveKind.ALL_REDUCE else 1
            moved[d] = twice * held * (p - 1) / p
            held /= p
    return moved
