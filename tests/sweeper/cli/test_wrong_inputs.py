"""What users write wrongly, and how each is answered: one sentence that names the key or the file,
and the cure.  A line of a table is a command, where its error is, what it says, and what would be
right."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dimsweep.engine
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.api.study import Study
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "studies" / "networks" / "digits.npz"
HEAD = "defaults: [override /workload: gpt3_libra, _self_]\n"
FILES: dict[str, str | bytes] = {
    "adir/keep": "",
    "empty.json": "",
    "list.json": "[1, 2]",
    "bytes.yml": bytes(range(256)),
    "note.txt": "hello world\n",
    "other.csv": "a,b\n1,2\n",
    "plain.xml": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "torn.graphml": "<graphml><graph>",
    "rings.yml": "topology: [Ring]\n",
    "kineto.json": json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "gemm"}]}),
    "observed.json": json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}),
    "blank.0.et": "",
    "w.bin": b"123",
    "w.pt": b"no archive",
    "results/junk/study.json": '{"a": 1}',
    "results/torn/study.json": '{"a": ',
    "results/begun/study.json": StudyRecord(
        name="begun",
        model=dimsweep.engine.MODEL_VERSION,
        objective=("time",),
        cells=(
            CellRecord(
                cell=0,
                coordinates={},
                dims=("0: Ring(2)",),
                workload="a",
                n_npus=2,
                sampler="grid",
                trials=1,
            ),
        ),
        config={"name": "begun"},
    ).model_dump_json(),
    "conf/npu/mine.yaml": "flops: {fp16: 1 TFLOP/s}\nefficency: 0.5\n",
    "conf/npu/empty.yaml": "",
    "conf/npu/remarks.yaml": "# flops:\n",
    "studies/empty.yaml": "\n",
    "conf/npu/torn.yaml": "flops: {fp16: 1\n",
    "conf/workload/odd.yaml": "defaults: [kind/rnn, _self_]\nname: x\n",
    "conf/workload/bare.yaml": "name: x\nlayers: []\n",
    "studies/tab.yaml": f"{HEAD}budget:\n\ttrials: 3\n",
    "studies/twice.yaml": f"{HEAD}budget: {{trials: 3}}\nbudget: {{trials: 4}}\n",
    "studies/colon.yaml": f"{HEAD}objective:time\n",
    "studies/indent.yaml": f"{HEAD}budget:\n  trials: 3\n gap: 0.1\n",
    "studies/sign.yaml": f"{HEAD}name: @x\n",
    "studies/octal.yaml": f"{HEAD}budget: {{trials: 010}}\n",
    "studies/sixty.yaml": f"{HEAD}budget: {{trials: 1:30}}\n",
    "studies/yes.yaml": f"{HEAD}budget: {{trials: yes}}\n",
    "studies/quoted.yaml": f"{HEAD}budget: {{trials: '300'}}\n",
    "studies/point.yaml": f"{HEAD}budget: {{trials: 300.0}}\n",
    "studies/listed.yaml": f"{HEAD}budget: [{{trials: 3}}]\n",
    "studies/blank_grid.yaml": f"{HEAD}grid:\n",
    "studies/mapped.yaml": f"{HEAD}network: {{degrade: {{link: x}}}}\n",
    "studies/scalar.yaml": f"{HEAD}topology: {{tiers: pod}}\n",
    "studies/dotted.yaml": f"{HEAD}topology.bandwidth: 1 GB/s\n",
    "studies/number.yaml": f"{HEAD}topology: {{bandwidth: 400}}\n",
    "studies/numbered.yaml": f"{HEAD}5: a\n",
    "studies/latin.yaml": b"name: caf\xe9\n",
    "studies/several.yaml": f"{HEAD}---\nbudget: {{trials: 2}}\n",
    "studies/items.yaml": "- a\n- b\n",
    "studies/no_slash.yaml": "defaults: [workload: gpt3_libra]\n",
    "studies/no_group.yaml": "defaults: [override /wrkload: gpt3_175b]\n",
    "studies/no_value.yaml": f"{HEAD}name: ${{nope}}\n",
    "studies/my study.yaml": f"{HEAD}space: {{bandwidth: {{total: 500 GB/s}}}}\n",
    "studies/inf.yaml": f"{HEAD}budget: {{trials: 0}}\n",
    "studies/1e3.yaml": f"{HEAD}budget: {{trials: 0}}\n",
}

# A value of a key: key, value, and what is asked or said to be right.
VALUES = [
    ("topology.bandwidth", "400G", "did you mean 400 Gb/s?"),
    ("topology.bandwidth", "400Gbps", "did you mean 400 Gb/s?"),
    ("topology.bandwidth", "400GbE", "did you mean 400 Gb/s?"),
    ("topology.bandwidth", "50 GBps", "did you mean 50 GB/s?"),
    ("topology.bandwidth", "50 GByte/s", "did you mean 50 GB/s?"),
    ("topology.bandwidth", "50 GB", "did you mean 50 GB/s?"),
    ("topology.bandwidth", "50 GB/sec", "did you mean 50 GB/s?"),
    ("topology.bandwidth", "50 gb/s", "did you mean 50 GB/s or 50 Gb/s?"),
    ("topology.bandwidth", "400 mb/s", "did you mean 400 MB/s or 400 Mb/s?"),
    ("topology.bandwidth", "50 GiBps", "did you mean 50 GiB/s?"),
    ("topology.bandwidth", "1e3", "did you mean 1000 GB/s or 1000 Gb/s?"),
    ("topology.bandwidth", "4e11", "did you mean 400000000000 B/s?"),
    ("topology.bandwidth", "'3,2 GB/s'", "did you mean 3.2 GB/s?"),
    ("topology.bandwidth", "'1,000 GB/s'", "did you mean 1000 GB/s or 1.000 GB/s?"),
    ("topology.bandwidth", "1 000 GB/s", "did you mean 1000 GB/s?"),
    ("topology.bandwidth", "~200 GB/s", "did you mean 200 GB/s?"),
    ("topology.bandwidth", "200..400 GB/s", "write a number and a unit"),
    ("topology.bandwidth", "-1 GB/s", "such as 200 GB/s"),
    ("topology.bandwidth", "inf", "such as 200 GB/s"),
    ("topology.bandwidth", "nan", "such as 200 GB/s"),
    ("topology.bandwidth", "inf GB/s", "such as 200 GB/s"),
    ("topology.bandwidth", "10 GT/s", "such as 200 GB/s"),
    ("topology.bandwidth", "NDR", "such as 200 GB/s"),
    ("topology.bandwidth", "{a: 1 GB/s}", "such as 200 GB/s"),
    ("topology.bandwidth[0]", "[450G,1 GB/s,1 GB/s,1 GB/s]", "did you mean 450 Gb/s?"),
    ("topology.bandwidth", "[1 GB/s]", "give one value for all, or a list of 4"),
    ("topology.latency", "[1 us,2 us]", "give one value for all, or a list of 4"),
    ("topology.latency", "500 nsec", "did you mean 500 ns?"),
    ("topology.latency", "500", "did you mean 500 ns or 500 us?"),
    ("topology.latency", "5 m", "did you mean 5 ms or 5 min?"),
    ("topology.latency", "5 S", "did you mean 5 s?"),
    ("topology.latency", "60 days", "check its unit"),
    ("npu.flops.fp16", "312 TFLOPS", "did you mean 312 TFLOP/s?"),
    ("npu.flops.fp16", "312T", "did you mean 312 TFLOP/s?"),
    ("npu.memory_bandwidth", "3.35TB", "did you mean 3.35 TB/s?"),
    ("npu.memory", "80G", "did you mean 80 GB or 80 GiB?"),
    ("npu.efficiency", "40%", "did you mean 0.4?"),
    ("cost.npu", "$30000", "did you mean 30000 USD?"),
    ("cost.npu", "30 kusd", "did you mean 30 kUSD?"),
    ("cost.npu", "30000 EUR", "such as 10000 USD"),
    ("cost.tiers.pod.link", "7.8 USD/Gbps", "did you mean 7.8 USD/(Gb/s)?"),
    ("cost.power.npu", "0.7 kw", "did you mean 0.7 kW?"),
    ("topology.shape", "Ring(-4)", "Ring(n), FullyConnected(n) or Switch(n), joined by _"),
    ("topology.shape", "Ring(4.5)", "Ring(n), FullyConnected(n) or Switch(n), joined by _"),
    ("topology.shape", "Ring(4)Switch(2)", "did you mean Ring(4)_Switch(2)?"),
    ("topology.shape", "Ring(4),Switch(2)", "did you mean Ring(4)_Switch(2)?"),
    ("topology.shape", "Ring(4)-Switch(2)", "did you mean Ring(4)_Switch(2)?"),
    ("topology.shape", "Ring(4", "did you mean Ring(4)?"),
    ("topology.shape", "Swich(8)", "did you mean Switch(8)?"),
    ("topology.shape", "Torus(4,4)", "did you mean Torus2D(4,4)?"),
    ("topology.shape", "Mesh(4)", "write Mesh2D(x,y)"),
    ("topology.shape", "4x8x32", "joined by _"),
    ("topology.shape", "[4,8,32]", ""),
    ("topology.shape", "Switch(1000000000000)", ""),
    ("network.degrade", "{link: x}", "such as [{KEY: VALUE}]"),
    ("topology.tiers", "pod", "such as [a, b]"),
    ("workload.parallel", "[8,8]", "such as {KEY: VALUE}"),
    ("workload.parallel", "null", "such as {KEY: VALUE}"),
    ("workload.parallel.tensor", "7", "4 or 8 would"),
    ("workload.parallel.tensor", "1.5", "a whole number, one for each dimension, or 'rest'"),
    ("workload.parallel.tp", "8", "known: tensor, context"),
    ("workload.hidden", "2k", "such as 8, without a point or an exponent"),
    ("collective.chunks", "1e12", "did you mean 1000000000000?"),
    ("collective.chunks", "4.5", "without a point"),
    ("collective.order", "LIFO", "known: baseline, themis"),
    ("collective.library", "rccl", "did you mean 'nccl'?"),
    ("fidelity", "packets", "did you mean 'packet'?"),
    ("fold", "no", "true or false"),
    ("workload.name", "5", "quotes make it one: \"'5'\""),
    ("workload.name", "''", "a text with a letter"),
    ("workload.name", "' '", "a text with a letter"),
    ("network.fabric.kind", "fat_tree", "known: auto, mesh, clos, dragonfly"),
    ("name", "inf", "quotes make it one: \"'inf'\""),
    ("watch", "[5]", "such as NPU 3 -> leaf 0"),
    ("space.bandwidth.constraints", "[b0 >= b1]", "quote texts that have spaces or signs"),
    ("topology.tiers", "[a,b", "close brackets and quotes"),
]

# A value of a key of a study.
STUDY = [
    ("name", "../x", "a letter first"),
    ("name", "a b", "a letter first"),
    ("name", "x" * 300, "up to 200 letters"),
    ("name", "", "leave it out, or name a folder"),
    ("results", "", "leave it out, or name a folder"),
    ("search.seed", "-1", "it must be from 0 to 4294967295"),
    ("search.seed", "99999999999999999999", "it must be from 0 to 4294967295"),
    ("search.batch", "-1", "it must be 1 or more"),
    ("budget.trials", "-5", "it must be 1 or more"),
    ("budget.trials", "1e3", "did you mean 1000?"),
    ("budget.trials", "inf", "such as 8"),
    ("budget.trials", "null", "such as 8"),
    ("budget.time", "1h", "known: trials, gap"),
    ("budget", "100", "known: trials, gap"),
    ("budget.gap", "5 %", "did you mean 0.05?"),
    ("budget.gap", "5", "did you mean 0.05?"),
    ("budget.gap", "nan", "it must be 0 or more"),
    ("objective", "Time", "did you mean 'time'?"),
    ("objective", "null", "known: time, cost"),
    ("objective", "[time,cost,energy]", "such as [time, cost]"),
    ("objective", "perf_per_watt", "it needs watts: cost.power.npu"),
    ("grid", "[]", "such as {KEY: VALUE}"),
    ("grid", "{collective.chunks: 4}", "such as [16, 64]"),
    ("grid.collective.chunks", "{collective.chunks: []}", "such as [16, 64]"),
    ("grid.collective.chunks", "{collective.chunks: [4,8,4]}", "give each value once"),
    ("grid.collective", "{collective: {chunks: [4,8]}}", "an axis is a dotted key"),
    ("grid.chunks", "{chunks: [4,8]}", "did you mean 'collective.chunks'"),
    ("grid.executor.actors", "{executor.actors: [1,2]}", "run a study for each value"),
    ("grid.name", "{name: [a,b]}", "run a study for each value"),
    ("space.parameters", "chunks", "such as {KEY: VALUE}"),
    ("space.parameters.collective", "{chunks: {values: [4]}}", "a searched key is a dotted one"),
    ("space.parameters.collective.chunks", "{low: 1, high: inf}", "such as 16 or 64 MB"),
    ("space.parameters.collective.chunks", "{low: 8, high: 4}", "low <= high"),
    ("space.parameters.collective.chunks", "{low: 1, high: 4, step: -1}", "more than zero"),
    ("space.parameters.collective.chunks", "{values: [4,x]}", "such as 8, without"),
    ("space.parameters.topology", "{values: [libra_4d]}", "a grid: {topology: [...]}"),
    ("space.parameters.topology.bandwidth", "{values: [1 GB/s]}", "leave one of the two out"),
    ("space.bandwidth.total", "400G", "did you mean 400 Gb/s?"),
    ("space.bandwidth.cost", "20M", "did you mean 20 MUSD?"),
    ("space.bandwidth.constraints", "b0 >= b1", "such as [a, b]"),
    ("recheck.top", "-1", "it must be 0 or more"),
    ("recheck.top", "1.5", "such as 8"),
    ("recheck", "3", "known: top, fidelity"),
    ("portfolio.workloads.gpt3_libra", "-1", "zero or more"),
    ("portfolio.workloads.gpt3_libra", "nan", "zero or more"),
    ("portfolio.workloads.gpt3_libra", "much", "such as 0.05"),
    ("portfolio.workloads", "{gpt3_libra: 0}", "at least one that is more than zero"),
    ("portfolio.workloads", "[gpt3_libra]", "such as {KEY: VALUE}"),
    ("executor.timeout", "60", "did you mean 60 s or 60 min or 60 hour or 60 day?"),
    ("executor.memory", "4G", "did you mean 4 GB or 4 GiB?"),
]

# Other commands: the words, where, and what would be right.
COMMANDS = [
    ("simulate search=bayes", "search=bayes", "did you mean 'gp' or 'tpe'?"),
    ("simulate search=Tpe", "search=Tpe", "did you mean 'tpe'?"),
    ("simulate topology=DGX_H100", "topology=DGX_H100", "did you mean 'dgx_h100'?"),
    ("simulate workload=GPT3_175B", "workload=GPT3_175B", "did you mean 'gpt3_175b'?"),
    ("simulate topology=null", "topology=null", "known: alps,"),
    ("simulate npu=[h100,b200]", "npu", "give one option"),
    ("simulate topology=dgx_h100,dgx_b200", "topology", "`dimsweep sweep` simulates several"),
    ("simulate 'topology.bandwidth=3,2 GB/s'", "topology.bandwidth", "a number with a point"),
    ("simulate batch=64", "batch", "did you mean 'workload.batch'"),
    ("simulate npu.capacity=80GB", "npu.capacity", "known: flops,"),
    ("simulate workload=astra1_text", "workload.file", "or as KEY=VALUE"),
    ("simulate workload=chakra", "workload.traces", "or as KEY=VALUE"),
    ("simulate npu=mine", "conf/npu/mine.yaml", "did you mean 'efficiency'?"),
    ("simulate npu=empty", "conf/npu/empty.yaml", "write KEY: VALUE in each line, or {}"),
    ("simulate npu=remarks", "conf/npu/remarks.yaml", "write KEY: VALUE in each line, or {}"),
    ("sweep empty", "studies/empty.yaml", "write KEY: VALUE in each line"),
    ("simulate npu=torn", "conf/npu/torn.yaml:2:1", ""),
    ("simulate workload=odd", "conf/workload/odd.yaml", "known: model, transformer"),
    ("simulate workload=bare", "conf/workload/bare.yaml", "defaults: [kind/layers, _self_]"),
    ("sweep libra_gpt3_4d libra_portfolio", "study", "give one"),
    ("sweep tab", "studies/tab.yaml:3:1", "indent with spaces"),
    ("sweep twice", "studies/twice.yaml:3:1", "remove one of the two"),
    ("sweep colon", "studies/colon.yaml", "each line is KEY: VALUE"),
    ("sweep indent", "studies/indent.yaml:4:2", "indented as its neighbours"),
    ("sweep sign", "studies/sign.yaml:2:7", "quote a text that begins with a sign"),
    ("sweep octal", "studies/octal.yaml:2:18", "without the zeros in front"),
    ("sweep sixty", "studies/sixty.yaml:2:18", "in quotes"),
    ("sweep yes", "budget.trials (in ", "such as 8"),
    ("sweep quoted", "budget.trials (in ", "did you mean 300?"),
    ("sweep point", "budget.trials (in ", "did you mean 300?"),
    ("sweep listed", "studies/listed.yaml: budget: ", "such as {KEY: VALUE}"),
    ("sweep mapped", "studies/mapped.yaml: network.degrade: ", "such as [{KEY: VALUE}]"),
    ("sweep blank_grid", "grid (in ", "such as {KEY: VALUE}"),
    ("sweep scalar", "topology.tiers (in ", "such as [a, b]"),
    ("sweep dotted", "studies/dotted.yaml", "a file nests its keys: topology: {bandwidth: ...}"),
    ("sweep number", "studies/number.yaml", "did you mean 400 GB/s or 400 Gb/s?"),
    ("sweep numbered", "5 (in ", "known: workload,"),
    ("sweep latin", "studies/latin.yaml", "save it as UTF-8"),
    ("sweep several", "studies/several.yaml", "remove ---"),
    ("sweep items", "studies/items.yaml", "write KEY: VALUE in each line"),
    ("sweep no_slash", "studies/no_slash.yaml", "write override /workload: gpt3_libra"),
    ("sweep no_group", "studies/no_group.yaml", "did you mean 'workload'?"),
    ("sweep no_value", "studies/no_value.yaml", ""),
    ("sweep 'my study'", "name", "name=NAME"),
    ("sweep inf", "studies/inf.yaml", "it must be 1 or more"),
    ("sweep study=1e3", "studies/1e3.yaml", "it must be 1 or more"),
    ("sweep libra_gpt3_4d search=tpe search.options.sigma0=1", "search.options.sigma0", "known:"),
    ("sweep libra_gpt3_4d search=tpe search.options.multivariate=7", "multivariate", "true or"),
    ("sweep libra_gpt3_4d search=tpe search.options.n_startup_trials=-4", "n_startup", "0 or more"),
    ("sweep libra_gpt3_4d search=cmaes search.options.popsize=0", "popsize", "2 or more"),
    ("sweep libra_gpt3_4d search=cmaes search.options.sigma0=-1", "sigma0", "more than 0"),
    ("sweep libra_gpt3_4d search=descent search.options.popsize=4", "search.options", "leave"),
    ("simulate topology=astra_sim topology.file=note.txt", "topology.file: note.txt", "a: 1"),
    ("simulate topology=astra_sim topology.file=bytes.yml", "topology.file: bytes.yml", ""),
    (
        "simulate topology=astra_sim topology.file=rings.yml",
        "rings.yml: npus_count",
        "add it to the file",
    ),
    ("simulate network.file=note.txt fidelity=message", "note.txt", "supported formats: GraphML"),
    ("simulate network.file=plain.xml fidelity=message", "plain.xml", "supported formats: GraphML"),
    ("simulate network.file=torn.graphml fidelity=message", "torn.graphml", "graphml.graph"),
    ("simulate network.file=list.json fidelity=message", "list.json", 'such as {"directed"'),
    ("simulate npu.measured=other.csv", "npu.measured: other.csv", ""),
    ("simulate collective.measured=other.csv", "other.csv", "the output of nccl-tests"),
    ("simulate workload=astra1_text workload.file=note.txt", "workload.file: note.txt:1", "name,"),
    ("simulate workload=astra1_text workload.file=adir", "workload.file: adir", ""),
    ("simulate workload=chakra workload.traces=blank.0.et", "blank.0.et", ""),
    ("simulate picture=x.png", "picture", "add fidelity=message"),
    ("trace lint kineto.json", "kineto.json", "ExecutionTraceObserver"),
    ("trace stats kineto.json", "kineto.json", "ExecutionTraceObserver"),
    ("trace convert kineto.json w.et", "kineto.json", "ExecutionTraceObserver"),
    ("trace convert kineto.json w.et --kineto kineto.json", "kineto.json", "ExecutionTraceObs"),
    ("trace convert observed.json w.et", "observed.json", "between start() and stop()"),
    ("trace lint observed.json", "observed.json", "dimsweep trace convert et.json"),
    ("trace lint blank", "blank.0.et", ""),
    ("trace lint nope", "nope", "the PREFIX of PREFIX.<rank>.et"),
    ("trace synthesise model.json out", "", "such as layers=48"),
    ("simulate workload=repurposed workload.model=w.pt", "workload.model: w.pt", "torch.save("),
    ("repurpose w.bin", "w.bin", "known: .npz"),
    ("repurpose w.pt", "w.pt", "torch.save(model.state_dict(), FILE)"),
    (
        f"repurpose {shlex.quote(str(DIGITS))} --workers 1000",
        "workload.workers",
        "at most 96 workers",
    ),
    (
        "simulate 'topology.shape=Ring(8)' workload=all_reduce",
        "topology.latency",
        "'topology.latency=[20 ns]' 'topology.tiers=[chiplet]'",
    ),
    ("simulate 'topology=Ring(8)'", "topology", "did you mean 'topology.shape=Ring(8)'?"),
    ("simulate 'topology.bandwidth[0]x=1 GB/s'", "topology.bandwidth.0x", "cannot be read"),
    ("simulate gpt3 16", "gpt3", "did you mean workload=gpt3_13b?"),
    ("simulate --workload llama3_8b", "--workload", "Did you mean workload=NAME?"),
    ("simulate gpus=64", "gpus", "nodes= with cluster="),
    ("report results/junk", "results/junk/study.json", "another version"),
    ("report torn", "results/torn/study.json", "sweep the study again"),
    ("report junk torn", "torn", "give it alone"),
    (
        "sweep name=x 'grid={cluster: [dgx_h100, dgx_a100]}' nodes=4",
        "nodes",
        "`override /cluster: dgx_h100` to its defaults",
    ),
    ("sweep name=x nodes=4", "nodes", "add cluster=, one of alps,"),
    ("reproduce begun", "results/begun", "dimsweep report lists the failures"),
    ("reproduce nope", "nope", "dimsweep sweep study=... creates one"),
    ("compare note.txt", "note.txt", "the folder of a study's results"),
    ("diff junk nope", "junk", "another version"),
    ("export nope --csv x.csv", "nope", "dimsweep sweep study=... creates one"),
    ("board adir --port 99999999", "--port", "see: dimsweep board --help"),
    ("sql 'SELECT 1' nope", "nope", "dimsweep sweep study=... creates one"),
    ("sql 'SELECT 1; SELECT 2' nope", "query", "ask one at a time"),
    ("new ../x", "../x", "letters, digits, _ and -"),
    ("list topologies", "topologies", "did you mean 'topology'?"),
    ("verify astra_sim adir", "adir", "a folder with a result.json"),
    ("verify packets adir", "adir/topologies.json", "a folder with topologies.json"),
    (
        "astra --workload-configuration x --system-configuration list.json "
        "--network-configuration rings.yml",
        "rings.yml: npus_count",
        "",
    ),
]


def _set(key: str, value: str) -> str:
    """An override; the keys of a grid and of searched parameters are dotted ones of a mapping."""
    for whole in ("grid", "space.parameters"):
        if value.startswith("{") and key.startswith(whole):
            within = key.removeprefix(whole).strip(".")
            return f"{whole}={value}" if whole == "grid" else f"{whole}={{{within}: {value}}}"
    return f"{key}={value}"


TABLE = [
    *((["simulate", f"{key.split('[')[0]}={value}"], key, cure) for key, value, cure in VALUES),
    *(
        (["sweep", "libra_gpt3_4d", "executor=inline", _set(key, value)], key, cure)
        for key, value, cure in STUDY
    ),
    *((shlex.split(words), where, cure) for words, where, cure in COMMANDS),
]
# What no user of ours has written or can look up.
LEAKS = re.compile(
    r"Traceback|\b\w+(?:Error|Exception)\b|full_key|object_type|DictConfig|ListConfig|<EOF>|<file>"
    r"|\bNone\b|\bTrue\b|constrained-|Input should|[Pp]ydantic|[Hh]ydra"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "where", "cure"), TABLE, ids=[" ".join(w)[:90] for w, *_ in TABLE]
)
def test_it_is_one_sentence_with_the_cure(
    words: list[str],
    where: str,
    cure: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.glob("results/*"))
    assert main(words) == 1
    told = capsys.readouterr()
    sentence, *hint = told.err.rstrip("\n").split("\n")
    assert sentence.startswith("error: ") and told.err.count("error: ") == 1
    assert len(hint) <= 1, "what is wrong is a line, and what would be right another"
    assert where in sentence
    assert cure in (f"{sentence} {hint[0]}" if hint else sentence)
    assert not LEAKS.search(told.err.replace(str(folder), ""))
    assert not sentence.endswith((":", " ", ",")) and "  " not in sentence.strip()
    assert sorted(folder.glob("results/*")) == before, "nothing is begun"


def test_there_are_enough_of_them() -> None:
    assert len({" ".join(words) for words, *_ in TABLE}) == len(TABLE) >= 150


SMALLEST = dimsweep.engine.Workload((dimsweep.engine.GraphBuilder().build(),), {})


def built(**keys: Any) -> Callable[[], object]:
    return lambda: dimsweep.engine.Topology.build(
        **{"shape": "Ring(8)", "bandwidth": [1e9], "latency": [500], **keys}
    )


@pytest.mark.parametrize(
    ("use", "where", "cure"),
    [
        (lambda: Study("libra_gpt3_4d"), "Study", "Study.load('libra_gpt3_4d')"),  # type: ignore[arg-type]
        (lambda: Study(None), "Study", "Study.load"),  # type: ignore[arg-type]
        (lambda: Study({"name": "a", "topolgy": "libra_4d"}), "topolgy", "did you mean 'topology'"),
        (lambda: Study({"name": "a", "topology": 5}), "topology", "known: alps"),
        (lambda: Study({"name": "a", "topology.bandwidth": 400}), "topology.bandwidth", "400 Gb/s"),
        (lambda: Study({"name": "a", "budget": {"trials": 4.0}}), "budget.trials", "mean 4?"),
        (lambda: Study.load("libra_gpt3_4"), "libra_gpt3_4", "did you mean 'libra_gpt3_4d'?"),
        (lambda: dimsweep.engine.simulate(None, None), "workload", "dimsweep.engine.Workload"),  # type: ignore[arg-type]
        (lambda: dimsweep.engine.simulate(SMALLEST, 8), "cluster", "dimsweep.engine.Cluster"),  # type: ignore[arg-type]
        (lambda: load(5), "folder", "results/libra_gpt3_4d"),  # type: ignore[arg-type]
        (lambda: load(None), "folder", "results/libra_gpt3_4d"),  # type: ignore[arg-type]
        (built(shape=8), "shape", "joined by _"),
        (built(shape="Ring(4)Switch(2)"), "shape", "did you mean Ring(4)_Switch(2)?"),
        (built(bandwidth="1 GB/s"), "bandwidth", "one for each dimension of Ring(8)"),
        (built(bandwidth=1e9), "bandwidth", "one for each dimension of Ring(8): [1000000000.0]"),
        (lambda: dimsweep.simulate("all_reduce"), "overrides", "mean 'workload=all_reduce'?"),
        (lambda: dimsweep.simulate({"npu": "h100"}), "overrides", "keys have names"),  # type: ignore[arg-type]
        (built(latency=[1, 2]), "latency", "one for each dimension"),
    ],
)
def test_python_is_told_as_well(use: Callable[[], object], where: str, cure: str) -> None:
    with pytest.raises(DimsweepError) as told:
        use()
    assert where in told.value.where
    assert cure in str(told.value)
