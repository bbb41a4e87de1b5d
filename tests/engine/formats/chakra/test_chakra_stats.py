"""The totals of traces: those recorded with them, to the byte."""

from dimsweep.engine.formats.chakra import (
    NodeType,
    Trace,
    TraceNode,
    levels,
    read_groups,
    read_traces,
    trace_stats,
)
from tests.support.golden import astra_cases


def collective(number: int, size: int, **more: object) -> TraceNode:
    attributes = {"comm_type": 0, "comm_size": size, **more}
    return TraceNode(number, "c", NodeType.COMM_COLL, attributes=attributes)


def test_totals_and_the_ranks_that_have_them() -> None:
    compute = TraceNode(
        0, "a", NodeType.COMP, duration_micros=7, attributes={"num_ops": 5, "tensor_size": 3}
    )
    ranks = [Trace((compute, collective(1, 10, pg_name=name), collective(2, 1))) for name in "1122"]
    ranks.append(Trace((compute,)))
    groups = {"1": [0, 1], "2": [2, 3]}
    (four, members), (one, rest) = trace_stats(ranks, groups)
    assert members == [0, 1, 2, 3] and rest == [4]
    assert four.nodes == {NodeType.COMP: 1, NodeType.COMM_COLL: 2}
    assert (four.flops, four.n_bytes, four.micros) == (5, 3, {NodeType.COMP: 7})
    kinds = [(item.kind, item.group, item.n_nodes, item.n_bytes) for item in four.collectives]
    assert kinds == [("all-reduce", "2 ranks 1 apart", 1, 10), ("all-reduce", "all ranks", 1, 1)]
    assert four.collective_bytes == 11 and four.path == 1 and one.collectives == ()


def test_levels_are_the_longest_ways() -> None:
    nodes = [
        TraceNode(9, "", NodeType.COMP, (5,), (3,)),
        TraceNode(5, "", NodeType.COMP, (3,)),
        TraceNode(3, "", NodeType.COMP),
    ]
    assert levels(nodes) == [2, 1, 0]


def test_recorded_totals_agree() -> None:
    """What another reader counted in the traces of rank 0 and of the last rank."""
    from dimsweep.sweeper.extensions.astra_sim.verify import unpacked

    seen = set()
    for case in astra_cases("D"):
        tar = case.result["workload_tar"]
        if tar in seen:
            continue
        seen.add(tar)
        last = case.result["npus"] - 1
        with unpacked(case) as folder:
            traces = read_traces([folder / f"w.{rank}.et" for rank in (0, last)])
        groups = case.folder / "comm_group.json"
        ranks = read_groups(groups if groups.exists() else None, last + 1)
        ours = [stats for stats, members in trace_stats(traces, ranks) for _ in members]
        recorded = case.result["trace_stats"]
        for stats, key in zip(ours, ("stats_rank0", "stats_last"), strict=True):
            communication = (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)
            named = (NodeType.COMP, *communication)
            counts = [stats.nodes.get(type_, 0) for type_ in named]
            other = sum(stats.nodes.values()) - sum(counts)
            names = ("comp", "coll", "send", "recv", "other", "coll_bytes", "ops")
            values = (*counts, other, stats.collective_bytes, stats.flops)
            assert dict(zip(names, values, strict=True)) == recorded[key], case.folder
    assert len(seen) == 9
