"""dimsweep trace as a user types it."""

import json
from pathlib import Path

import pytest
import yaml

from dimsweep.engine.formats.chakra import (
    NodeType,
    Trace,
    TraceNode,
    read_traces,
    write_trace,
)
from dimsweep.engine.formats.chakra.protobuf import encode_metadata, encode_node
from dimsweep.engine.formats.chakra.trace_files import join_stream
from dimsweep.sweeper.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
SMALL = ["topology.shape=Ring(4)_FullyConnected(2)_Switch(2)", "workload.parallel.tensor=4"]
CLUSTER = ["topology=libra_3d", "cost=libra_3d", SMALL[0]]
PNG = b"\x89PNG\r\n"
# Presets that are a workload by themselves: not those that read a file.
WORKLOADS = ROOT / "conf" / "workload"


def kind_of(preset: str) -> tuple[object, ...]:
    """What two presets must have in common for their traces to be of one kind."""
    config = yaml.safe_load((WORKLOADS / f"{preset}.yaml").read_text())
    interleaved = config.get("plan", {}).get("interleave", 1) > 1
    family = config.get("model", {}).get("family")
    return str(config["defaults"]), family, tuple(config["parallel"]), interleaved


# One of each kind; a preset that varies another one, which its defaults name, has none of its own.
PRESETS = sorted(
    {
        kind_of(file.stem): file.stem
        for file in sorted(WORKLOADS.glob("*.yaml"))
        if "???" not in file.read_text()
        and "kind/" in file.read_text()
        # As megatron's, but larger; and of as many ranks as a wafer has.
        and file.stem not in ("astra1_text", "wafer_transformer_1t")
        and not file.stem.startswith("fred_all_reduce")
    }.values()
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail with one message; that message."""
    assert main(["trace", *words]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err
    return captured.err


def written(*overrides: str) -> None:
    assert main(["trace", "write", "w", *CLUSTER, *overrides]) == 0


def time_of(capsys: pytest.CaptureFixture[str], *overrides: str) -> int:
    """What a simulation tells, in ps."""
    capsys.readouterr()
    assert main(["simulate", *CLUSTER, *overrides, "--json"]) == 0
    return int(json.loads(capsys.readouterr().out)["time_ps"])


def broken(path: str) -> None:
    """A trace that waits for what is not there."""
    node = TraceNode(1, "odd", NodeType.COMP, (7,))
    Path(path).write_bytes(join_stream([encode_metadata(Trace(())), encode_node(node)]))


def small(preset: str) -> list[str]:
    """Overrides that make a preset fit 16 NPUs, with all the axes that it has."""
    text = (WORKLOADS / f"{preset}.yaml").read_text()
    config = yaml.safe_load(text)
    if "plan" not in config:
        deep = ["workload.layers=2"] if isinstance(config.get("layers"), int) else []
        return deep if "tensor: 1," in text else [SMALL[1], *deep]
    overrides = [f"workload.parallel.{axis}=2" for axis in config["parallel"] if axis != "data"]
    overrides += ["workload.plan.batch=null", "workload.plan.micro_batches=2", "npu.memory=null"]
    overrides.append("workload.plan.bucket=1 GB")  # few NPUs hold much of a model each
    if config["plan"].get("interleave", 1) > 1:
        overrides.append("workload.plan.interleave=2")
    if config["model"]["family"] == "transformer":
        overrides.append("workload.model.layers=4")
    return overrides


@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_take_as_long_from_their_traces(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = [f"workload={preset}", *small(preset)]
    direct = time_of(capsys, *workload)
    written(*workload)
    groups = ["workload.groups=w.groups.json"] if Path("w.groups.json").exists() else []
    assert time_of(capsys, "workload=chakra", "workload.traces=w", *groups) == direct
    assert direct > 10**9
    assert main(["trace", "lint", "w"]) == 0


def test_placements_that_share_a_dimension_survive(capsys: pytest.CaptureFixture[str]) -> None:
    """Tensor parallelism over every NPU of half a ring: groups that are no whole dimensions."""
    plan = ["workload=gpt3_libra", "workload.parallel.tensor=2"]
    direct = time_of(capsys, *plan)
    written(*plan)
    assert Path("w.groups.json").exists()
    files = ["workload.traces=w", "workload.groups=w.groups.json"]
    assert time_of(capsys, "workload=chakra", *files) == direct


def test_lint_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    broken("x.0.et")
    assert main(["trace", "lint", "x"]) == 1
    text = capsys.readouterr().out
    assert "x.0.et: node 1 (id 1, 'odd') at byte 8: it waits for id 7" in text
    assert "1 finding in 1 trace of 1 node" in text


def test_repair_writes_the_job_and_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    broken("x.0.et")
    write_trace("x.1.et", Trace((TraceNode(1, "fine", NodeType.COMP),)), compress=True)
    Path("x.groups.json").write_text('{"1": [0, 1]}')
    assert main(["trace", "lint", "x", "--repair", "mended"]) == 1
    assert "2 traces in mended; repairs.txt" in capsys.readouterr().out
    assert "dropped the dependency on id 7" in Path("mended/repairs.txt").read_text()
    assert Path("mended/x.groups.json").exists()
    assert Path("mended/x.1.et").read_bytes() == Path("x.1.et").read_bytes()
    assert main(["trace", "lint", "mended"]) == 0


def test_what_cannot_be_repaired_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = TraceNode(1, "a", NodeType.COMP, (2,)), TraceNode(2, "b", NodeType.COMP, (1,))
    messages = [encode_metadata(Trace(())), encode_node(a), encode_node(b)]
    Path("x.et").write_bytes(join_stream(messages))
    assert main(["trace", "lint", "x.et", "--repair", "mended"]) == 1
    assert "0 traces in mended, 1 left out" in capsys.readouterr().out
    assert "not written: it waits for itself" in Path("mended/repairs.txt").read_text()


def test_stats_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    written("workload=gpt3_libra", SMALL[1])
    assert main(["trace", "stats", "w"]) == 0
    text = capsys.readouterr().out
    assert "16 traces, 1 class of ranks" in text
    assert "all-reduce over dimensions 0" in text and "6,442,450,944 B" in text


def test_show_draws_and_simulates(capsys: pytest.CaptureFixture[str]) -> None:
    written("workload=gpt3_libra", SMALL[1])
    assert main(["trace", "show", "w", "--picture", "w.png", "--rank", "3"]) == 0
    assert Path("w.png").read_bytes().startswith(PNG)
    assert main(["trace", "show", "w", "--timeline", "t.json", *CLUSTER]) == 0
    assert json.loads(Path("t.json").read_text())["traceEvents"]


def test_large_graphs_are_shown_in_part() -> None:
    from dimsweep.sweeper.draw.trace import draw_trace

    nodes = tuple(TraceNode(i, "n", NodeType.COMP, (i - 1,) if i else ()) for i in range(5000))
    assert draw_trace(Trace(nodes), "large").startswith(PNG)


def test_forms_go_round(capsys: pytest.CaptureFixture[str]) -> None:
    written("workload=gpt3_libra", SMALL[1])
    for words in (["w", "j", "--to", "json"], ["j", "z", "--to", "gzip"], ["z", "again"]):
        assert main(["trace", "convert", *words]) == 0
    assert Path("j.0.json").read_text().startswith("{")
    assert Path("z.0.et").read_bytes().startswith(b"\x1f\x8b")
    assert Path("again.7.et").read_bytes() == Path("w.7.et").read_bytes()
    assert main(["trace", "convert", "w.0.et", "one.json.gz"]) == 0
    assert read_traces(["one.json.gz"]) == read_traces(["w.0.et"])


def test_astra_sim_1_text_becomes_traces(capsys: pytest.CaptureFixture[str]) -> None:
    layer = "conv -1 1000 ALLREDUCE 1048576 2000 NONE 0 3000 ALLREDUCE 2097152 10"
    Path("net.txt").write_text(f"{layer}\n")
    direct = time_of(capsys, "workload=astra1_text", "workload.file=net.txt")
    assert main(["trace", "convert", "net.txt", "w", *CLUSTER]) == 0
    assert time_of(capsys, "workload=chakra", "workload.traces=w") == direct


def test_pytorch_traces_become_chakra(capsys: pytest.CaptureFixture[str]) -> None:
    tensors = {"values": [[1, 2, 0, 64, 4, "cuda:0"]], "shapes": [[64]], "types": ["Tensor(float)"]}
    attributes = {"rf_id": 5, "tid": 1, "collective_name": "allreduce"}
    node = {
        "id": 3, "name": "record_param_comms", "ctrl_deps": 2, "inputs": tensors,
        "outputs": tensors, "attrs": [{"name": k, "value": v} for k, v in attributes.items()],
    }  # fmt: skip
    thread = {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1}
    content = {"schema": "1.1.1-chakra.0.0.4", "nodes": [thread, node]}
    Path("et.json").write_text(json.dumps(content))
    assert main(["trace", "convert", "et.json", "w.et"]) == 0
    assert "without a profile (--kineto) nothing takes time" in capsys.readouterr().out
    (trace,) = read_traces(["w.et"])
    assert trace.nodes[0].attributes["comm_size"] == 256


# --- what cannot be done ------------------------------------------------------------------------


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in ("lint", "stats", "show", "write", "convert"))
    assert main(["trace"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lint", "nowhere"], "nowhere"),
        (["lint", "."], "no trace"),
        (["lint", "no/w"], "cannot be read"),
        (["lint", "gap"], "the trace of rank 1 is missing"),
        (["lint", "text.et"], "this is not a Chakra trace"),
        (["stats", "empty.et"], "the trace is empty"),
        (["stats", "cut.et"], "the file ends"),
        (["show", "one.et"], "Give --picture FILE"),
        (["show", "one.et", "--picture", "p.png", "--rank", "4"], "rank 4"),
        (["show", "one.et", "--picture", "no/p.png"], "the picture cannot be written"),
        (["convert", "one.et", "one.et"], "would overwrite"),
        (["convert", "one.et", "x.et", "--to", "json"], "needs a target that ends in .json"),
        (["convert", "one.et", "x.et", "--to", "xml"], "'xml' is not one of 'protobuf'"),
        (["convert", "one.et", "x.et", "--kineto", "one.et"], "PyTorch execution trace"),
        (["convert", "one.et", "x.et", "topology=libra_3d"], "only layers"),
        (["convert", "none.txt", "w", *CLUSTER], "none.txt"),
        (["write", "no/w", *CLUSTER], "cannot write the trace"),
        (["write", "w", "workload=gpt3_libra"], "at most 16,384"),
        (["bogus"], "No such command 'bogus'"),
        (["lnt", "one.et"], "Did you mean 'lint'?"),
        (["lint"], "Missing argument 'SOURCE'"),
    ],
)
def test_errors_name_the_mistake(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace("one.et", Trace((TraceNode(1, "fine", NodeType.COMP),)))
    for name in ("gap.0.et", "gap.2.et"):
        Path(name).write_bytes(Path("one.et").read_bytes())
    Path("cut.et").write_bytes(Path("one.et").read_bytes()[:-2])
    Path("text.et").write_text("hello")
    Path("empty.et").write_text("")
    if words == ["lint", "."]:
        Path("sub").mkdir()
        words = ["lint", "sub"]
    if "at most" in message:
        words = [*words, "topology.shape=Ring(16)_Ring(16)_Ring(16)_Ring(16)"]
    assert message in fails(capsys, *words)


def test_several_jobs_in_a_folder_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.0.et", "b.0.et"):
        write_trace(name, Trace((TraceNode(1, "fine", NodeType.COMP),)))
    assert "a.<rank>.et, " in fails(capsys, "lint", ".")


def test_a_job_of_another_size_is_not_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """Half of a job is another job, and would take another time."""
    written("workload=gpt3_libra", SMALL[1])
    shape = "topology.shape=Ring(4)_FullyConnected(2)_Switch(1)"
    words = ["simulate", "workload=chakra", "workload.traces=w", *CLUSTER[:2], shape]
    assert main(words) == 1
    assert "8 NPUs, but rank 8 has a trace, too" in capsys.readouterr().err
