"""Whatever is wrong with traces is found, named, and mended where that is safe."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Cluster, DimsweepError, Topology, simulate
from dimsweep.engine.formats.chakra import (
    NodeType,
    Trace,
    TraceNode,
    read_traces,
    scan_traces,
    write_trace,
)
from dimsweep.engine.formats.chakra.lint import Finding, lint_job, lint_trace, repaired
from dimsweep.engine.formats.chakra.protobuf import encode_metadata, encode_node
from dimsweep.engine.formats.chakra.trace import Places, check
from dimsweep.engine.formats.chakra.trace_files import Scanned, join_stream
from dimsweep.engine.formats.chakra.workload import read_chakra_workload
from tests.support.examples import examples
from tests.support.golden import astra_case, astra_cases

MANY = 30_000


def comp(number: int, *after: int, name: str = "") -> TraceNode:
    return TraceNode(number, name or f"n{number}", NodeType.COMP, after)


def collective(number: int, kind: int = 0, size: int = 8, **more: object) -> TraceNode:
    attributes = {"comm_type": kind, "comm_size": size, **more}
    return TraceNode(number, f"c{number}", NodeType.COMM_COLL, attributes=attributes)


def send(number: int, target: int, size: int = 8, tag: int = 0) -> TraceNode:
    attributes = {"comm_dst": target, "comm_size": size, "comm_tag": tag}
    return TraceNode(number, f"s{number}", NodeType.COMM_SEND, attributes=attributes)


def receive(number: int, source: int, size: int = 8, tag: int = 0) -> TraceNode:
    attributes = {"comm_src": source, "comm_size": size, "comm_tag": tag}
    return TraceNode(number, f"r{number}", NodeType.COMM_RECV, attributes=attributes)


def job(*ranks: Sequence[TraceNode], **groups: Sequence[int]) -> list[Finding]:
    scanned = [
        Scanned(Trace(tuple(nodes)), Places(Path(f"w.{rank}.et")), None)
        for rank, nodes in enumerate(ranks)
    ]
    named = {name.removeprefix("g"): ranks for name, ranks in groups.items()}
    return lint_job(scanned, named, is_single=len(ranks) == 1)


def write_anything(path: Path, nodes: Sequence[TraceNode]) -> Path:
    """A file with nodes that the writer would refuse."""
    messages = [encode_metadata(Trace(())), *map(encode_node, nodes)]
    path.write_bytes(join_stream(messages))
    return path


# --- one trace ----------------------------------------------------------------------------------


def test_every_fault_is_named_with_its_place(tmp_path: Path) -> None:
    nodes = [
        comp(1, 7),
        comp(2, 2, 1),
        comp(3, 4),
        comp(4, 3, 99),
        comp(2, 2, 1),
        comp(1, name="x"),
    ]
    file = write_anything(tmp_path / "w.et", nodes)
    found = [str(finding) for finding in lint_job(scan_traces([file]), {}, is_single=True)]
    starts = scan_traces([file])[0].places.starts
    for expected in (
        "w.et: node 1 (id 1, 'n1') at byte 8: it waits for id 7, which is not in the trace",
        f"w.et: node 2 (id 2, 'n2') at byte {starts[2]}: it waits for itself\n",
        f"node 4 (id 4, 'n4') at byte {starts[4]}: it waits for id 99, which is not in the trace",
        f"node 5 (id 2, 'n2') at byte {starts[5]}: 'n2' has the same id, and is equal",
        f"node 6 (id 1, 'x') at byte {starts[6]}: 'n1' has the same id\n",
    ):
        assert any(expected in text for text in found), (expected, found)


def test_circles_are_named_once_each() -> None:
    nodes = [comp(0), *(comp(i, 1 + i % 10) for i in range(1, 11)), comp(20, 21), comp(21, 20, 0)]
    first, second = job(nodes)
    assert "node 2 (id 1, 'n1')" in first.where and "and 4 more" in first.what
    assert "by way of id 21 ('n21')" in second.what and not second.repair


def test_a_truncated_trace_is_told_with_what_came_before(tmp_path: Path) -> None:
    file = write_anything(tmp_path / "w.et", [comp(1), comp(2, 3), comp(3)])
    file.write_bytes(file.read_bytes()[:-4])
    cut, dangling = lint_job(scan_traces([file]), {}, is_single=True)
    assert "node 3 at byte" in cut.where and "the file ends" in cut.what
    assert "as far as it goes" in dangling.what


@st.composite
def broken(draw: st.DrawFn) -> list[TraceNode]:
    """Nodes with ids that come again, and dependencies on anything."""
    some = st.integers(0, 9)
    waits = st.lists(some, max_size=3).map(tuple)
    count = draw(st.integers(0, 9))
    return [
        TraceNode(draw(some), "n", NodeType.COMP, draw(waits), draw(waits)) for _ in range(count)
    ]


@given(broken())
def test_lint_is_quiet_exactly_where_reading_succeeds(nodes: list[TraceNode]) -> None:
    scanned = Scanned(Trace(tuple(nodes)), Places(Path("w.et")), None)
    findings = list(lint_trace(scanned))
    try:
        check(nodes, scanned.places)
    except DimsweepError:
        assert findings
    else:
        assert not findings


@given(broken())
def test_repairs_do_what_they_say_and_no_more(nodes: list[TraceNode]) -> None:
    scanned = Scanned(Trace(tuple(nodes)), Places(Path("w.et")), None)
    findings = list(lint_trace(scanned))
    mended = repaired(scanned.trace)
    left = list(lint_trace(Scanned(mended, scanned.places, None)))
    assert len([f for f in left if f.repair]) == 0, "once is enough"
    assert (mended is scanned.trace) == (not any(f.repair for f in findings))
    before = {(node.id, wait) for node in nodes for wait in node.dependencies}
    after = {(node.id, wait) for node in mended.nodes for wait in node.dependencies}
    ids = {node.id for node in nodes}
    assert after == {(a, b) for a, b in before if b in ids and a != b}


def test_many_nodes_are_looked_through() -> None:
    chain = [comp(i, i - 1) if i else comp(0) for i in range(MANY)]
    chain[-1] = comp(MANY - 1, MANY - 2, MANY)
    (finding,) = job(chain)
    assert f"waits for id {MANY}" in finding.what


# --- between ranks ------------------------------------------------------------------------------


def test_messages_that_match_are_no_matter() -> None:
    assert job([send(0, 1), send(1, 1, tag=3)], [receive(0, 0, tag=3), receive(1, 0)]) == []


@pytest.mark.parametrize(
    ("sender", "receiver", "message"),
    [
        ([send(0, 1)], [comp(0)], "rank 1 does not receive 8 B with tag 0 of rank 0"),
        ([comp(0)], [receive(0, 0)], "rank 0 does not send 8 B with tag 0 to rank 1"),
        ([send(0, 1, 9)], [receive(0, 0)], "9 B with tag 0 of rank 0, but 8 B with tag 0"),
        ([send(0, 1, tag=2)], [receive(0, 0)], "8 B with tag 2 of rank 0, but 8 B with tag 0"),
        ([send(0, 1)] * 2, [receive(0, 0)], "rank 1 does not receive 8 B with tag 0"),
        ([send(0, 2)], [comp(0)], "its peer is rank 2"),
        ([send(0, 0)], [comp(0)], "its peer is rank 0, itself"),
    ],
)
def test_messages_that_nobody_takes(
    sender: list[TraceNode], receiver: list[TraceNode], message: str
) -> None:
    numbered = [node._replace(id=i) for i, node in enumerate(sender)]
    (finding,) = job(numbered, receiver)
    assert message in finding.what
    assert finding.where.startswith("w.0.et" if sender[0].type is NodeType.COMM_SEND else "w.1.et")


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ([collective(0, 0, 9)], "is all-reduce of 9 B on rank 2, all-reduce of 8 B on rank 0 and"),
        ([collective(0, 2)], "number 0 over all ranks is all-gather of 8 B on rank 2, all-reduce"),
        ([comp(0)], "is none on rank 2, all-reduce of 8 B on rank 0 and 2 more"),
        ([collective(0), collective(1)], "number 1 over all ranks is all-reduce of 8 B on rank 2"),
    ],
)
def test_members_that_disagree(odd: list[TraceNode], message: str) -> None:
    usual = [collective(0)]
    (finding,) = job(usual, usual, odd, usual)
    assert message in finding.what


def test_another_order_is_told_as_such() -> None:
    usual, odd = [collective(0, 0), collective(1, 2)], [collective(0, 2), collective(1, 0)]
    (finding,) = job(usual, usual, odd)
    assert "number 0" in finding.what and "they do, in another order" in finding.fix


def test_both_nodes_are_named_where_orders_differ() -> None:
    """By what they are, and by their names where they are equal: `c0`, `c1` against `c1`, `c0`."""
    usual, odd = [collective(0, 0), collective(1, 2)], [collective(0, 2), collective(1, 0)]
    (finding,) = job(usual, usual, odd)
    assert finding.where.startswith("w.2.et") and "that of rank 0 is w.0.et" in finding.fix
    usual = [collective(0), collective(1)]
    odd = [node._replace(name=other.name) for node, other in zip(usual, usual[::-1], strict=True)]
    (finding,) = job(usual, odd, usual)
    assert "over all ranks is 'c1' on rank 1, 'c0' on rank 0" in finding.what
    assert "different orders" in finding.what
    assert finding.where.startswith("w.1.et") and "that of rank 0 is w.0.et" in finding.fix
    renamed = [node._replace(name=f"other {node.name}") for node in usual]
    assert job(usual, renamed) == [], "ranks may call things as they like"


def test_the_order_is_that_of_issue_not_of_the_file() -> None:
    late = collective(5, 2)._replace(data_dependencies=(9,))
    assert job([late, collective(9, 0)], [collective(1, 0), collective(2, 2)]) == []


def test_orders_over_several_groups_that_cannot_all_be_kept() -> None:
    groups = {"g1": (0, 1), "g2": (0, 1)}
    a, b = [collective(i, pg_name=name) for i, name in enumerate("12")], []
    b = [replace_group(node, name) for node, name in zip(a, "21", strict=True)]
    assert job(a, a, **groups) == []
    (finding,) = job(a, b, **groups)
    assert "rank 0 runs collective number 0 over group '1' first, rank 1" in finding.what


def replace_group(node: TraceNode, name: str) -> TraceNode:
    return node._replace(attributes={**node.attributes, "pg_name": name})


def test_members_of_whole_dimensions_are_known_where_sizes_are() -> None:
    """On 2x2 NPUs, collectives of rank 0 with rank 1, and of rank 2 with rank 3."""

    def traces(*sizes: int, **metadata: object) -> list[Scanned]:
        return [
            Scanned(
                Trace((collective(0, size=size, involved_dim=(True, False)),), metadata=metadata),
                Places(Path(f"w.{rank}.et")),
                None,
            )
            for rank, size in enumerate(sizes)
        ]

    shape = {"dimsweep.sizes": (2, 2)}
    assert lint_job(traces(5, 5, 7, 7, **shape), {}) == []
    (finding,) = lint_job(traces(5, 5, 5, 7, **shape), {})
    assert "over dimensions 0 of rank 2 is all-reduce of 7 B on rank 3" in finding.what
    assert lint_job(traces(5, 5, 5, 7), {}) == [], "nothing says who the members are"


def test_groups_and_ranks_that_are_not_there() -> None:
    (missing,) = job([collective(0, pg_name="7")], [comp(0)], g1=(0, 1))
    assert missing.what == "there is no communicator group '7'" and missing.fix == "groups: 1"
    stranger, absent = job([comp(0)], [collective(0, pg_name="1")], g1=(0,))[0], None
    assert stranger.what == "rank 1 is no member of its group '1'"
    absent = job([collective(0, pg_name="1")], [comp(0)], g1=(0, 5))[0]
    assert "group '1' has rank 5, of which there is no trace" in absent.what


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (TraceNode(0, "c", NodeType.COMM_COLL), "a COMM_COLL node without comm_type, comm_size"),
        (TraceNode(0, "s", NodeType.COMM_SEND, attributes={"comm_size": 1}), "without comm_dst"),
        (collective(0, kind=10), "comm_type: 10 is no type of collective"),
        (collective(0, size=-1), "comm_size: -1 is not a whole number"),
        (
            TraceNode(0, "x", NodeType.COMP, attributes={"num_ops": "many"}),
            "num_ops: 'many' is",
        ),
    ],
)
def test_nodes_that_do_not_say_what_they_should(node: TraceNode, message: str) -> None:
    (finding,) = job([node])
    assert message in finding.what


def test_a_barrier_has_no_bytes() -> None:
    assert job([TraceNode(0, "b", NodeType.COMM_COLL, attributes={"comm_type": 9})]) == []


def test_recorded_jobs_are_sound() -> None:
    """ASTRA-sim runs these; only its recorded deadlock has something wrong."""
    from dimsweep.engine.formats.chakra import read_groups
    from dimsweep.sweeper.extensions.astra_sim.verify import unpacked

    section_d = [case for case in astra_cases("D") if "gpt_small" in case.folder.name]
    deadlock = astra_case("E/cg_order_mismatch_deadlock")
    for case in [*section_d, deadlock]:
        with unpacked(case) as folder:
            prefix = folder / "w" if folder else case.folder / "workload/et"
            files = [Path(f"{prefix}.{rank}.et") for rank in range(case.result["npus"])]
            groups = case.folder / "comm_group.json"
            ranks = read_groups(groups if groups.exists() else None, 2**31)
            findings = lint_job(scan_traces(files), ranks)
        assert len(findings) == (case is deadlock), case.folder


def test_a_repaired_trace_is_read(tmp_path: Path) -> None:
    file = write_anything(tmp_path / "w.et", [comp(1), comp(2, 1, 3), comp(1)])
    (scanned,) = scan_traces([file])
    write_trace(file, repaired(scanned.trace))
    (trace,) = read_traces([file])
    assert trace == replace(scanned.trace, nodes=(comp(1), comp(2, 1)))


# --- deadlocks -----------------------------------------------------------------------------------


def after(node: TraceNode, *others: int) -> TraceNode:
    return node._replace(control_dependencies=others)


def test_an_order_of_issue_that_contradicts_what_it_waits_for() -> None:
    """Rank 0 sends when the second collective is done, rank 1 begins the first when that has come:
    of one communicator.  Nobody said so before the job was simulated."""
    zero = [collective(1), collective(2), after(send(3, 1), 2)]
    one = [receive(0, 0), after(collective(1), 0), collective(2)]
    (finding,) = job(zero, one)
    assert "w.0.et" in finding.where and "(id 2, 'c2')" in finding.where
    assert finding.what.startswith("2 ranks wait for each other for ever")
    for said in (
        "rank 0: 'c2' (id 2) comes behind 'c1' (id 1)",
        "rank 1: 'c1' (id 1) waits for 'r0' (id 0)",
        "rank 1: 'r0' (id 0) waits for 's3' (id 3) of rank 0",
        "rank 0: 's3' (id 3) waits for 'c2' (id 2)",
    ):
        assert said in finding.what
    assert job(zero, [receive(0, 0), collective(1), after(collective(2), 0)]) != []
    assert job([*zero[:2], after(send(3, 1), 1)], [receive(0, 0), *map(collective, (1, 2))]) == []
    assert (
        job([*zero[:2], after(send(3, 1), 1)], [collective(1), receive(2, 0), collective(3)]) == []
    )


def test_two_groups_whose_collectives_wait_for_each_other() -> None:
    """That is for ever, in streams of their own, too: not only one at a time."""
    a, b = (replace_group(collective(k), name) for k, name in ((1, "1"), (2, "2")))
    pair, members = [a, after(b, 1)], {"g1": [0, 1], "g2": [0, 1]}
    assert job(pair, pair, **members) == []
    crossed = [after(a._replace(id=3), 2), b]
    (finding,) = job(pair, crossed, **members)
    assert "for ever, whatever anything lasts" in finding.what
    loose = [a._replace(id=3), b]
    (finding,) = job(pair, loose, **members)
    assert "communicates once at a time" in finding.what


@st.composite
def crossing_jobs(draw: st.DrawFn) -> list[list[TraceNode]]:
    """Two or four ranks with collectives over all, or over pairs, and messages: each by itself in
    order, some not together."""
    n = draw(st.sampled_from([2, 4]))
    ranks = [[comp(0)] for _ in range(n)]

    def add(rank: int, node: TraceNode) -> None:
        last = [other.id for other in ranks[rank]][-2:]
        ranks[rank].append(after(node, draw(st.sampled_from(last))))

    for k in range(draw(st.integers(3, 7))):
        source = draw(st.integers(0, n - 1))
        target = (source + draw(st.integers(1, n - 1))) % n
        if draw(st.booleans()):
            add(source, send(len(ranks[source]), target, tag=k))
            add(target, receive(len(ranks[target]), source, tag=k))
        else:
            for rank in range(n):
                group = str(1 + rank // 2) if n == 4 and k % 2 else ""
                node = collective(len(ranks[rank]))._replace(name="collective")
                add(rank, replace_group(node, group) if group else node)
    return [_mixed(draw, nodes) for nodes in ranks]


def _mixed(draw: st.DrawFn, nodes: list[TraceNode]) -> list[TraceNode]:
    """Other ids, and so another order of issue; dependencies may lead either way, in no circle."""
    number = dict(
        zip([node.id for node in nodes], draw(st.permutations(range(len(nodes)))), strict=True)
    )
    return [
        node._replace(
            id=number[node.id],
            control_dependencies=tuple(number[i] for i in node.control_dependencies),
        )
        for node in nodes
    ]


@examples(150)
@given(crossing_jobs())
def test_deadlocks_are_found_exactly_where_a_simulation_stands_still(
    ranks: list[list[TraceNode]],
) -> None:
    groups = {"1": [0, 1], "2": [2, 3]} if len(ranks) == 4 else {}
    found = job(*ranks, **{f"g{name}": members for name, members in groups.items()})
    told = any("for ever, whatever" in finding.what for finding in found)
    with TemporaryDirectory() as folder:
        prefix = Path(folder) / "w"
        for rank, nodes in enumerate(ranks):
            write_trace(Path(f"{prefix}.{rank}.et"), Trace(tuple(nodes)))
        file = Path(folder) / "groups.json" if groups else None
        if file:
            file.write_text(json.dumps(groups))
        topology = Topology.build(f"Switch({len(ranks)})", bandwidth=[1e9], latency=[0])
        workload = read_chakra_workload(prefix, file, topology.sizes, "job")
        try:
            simulate(workload, Cluster(topology))
        except DimsweepError as error:
            assert "deadlock" in error.problem
            assert told
        else:
            assert not told


# --- attributes of ours --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "conflict"),
    [
        (comp(0)._replace(duration_micros=3), {"dimsweep.duration_ps": 3_500_001}),
        (comp(0)._replace(duration_micros=3), {"dimsweep.duration_ps": "three"}),
        (comp(0), {"num_ops": 7, "dimsweep.flops": 7.6}),
        (comp(0), {"num_ops": 2, "tensor_size": 7, "dimsweep.bytes": 6.4}),
        (collective(0), {"dimsweep.bytes": 7.4}),
        (send(0, 0), {"dimsweep.bytes": 8.6}),
        (TraceNode(0, "m", NodeType.MEM_LOAD), {"tensor_size": 5, "dimsweep.bytes": 4.0}),
    ],
)
def test_an_attribute_of_ours_that_contradicts_its_field_is_found_and_mended(
    node: TraceNode, conflict: dict[str, object]
) -> None:
    node = node._replace(attributes={**node.attributes, **conflict})
    (finding,) = job([node])
    own = list(conflict)[-1]
    assert "id 0" in finding.where and repr(conflict[own]) in finding.what
    (mended,) = repaired(Trace((node,))).nodes
    assert finding.repair == f"set {own} to {mended.attributes[own]}" and job([mended]) == []


@pytest.mark.parametrize(
    ("node", "exact"),
    [
        (comp(0)._replace(duration_micros=3), {"dimsweep.duration_ps": 3_500_000}),
        (comp(0), {"dimsweep.duration_ps": 200_000}),
        (comp(0), {"num_ops": 1, "tensor_size": 1, "dimsweep.bytes": 0.0, "dimsweep.flops": 0.2}),
        (comp(0), {"num_ops": 2**63 - 1, "dimsweep.flops": 1e30}),
        (collective(0), {"dimsweep.bytes": 7.5}),
    ],
)
def test_an_attribute_of_ours_that_rounds_to_its_field_is_sound(
    node: TraceNode, exact: dict[str, object]
) -> None:
    assert job([node._replace(attributes={**node.attributes, **exact})]) == []


def test_a_node_moved_to_another_group_is_found() -> None:
    """dimsweep.group still gives the name of the former group, whose shape is another."""
    pair, all_of = (collective(i, pg_name=str(i), **{"dimsweep.group": "tensor"}) for i in (1, 2))
    (finding,) = job([pair, all_of], [pair], g1=(0, 1), g2=(0,))
    assert "w.0.et" in finding.where and "(id 2, 'c2')" in finding.where
    assert "'tensor'" in finding.what and "'2'" in finding.what
