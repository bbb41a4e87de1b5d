"""Whatever is in a file of another tool, reading it ends in what it says or in one sentence."""

import gzip
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import engine.formats.content
from engine import DimsweepError
from engine.formats import read_astra1_layers, read_measured, read_nccl_tests
from engine.formats.astra_sim import Options, read_inputs, read_topology
from engine.formats.chakra import (
    read_chakra_workload,
    read_groups,
    read_trace,
    scan_traces,
    write_trace,
)
from engine.formats.chakra.lint.trace import lint_trace
from engine.formats.content import read_bytes
from engine.formats.pytorch import convert_traces
from engine.network.files import read_network
from tests.support.examples import times
from tests.support.mutations import end_in_a_sentence

STUDIES = Path(__file__).parents[3] / "studies" / "traces" / "astra_sim"
NETWORK, SYSTEM = STUDIES / "network.yml", STUDIES / "system.json"
TRACE = STUDIES / "all_reduce.et"
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
NCCL = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1024 step: 2(factor) # all_reduce_perf
#  Rank  0 Group  0 Pid      1 on     a device  0 [0x00] NVIDIA H100
#  Rank  1 Group  0 Pid      2 on     b device  0 [0x00] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong
 1024 256 float sum -1 12.50 0.08 0.14 0 12.50 0.08 0.14 0
"""
NCCL_TABLE = "op,gpus,nodes,bytes,time_us\nall_reduce,16,2,1024,12.5\nall_reduce,16,2,2048,13\n"
MEASURED = "kernel,duration\nmatmul,12.5 us\nsoftmax,3 us\n"
HOST = """\
{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 2, "name": "aten::mm", "ctrl_deps": 1,
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


def written(json: bool) -> bytes:
    """The trace as it is written, in either form."""
    file = Path(f"written.{'json' if json else 'et'}")
    write_trace(file, read_trace(TRACE))
    return file.read_bytes()


def host() -> Path:
    """The file of an execution trace."""
    file = Path("host.json")
    file.write_text(HOST)
    return file


READERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "trace": (".et", lambda: written(json=False), read_trace),
    "trace as JSON": (".json", lambda: written(json=True), read_trace),
    "compressed trace": (".et", lambda: gzip.compress(written(json=False)), read_trace),
    "trace as a workload": (
        ".et",
        lambda: written(json=False),
        lambda file: read_chakra_workload(file, None, (4, 2), "fuzzed"),
    ),
    "lint": (
        ".et",
        lambda: written(json=False),
        lambda file: list(lint_trace(*scan_traces([file]))),
    ),
    "groups": (".json", lambda: b'{"1": [0, 1], "2": [2, 3]}', lambda file: read_groups(file, 4)),
    "network.yml": (".yml", NETWORK.read_bytes, read_topology),
    "system.json": (
        ".json",
        SYSTEM.read_bytes,
        lambda file: read_inputs(file, NETWORK, None, None, Options()),
    ),
    "ASTRA-sim 1.0 text": (
        ".txt",
        ASTRA1.encode,
        lambda file: read_astra1_layers(file, GROUPS, {"tensor": 4, "data": 1}),
    ),
    "ASTRA-sim 1.0 text with checkpoints": (
        ".txt",
        CHECKPOINTS.encode,
        lambda file: read_astra1_layers(file, GROUPS, {"tensor": 4, "data": 1}),
    ),
    "nccl-tests": (".txt", NCCL.encode, read_nccl_tests),
    "nccl-tests as a table": (".csv", NCCL_TABLE.encode, read_nccl_tests),
    "measured": (".csv", MEASURED.encode, read_measured),
    "PyTorch": (".json", HOST.encode, lambda file: convert_traces([file], [])),
    "PyTorch profile": (".json", PROFILE.encode, lambda file: convert_traces([host()], [file])),
    "network in JSON": (".json", LINKS.encode, read_network),
    "network in GraphML": (".graphml", GRAPHML.encode, read_network),
}


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_end_in_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ending, original, read = READERS[name]
    end_in_a_sentence(name, original(), tmp_path / f"fuzzed{ending}", read, times(500))


def test_a_small_compressed_file_takes_little_memory(tmp_path: Path) -> None:
    """It asked for 4 GiB at once, which machines with a limit refuse."""
    (tmp_path / "trace.gz").write_bytes(gzip.compress(b"[]"))
    body = """
        import resource, sys
        from pathlib import Path
        from engine.formats.content import read_bytes

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
        print(read_bytes(Path(sys.argv[1]), "trace"))
    """
    run = [sys.executable, "-c", textwrap.dedent(body), str(tmp_path / "trace.gz")]
    assert subprocess.run(run, capture_output=True, text=True).stdout == "b'[]'\n"


def test_a_file_inflates_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bomb.et"
    file.write_bytes(gzip.compress(bytes(2_000_000)))
    assert len(read_bytes(file, "trace")) == 2_000_000
    monkeypatch.setattr(engine.formats.content, "_LARGEST", 1_000_000)
    with pytest.raises(DimsweepError, match="the compressed trace inflates to more than"):
        read_bytes(file, "trace")
