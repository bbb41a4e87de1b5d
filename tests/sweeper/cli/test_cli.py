"""Commands as a user types them; wrong input is one clear message, never a traceback."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dimsweep.sweeper.cli.main import dimsweep, main
from dimsweep.sweeper.cli.report import _folder
from dimsweep.sweeper.config.compose import compose
from tests.support.examples import times
from tests.support.studies import planned, run

SMALL = ["study=libra_gpt3_4d", "executor=inline", "budget.trials=12", "collective.chunks=4"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail with one message; that message."""
    assert main(words) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("error: ") == 1
    assert "Traceback" not in captured.err
    return captured.err


# --- what works ---------------------------------------------------------------------------------


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("simulate", "sweep", "report", "study=", "GiB/s"):
        assert word in text


def commands(group: Any, *before: str) -> Iterator[tuple[str, ...]]:
    """Every command as its words, those within groups of commands as well."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield (*before, name)
            loaded = command.load()
            if hasattr(loaded, "commands"):
                yield from commands(loaded, *before, name)


COMMANDS = list(commands(dimsweep))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_of_its_own(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """And it begins with the sentence that the list of commands shows."""
    assert main([*words, "--help"]) == 0
    own = " ".join(capsys.readouterr().out.split())
    assert own.startswith(f"Usage: dimsweep {' '.join(words)} ")
    group: Any = dimsweep
    for word in words[:-1]:
        group = group.commands[word].load()
    assert f" {group.commands[words[-1]].get_short_help_str()} " in own


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_example_of_help_is_a_command(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its options are known, and its overrides compose; a block of a page runs what is long."""
    main([*words, "--help"])
    text = capsys.readouterr().out.replace("\\\n", " ")
    for line in re.findall(r"^ +(dimsweep [a-z].*)$", text, re.MULTILINE):
        command, (_, *typed) = dimsweep, shlex.split(line)
        while typed and hasattr(command, "commands"):
            name, *typed = typed
            command = command.commands[name].load()
        values = command.make_context(line, typed, resilient_parsing=True).params
        if "overrides" in values:
            chosen = [word for word in values["overrides"] or () if "my_" not in word]
            compose(chosen, may_sweep=" sweep " in line)


def test_all_commands_are_there() -> None:
    rooms = {"simulate", "sweep", "report", "list", "show", "verify", "astra", "trace"}
    rooms |= {"bill", "reproduce", "diff", "repurpose", "calibrate", "measure"}
    rooms |= {"new", "compare", "export", "sql", "doctor", "board", "check-plugin"}
    assert rooms | {"completion"} == {words[0] for words in COMMANDS}
    assert ("verify", "megatron") in COMMANDS and ("trace", "lint") in COMMANDS


@pytest.mark.parametrize("command", ["", "simulate", "sweep", "report", "show", "verify", "trace"])
def test_help_imports_neither_the_engine_nor_hydra(command: str) -> None:
    """So that it is shown at once."""
    code = (
        "import sys; from dimsweep.sweeper.cli.main import main;"
        f"main({[*command.split(), '--help']});"
        f"late = {{'dimsweep.engine', 'numpy', 'hydra', 'pyarrow', 'rich'}};"
        f"sys.exit(bool(late & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize("command", ["simulate", "list"])
def test_what_only_studies_need_is_not_imported(command: str) -> None:
    code = (
        "import sys; from dimsweep.sweeper.cli.main import main;"
        f"main({command.split()});"
        "late = {'matplotlib', 'optuna', 'pandas', 'pyarrow', 'ray'};"
        "sys.exit(bool(late & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dimsweep ")


def test_simulate_accounts_for_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--full", "profile=libra"]) == 0
    text = capsys.readouterr().out
    assert "775.083 ms" in text
    assert "all_reduce tensor" in text
    assert "34.51 M USD" in text


def test_simulate_writes_a_timeline(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "collective.chunks=2", "timeline=run.json"]) == 0
    trace = json.loads((empty_folder / "run.json").read_text())
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X", "C", "s", "f"}


def test_sweep_and_report(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "libra_gpt3_4d", *SMALL[1:], "name=mine"]) == 0, "a study by its name"
    assert main(["report", "results/mine", "--picture", "split.png"]) == 0
    assert Path("split.png").read_bytes().startswith(b"\x89PNG")
    page = empty_folder / "results" / "mine" / "report" / "report.html"
    assert "GPT-3" in page.read_text()
    folder = shutil.copytree("results/mine", empty_folder / "mine")
    assert _folder([str(folder)]) == folder, "not its like in results/"
    assert main(["report", str(folder), "results=x"]) == 1
    assert "results=x" in capsys.readouterr().err


@pytest.mark.long
def test_a_study_of_ones_own(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Workload, topology and study written by the user, in the user's folder."""
    (empty_folder / "conf" / "workload").mkdir(parents=True)
    (empty_folder / "studies").mkdir()
    (empty_folder / "conf" / "workload" / "mine.yaml").write_text(
        """
defaults: [kind/layers, _self_]
name: mine
parallel: {tensor: 4, data: rest}
loop: overlap_gradients
layers:
  - name: block
    repeat: 3
    forward: {flops: 2 TFLOP, bytes: 1 GB, collective: all_reduce, size: 64 MB, group: tensor}
    input_grad: {flops: 2 TFLOP, collective: all_reduce, size: 64 MB, group: tensor}
    weight_grad: {duration: 3 ms, collective: all_reduce, size: 128 MiB, group: data}
"""
    )
    (empty_folder / "studies" / "mine.yaml").write_text(
        """
defaults: [override /workload: mine, override /search: random, override /executor: inline, _self_]
topology:
  {shape: FullyConnected(8)_Switch(16), bandwidth: 100 GB/s, latency: 1 us, tiers: [node, pod]}
space: {bandwidth: {total: 400 GB/s, min: 10 GB/s, step: 1 GB/s}}
budget: {trials: 20}
"""
    )
    assert main(["sweep", "study=mine"]) == 0
    first = capsys.readouterr().out
    assert main(["sweep", "studies/mine.yaml"]) == 0, "a study may be a path"
    again = capsys.readouterr().out
    assert "19 trials simulated" in first, "one of 20 proposals is repeated"
    assert "0 trials simulated" in again and "27 known already" in again, "8 are what-ifs"


@pytest.mark.long
def test_a_sweep_counts_trials_as_its_report_does(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search asks 20 times for one of eight designs; other rows have names of their own."""
    (empty_folder / "counts.yaml").write_text(
        """
defaults: [override /search: random, override /executor: inline, _self_]
workload: {layers: 1, parallel: {tensor: 4}}
collective: {chunks: 2}
topology:
  {shape: Ring(4)_Switch(4), bandwidth: 100 GB/s, latency: 1 us, tiers: [node, pod]}
space: {bandwidth: {total: 500 GB/s, step: 100 GB/s}}
budget: {trials: 20}
recheck: {top: 2}
what_if: {a: {collective.chunks: x2}}
baseline: {topology.bandwidth: 125 GB/s}
"""
    )
    assert main(["sweep", "counts.yaml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    (n,) = re.findall(r"counts: (\d+) trials simulated", said)
    assert int(n) < 20 and f"{n} of {n} trials complete" in said
    assert "2 rechecks and 1 baseline and 2 what-ifs beside them" in said
    rows = int(n) + 5
    assert main(["sweep", "counts.yaml"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"has {rows} rows" in said and "counts: 0 trials simulated" in said
    assert f" s, {rows} known already" in said


def test_astra_sim_text_as_workload(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty_folder / "w.txt").write_text(
        "DATA\n1\nfc -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 4096 9\n"
    )
    words = ["simulate", "workload=astra1_text", "workload.file=w.txt"]
    assert main([*words, "workload.parallel={tensor: 1, data: rest}"]) == 0


def test_show_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "topology=libra_3d"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["topology"]["shape"].startswith("Ring(16)")
    assert main(["list", "study"]) == 0
    assert "libra_gpt3_4d" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "complete-words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dimsweep sw", "sweep "),
        ("dimsweep sweep study=lib", "study=libra_gpt3_4d"),
        ("dimsweep simulate workload=gpt", "workload=gpt3_libra"),
        ("dimsweep simulate collective.chu", "collective.chunks="),
        ("dimsweep simulate coll", "collective."),
        ("dimsweep simulate coll", "collective="),
        ("dimsweep simulate workload=chakra workload.tr", "workload.traces="),
        ("dimsweep simulate workload=nonsense collective.chu", "collective.chunks="),
        ("dimsweep list top", "topology "),
        ("dimsweep simulate fidelity=", "fidelity=packet"),
        ("dimsweep sweep fidelity=phase,me", "fidelity=phase,message"),
        ("dimsweep simulate search=c", "search=cmaes"),
        ("dimsweep sweep search.sampler=q", "search.sampler=qmc"),
        ("dimsweep simulate objective=m", "objective=mfu"),
        ("dimsweep simulate collective.order=", "collective.order=themis"),
        ("dimsweep simulate fold=", "fold=false"),
        (
            "dimsweep simulate workload=llama3_8b workload.plan.schedule=1",
            "workload.plan.schedule=1f1b",
        ),
        (
            "dimsweep simulate workload=llama3_8b workload.plan.gradients=b",
            "workload.plan.gradients=bf16",
        ),
    ],
)
def test_completion(line: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete-words", line]) == 0
    assert expected in capsys.readouterr().out.splitlines()


def test_nothing_is_completed_where_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["npu=nonsense", "nonsense.", "collective.chunks.", "nonsense=", "fold.x", "fold.x="]
    for word in [*words, "collective.chunks=", "workload.layers.0=", "workload.plan.schedule="]:
        assert main(["complete-words", f"dimsweep simulate {word}"]) == 0
    assert not capsys.readouterr().out


@pytest.mark.long
def test_bash_completes(empty_folder: Path) -> None:
    """The script in a real bash: words that bash itself would split at the equals sign too."""
    script = """
eval "$(dimsweep completion bash)"
COMP_LINE='dimsweep sweep study=lib' COMP_POINT=24 COMP_WORDBREAKS=$' \\t\\n=' _dimsweep
printf '%s\\n' "${COMPREPLY[@]}"
"""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "libra_gpt3_4d" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        (
            "zsh",
            """
compdef() { : }; _files() { print none.et }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; (( $# )) && print -l -- "$@:q" }
eval "$SCRIPT"; LBUFFER='dimsweep sweep s' _dimsweep; LBUFFER='dimsweep none' _dimsweep
""",
        ),
        (
            "fish",
            """
function __fish_complete_path; echo none.et; end
echo $SCRIPT | source; complete -C 'dimsweep sweep s'; complete -C 'dimsweep none'
""",
        ),
    ],
)
def test_other_shells_complete(
    shell: str, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Complete words without the space that marks them, which the shell adds; files, where there
    is nothing else."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    own = tmp_path / "dimsweep"
    own.write_text("#!/bin/sh\ncase $2 in *none) ;; *) printf 'show \\nstudy=a\\n' ;; esac\n")
    own.chmod(0o755)
    known = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SCRIPT": capsys.readouterr().out}
    done = subprocess.run(
        [shell, "-c", script],
        **{"env": {**os.environ, **known, "HOME": str(tmp_path)}, "capture_output": True},
        text=True,
        check=True,
    )
    assert sorted(done.stdout.replace("\\", "").split("\n")) == ["", "none.et", "show", "study=a"]


# --- what does not ------------------------------------------------------------------------------

WRONG = [
    (["simulat"], "Did you mean 'simulate'?"),
    (["conquer"], "No such command 'conquer'"),
    (["--verbose"], "No such option '--verbose'"),
    (["simulate", "--timeline=run.json"], "see: dimsweep simulate --help"),
    (["simulate", "a b=3"], "'a b=3' is neither a study nor KEY=VALUE; did you mean KEY=VALUE?"),
    (
        ["simulate", "gpt3_175b"],
        "'gpt3_175b' is neither a study nor KEY=VALUE; did you mean workload=gpt3_175b?",
    ),
    (["sweep", "libra_gpt3_4"], "did you mean study=libra_gpt3_4d?"),
    (["sweep", "studies/nope.yaml"], "studies/nope.yaml: there is no such file"),
    (["sweep", "study=studies/none.yaml"], "studies/none.yaml: there is no such file"),
    (["report", "results/nope"], "results/nope: there is no such file"),
    (
        ["simulate", "workload=gpt3_176b"],
        "unknown workload 'gpt3_176b'",
    ),
    (["simulate", "topology=gb200"], "did you mean 'gb200_nvl72'?"),
    (["report", "nope"], "'nope' is neither a study nor a folder of results"),
    (
        ["sweep", *SMALL, "+space.parameters={collective.chunk: {values: [1]}}"],
        "no key 'chunk' here\n  did you mean 'chunks'?",
    ),
    (["simulate", "tensor=12"], "tensor: unknown key\n  did you mean 'workload.parallel.tensor'?"),
    (["simulate", "tensr=12"], "did you mean 'workload.parallel.tensor'?"),
    (["simulate", "bandwidth=1 GB/s"], "did you mean 'topology.bandwidth' or"),
    (["simulate", "workload.parallel.tensor=12"], "tensor=12'): a degree of 12 does not fit"),
    (["simulate", "workload.parallel.tensor=12"], "\n  8 or 16 would"),
    (["simulate", "topology=astra_sim", "topology.file=nope.yml"], "topology.file: nope.yml"),
    (["simulate", "npu.measured=m.csv"], "cannot read the table: No such file or directory"),
    (
        ["simulate", "workload=chakra", "workload.traces=w", "workload.groups=nope.json"],
        "workload.groups: nope.json",
    ),
    (["verify", "megatro"], "Did you mean 'megatron'?"),
    (["simulate", "topolgy.shape=Ring(4)"], "did you mean 'topology'"),
    (["simulate", "workload.hiden=3"], "did you mean 'hidden'"),
    (["simulate", "+workload.hiden=3"], "workload.hiden"),
    (["simulate", "workload=gpt5"], "gpt3_libra"),
    (["simulate", "workload.hidden=many"], "workload.hidden"),
    (["simulate", "topology.bandwidth=100"], "topology.bandwidth"),
    (["simulate", "topology.bandwidth=100 Gb"], "topology.bandwidth"),
    (["simulate", "topology.bandwidth=-1 GB/s"], "more than zero"),
    (["simulate", "topology.bandwidth=0 GB/s"], "more than zero"),
    (["simulate", "topology.bandwidth=[1 GB/s,2 GB/s]"], "2 values for 4 dimensions"),
    (["simulate", "topology.bandwidth=[1 GB/s,2 GB/s,3,4 GB/s]"], "topology.bandwidth[2]"),
    (["simulate", "topology.latency=-1 us"], "topology.latency"),
    (["simulate", "topology.shape=Rign(4)"], "Ring(n), FullyConnected(n) or Switch(n)"),
    (["simulate", "topology.shape=Ring(0)"], "1 to 10,000,000"),
    (["simulate", "workload.parallel.tensor=48"], "does not fit"),
    (["simulate", "workload.parallel.tensor=[8,1,1,1]"], "workload.parallel.tensor[0]"),
    (["simulate", "workload.parallel.data=2"], "the cluster has 4096 NPUs"),
    (["simulate", "workload.hidden=12289"], "does not divide"),
    (["simulate", "collective.chunks=0"], "collective.chunks"),
    (["simulate", "collective.order=fastest"], "baseline, themis"),
    (["simulate", "collective.algorithms=[ring,ring,ring,ring]"], "FullyConnected: auto, direct"),
    (["simulate", "npu.efficiency=2"], "npu.efficiency"),
    (["simulate", "cost.tiers.pod.link=7.8"], "cost.tiers.pod.link"),
    (["simulate", "topology.bandwidth=1e-9 B/s"], "longer than"),
    (["simulate", "timeline=missing/run.json"], "cannot be written"),
    (["simulate", "workload=astra1_text"], "workload.file"),
    (["simulate", "workload=astra1_text", "workload.file=none.txt"], "none.txt"),
    (["simulate", "a=[1,2"], "quote"),
    (["sweep"], "no study is named"),
    (["sweep", "study=none_such"], "libra_gpt3_4d"),
    (["sweep", *SMALL, "space.bandwidth.total=3 GB/s"], "space.bandwidth"),
    (["sweep", *SMALL, "space.bandwidth.totl=3 GB/s"], "did you mean 'total'"),
    (["sweep", *SMALL, "space.bandwidth.step=0.3 GB/s"], "space.bandwidth"),
    (["sweep", *SMALL, "space.bandwidth.min=[1 GB/s]"], "space.bandwidth.min"),
    (["sweep", *SMALL, "space.bandwidth.constraints=['b0 > b9']"], "constraints[0]"),
    (["sweep", *SMALL, "space.bandwidth.known=[[1 GB/s,1 GB/s,1 GB/s,1 GB/s]]"], "known[0]"),
    (["sweep", *SMALL, "+space.parameters={workload.hiden: {values: [1]}}"], "hiden"),
    (
        ["sweep", *SMALL, "+space.parameters={workload.hidden: {low: 4, high: 1}}"],
        "workload.hidden",
    ),
    (["sweep", *SMALL, "space.bandwidth.total=null"], "the space is empty"),
    (["sweep", *SMALL, "objective=speed"], "perf_per_cost"),
    (["sweep", *SMALL, "objective=cost", "topology.tiers=[]"], "prices"),
    (["sweep", *SMALL, "objective=mfu"], "it needs a model with a batch"),
    (["sweep", *SMALL, "objective=energy"], "it needs watts: cost.power.npu"),
    (["sweep", *SMALL, "objective=throughputs"], "did you mean 'throughput'?"),
    (["sweep", *SMALL, "search.sampler=bayes"], "random, qmc, tpe"),
    (["sweep", *SMALL, "+search.options.n_startup=1"], "search.options"),
    (["sweep", *SMALL, "search.batch=0"], "search.batch"),
    (["sweep", *SMALL, "budget.trials=0"], "budget.trials"),
    (["sweep", *SMALL, "name=../up"], "cannot name a folder"),
    (["sweep", *SMALL, "+grid={workload: gpt3_libra}"], "grid.workload"),
    (["sweep", *SMALL, "+grid={workload: [gpt5]}"], "gpt5"),
    (["sweep", *SMALL, "executor=local", "executor.actors=0"], "executor.actors"),
    (
        ["sweep", *SMALL, "executor=address", "executor.address=127.0.0.1:1"],
        "no Ray cluster answers",
    ),
    (["sweep", *SMALL, "results=/proc/none"], "cannot be written"),
    (["report", "study=libra_gpt3_4d"], "no study here"),
    (["completion", "csh"], "'csh' is not one of 'bash', 'zsh', 'fish'"),
    (["list", "colour"], "known: cluster, collective, cost"),
    (["list", "studies"], "did you mean 'study'?"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(w) for w, _ in WRONG])
def test_wrong_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in fails(capsys, *words)


def test_errors_name_the_file(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty_folder / "studies").mkdir()
    study = empty_folder / "studies" / "mine.yaml"
    study.write_text("topology: {bandwidth: 5}\n")
    assert str(study) in fails(capsys, "sweep", "study=mine")
    study.write_text("sapce: {}\n")
    told = fails(capsys, "sweep", "study=mine")
    assert f"sapce (in {study}): unknown key" in told and "did you mean 'space'" in told
    study.write_text("a: [1\n")
    assert "mine.yaml" in fails(capsys, "sweep", "study=mine")


def test_a_layer_without_a_value_is_named(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = empty_folder / "conf" / "workload"
    folder.mkdir(parents=True)
    (folder / "net.yaml").write_text(
        "defaults: [kind/convnet, _self_]\nname: n\nparallel: {data: rest}\n"
        "layers: [{name: conv, inputs: 3, forward: 1 us, input_grad: 1 us, weight_grad: 1 us}]\n"
    )
    assert "workload.layers[0].outputs" in fails(capsys, "simulate", "workload=net")


@pytest.mark.long
def test_a_changed_study_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    run(planned(SMALL, "results"))
    message = fails(capsys, "sweep", *SMALL, "workload.hidden=24576")
    assert "workload.hidden: 12288 -> 24576" in message
    assert main(["sweep", *SMALL, "budget.trials=15"]) == 0, "a larger budget goes on"


KEYS = st.sampled_from(
    [
        "topology.bandwidth",
        "topology.latency",
        "topology.shape",
        "topology.tiers",
        "workload.hidden",
        "workload.parallel.tensor",
        "workload.parallel.data",
        "workload.flops",
        "workload.loop",
        "collective.chunks",
        "collective.algorithms",
        "collective.endpoint_delay",
        "npu.flops",
        "cost.npu",
        "space.bandwidth.total",
        "space.bandwidth.min",
        "space.bandwidth.step",
        "space.bandwidth.constraints",
        "objective",
        "search.options",
    ]
)
VALUES = st.one_of(
    st.integers(-5, 10**6).map(str),
    st.floats(allow_nan=True).map(str),
    st.sampled_from(
        ["1 GB/s", "null", "[]", "{}", "rest", "5 us", "[1 GB/s,b]", "{a: 1}", "true", "''"]
    ),
    st.text("abz019 .,:/_()[]{}'\"=<>+-*", max_size=12),
)


@settings(max_examples=times(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3))
def test_random_configs_never_crash(overrides: dict[str, str]) -> None:
    """Whatever the values, the loader builds the study's plan or says what is wrong."""
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.questions.plan import plan_study

    words = [f"{key}={value}" for key, value in overrides.items()]
    try:
        plan_study(compose([*SMALL, *words]))
    except DimsweepError as error:
        assert str(error).strip()
