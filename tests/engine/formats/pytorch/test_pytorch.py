"""PyTorch's execution traces and profiles become Chakra traces.

Small ones made by PyTorch itself where it is installed, and written by hand for what needs a GPU.
"""

import codecs
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Cluster, DimsweepError, Topology, simulate
from dimsweep.engine.errors import Code
from dimsweep.engine.formats.chakra import (
    CollectiveType,
    NodeType,
    Trace,
    TraceNode,
    read_chakra_workload,
    scan_traces,
    write_trace,
)
from dimsweep.engine.formats.chakra.lint import lint_job
from dimsweep.engine.formats.pytorch import convert_traces, is_execution_trace
from tests.support.examples import examples
from tests.support.refused import refused

SCHEMA = "1.1.1-chakra.0.0.4"
FIRST = "1.0.1"
THREAD = "[pytorch|profiler|execution_trace|thread]"


class Host:
    """An execution trace as ExecutionTraceObserver writes it: parents after those they call."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.add(1, "[pytorch|profiler|execution_trace|process]", 1)
        self.add(2, THREAD, 1)

    def add(
        self, number: int, name: str, parent: int = 2, inputs: tuple[int, ...] = (),
        outputs: tuple[int, ...] = (), tid: int = 1, values: list[Any] | None = None,
        **attributes: object,
    ) -> None:  # fmt: skip
        """A node; ``inputs`` and ``outputs`` are storages, of 256 floats each."""

        def tensors(storages: tuple[int, ...]) -> dict[str, list[Any]]:
            return {
                "values": [[1000 + s, s, 0, 256, 4, "cuda:0"] for s in storages],
                "shapes": [[256] for _ in storages],
                "types": ["Tensor(float)" for _ in storages],
            }

        given = tensors(inputs)
        if values is not None:
            given["values"] = values
        named = {"rf_id": number + 100, "tid": tid, **attributes}
        self.nodes.insert(
            0,
            {
                "id": number, "name": name, "ctrl_deps": parent, "inputs": given,
                "outputs": tensors(outputs),
                "attrs": [{"name": k, "type": "?", "value": v} for k, v in named.items()],
            },
        )  # fmt: skip

    def write(self, path: Path, schema: str = SCHEMA) -> Path:
        nodes = (
            [_of_the_first_schema(node) for node in self.nodes] if schema == FIRST else self.nodes
        )
        path.write_text(json.dumps({"schema": schema, "pid": 1, "nodes": nodes}))
        return path


def _of_the_first_schema(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node under the keys of schema 1.0.1."""
    values = {
        f"{key}_{what}": node[f"{key}s"].get(what)
        for key in ("input", "output")
        for what in ("shapes", "types")
    }
    attributes = {each["name"]: each["value"] for each in node["attrs"]}
    plain = {"inputs": node["inputs"]["values"], "outputs": node["outputs"]["values"]}
    named = {"id": node["id"], "name": node["name"], "parent": node["ctrl_deps"]}
    return named | plain | values | attributes


class Profile:
    """A profile as Kineto writes it; an operator's external id is its node's, and 900."""

    def __init__(self, **job: object) -> None:
        self.events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0}]
        self.job = job

    def host(self, node: int, start: float, duration: float) -> None:
        arguments = {"External id": node + 900, "Record function id": node + 100}
        self._add("cpu_op", "op", start, duration, arguments)

    def kernel(
        self, name: str, start: float, duration: float, stream: int = 7, **arguments: object
    ) -> None:
        self._add("kernel", name, start, duration, {"stream": stream, **arguments})

    def mark(self, node: int, start: float, duration: float) -> None:
        arguments = {"External id": node + 900, "Record function id": node + 100}
        self._add("user_annotation", "mark", start, duration, arguments)

    def wait(self, node: int, start: float, duration: float) -> None:
        arguments = {"External id": node + 900, "correlation": 4}
        self._add("cuda_runtime", "cudaStreamSynchronize", start, duration, arguments)

    def launch(self, node: int, correlation: int) -> None:
        arguments = {"External id": node + 900, "correlation": correlation}
        self._add("cuda_runtime", "cudaLaunchKernel", 0.0, 1.0, arguments)

    def _add(
        self, category: str, name: str, start: float, duration: float, arguments: dict[str, Any]
    ) -> None:
        event = {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration}
        self.events.append({**event, "args": arguments})

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({"traceEvents": self.events, "distributedInfo": self.job}))
        return path


def by_name(nodes: tuple[TraceNode, ...]) -> dict[str, TraceNode]:
    return {node.name: node for node in nodes}


def step(folder: Path) -> tuple[Path, Path]:
    """Two kernels on one stream, an all-reduce of the second one's output on another."""
    host, profile = Host(), Profile(rank=1, world_size=4, pg_config=[
        {"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "5", "ranks": [1, 3]},
    ])  # fmt: skip
    host.add(3, "aten::linear", inputs=(10, 11), outputs=(12,))
    host.add(4, "aten::addmm", 3, inputs=(10, 11), outputs=(12,))
    host.add(5, "aten::relu", inputs=(12,), outputs=(13,))
    host.add(6, "c10d::allreduce_", inputs=(13,), outputs=(13,))
    host.add(7, "nccl:all_reduce", 6)
    host.add(8, "record_param_comms", 7, (13,), (13,), collective_name="allreduce", pg_name="5",
             in_msg_nelems=256, out_msg_nelems=256, dtype="Float")  # fmt: skip
    host.add(9, "aten::mul", inputs=(13,), outputs=(14,))
    for node, start, duration in (
        (3, 0, 50), (4, 10, 30.5), (5, 50, 10), (6, 60, 30), (7, 65, 20), (8, 70, 5), (9, 90, 7),
    ):  # fmt: skip
        profile.host(node, start, duration)
    profile.kernel("gemm", 40, 100.25, **{"External id": 904})
    profile.launch(5, correlation=77)
    profile.kernel("relu", 141, 12, correlation=77)
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    profile.kernel(nccl, 160, 500, stream=20, **{
        "External id": 908, "Collective name": "allreduce", "In msg nelems": 512,
        "dtype": "BFloat16", "Process Group Name": "5",
    })  # fmt: skip
    profile.kernel("mul", 700, 9, **{"External id": 909})
    profile.kernel("of another step", 900, 9, **{"External id": 4711})
    return host.write(folder / "et.json"), profile.write(folder / "kineto.json")


def test_all_schemas_say_the_same(tmp_path: Path) -> None:
    """1.0.1 has other keys, and until 1.1 a collective's name and group are among its inputs."""
    host, profile = step(tmp_path)
    expected = convert_traces([host], [profile])
    old = Host()
    old.nodes = [node for node in json.loads(host.read_text())["nodes"] if node["id"] != 8]
    values = [[[1013, 13, 0, 256, 4, "cuda:0"]], 3, ["5", "a description"], 1, "allreduce"]
    old.add(8, "record_param_comms", 7, (13,), (13,), values=values)
    for schema in (FIRST, "1.0.4-chakra.0.0.4", "1.1"):
        found = convert_traces([old.write(tmp_path / "old.json", schema)], [profile])
        assert (found.traces, found.groups) == (expected.traces, expected.groups)
    listed = json.dumps([{"pg_name": "5", "ranks": [0]}])
    old.add(10, "## process_group:init ##", 1, values=[listed])
    without = convert_traces([old.write(tmp_path / "old.json", FIRST)], []).traces[0]
    (communication,) = (node for node in without.nodes if node.type is NodeType.COMM_COLL)
    assert communication.attributes["comm_type"] == CollectiveType.ALL_REDUCE
    assert communication.attributes["comm_size"] == 1024


def test_kernels_are_linked_to_what_launched_them(tmp_path: Path) -> None:
    host, profile = step(tmp_path)
    assert is_execution_trace(host) and not is_execution_trace(profile)
    converted = convert_traces([host], [profile])
    (trace,) = converted.traces
    nodes = by_name(trace.nodes)
    gemm, relu, mul = nodes["gemm"], nodes["relu"], nodes["mul"]
    (nccl,) = (node for node in trace.nodes if node.name.startswith("nccl") and node.id > 9)

    assert (converted.n_kernels, converted.n_left_out) == (5, 1)
    assert gemm.control_dependencies == (4,) and gemm.type is NodeType.COMP
    assert relu.control_dependencies == (5, gemm.id), "its launch, its stream"
    assert relu.data_dependencies == (gemm.id,)
    assert nccl.data_dependencies == (relu.id,), "the other stream's output"
    assert nccl.control_dependencies == (8,)
    assert mul.data_dependencies == (nccl.id,) and mul.control_dependencies == (9, relu.id)
    assert gemm.attributes["dimsweep.duration_ps"] == 100_250_000
    assert gemm.duration_micros == 100 and not gemm.attributes["is_cpu_op"]


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_a_compressed_trace_is_recognised(tmp_path: Path, mark: bytes) -> None:
    """It was refused with the advice to run the command that had been run."""
    host, profile = step(tmp_path)
    packed = tmp_path / "et.json.gz"
    packed.write_bytes(gzip.compress(mark + host.read_bytes()))
    assert is_execution_trace(packed)
    assert convert_traces([packed], [profile]) == convert_traces([host], [profile])
    packed.write_bytes(packed.read_bytes()[:20])
    assert not is_execution_trace(packed)


def test_collectives_have_type_size_and_group(tmp_path: Path) -> None:
    converted = convert_traces(*([path] for path in step(tmp_path)))
    (nccl,) = (n for n in converted.traces[0].nodes if n.type is NodeType.COMM_COLL)
    assert nccl.attributes["comm_type"] == CollectiveType.ALL_REDUCE
    assert nccl.attributes["comm_size"] == 1024, "512 of two bytes, as the kernel says"
    assert converted.groups == {"1": [1, 3]} and nccl.attributes["pg_name"] == "1"


def test_groups_of_the_same_ranks_are_several(tmp_path: Path) -> None:
    """Each rank has names of its own for them, and makes them in the same order."""
    from dimsweep.engine.formats.pytorch.convert import Groups
    from dimsweep.engine.formats.pytorch.recorded import Profile as Read

    groups = Groups()
    all_ranks: list[int] = []
    first = {"0": all_ranks, "1": [0, 1], "2": [2, 3], "3": [1, 0], "4": [0, 1, 2, 3]}
    other = {"0": all_ranks, "7": [0, 1], "8": [0, 1], "9": [3, 2], "10": all_ranks}
    ours = groups.of_rank(first, Read(), 4)
    assert ours == {"0": "", "1": "1", "2": "2", "3": "3", "4": "4"}
    theirs = groups.of_rank(other, Read(), 4)
    assert theirs == {"0": "", "7": "1", "8": "3", "9": "2", "10": "4"}
    assert groups.ranks == {"1": [0, 1], "2": [2, 3], "3": [0, 1], "4": [0, 1, 2, 3]}
    with refused("", "out-of-range", "world_size"):
        Groups().of_rank(first, Read(world=10**15), 4)


def test_the_whole_of_a_scatter_is_what_every_member_gets_times_the_members(tmp_path: Path) -> None:
    """Only the root has it: the others put nothing in."""
    host = Host()
    sizes = {"in_msg_nelems": 0, "out_msg_nelems": 8, "dtype": "Float", "group_size": 4}
    host.add(3, "record_param_comms", collective_name="scatter", **sizes)
    (trace,) = convert_traces([host.write(tmp_path / "et.json")], []).traces
    assert trace.nodes[0].attributes["comm_size"] == 4 * 8 * 4


def test_the_host_keeps_its_own_time_and_order(tmp_path: Path) -> None:
    converted = convert_traces(*([path] for path in step(tmp_path)))
    nodes = {node.id: node for node in converted.traces[0].nodes}
    times = {i: nodes[i].attributes["dimsweep.duration_ps"] / 1e6 for i in range(3, 10)}
    assert times == {3: 19.5, 4: 30.5, 5: 10, 6: 10, 7: 15, 8: 5, 9: 7}
    assert sum(times.values()) == 97, "all of the host's time, once"
    assert nodes[4].control_dependencies == (3,), "its caller"
    assert nodes[5].control_dependencies == (4,), "the one before"
    assert nodes[5].data_dependencies == (4,), "who wrote its input last"
    assert all(nodes[i].attributes["is_cpu_op"] for i in range(3, 10))


def test_the_host_waits_for_the_device(tmp_path: Path) -> None:
    """It copies a value back, waits until it is there, and goes on."""
    host, profile = Host(), Profile()
    host.add(3, "ProfilerStep#1")
    host.add(4, "aten::item", 3)
    host.add(5, "aten::later", 3)
    profile.mark(3, 0, 1000)
    profile.host(4, 10, 720)
    profile.host(5, 800, 9)
    profile.kernel("gemm", 20, 500, stream=8, **{"External id": 904})
    profile.kernel("copy", 520, 200, **{"External id": 904})
    profile.kernel("still running", 715, 300, stream=9, **{"External id": 904})
    profile.wait(4, 30, 692)
    files = host.write(tmp_path / "et.json"), profile.write(tmp_path / "kineto.json")
    nodes = by_name(convert_traces(*([file] for file in files)).traces[0].nodes)
    own = {name: node.attributes["dimsweep.duration_ps"] / 1e6 for name, node in nodes.items()}
    assert own["aten::item"] == 28 and own["aten::later"] == 9
    assert own["ProfilerStep#1"] == 0, "a mark, no work"
    assert nodes["copy"].id in nodes["aten::later"].control_dependencies
    assert nodes["aten::later"].control_dependencies == (3, 4, nodes["copy"].id)


def test_without_a_profile_the_host_communicates(tmp_path: Path) -> None:
    host, _ = step(tmp_path)
    content = json.loads(host.read_text())
    groups = [{"pg_name": "0", "ranks": []}, {"pg_name": "5", "ranks": [1, 3]}]
    init = {
        "id": 90,
        "name": "## process_group:init ##",
        "inputs": {"values": [json.dumps(groups)]},
    }
    content["nodes"].append(init)
    host.write_text(json.dumps(content))
    converted = convert_traces([host] * 4, [])
    assert converted.groups == {"1": [1, 3]}
    trace = converted.traces[1]
    collective = {node.id: node for node in trace.nodes}[8]
    assert collective.type is NodeType.COMM_COLL and collective.attributes["comm_size"] == 1024


def test_without_elements_the_tensors_tell(tmp_path: Path) -> None:
    host = Host()
    tensors = [[1, 2, 0, 100, 2, "cuda:0"], [[3, 4, 0, 28, 2, "cuda:0"]], "<None>", True, [1, 2]]
    host.add(3, "record_param_comms", values=tensors, collective_name="_allgather_base")
    (trace,) = convert_traces([host.write(tmp_path / "et.json")], []).traces
    assert trace.nodes[0].attributes["comm_size"] == 256
    assert trace.nodes[0].attributes["comm_type"] == CollectiveType.ALL_GATHER


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", CollectiveType.ALL_REDUCE),
        ("allreduce_coalesced", CollectiveType.ALL_REDUCE),
        ("_reduce_scatter_base", CollectiveType.REDUCE_SCATTER),
        ("all_gather_into_tensor_coalesced", CollectiveType.ALL_GATHER),
        ("all_to_allv", CollectiveType.ALL_TO_ALL),
        ("reduce", CollectiveType.REDUCE),
        ("broadcast", CollectiveType.BROADCAST),
        ("barrier", CollectiveType.BARRIER),
        ("scatter", CollectiveType.SCATTER),
    ],
)
def test_names_of_collectives(tmp_path: Path, name: str, kind: CollectiveType) -> None:
    host = Host()
    known = {"in_msg_nelems": 3, "dtype": "Long"}
    host.add(3, "record_param_comms", collective_name=name, **known)
    host.add(4, "record_param_comms", collective_name="wait", **known)
    (trace,) = convert_traces([host.write(tmp_path / "et.json")], []).traces
    collective, wait = trace.nodes
    assert collective.attributes["comm_type"] == kind and collective.attributes["comm_size"] == 24
    assert wait.type is NodeType.COMP


def two_ranks(folder: Path) -> tuple[list[Path], list[Path]]:
    """Rank 0 computes and sends 4 kB, rank 1 receives them; then both reduce."""
    hosts, profiles = [], []
    for rank in (0, 1):
        host, profile = Host(), Profile(rank=rank, world_size=2)
        host.add(3, "record_param_comms", collective_name=("send", "recv")[rank])
        host.add(4, "record_param_comms", collective_name="allreduce")
        for node in (3, 4):
            profile.host(node, float(node), 1.0)
        if rank == 0:
            profile.kernel("gemm", 0.0, 250.0, **{"External id": 903})
        message = {"In msg nelems": 1024, "Out msg nelems": 1024, "dtype": "Float"}
        ends = {"Src Rank": 0, "Dst Rank": 1, "External id": 903}
        name = ("send", "recv")[rank]
        p2p = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
        profile.kernel(p2p, 300.0, 10.0, **message, **ends, **{"Collective name": name})
        profile.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 400.0, 10.0, **message,
                       **{"External id": 904, "Collective name": "allreduce"})  # fmt: skip
        hosts.append(host.write(folder / f"et.{rank}.json"))
        profiles.append(profile.write(folder / f"kineto.{rank}.json"))
    return hosts, profiles


def test_messages_between_ranks_match_and_run(tmp_path: Path) -> None:
    converted = convert_traces(*two_ranks(tmp_path))
    files = [tmp_path / f"w.{rank}.et" for rank in (0, 1)]
    for file, trace in zip(files, converted.traces, strict=True):
        write_trace(file, trace)
    assert lint_job(scan_traces(files), converted.groups) == []
    topology = Topology.build("Switch(2)", bandwidth=[1e9], latency=[0])
    workload = read_chakra_workload(tmp_path / "w", None, (2,), "two")
    # 1 us of the host, 250 of the kernel that it launched (and meanwhile the host's second one),
    # 4096 B over 1 GB/s, then as many both ways.
    time = simulate(workload, Cluster(topology)).time_ps
    assert time == pytest.approx(251_000_000 + 2 * 4_096_000, abs=10_000)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_what_pytorch_records_is_converted(tmp_path: Path) -> None:
    """A step of a layer, its gradients reduced over gloo, recorded by two processes."""
    processes = [
        subprocess.Popen([sys.executable, "-c", RECORD, rank], cwd=tmp_path, stderr=subprocess.PIPE)
        for rank in "01"
    ]
    for process in processes:
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint
    hosts, profiles = (
        [tmp_path / f"{name}.{rank}.json" for rank in "01"] for name in ("et", "kineto")
    )
    converted = convert_traces(hosts, profiles)
    for trace, host, profile in zip(converted.traces, hosts, profiles, strict=True):
        check_conversion(trace, host, profile)
    files = [tmp_path / f"w.{rank}.et" for rank in "01"]
    for file, trace in zip(files, converted.traces, strict=True):
        write_trace(file, trace)
    assert lint_job(scan_traces(files), converted.groups) == []
    workload = read_chakra_workload(tmp_path / "w", None, (2,), "recorded")
    topology = Topology.build("Switch(2)", bandwidth=[1e9], latency=[0])
    busiest = max(
        sum(node.attributes.get("dimsweep.duration_ps", 0) for node in trace.nodes)
        for trace in converted.traces
    )
    assert simulate(workload, Cluster(topology)).time_ps >= busiest > 0


def check_conversion(trace: Trace, host: Path, profile: Path) -> None:
    names = [node.name for node in trace.nodes]
    assert {"aten::addmm", "aten::mm", "AddmmBackward0"} <= set(names)
    reduced = [node for node in trace.nodes if node.type is NodeType.COMM_COLL]
    assert [node.attributes["comm_size"] for node in reduced] == [8 * 8 * 4, 8 * 4, 4 * 8 * 4]
    kinds = [CollectiveType.ALL_REDUCE] * 2 + [CollectiveType.ALL_GATHER]
    assert [node.attributes["comm_type"] for node in reduced] == kinds

    # No operator is longer than its call; the sum is what the calls at the top took.
    events = json.loads(profile.read_text())["traceEvents"]
    took = {
        event["args"]["Record function id"]: event["dur"]
        for event in events
        if "Record function id" in event.get("args", {})
    }
    recorded = {node["id"]: node for node in json.loads(host.read_text())["nodes"]}
    call = {
        i: next(a["value"] for a in node["attrs"] if a["name"] == "rf_id")
        for i, node in recorded.items()
    }
    ours = {n.id: n.attributes.get("dimsweep.duration_ps", 0) / 1e6 for n in trace.nodes}
    assert all(own <= took[call[i]] + 1e-6 for i, own in ours.items() if own)
    addmm = next(node for node in trace.nodes if node.name == "aten::addmm")
    called = [i for i in ours if recorded[i]["ctrl_deps"] == addmm.id]
    total = took[call[addmm.id]]
    assert ours[addmm.id] == pytest.approx(total - sum(took[call[i]] for i in called), abs=0.01)


RECORD = """
import os
import sys
import tempfile
from collections.abc import Iterator
import torch, torch.distributed as dist
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

rank = int(sys.argv[1])
dist.init_process_group("gloo", store=dist.FileStore("store", 2), rank=rank, world_size=2)
layer, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
gathered = [torch.empty(4, 8), torch.empty(4, 8)]
observer = ExecutionTraceObserver().register_callback(f"et.{rank}.json")
with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as recorded:
    layer(x).relu().sum().backward()
    dist.all_reduce(layer.weight.grad)
    dist.all_reduce(layer.bias.grad)
    dist.all_gather(gathered, x)
recorded.export_chrome_trace(f"kineto.{rank}.json")
dist.barrier()
# All is written.  PyTorch's threads may still abort a process that leaves in the ordinary way.
os._exit(0)
"""


# --- what cannot be converted -------------------------------------------------------------------


def test_traces_of_different_runs_are_refused(tmp_path: Path) -> None:
    host, _ = step(tmp_path)
    profile = Profile()
    profile.host(4711, 0, 1)
    with refused("", "mismatch", "other.json"):
        convert_traces([host], [profile.write(tmp_path / "other.json")])


@pytest.mark.parametrize(
    ("arguments", "code", "data"),
    [
        ({"Collective name": ""}, "missing", "ncclDevKernel_SendRecv"),
        ({"Collective name": "send"}, "missing", "dst_rank"),
        (
            {"Collective name": "allreduce", "In msg nelems": 1, "dtype": "Odd"},
            "unknown-name",
            "'Odd'",
        ),
        (
            {"Collective name": "allreduce", "In msg nelems": "x", "dtype": "Half"},
            "bad-syntax",
            "'x'",
        ),
        ({"Collective name": "allreduce", "Process Group Name": "9"}, "missing", "'9'"),
    ],
)
def test_kernels_that_say_too_little(
    tmp_path: Path, arguments: dict[str, Any], code: Code, data: str
) -> None:
    host, profile = Host(), Profile()
    host.add(3, "aten::x")
    profile.host(3, 0, 1)
    profile.kernel("ncclDevKernel_SendRecv()", 1, 2, **{"External id": 903}, **arguments)
    files = host.write(tmp_path / "et.json"), profile.write(tmp_path / "kineto.json")
    with refused("", code, data) as caught:
        convert_traces(*([file] for file in files))
    assert "et.json" in caught.value.where


@pytest.mark.parametrize(
    ("content", "place", "code"),
    [
        ("", "et.json", "bad-syntax"),
        ('{"schema": "1.1', "et.json", "bad-syntax"),
        ("[]", "et.json", "wrong-type"),
        ('{"schema": "2.0", "nodes": []}', "et.json", "unsupported"),
        (json.dumps({"schema": SCHEMA, "nodes": []}), "et.json", "missing"),
        (json.dumps({"schema": SCHEMA, "nodes": [{"id": 3}]}), "node 1", "bad-syntax"),
        (json.dumps({"schema": SCHEMA, "nodes": [
            {"id": 5, "name": "x", "ctrl_deps": 4, "attrs": [], "inputs": {"values": []},
             "outputs": {"values": []}}]}), "node id 5 ('x')", "bad-syntax"),
    ],
)  # fmt: skip
def test_what_is_no_execution_trace(tmp_path: Path, content: str, place: str, code: Code) -> None:
    file = tmp_path / "et.json"
    file.write_text(content)
    with refused(place, code):
        convert_traces([file], [])


@pytest.mark.parametrize(
    "content", ["", "{}", '{"traceEvents": [3]}', '{"traceEvents": [{"ph": "X", "cat": "kernel"}]}']
)
def test_what_is_no_profile(tmp_path: Path, content: str) -> None:
    host, profile = step(tmp_path)
    profile.write_text(content)
    with pytest.raises(DimsweepError, match=r"profile|not an event"):
        convert_traces([host], [profile])


JUNK = st.sampled_from([None, "", "x", -1, 2**70, 0.5, float("nan"), [], [[1]], {}, {"x": 1}, True])


@examples(60)
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Any one value of either file is another: an error that says so, or traces that are sound."""
    with tempfile.TemporaryDirectory() as name:
        host, profile = step(Path(name))
        file = data.draw(st.sampled_from([host, profile]))
        content = json.loads(file.read_text())
        owner, key = data.draw(st.sampled_from(list(places(content))))
        owner[key] = data.draw(JUNK)
        file.write_text(json.dumps(content))
        try:
            converted = convert_traces([host], [profile])
            write_trace(Path(name) / "w.et", converted.traces[0])
        except DimsweepError:
            return


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where every value of a JSON document is: its owner, and its key or index there."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])
