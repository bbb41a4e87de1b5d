"""Files that people have in public: what comes of them, where they lie beside the project."""

from pathlib import Path

import pytest

from dimsweep.sweeper.cli.main import main

CASES = Path(__file__).parents[4] / "shared" / "cases"
pytestmark = [
    pytest.mark.skipif(not CASES.is_dir(), reason="there are no public cases beside the project"),
    pytest.mark.long,
]
FLOWS = (
    *("simulate", "fidelity=flow", "workload=all_reduce", "topology.latency=1 us"),
    "topology.tiers=[]",
)
CHAKRA = (
    *("simulate", "workload=chakra", "topology.tiers=[]", "topology.latency=1 us"),
    "topology.bandwidth=300 GB/s",
)
LAYERS = (
    *("simulate", "workload=astra1_text", "topology.shape=Switch(8)", "topology.tiers=[]"),
    *("topology.bandwidth=300 GB/s", "topology.latency=1 us"),
    "workload.parallel={tensor: 8, data: rest}",
)
MEASURED = ("simulate", "workload=all_reduce", "cluster=dgx_h100", "nodes=2")
DGX = ("cluster=dgx_h100", "nodes=2")
LLAMA = ("cluster=dgx_h100", "workload=llama3_8b")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*FLOWS, "topology.shape=FullyConnected(8)", "network.file=01/eight.xml"), "5.592"),
        ((*FLOWS, "topology.shape=Switch(8)", "network.file=02/two_trays.xml"), "2.60"),
        ((*FLOWS, "topology.shape=Switch(2)", "network.file=05/infra.json"), "all-reduce on"),
        (("calibrate", "07/all_gather.log", *DGX), "all_gather of 1,073,741,824 B"),
        ((*MEASURED, "collective.measured=08/all.log"), "5.48126 ms"),
        *((("calibrate", f"10/{name}.log", *DGX), "all_reduce of 1,073,741,824 B")
          for name in ("srun_l", "tagged", "command")),
        (("trace", "convert", "12/et.json.gz", "w.et"), "1 nodes"),
        ((*CHAKRA, "workload.traces=13/w", "topology.shape=Ring(2)_Switch(2)"), "iteration"),
        (("calibrate", "15/runs.csv", *LLAMA), "iteration, two"),
        (("calibrate", "16/quoted.csv", *LLAMA), "iteration, one"),
        (("calibrate", "16/capitals.csv", *LLAMA), "iteration, one"),
        (("calibrate", "18/amd.json", "cluster=mi300x", "nodes=1", "workload=llama3_8b"),
         "profile, products of amd.json 0.009 s"),
        ((*CHAKRA, "workload.traces=23/w", "topology.shape=Switch(2)"), "iteration"),
        (("repurpose", "24/mlp.safetensors", "--workers", "2"), "mlp on Switch(2)"),
    ],
)  # fmt: skip
def test_what_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([_placed(word) for word in words]) == 0
    assert says in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*FLOWS, "topology.shape=Switch(1)", "network.file=03/provider.xml"), "no <gpu>"),
        ((*LAYERS, "workload.file=14/layers.txt"), "pp: 4"),
        *(((*FLOWS, "topology.shape=Switch(2)", f"network.file=22/{name}"), says)
          for name, says in (("net.gml", "read_gml"), ("graph.xml", "NCCL_TOPO_DUMP_FILE"),
                             ("wrapped.yaml", "choice: xpu"))),
    ],
)  # fmt: skip
def test_what_is_refused_with_the_way_to_go(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert main([_placed(word) for word in words]) != 0
    assert says in " ".join(capsys.readouterr().err.split())


def _placed(word: str) -> str:
    """Return a word with the folder of the cases before a file of a case."""
    key, equals, value = word.rpartition("=")
    return f"{key}{equals}{CASES / value}" if value[:2].isdigit() and value[2:3] == "/" else word
