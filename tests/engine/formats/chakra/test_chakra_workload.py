"""Chakra traces as a workload of the native model: as long as the workload written by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimsweepError,
    Fidelity,
    GraphBuilder,
    Group,
    Npu,
    Send,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.formats.astra_sim import (
    read_inputs,
    read_ranks,
    read_topology,
    with_noted_groups,
)
from dimsweep.engine.formats.chakra import (
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    Value,
    extras,
    read_chakra_workload,
    read_trace,
    scan_traces,
    trace_stats,
    write_chakra_workload,
    write_trace,
)
from dimsweep.engine.formats.chakra.lint import lint_job
from dimsweep.engine.workload.graph import Kernel
from tests.support.golden import astra_case

ROOT = Path(__file__).resolve().parents[4]
TOPOLOGY = Topology.build("Ring(4)_Switch(2)", bandwidth=[2e9, 1e9], latency=[500, 900])
CLUSTER = Cluster(TOPOLOGY, Npu(1e12, 1e11), CollectiveModel(chunks=4))


class Writer:
    """Nodes of one rank."""

    def __init__(self) -> None:
        self.nodes: list[TraceNode] = []

    def add(self, type_: NodeType, *after: int, micros: int = 0, **attributes: object) -> int:
        number = len(self.nodes)
        self.nodes.append(
            TraceNode(number, f"node {number}", type_, after, (), 0, micros, attributes)
        )
        return number

    def compute(self, *after: int, flops: int = 0, n_bytes: int = 0, micros: int = 0) -> int:
        amount = {"num_ops": flops, "tensor_size": n_bytes} if flops else {}
        return self.add(NodeType.COMP, *after, micros=micros, **amount)

    def collective(self, *after: int, kind: int = 0, size: int = 2**20, **more: object) -> int:
        return self.add(NodeType.COMM_COLL, *after, comm_type=kind, comm_size=size, **more)


def read(folder: Path, *ranks: Writer, groups: dict[str, list[int]] | None = None) -> Workload:
    """One trace for all ranks, or one each."""
    file = None
    if groups is not None:
        file = folder / "groups.json"
        file.write_text(json.dumps(groups))
    if len(ranks) == 1:
        write_trace(folder / "all.et", Trace(tuple(ranks[0].nodes)))
        return read_chakra_workload(folder / "all.et", file, TOPOLOGY.sizes, "traced")
    for rank, writer in enumerate(ranks):
        write_trace(folder / f"w.{rank}.et", Trace(tuple(writer.nodes)))
    return read_chakra_workload(folder / "w", file, TOPOLOGY.sizes, "traced")


def test_a_trace_takes_as_long_as_the_graph_it_is_of(tmp_path: Path) -> None:
    writer = Writer()
    first = writer.compute(flops=10**9, n_bytes=10**6)
    over = writer.collective(first, involved_dim=(True, False))
    second = writer.compute(first, micros=300)
    writer.collective(over, second, kind=7, size=3 * 2**20)
    traced = read(tmp_path, writer)

    graph = GraphBuilder()
    a = graph.add("a", Compute(1e9, 1e6))
    b = graph.add("b", Collective(CollectiveKind.ALL_REDUCE, 2**20, "inner"), [a])
    c = graph.add("c", Compute(duration=300_000_000), [a])
    graph.add("d", Collective(CollectiveKind.REDUCE_SCATTER, 3 * 2**20, "all"), [b, c])
    groups = {"inner": Group((4, 1), (1, 1)), "all": Group((4, 2), (1, 1))}
    by_hand = Workload((graph.build(),), groups)

    assert traced.graph_of_rank is None
    assert simulate(traced, CLUSTER).time_ps == simulate(by_hand, CLUSTER).time_ps


@pytest.mark.parametrize("fidelity", list(Fidelity))
def test_nodes_ready_together_start_in_the_order_of_their_ids(
    tmp_path: Path, fidelity: Fidelity
) -> None:
    """Node 1 becomes ready after 2 and 3 and goes before them, as in ASTRA-sim, wherever it stands
    in the file.  In a trace of ours it waits for its turn, as in the workload that was written."""
    writer = Writer()
    first = writer.compute(micros=10)
    second = writer.compute(first, micros=10)
    writer.compute(micros=20)
    writer.compute(micros=20)
    writer.collective(second, involved_dim=(True, False))
    shuffled = tuple(writer.nodes[place] for place in (3, 0, 4, 2, 1))

    def time_ps(metadata: dict[str, Value], fold: bool) -> int:
        write_trace(tmp_path / "all.et", Trace(shuffled, metadata=metadata))
        workload = read_chakra_workload(tmp_path / "all.et", None, TOPOLOGY.sizes, "traced")
        return simulate(workload, CLUSTER, fidelity=fidelity, fold=fold).time_ps

    collective = time_ps({extras.GRAPH: 0}, fold=True) - 60_000_000
    assert collective > 40_000_000
    assert {time_ps({}, fold) - 20_000_000 for fold in (True, False)} == {collective}


@pytest.mark.parametrize(
    ("ranks", "group"),
    [
        ([0, 1, 2, 3], Group((4, 1), (1, 1))),
        ([0, 4], Group((1, 2), (1, 1))),
        ([0, 2, 4, 6], Group((2, 2), (2, 1))),
        ([6, 0, 4, 2], Group((2, 2), (2, 1))),
        (list(range(8)), Group((4, 2), (1, 1))),
    ],
)
def test_groups_are_sub_meshes(tmp_path: Path, ranks: list[int], group: Group) -> None:
    member = Writer()
    member.collective(pg_name="7")
    idle = Writer()
    idle.compute(micros=1)
    writers = [member if rank in ranks else idle for rank in range(8)]
    workload = read(tmp_path, *writers, groups={"7": ranks})
    assert list(workload.groups.values()) == [group]


def test_ranks_with_their_own_groups_are_alike(tmp_path: Path) -> None:
    """What each calls by another name is the same group of the mesh: one graph for all."""
    writers = []
    for rank in range(8):
        writer = Writer()
        writer.collective(pg_name=str(rank // 4 + 1))
        writers.append(writer)
    workload = read(tmp_path, *writers, groups={"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]})
    assert len(workload.graphs) == 1
    assert len(simulate(workload, CLUSTER).program.names.class_count) == 1


def test_messages_go_to_offsets(tmp_path: Path) -> None:
    writers = [Writer() for _ in range(8)]
    for rank in range(4):  # the first half hands on to the second
        done = writers[rank].compute(micros=5)
        tag = {"comm_size": 1000, "comm_src": rank, "comm_dst": rank + 4, "comm_tag": 3}
        writers[rank].add(NodeType.COMM_SEND, done, **tag)
        writers[rank + 4].add(NodeType.COMM_RECV, **tag)
    workload = read(tmp_path, *writers)
    assert len(workload.graphs) == 2
    assert workload.graphs[0][1].work == Send(1000.0, (0, 1), 3)
    # 5 us, two hops of 900 ps, 1000 bytes at 1 GB/s
    assert simulate(workload, CLUSTER).time_ps == 5_000_000 + 1800 + 1_000_000


def test_a_recorded_job_runs_on_the_native_model() -> None:
    from dimsweep.sweeper.extensions.astra_sim.verify import unpacked

    case = astra_case("D/gpt_small_8_tp4_dp2__R8_c4")
    topology = Topology.build("Ring(8)", bandwidth=[100e9], latency=[500_000])
    cluster = Cluster(topology, Npu(312e12, 2039e9), CollectiveModel(chunks=4))
    with unpacked(case) as folder:
        groups = case.folder / "comm_group.json"
        workload = read_chakra_workload(folder / "w", groups, topology.sizes, "gpt")
        result = simulate(workload, cluster)
    # The computation is the recorded one, but for whole nanoseconds.
    assert result.compute == pytest.approx(case.result["gpu_time_rank0"] * 1e-9, rel=1e-4)
    # Data parallel over neighbours, tensor parallel over every second rank.
    tallies = {name.split(" ", 1)[1] for name in result.exposed_by_collective}
    assert tallies == {"2 (1)", "4 stride 2 (5)"}


def test_astra_sims_networks_are_topologies(tmp_path: Path) -> None:
    """Its bandwidths are a link's, in GB of 2^30 bytes; ours are all links' of an NPU."""
    (tmp_path / "network.yml").write_text(
        "topology: [ Ring, FullyConnected, Switch, Ring ]\nnpus_count: [ 4, 8, 16, 2 ]\n"
        "bandwidth: [ 50.0, 10.0, 25.0, 5.0 ]\nlatency: [ 500.0, 0.5, 1000.0, 0 ]\n"
    )
    topology = read_topology(tmp_path / "network.yml")
    assert topology.name == "Ring(4)_FullyConnected(8)_Switch(16)_Ring(2)"
    bandwidths = [dim.bandwidth / 2**30 for dim in topology.dims]
    assert bandwidths == pytest.approx([100, 70, 25, 5])
    assert [dim.latency for dim in topology.dims] == [500_000, 500, 1_000_000, 0]


def refusal(folder: Path, *writers: Writer, groups: dict[str, list[int]] | None = None) -> str:
    with pytest.raises(DimsweepError) as caught:
        read(folder, *writers, groups=groups)
    return str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "groups", "told"),
    [
        ({"pg_name": "9"}, {"1": [0, 1]}, "unknown communicator group '9'"),
        ({"pg_name": "1"}, {"1": [0, 1, 2]}, None),
        ({"pg_name": "1"}, {"1": [0, 1, 4]}, "not a sub-mesh of dimensions of 4x2"),
        ({"pg_name": "1"}, {"1": [0, 1, 3]}, "not a sub-mesh"),
        ({"pg_name": "1"}, {"1": [4, 5, 6, 7]}, "not a member of the group '1'"),
        ({"comm_type": 10}, {}, "unknown comm_type 10"),
        ({"comm_size": True}, {}, "not a whole number"),
    ],
)
def test_collectives_that_do_not_fit_are_told(
    tmp_path: Path, attributes: dict[str, object], groups: dict[str, list[int]], told: str | None
) -> None:
    writer, idle = Writer(), Writer()
    writer.add(NodeType.COMM_COLL, **{"comm_type": 0, "comm_size": 10, **attributes})
    idle.compute(micros=1)
    writers = [writer, *[idle] * 7]
    if told is None:  # three of a ring of four: read, but the model tiles dimensions
        workload = read(tmp_path, *writers, groups=groups)
        with pytest.raises(DimsweepError, match="do not tile"):
            simulate(workload, CLUSTER)
        return
    message = refusal(tmp_path, *writers, groups=groups)
    assert told in message and "rank 0, node 0 ('node 0')" in message


def test_memory_nodes_are_accesses(tmp_path: Path) -> None:
    memory = Writer()
    memory.add(NodeType.MEM_LOAD, tensor_size=10)
    memory.add(NodeType.MEM_STORE, tensor_size=20)
    works = [operator.work for operator in read(tmp_path, memory).graphs[0]]
    assert works == [Access(10.0), Access(20.0, store=True)]


def test_strange_peers_are_told(tmp_path: Path) -> None:
    lost = Writer()
    lost.add(NodeType.COMM_SEND, comm_size=1, comm_dst=99)
    assert "rank 99 does not exist" in refusal(tmp_path, lost)


def test_the_committed_trace_is_what_our_writer_makes(tmp_path: Path) -> None:
    """studies/chakra_split.yaml: four layers, tensor parallel inside, data parallel outside."""
    writer = Writer()
    names: list[str] = []

    def layer(name: str, flops: int, n_bytes: int, *after: int) -> tuple[int, int]:
        number = name.split()[1]
        computed = writer.add(NodeType.COMP, *after, num_ops=flops, tensor_size=n_bytes)
        exchanged = writer.collective(computed, size=64 * 2**20, involved_dim=(True, False, False))
        what = "activations" if name.startswith("forward") else "errors"
        names.extend([name, f"{what} {number}"])
        return computed, exchanged

    last: tuple[int, ...] = ()
    for i in range(4):
        last = (layer(f"forward {i}", 2 * 10**12, 2 * 10**9, *last)[1],)
    for i in reversed(range(4)):
        computed, exchanged = layer(f"backward {i}", 4 * 10**12, 4 * 10**9, *last)
        last = (exchanged,)
        writer.collective(computed, size=256 * 2**20, involved_dim=(False, True, True))
        names.append(f"gradients {i}")
    nodes = tuple(node._replace(name=name) for node, name in zip(writer.nodes, names, strict=True))
    write_trace(tmp_path / "ours.et", Trace(nodes))
    committed = ROOT / "studies" / "traces" / "four_layers.et"
    assert (tmp_path / "ours.et").read_bytes() == committed.read_bytes()


@pytest.mark.parametrize(
    ("type_", "attributes"),
    [
        (NodeType.COMP, {extras.DURATION: 5_600_000}),
        (NodeType.COMP, {extras.DURATION: 5_000_000, extras.FLOPS: 5.0, "num_ops": 500}),
        (NodeType.COMP, {extras.FLOPS: 5.6, "num_ops": 5}),
        (NodeType.COMP, {extras.BYTES: 5.6, "num_ops": 5, "tensor_size": 5}),
        (NodeType.MEM_LOAD, {extras.BYTES: 5.6, "tensor_size": 5}),
        (NodeType.COMM_COLL, {extras.BYTES: 5.6, "comm_size": 5, "comm_type": 0}),
        (NodeType.COMM_SEND, {extras.BYTES: 5.6, "comm_size": 5, "comm_dst": 0}),
    ],
)
def test_an_edited_field_is_no_longer_overridden_by_our_attribute(
    tmp_path: Path, type_: NodeType, attributes: dict[str, object]
) -> None:
    edited = Writer()
    edited.add(type_, micros=5, **attributes)
    message = refusal(tmp_path, edited)
    assert "rank 0, node 0 ('node 0')" in message
    assert " is 5" in message and "but dimsweep." in message


def test_an_edited_duration_of_a_written_trace_is_told(tmp_path: Path) -> None:
    """The work of kernels is written as its sums, too, so that an edited sum is found as well."""
    graph = GraphBuilder()
    kernels = (Kernel("a", 1e9, 1e6), Kernel("b", 3e9, 1e3))
    graph.add("layer", Compute(kernels=kernels))
    write_chakra_workload(Workload((graph.build(),), {}), CLUSTER, tmp_path / "w.et")
    trace = read_trace(tmp_path / "w.et")
    (node,) = trace.nodes
    for edited in (
        node._replace(duration_micros=node.duration_micros * 100),
        node._replace(attributes={**node.attributes, "num_ops": 400_000_000}),
        node._replace(attributes={**node.attributes, "tensor_size": 100_100_000}),
    ):
        write_trace(tmp_path / "w.et", replace(trace, nodes=(edited,)))
        with pytest.raises(DimsweepError, match="rank 0, node 0"):
            read_chakra_workload(tmp_path / "w.et", None, TOPOLOGY.sizes, "traced")


def test_every_trace_of_a_job_is_checked_for_its_dimensions(tmp_path: Path) -> None:
    for rank in range(8):
        sizes = {extras.SIZES: (4, 2) if rank < 7 else (2, 4)}
        nodes = (TraceNode(0, "c", NodeType.COMP, duration_micros=1),)
        write_trace(tmp_path / f"w.{rank}.et", Trace(nodes, metadata=sizes))
    with pytest.raises(DimsweepError, match=r"w\.7\.et"):
        read_chakra_workload(tmp_path / "w", None, TOPOLOGY.sizes, "traced")


# --- groups in the traces, and traces in JSON ------------------------------------------------

ONE = '{"pg_name": "0", "ranks": []}, {"pg_name": "1", "ranks": [0, 1]}'
TWO = '{"pg_name": "0", "ranks": []}, {"pg_name": "2", "ranks": [2, 3]}'


def noted(folder: Path, *groups: str, names: tuple[str, ...] = ("1", "1", "2", "2")) -> Path:
    """A job of four ranks whose traces record ``groups``, in the order of the ranks."""
    for rank, name in enumerate(names):
        texts = f'["[{groups[rank % len(groups)]}]"]'
        inputs = TensorInfo(texts, "[]", "['String']")
        init = TraceNode(1, "## process_group:init ##", NodeType.METADATA, inputs=inputs)
        attributes = {"comm_type": 0, "comm_size": 1 << 20, "pg_name": name, "is_cpu_op": False}
        reduce = TraceNode(2, "all-reduce", NodeType.COMM_COLL, (1,), attributes=attributes)
        write_trace(folder / f"w.{rank}.json", Trace((init, reduce)))
    return folder / "w"


OTHER = TWO.replace('"2"', '"1"')  # a name that means other ranks on other ranks


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ((ONE, ONE, TWO, TWO), ("1", "1", "2", "2")),
        ((f"{ONE}, {TWO}",), ("1", "1", "2", "2")),
        ((ONE, ONE, OTHER, OTHER), ("1",) * 4),
    ],
)
def test_groups_are_read_from_the_traces(
    tmp_path: Path, groups: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """As Chakra's converter leaves them in a METADATA node, and ASTRA-sim reads them."""
    workload = read_chakra_workload(noted(tmp_path, *groups, names=names), None, (2, 2), "w")
    assert set(workload.groups.values()) == {Group((2, 1), (1, 1))}
    scanned = scan_traces(tmp_path / f"w.{rank}.json" for rank in range(4))
    assert lint_job(scanned, {}) == []
    traces = [each.trace for each in scanned]
    assert [ranks for _, ranks in trace_stats(traces, {})] == [[0, 1, 2, 3]]


def test_an_empty_group_is_all_ranks_and_a_file_goes_first(tmp_path: Path) -> None:
    traces = noted(tmp_path, '{"pg_name": 7, "ranks": []}', names=("7",) * 4)
    (group,) = read_chakra_workload(traces, None, (2, 2), "w").groups.values()
    assert group == Group((2, 2), (1, 1))
    (tmp_path / "groups.json").write_text('{"1": [0, 2], "2": [1, 3]}')
    traces = noted(tmp_path, f"{ONE}, {TWO}", names=("1", "2", "1", "2"))
    workload = read_chakra_workload(traces, tmp_path / "groups.json", (2, 2), "w")
    assert set(workload.groups.values()) == {Group((1, 2), (1, 1))}


@pytest.mark.parametrize(
    ("groups", "what"),
    [
        ((ONE.replace("[0, 1]", "[0, 9]"),), "not a list of different ranks below 4"),
        ((ONE.replace("[0, 1]", "[0, 1"),), "invalid list of groups"),
        ((ONE.replace("[0, 1]", '["a"]'),), "is not a whole number"),
        ((ONE.replace('"pg_name": "1"', '"pg": 1'),), "needs a value"),
    ],
)
def test_groups_in_traces_that_are_none(tmp_path: Path, groups: tuple[str, ...], what: str) -> None:
    with pytest.raises(DimsweepError, match=what) as raised:
        read_chakra_workload(noted(tmp_path, *groups), None, (2, 2), "w")
    assert "process_group:init" in raised.value.where


def test_the_replica_of_astra_sim_reads_the_groups_of_the_traces(tmp_path: Path) -> None:
    noted(tmp_path, f"{ONE}, {TWO}")
    nodes = read_ranks([tmp_path / f"w.{rank}.json" for rank in range(4)])
    (tmp_path / "network.yml").write_text(
        "topology: [Ring, Switch]\nnpus_count: [2, 2]\nbandwidth: [10, 10]\nlatency: [1, 1]\n"
    )
    (tmp_path / "system.json").write_text("{}")
    inputs = read_inputs(tmp_path / "system.json", tmp_path / "network.yml")
    named, same = with_noted_groups(inputs, nodes)
    assert named.groups == {"0": (0, 1, 2, 3), "1": (0, 1), "2": (2, 3)}
    assert same == nodes
    noted(tmp_path, ONE, ONE, OTHER, OTHER, names=("1",) * 4)
    nodes = read_ranks([tmp_path / f"w.{rank}.json" for rank in range(4)])
    named, renamed = with_noted_groups(inputs, nodes)
    assert named.groups == {"0": (0, 1, 2, 3), "1": (0, 1), "1 (2)": (2, 3)}
    assert [rank[1].group for rank in renamed] == ["1", "1", "1 (2)", "1 (2)"]


@pytest.mark.parametrize("form", ["json", "et", "et.gz", "json.gz"])
def test_a_prefix_finds_traces_of_each_form(tmp_path: Path, form: str) -> None:
    traces = noted(tmp_path, f"{ONE}, {TWO}")
    for rank in range(4):
        content = read_trace(tmp_path / f"w.{rank}.json")
        write_trace(tmp_path / f"v.{rank}.{form}", content, compress=form.endswith("gz"))
    found = read_chakra_workload(tmp_path / "v", None, (2, 2), "w")
    assert found.graphs == read_chakra_workload(traces, None, (2, 2), "w").graphs
    write_trace(tmp_path / f"v.0.{'et' if form == 'json' else 'json'}", content)
    with pytest.raises(DimsweepError, match="rank 0 has several traces"):
        read_chakra_workload(tmp_path / "v", None, (2, 2), "w")
