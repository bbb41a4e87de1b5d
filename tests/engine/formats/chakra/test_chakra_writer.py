"""What is written as traces and read back takes as long as it did, to the picosecond."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimsweepError,
    GraphBuilder,
    Group,
    Npu,
    Receive,
    Send,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.extensions.astra_sim import simulate_astra
from dimsweep.engine.formats.astra_sim import Inputs, read_inputs, read_workload
from dimsweep.engine.formats.chakra import (
    NodeType,
    read_chakra_workload,
    read_groups,
    read_trace,
    scan_traces,
    write_chakra_workload,
)
from dimsweep.engine.formats.chakra.lint import lint_job
from tests.support.examples import examples
from tests.support.programs import clusters, pipelines, tangles, training, uneven
from tests.support.refused import refused

TOPOLOGY = Topology.build("Ring(4)_Switch(2)", bandwidth=[2e9, 1e9], latency=[500, 900])
CLUSTER = Cluster(TOPOLOGY, Npu(1e12, 1e11), CollectiveModel(chunks=4))


def there_and_back(workload: Workload, cluster: Cluster, folder: Path) -> Workload:
    prefix = folder / "w"
    groups = write_chakra_workload(workload, cluster, prefix)
    return read_chakra_workload(prefix, groups, cluster.topology.sizes, workload.name)


@examples(30)
@given(st.data())
def test_any_workload_takes_as_long_from_its_traces(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=32, max_dims=3))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(cluster.topology.sizes))
    with tempfile.TemporaryDirectory() as folder:
        again = there_and_back(workload, cluster, Path(folder))
    try:
        expected = simulate(workload, cluster)
    except DimsweepError as error:
        with pytest.raises(DimsweepError) as caught:
            simulate(again, cluster)
        assert caught.value.problem == error.problem
        return
    result = simulate(again, cluster)
    assert result.time_ps == expected.time_ps
    assert result.exposed_by_collective == expected.exposed_by_collective


def works() -> Workload:
    """One operator of every kind, with all that an operator can say."""
    builder = GraphBuilder()
    a = builder.add("measured", Compute(duration=1_234_567_891))
    b = builder.add("roofline", Compute(1e9 + 0.5, 12.25), [a])
    c = builder.add("memory only", Compute(0.0, 4096.0), [a])
    tensor = Collective(CollectiveKind.ALL_GATHER, 1000.5, "tensor", stream="own", priority=-3)
    d = builder.add("gather", tensor, [b, c])
    e = builder.add("send", Send(77.5, (1, -1), tag=9, stream="other"), [d])
    f = builder.add("receive", Receive((-1, 1), tag=9))
    builder.add("reduce", Collective(CollectiveKind.ALL_REDUCE, 2.0**20, "all", priority=2), [e, f])
    groups = {
        "tensor": Group((2, 1), (2, 1)),
        "all": Group((4, 2), (1, 1)),
    }
    return Workload((builder.build(),), groups, name="works")


def test_operators_are_read_back_as_they_were(tmp_path: Path) -> None:
    again = there_and_back(works(), CLUSTER, tmp_path)
    (graph,) = again.graphs
    offsets = {"send": (1, 1), "receive": (3, 1)}  # modulo the sizes
    for operator, original in zip(graph, works().graphs[0], strict=True):
        expected = original.work
        if isinstance(expected, Send):
            expected = Send(expected.n_bytes, offsets["send"], expected.tag, expected.stream)
        if isinstance(expected, Receive):
            expected = Receive(offsets["receive"], expected.tag)
        assert (operator.name, operator.after) == (original.name, original.after)
        assert operator.work == expected
    assert again.groups == works().groups


def test_other_tools_find_what_they_read(tmp_path: Path) -> None:
    groups = write_chakra_workload(works(), CLUSTER, tmp_path / "w")
    assert groups is not None
    ranks = json.loads(groups.read_text())
    assert ranks == {"1": [0, 2], "2": [1, 3], "3": [4, 6], "4": [5, 7]}
    nodes = read_trace(tmp_path / "w.6.et").nodes
    measured, roofline, memory, gather, send, receive, reduce = nodes
    assert measured.duration_micros == 1235 and "num_ops" not in measured.attributes
    assert roofline.attributes["num_ops"] == 1_000_000_000
    assert roofline.attributes["tensor_size"] == 12
    assert roofline.duration_micros == 1000  # at 1 TFLOP/s
    assert memory.attributes["num_ops"] == 1, "ASTRA-sim divides by it"
    assert gather.attributes["pg_name"] == "3" and gather.attributes["comm_type"] == 2
    assert gather.attributes["comm_size"] == 1000 and gather.data_dependencies == (1, 2)
    assert send.type is NodeType.COMM_SEND and receive.type is NodeType.COMM_RECV
    assert [send.attributes[f"comm_{key}"] for key in ("src", "dst", "tag")] == [6, 3, 9]
    assert [receive.attributes[f"comm_{key}"] for key in ("src", "dst", "tag")] == [1, 6, 9]
    assert receive.attributes["comm_size"] == send.attributes["comm_size"] == 78
    assert reduce.attributes["involved_dim"] == (True, True)
    assert "pg_name" not in reduce.attributes


def test_graphs_keep_their_order(tmp_path: Path) -> None:
    """Rank 0 runs the second graph; what starts at one instant goes by the graphs' order."""
    graphs = []
    for duration in (5, 7):
        builder = GraphBuilder()
        builder.add("compute", Compute(duration=duration))
        graphs.append(builder.build())
    graphs.append(graphs[0])  # and equal ones stay two
    order = np.array([1, 0, 2, 0, 1, 2, 0, 1])
    again = there_and_back(Workload(tuple(graphs), {}, order), CLUSTER, tmp_path)
    assert again.graphs == tuple(graphs)
    assert again.graph_of_rank is not None and again.graph_of_rank.tolist() == order.tolist()


def one_for_all() -> Workload:
    builder = GraphBuilder()
    a = builder.add("compute", Compute(duration=3_000_001))
    work = Collective(CollectiveKind.ALL_REDUCE, 2.0**20, "outer")
    builder.add("reduce", work, [a])
    return Workload((builder.build(),), {"outer": Group((1, 2), (1, 1))})


def test_alike_ranks_share_one_trace(tmp_path: Path) -> None:
    """So a million NPUs need one small file."""
    million = Topology.build(
        "Switch(1024)_Switch(1024)", bandwidth=[1e11, 1e10], latency=[500_000, 900_000]
    )
    groups = {"outer": Group((1, 1024), (1, 1))}
    workload, cluster = Workload(one_for_all().graphs, groups), Cluster(million)
    file = tmp_path / "all.et"
    assert write_chakra_workload(workload, cluster, file) is None
    again = read_chakra_workload(file, None, million.sizes, "again")
    assert simulate(again, cluster).time_ps == simulate(workload, cluster).time_ps
    with refused("w", "too-many", "1,048,576", "16,384", "w.et"):
        write_chakra_workload(workload, cluster, tmp_path / "w")
    assert [path.name for path in tmp_path.iterdir()] == ["all.et"]


def test_another_topology_is_refused(tmp_path: Path) -> None:
    """``involved_dim`` would mean other ranks there."""
    write_chakra_workload(one_for_all(), CLUSTER, tmp_path / "w")
    with pytest.raises(
        DimsweepError, match=r"written for dimensions of \(4, 2\) NPUs, not \(2, 4\)"
    ):
        read_chakra_workload(tmp_path / "w", None, (2, 4), "other")


def test_ranks_that_differ_cannot_share_one(tmp_path: Path) -> None:
    with refused("all.et", "conflict"):
        write_chakra_workload(works(), CLUSTER, tmp_path / "all.et")


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (Receive((1, 0), 3), r"rank 0 waits in 'it' \(tag 3\) for a message that rank 1 does not"),
        (Send(1.0, (1, 0), -1), "the tag is -1"),
        (Collective(CollectiveKind.ALL_REDUCE, 1.0, "nowhere"), "unknown group 'nowhere'"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, work: Send, message: str) -> None:
    builder = GraphBuilder()
    builder.add("it", work)
    with pytest.raises(DimsweepError, match=message):
        write_chakra_workload(Workload((builder.build(),)), CLUSTER, tmp_path / "w")


def test_no_operators_make_no_trace(tmp_path: Path) -> None:
    with refused("graph 0", "missing"):
        write_chakra_workload(Workload(((),)), CLUSTER, tmp_path / "w")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with refused("w.0.et", "inaccessible"):
        write_chakra_workload(works(), CLUSTER, tmp_path / "no" / "w")


def astra_inputs(folder: Path, blocks: str, sizes: tuple[int, ...], groups: Path | None) -> Inputs:
    d = len(sizes)
    network = {
        "topology": blocks.split(), "npus_count": list(sizes), "bandwidth": [50.0] * d,
        "latency": [500.0] * d,
    }  # fmt: skip
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        **{
            f"{kind}-implementation": ["ring"] * d
            for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
        },
        "collective-optimization": "localBWAware",
        "roofline-enabled": 0,  # it would take what was measured for no time at all
    }
    (folder / "network.yml").write_text(json.dumps(network))
    (folder / "system.json").write_text(json.dumps(system))
    return read_inputs(folder / "system.json", folder / "network.yml", None, groups)


def test_astra_sim_runs_what_is_written(tmp_path: Path) -> None:
    groups = write_chakra_workload(works(), CLUSTER, tmp_path / "w")
    inputs = astra_inputs(tmp_path, "Ring Switch", (4, 2), groups)
    result = simulate_astra(inputs, read_workload(tmp_path / "w", 8))
    assert set(result.gpu) == {1_235_000 + 1_000_000 + 1}  # measured, by FLOPs, and almost nothing


@examples(20)
@given(st.data())
def test_what_is_written_is_sound(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=16, max_dims=3))
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(cluster.topology.sizes))
    with tempfile.TemporaryDirectory() as name:
        prefix = Path(name) / "w"
        groups = write_chakra_workload(workload, cluster, prefix)
        files = [Path(f"{prefix}.{rank}.et") for rank in range(cluster.topology.n_npus)]
        ranks = read_groups(groups, len(files))
        findings = lint_job(scan_traces(files), ranks)
    assert findings == []


@examples(20)
@given(st.data())
def test_astra_sim_runs_any_workload(data: st.DataObject) -> None:
    """Whose ranks issue their collectives in one order; lint says whether they do."""
    sizes = data.draw(st.sampled_from([(4, 2), (2, 3), (6,)]))
    topology = Topology.build(
        "_".join(f"Ring({n})" for n in sizes),
        bandwidth=[1e9] * len(sizes),
        latency=[0] * len(sizes),
    )
    kind = data.draw(st.sampled_from([training, tangles, uneven, pipelines]))
    workload = data.draw(kind(sizes))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups = write_chakra_workload(workload, Cluster(topology), folder / "w")
        inputs = astra_inputs(folder, " ".join(["Ring"] * len(sizes)), sizes, groups)
        cycles = simulate_astra(inputs, read_workload(folder / "w", topology.n_npus)).cycles
    assert len(cycles) == topology.n_npus
