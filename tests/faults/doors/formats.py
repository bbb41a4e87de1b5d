"""Doors of traces, networks, measurements and weights: the files of other tools."""

import gzip
import io
import json
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from dimsweep.engine import PacketModel
from dimsweep.engine.extensions.synthesis import learn, write_model
from dimsweep.engine.formats import (
    read_any_network,
    read_astra1_layers,
    read_flows,
    read_goal,
    read_measured,
    read_nccl_tests,
    read_ns3_config,
)
from dimsweep.engine.formats.astra_sim import read_topology
from dimsweep.engine.formats.chakra import (
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    read_chakra_workload,
    read_trace,
    write_trace,
)
from dimsweep.engine.formats.weights import read_network as read_weights
from dimsweep.engine.network import read_network
from dimsweep.engine.workload import flows_workload
from tests.faults.doors.door import Files, command, door
from tests.support.jobs import draw, jobs
from tests.support.nccl import json_of, result
from tests.support.packet_files import (
    HPCC,
    HPCC_CONFIG,
    HPCC_FLOWS,
    MATRIX,
    RING,
    SIMAI,
    THREE_TIERS,
    TWO_TIERS,
)
from tests.support.topologies import INFRAGRAPH, MNNVL, RCCL
from tests.support.topologies import NCCL as NCCL_XML

STUDIES = Path(__file__).parents[3] / "studies" / "traces" / "astra_sim"
ASTRA_SIM = {name: (STUDIES / name).read_bytes() for name in ("network.yml", "system.json")}
TRACE = (STUDIES / "all_reduce.et").read_bytes()
GROUPS = {"forward": "tensor", "input_grad": "tensor", "weight_grad": "data"}
ASTRA1 = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 4
1
layer1 -1 100 ALLREDUCE 1024 100 NONE 0 100 ALLGATHER 2048 10
"""
CHECKPOINTS = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 0 checkpoint_initiates: 1 1
2
layer1 -1 100 ALLREDUCE 1024 100 NONE 0 100 ALLGATHER 2048 10
layer2 -1 100 ALLREDUCE 1024 100 NONE 0 100 ALLGATHER 2048 10
"""
SIMAI_LAYERS = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 4 ep: 1 pp: 1 vpp: 1 ga: 2 all_gpus: 4 pp_comm 512
1
layer1 -1 100 ALLREDUCE 1024 100 NONE 0 100 ALLGATHER 2048 10
"""
NCCL = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1024 step: 2(factor) # all_reduce_perf
#  Rank  0 Group  0 Pid      1 on     a device  0 [0x00] NVIDIA H100
#  Rank  1 Group  0 Pid      2 on     b device  0 [0x00] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong
 1024 256 float sum -1 12.50 0.08 0.14 0 12.50 0.08 0.14 0
"""
NCCL_TABLE = "op,gpus,nodes,bytes,time_us\nall_reduce,16,2,1024,12.5\nall_reduce,16,2,2048,13\n"
NCCL_LOG = (
    "".join(f"0: {line}\n" for line in NCCL.splitlines())
    + """\
0: # Collective test starting: broadcast_perf
0:  0 0 float none -1 0.30 0.00 0.00 0 0.30 0.00 0.00 0
0:  1024 256 float -1 12.50 0.08 0.14 3 12.50 0.08 0.14 0 2026-01-02 03:04:05
"""
)
MEASURED = "kernel,duration\nmatmul,12.5 us\nsoftmax,3 us\n"
HOST = """\
{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "name":
"[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "inputs": {"values": []}, "outputs":
{"values": []}, "attrs": []}, {"id": 9, "name": "## process_group:init ##", "inputs": {"values":
["[{\\"pg_name\\": \\"5\\", \\"ranks\\": [1, 3]}]"]}}, {"id": 2, "name": "aten::mm", "ctrl_deps": 1,
"inputs": {"values": [], "shapes": [], "types": []}, "outputs": {"values": [], "shapes": [],
"types": []}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 1}]}]}
"""
PROFILE = """\
{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 0},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1.5, "dur": 20, "tid": 3, "args":
{"External id": 902, "Record function id": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 1, "tid": 3, "args":
{"External id": 902, "correlation": 77}},
{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 30, "dur": 12.25, "args":
{"stream": 7, "correlation": 77}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 50, "dur": 9, "args":
{"stream": 20, "External id": 902, "Collective name": "allreduce", "In msg nelems": 512,
"dtype": "BFloat16", "Process Group Name": "5"}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 22, "dur": 40, "tid": 3,
"args": {"External id": 902, "correlation": 4}}],
"distributedInfo": {"rank": 1, "world_size": 4, "pg_config": [{"pg_name": "5", "ranks": [1, 3]}]}}
"""
LINKS = """\
{"directed": false, "nodes": [{"id": "a", "npu": 0}, {"id": "b", "npu": 1}, {"id": 7}], "edges": [
{"source": "a", "target": 7, "bandwidth": "50 GB/s", "latency": "500 ns"},
{"source": 7, "target": "b", "bandwidth": "8 Gb/s", "latency": "0 s", "buffer": "1 MB"}]}
"""
GRAPHML = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="n" for="node" attr.name="npu" attr.type="int"/>
  <key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>
  <key id="l" for="edge" attr.name="latency" attr.type="string"><default>5 ns</default></key>
  <graph edgedefault="directed">
    <node id="a"><data key="n">0</data></node><node id="b"><data key="n">1</data></node>
    <edge source="a" target="b"><data key="b">1 GB/s</data></edge>
    <edge source="b" target="a"><data key="b">2 GB/s</data><data key="l">7 ns</data></edge>
  </graph>
</graphml>
"""


ON_A_RING = (
    *("workload.parallel={tensor: 4}", "topology.shape=Ring(4)", "topology.latency=500 ns"),
    *("topology.tiers=[]", "cost=none"),
)


# --- traces --------------------------------------------------------------------------------------


def _as_json() -> Files:
    Path("t.et").write_bytes(TRACE)
    write_trace(Path("t.json"), read_trace(Path("t.et")))
    return {"t.json": Path("t.json").read_bytes()}


def _job() -> Files:
    """Traces of four ranks, with their groups and their keys."""
    command("trace", "write", "w", "study=libra_gpt3_4d", "workload.layers=1", *ON_A_RING)
    Path("w.keys.json").write_text('{"layers": 1, "tensor": 4}')
    Path("w.groups.json").write_text('{"0": [0, 1, 2, 3]}')
    return {file.name: file.read_bytes() for file in Path().iterdir() if file.is_file()}


@door("trace lint SOURCE", good=lambda: {"t.et": TRACE})
def a_trace_is_linted() -> None:
    command("trace", "lint", "t.et", "--repair", "mended")


@door("trace stats SOURCE", good=_as_json)
def a_trace_as_JSON_is_counted() -> None:  # noqa: N802
    command("trace", "stats", "t.json")


@door("trace convert SOURCE", good=lambda: {"t.et": gzip.compress(TRACE)})
def a_compressed_trace_is_converted() -> None:
    command("trace", "convert", "t.et", "out.json")


@door("trace show SOURCE", "workload.traces", good=_job)
def a_job_is_simulated() -> None:
    command("trace", "show", "w", "--timeline", "t.json", *ON_A_RING[1:])


def _noted() -> Files:
    """Traces of two ranks in JSON, which record their groups."""
    groups = TensorInfo('["[{"pg_name": "1", "ranks": [0, 1]}]"]', "[]", "['String']")
    init = TraceNode(1, "process_group:init", NodeType.METADATA, inputs=groups)
    attributes = {"comm_type": 0, "comm_size": 1024, "pg_name": "1", "is_cpu_op": False}
    reduce = TraceNode(2, "all-reduce", NodeType.COMM_COLL, (1,), attributes=attributes)
    for rank in range(2):
        write_trace(Path(f"w.{rank}.json"), Trace((init, reduce)))
    return {file.name: file.read_bytes() for file in Path().iterdir()}


@door(good=_noted)
def groups_that_traces_record() -> None:
    command("trace", "lint", "w")
    read_chakra_workload(Path("w"), None, (2,), "w")


@door(
    *(f"trace {each} --groups" for each in ("lint", "stats", "show")),
    "workload.groups",
    good=_job,
    own="groups.json",
)
def groups_of_a_job() -> None:
    command("trace", "lint", "w", "--groups", "w.groups.json")


@door("trace convert --kineto", good=lambda: {"h.json": HOST.encode(), "p.json": PROFILE.encode()})
def a_profile_of_PyTorch_is_converted() -> None:  # noqa: N802
    command("trace", "convert", "h.json", "out.et", "--kineto", "p.json")


@door(good=lambda: {"h.json.gz": gzip.compress(HOST.encode()), "p.json": PROFILE.encode()})
def a_compressed_trace_of_PyTorch_is_converted() -> None:  # noqa: N802
    command("trace", "convert", "h.json.gz", "out.et", "--kineto", "p.json")


@door("trace obfuscate SOURCE", good=_job)
def a_job_is_obfuscated() -> None:
    command("trace", "obfuscate", "w", "hidden")


@cache
def _model() -> Files:
    write_model("m.json", learn(jobs(draw(40, 0), 0.03)))
    return {"m.json": Path("m.json").read_bytes()}


@door("trace synthesise MODEL", good=_model)
def a_model_of_traces() -> None:
    keys = ("layers=4", "hidden=1024", "sequence=512", "micro_batches=5")
    command("trace", "synthesise", "m.json", *keys, "tensor=2", "pipeline=1", "data=2")


@door(
    "trace synthesise KEYS",
    good=lambda: {
        **_model(),
        "keys.txt": b"layers=4 hidden=1024 sequence=512 micro_batches=5 tensor=2 pipeline=1 data=2",
    },
    own="keys.txt",
)
def keys_of_a_job_that_nobody_has() -> None:
    words = Path("keys.txt").read_text("utf-8", "surrogateescape").split()
    command("trace", "synthesise", "m.json", *words)


@door("trace learn SOURCES", "trace learn --keys", good=_job, own=("keys.json", ".et"))
def a_model_is_learnt() -> None:
    command("trace", "learn", "w")


@door(
    good=lambda: {**_job(), "all.json": b'{"w": {"layers": 1, "tensor": 4}}'},
    own="all.json",
)
def keys_of_all_jobs() -> None:
    command("trace", "learn", "w", "--keys", "all.json")


# --- ASTRA-sim -----------------------------------------------------------------------------------


def _astra() -> Files:
    memory = {
        "memory-type": "NO_MEMORY_EXPANSION",
        "remote-mem-latency": 0,
        "remote-mem-bw": 0,
    }
    groups = {"0": [0, 1, 2, 3], "1": [4, 5, 6, 7]}
    texts = {"memory.json": json.dumps(memory).encode(), "groups.json": json.dumps(groups).encode()}
    return {**ASTRA_SIM, **texts, **{f"w.{rank}.et": TRACE for rank in range(64)}}


@door(
    *(f"astra --{each}-configuration" for each in ("workload", "system", "network")),
    *("astra --remote-memory-configuration", "astra --comm-group-configuration"),
    *("workload.system", "workload.memory"),
    good=_astra,
)
def inputs_of_ASTRA_sim() -> None:  # noqa: N802
    files = ("--system-configuration=system.json", "--network-configuration=network.yml")
    more = ("--remote-memory-configuration=memory.json", "--comm-group-configuration=groups.json")
    command("astra", "--workload-configuration=w", *files, *more)


@door("topology.file", good=lambda: {"network.yml": ASTRA_SIM["network.yml"]})
def a_topology_of_ASTRA_sim() -> None:  # noqa: N802
    read_topology(Path("network.yml"))


@door(
    "workload.file",
    good=lambda: {
        name: text.encode()
        for name, text in (("a.txt", ASTRA1), ("b.txt", CHECKPOINTS), ("c.txt", SIMAI_LAYERS))
    },
)
def texts_of_ASTRA_sim_1() -> None:  # noqa: N802
    for name in ("a.txt", "b.txt", "c.txt"):
        read_astra1_layers(Path(name), GROUPS, {"tensor": 4, "data": 1})


# --- measurements and networks -------------------------------------------------------------------


@door(
    "collective.measured",
    good=lambda: {
        "n.txt": NCCL.encode(),
        "n.log": NCCL_LOG.encode(),
        "n.csv": NCCL_TABLE.encode(),
        "n.json": json_of("all_reduce_perf", 2, result(1024, 12.5, 12.0)).encode(),
    },
)
def what_nccl_tests_print() -> None:
    for name in ("n.txt", "n.log", "n.csv", "n.json"):
        read_nccl_tests(Path(name))


@door("npu.measured", "other_npus.npu.measured", good=lambda: {"m.csv": MEASURED.encode()})
def measured_kernels() -> None:
    read_measured(Path("m.csv"))


@door("network.file", good=lambda: {"n.json": LINKS.encode(), "n.graphml": GRAPHML.encode()})
def networks_as_graphs() -> None:
    for name in ("n.json", "n.graphml"):
        read_network(name)
        read_any_network(Path(name))


def _networks() -> Files:
    texts = {"n.yaml": INFRAGRAPH, "n.xml": NCCL_XML, "m.xml": MNNVL, "r.xml": RCCL}
    wrapped = json.dumps({"infrastructure": yaml.safe_load(INFRAGRAPH)})
    return {name: text.encode() for name, text in (texts | {"n.json": wrapped}).items()}


@door(good=_networks)
def networks_of_other_tools() -> None:
    for name in _networks():
        read_any_network(Path(name))


_TOPOLOGIES = {"h.txt": HPCC, "s.txt": SIMAI, "2.topo": TWO_TIERS, "3.topo": THREE_TIERS}


@door(good=lambda: {name: text.encode() for name, text in _TOPOLOGIES.items()})
def topologies_of_packet_simulators() -> None:
    for name in _TOPOLOGIES:
        read_any_network(Path(name))


@door("network.packets.file", good=lambda: {"config.txt": HPCC_CONFIG.encode()})
def a_configuration_of_ns3() -> None:
    PacketModel(**read_ns3_config(Path("config.txt")).packets)


@door(good=lambda: {"f.txt": HPCC_FLOWS.encode(), "m.cm": MATRIX.encode()})
def lists_of_flows() -> None:
    for name in ("f.txt", "m.cm"):
        flows_workload(read_flows(Path(name)).flows, (5,), "flows")


@door(good=lambda: {"r.goal": RING.encode()})
def a_schedule_in_GOAL() -> None:  # noqa: N802
    read_goal(Path("r.goal"), (4,), "goal")


# --- weights -------------------------------------------------------------------------------------

_WEIGHT = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


def _array(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _packed(**arrays: bytes) -> bytes:
    """An archive whose checksums are right, whatever is in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in arrays.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@door(
    "repurpose MODEL",
    "workload.model",
    good=lambda: {"net.npz": _packed(**{"fc.weight.npy": _array(_WEIGHT)})},
)
def weights_in_npz() -> None:
    command("repurpose", "net.npz", "--workers", "2")


@door(good=lambda: {"fc.npy": _array(_WEIGHT)})
def an_array_of_weights() -> None:
    Path("net.npz").write_bytes(_packed(**{"fc.weight.npy": Path("fc.npy").read_bytes()}))
    read_weights(Path("net.npz"))


def _state_dict() -> bytes:
    """The pickle in what torch.save writes, by hand: a tensor of 6 x 5 floats."""
    return (
        b"\x80\x02}q\x00X\x09\x00\x00\x00fc.weightq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02(("
        b"X\x07\x00\x00\x00storageq\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05"
        b"X\x03\x00\x00\x00cpuq\x06K\x1etq\x07QK\x00K\x06K\x05\x86q\x08K\x05K\x01\x86q\t\x89}q\n"
        b"tq\x0bRq\x0cs."
    )


@door(good=lambda: {"data.pkl": _state_dict()})
def a_state_dict_of_PyTorch() -> None:  # noqa: N802
    parts = {"net/data.pkl": Path("data.pkl").read_bytes(), "net/data/0": _WEIGHT.tobytes()}
    Path("net.pt").write_bytes(_packed(**parts))
    read_weights(Path("net.pt"))


def some_safetensors() -> Files:
    from safetensors.numpy import save

    return {"net.safetensors": save({"fc.weight": _WEIGHT})}


@door(good=some_safetensors)
def weights_in_safetensors() -> None:
    read_weights(Path("net.safetensors"))


def _onnx() -> Files:
    import onnx

    make = onnx.helper
    tensor = onnx.numpy_helper.from_array(_WEIGHT, "w")
    graph = make.make_graph(
        [make.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
        "net",
        [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 5])],
        [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 6])],
        [tensor],
    )
    return {"net.onnx": make.make_model(graph).SerializeToString()}


@door(good=_onnx)
def weights_in_ONNX() -> None:  # noqa: N802
    read_weights(Path("net.onnx"))


def _samples() -> Files:
    rng = np.random.default_rng(0)
    arrays = {
        "inputs.npy": _array(rng.standard_normal((4, 5))),
        "labels.npy": _array(np.array([0, 1, 2, 3])),
        "calibration.npy": _array(rng.standard_normal((4, 5))),
    }
    return {"net.npz": _packed(**{"fc.weight.npy": _array(_WEIGHT)}), **arrays}


@door("repurpose --samples", "workload.samples", good=_samples, own=".npy")
def samples_of_a_network() -> None:
    names = ("inputs.npy", "labels.npy", "calibration.npy")
    Path("s.npz").write_bytes(_packed(**{name: Path(name).read_bytes() for name in names}))
    command("repurpose", "net.npz", "--workers", "2", "--samples", "s.npz")
