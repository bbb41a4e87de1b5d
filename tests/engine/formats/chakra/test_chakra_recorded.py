"""The recorded traces: ASTRA-sim's own tools wrote them, and counted what is in them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from dimsweep.engine.formats.chakra import CollectiveType, NodeType, Trace, read_traces, write_trace
from dimsweep.sweeper.extensions.astra_sim.verify import unpack
from tests.support.golden import astra_cases, golden_file

CASES = (
    "gpt_small_8_dp8__S8_c4",
    "gpt_small_8_dp8_fsdp__S8_c4",
    "gpt_small_8_tp2_dp2_pp2__F2S4_c4",
    "gpt_small_8_tp4_dp2__R8_c4",
    "gpt_small_8_tp8__F2S4_c4",
    "gpt_13b_16_tp4_dp2_pp2__S8S2_c4",
    "gpt3_175b_64_tp8_dp8__S64_c4",
)
TYPES = {"comp": NodeType.COMP, "coll": NodeType.COMM_COLL}
TYPES |= {"send": NodeType.COMM_SEND, "recv": NodeType.COMM_RECV}


def total(trace: Trace, attribute: str, node_type: NodeType) -> int:
    values = [n.attributes.get(attribute, 0) for n in trace.nodes if n.type is node_type]
    return sum(value for value in values if isinstance(value, int))


def assert_counts(trace: Trace, counts: dict[str, int]) -> None:
    types = Counter(node.type for node in trace.nodes)
    assert {name: types[node_type] for name, node_type in TYPES.items()} == {
        name: counts[name] for name in TYPES
    }
    assert total(trace, "comm_size", NodeType.COMM_COLL) == counts["coll_bytes"]
    assert total(trace, "num_ops", NodeType.COMP) == counts["ops"]


@pytest.mark.parametrize("case", CASES)
def test_traces_of_training_jobs(tmp_path, case) -> None:
    """The first and the last rank have what was counted, and are written again byte by byte."""
    folder = golden_file(f"astra/D/{case}")
    result = json.loads((folder / "result.json").read_text())
    last = result["npus"] - 1
    unpack(folder / result["workload_tar"].split()[0], tmp_path)
    traces = read_traces(tmp_path / f"w.{rank}.et" for rank in (0, last))
    assert_counts(traces[0], result["trace_stats"]["stats_rank0"])
    assert_counts(traces[1], result["trace_stats"]["stats_last"])
    for rank, trace in zip((0, last), traces, strict=True):
        write_trace(tmp_path / "again.et", trace)
        assert (tmp_path / "again.et").read_bytes() == (tmp_path / f"w.{rank}.et").read_bytes()


def test_traces_of_single_cases(tmp_path) -> None:
    """All but the training jobs: their files are few nodes each, some with attributes of theirs."""
    files = [
        trace
        for section in "ABCE"
        for case in astra_cases(section)
        if (trace := case.folder / "workload.all_ranks.et").exists()
    ]
    assert files
    collectives = Counter()
    for file, trace in zip(files, read_traces(files), strict=True):
        collectives.update(
            CollectiveType(node.attributes["comm_type"])
            for node in trace.nodes
            if node.type is NodeType.COMM_COLL
        )
        write_trace(tmp_path / "again.et", trace)
        assert (tmp_path / "again.et").read_bytes() == Path(file).read_bytes()
    assert set(collectives) >= {
        CollectiveType.ALL_REDUCE,
        CollectiveType.ALL_GATHER,
        CollectiveType.ALL_TO_ALL,
        CollectiveType.REDUCE_SCATTER,
    }
