"""Plug-ins: found, loaded, told wrong with file and line, shipped, and a part of what rows are."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dimsweep
from dimsweep.engine import DimsweepError
from dimsweep.engine.cluster.remote_memory import MEMORIES
from dimsweep.engine.errors import Code
from dimsweep.engine.topology import BLOCKS, register
from dimsweep.sweeper import places, plugins
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.cli.report import _folder
from dimsweep.sweeper.config import compose as compose_module
from dimsweep.sweeper.config.complete import complete_override
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.extensions.verify.command import verifications
from dimsweep.sweeper.places import list_groups
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.simulation.simulate import simulate
from dimsweep.sweeper.study.content import Content
from tests.support.plugged import BLOCK
from tests.support.refused import refused
from tests.support.studies import TINY, run

PACKAGE = Path(__file__).resolve().parents[3] / "examples" / "package" / "shuffles"
MEMORY = """\
from dataclasses import dataclass
from typing import Annotated
from dimsweep.engine.cluster.remote_memory import MEMORIES, RemoteMemory
from dimsweep.engine.units import BANDWIDTH, BYTES, TIME

@dataclass(frozen=True)
class Tape(RemoteMemory):
    write: Annotated[float, BANDWIDTH] = 1e9
    page: Annotated[float, BYTES] | None = None
    wind: Annotated[int, TIME] = 5
    heads: int = 1

MEMORIES["tape"] = Tape
"""
OBJECTIVE = """
from dimsweep.engine import units
from dimsweep.sweeper.objective import OBJECTIVES, Objective

def show(value, digits=4):
    return units.format_quantity(value, units.TIME, digits)

OBJECTIVES["wait"] = Objective(
    *("wait", "time_s", show, "shortest", "shorter than", "wait", units.TIME), says="waits {}"
)
"""
WRONG = {
    "no_file": (None, r"plugins: no_file.py.*there is no such file"),
    "syntax": ("x = 1\ndef f(:\n", r"syntax.py:2.*invalid syntax"),
    "nothing": ("x = 1\n", r"nothing.py.*it registers nothing"),
    "raises": ("x = 1\n\nx / 0\n", r"raises.py:3.*it raises ZeroDivisionError: division by zero"),
    "missing": ("import nowhere\n", r"missing.py:1.*No module named 'nowhere'"),
    "taken": (MEMORY.replace("tape", "pool"), r"taken.py:13.*'pool' is taken.*a memory"),
    "open": (
        "from dimsweep.engine import Block\nclass Half(Block):\n    name = 'Half'\nHalf()\n",
        r"open.py:4.*abstract",
    ),
}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    """In a folder of its own; what is loaded is forgotten."""
    monkeypatch.chdir(tmp_path)


def composed(*words: str) -> ComposedConfig:
    return compose([*TINY, "executor=inline", *words])


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plug_in_ends_in_one_sentence(name: str) -> None:
    text, told = WRONG[name]
    if text is not None:
        Path(f"{name}.py").write_text(text)
    before = list(MEMORIES)
    with pytest.raises(DimsweepError, match=told) as error:
        composed(f"plugins={name}.py")
    assert "\n" not in error.value.problem
    assert list(MEMORIES) == before, "nothing of it stays"


@pytest.mark.parametrize(
    ("value", "where", "code", "data"),
    [
        ("nowhere", "plugins: nowhere", "inaccessible", ""),
        ("[1]", "plugins", "wrong-type", "1"),
        ("[a/x.py,b/x.py]", "plugins", "duplicate", "a/x.py and b/x.py"),
    ],
)
def test_a_wrong_name(value: str, where: str, code: Code, data: str) -> None:
    with refused(where, code, data):
        composed(f"plugins={value}")


def test_the_keys_of_a_memory_are_its_classs_fields() -> None:
    Path("tape.py").write_text(MEMORY)
    words = ("plugins=tape.py", "memory.kind=tape", "memory.bandwidth=2 GB/s")
    config = composed(*words, "memory.write=3 GB/s", "memory.wind=2 us", "memory.page=1 MiB").config
    memory = config.memory.build()
    assert type(memory) is MEMORIES["tape"]
    assert vars(memory) == {
        **{"bandwidth": 2e9, "latency": 0, "capacity": None},
        **{"write": 3e9, "page": 2**20, "wind": 2_000_000, "heads": 1},
    }
    assert config.text["memory"]["write"] == "3 GB/s"
    changed = config.with_values({"memory.write": "5 GB/s", "memory.heads": 2}).memory.build()
    assert (changed.write, changed.heads) == (5e9, 2)
    with refused("memory.write", "wrong-type", "3 GB"):
        composed(*words, "memory.write=3 GB")
    with refused("memory.heads", "wrong-type", "1.5"):
        composed(*words, "memory.heads=1.5")
    with refused("memory.writ", "unknown-key", "did you mean 'write'"):
        composed(*words, "memory.writ=3 GB/s")
    with refused("memory.write", "unknown-key"):
        composed("memory.bandwidth=2 GB/s", "memory.write=3 GB/s")


def package(place: Path) -> Path:
    """The package of examples/package, at a place where nobody looks for groups."""
    return Path(shutil.copytree(PACKAGE, place / "shuffles"))


def test_a_plug_in_brings_options_of_groups(tmp_path: Path) -> None:
    """Its kind of workload stands in a file's defaults, whose keys and defaults are its class's; by
    an override, in a study's file, and in a study that this one builds on."""
    mine = package(tmp_path / "far")
    plugin = f"plugins={mine}/__init__.py"
    words = ("workload=shuffle", "topology=shuffle_pods")
    result = simulate(compose([plugin, *words, "workload.rounds=2"]).config)
    assert result.time_ps == pytest.approx(
        2 * simulate(compose([plugin, *words]).config).time_ps / 4
    )
    with refused("workload.round", "unknown-key", "did you mean 'rounds'"):
        compose([plugin, *words, "workload.round=2"])
    with refused("workload=shufle", "unknown-name", "did you mean 'shuffle'"):
        compose([plugin, "workload=shufle"])
    assert complete_override([plugin], "workload=shu") == ["workload=shuffle"]
    Path("studies").mkdir()
    Path("studies/below.yaml").write_text(
        f"defaults: [override /workload: shuffle, _self_]\n{plugin.replace('=', ': ')}\n"
    )
    Path("studies/above.yaml").write_text("defaults: [below, _self_]\nworkload: {rounds: 3}\n")
    text = compose(["study=above", "topology=shuffle_pods"]).config.text["workload"]
    assert (text["kind"], text["rounds"], text["size"]) == ("shuffle", 3, "64 MiB")
    with refused("workload=shuffle", "unknown-name"):
        compose(["workload=shuffle"])
    for size in ("64 MiB", "32 MiB"):
        assert compose([plugin, *words]).config.text["workload"]["size"] == size
        file = mine / "__init__.py"
        file.write_text(file.read_text().replace("64 MiB", "32 MiB"))


def test_an_option_whose_name_is_taken(tmp_path: Path) -> None:
    mine = package(tmp_path / "far")
    (mine / "conf/workload/shuffle.yaml").rename(mine / "conf/workload/dlrm.yaml")
    with refused("dlrm.yaml", "duplicate", "workload 'dlrm'"):
        compose([f"plugins={mine}/__init__.py"])


def test_a_package_that_is_installed_brings_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE.parent))
    for module in (places, compose_module, plugins):
        monkeypatch.setattr(module, "installed_plugins", lambda: ("shuffles",))
    places._plugin_folders.cache_clear()
    try:
        assert "shuffle_pods" in list_groups()["topology"]
        config = compose(["workload=shuffle", "topology=shuffle_pods"]).config
        assert config.text["workload"]["rounds"] == 4
    finally:
        places._plugin_folders.cache_clear()


def test_what_a_plug_in_raises_when_it_is_used_is_not_our_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = package(tmp_path / "far") / "__init__.py"
    mine.write_text(mine.read_text().replace("before = (graph", "before = 1 / 0 + (graph"))
    assert main(["simulate", f"plugins={mine}", "workload=shuffle", "topology=shuffle_pods"]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.endswith("__init__.py:22: it raises ZeroDivisionError: division by zero")


def test_a_changed_plug_in_is_another_study_and_is_loaded_again() -> None:
    file = Path("tape.py")
    file.write_text(MEMORY)
    first = Content(composed("plugins=tape.py").config)
    assert Content(composed("plugins=tape.py").config).text == first.text
    file.write_text(MEMORY.replace("1e9", "4e9"))
    config = composed("plugins=tape.py", "memory.kind=tape", "memory.bandwidth=2 GB/s").config
    assert Content(composed("plugins=tape.py").config).text != first.text
    memory = config.memory.build()
    assert memory is not None and vars(memory)["write"] == 4e9


def test_a_changed_plug_in_reuses_no_row() -> None:
    Path("loop.py").write_text(BLOCK)
    words = ["plugins=loop.py", "topology.shape=Loop(4)_Switch(2)"]
    plan = plan_study(composed(*words))
    run(plan)
    assert run(plan_study(composed(*words))).engine_seconds == 0
    Path("loop.py").write_text(BLOCK + "    # slower\n")
    with pytest.raises(DimsweepError, match=r"files.plugins.loop.py: .* -> "):
        run(plan_study(composed(*words)))


def test_results_outlive_the_plug_in(capsys: pytest.CaptureFixture[str]) -> None:
    """The study's file names it, its block and its objective: all can be read without it, and what
    needs it says so."""
    Path("loop.py").write_text(BLOCK + OBJECTIVE)
    Path("studies").mkdir()
    Path("studies/mine.yaml").write_text("defaults: [libra_gpt3_4d, _self_]\nplugins: loop.py\n")
    words = ["study=mine", *TINY[1:], "topology.shape=Loop(4)_Switch(2)", "objective=wait"]
    words += ["executor=inline", "what_if={}", "name=mine"]
    run(plan_study(compose(words)))
    headline = dimsweep.Results("mine").headline
    assert "shorter than the equal split" in headline
    gone = "plugins: loop.py: there is no such file"
    of_it_only = "loop.py has changed", "unknown objective 'wait'"
    for text, *told in ((None, gone, "loop.py"), (f"{BLOCK}# anew\n", *of_it_only)):
        plugins.unload_plugins()
        Path("loop.py").unlink()
        if text is not None:
            Path("loop.py").write_text(text)
        assert str(_folder(words)) == "results/mine", "report finds it by the study, too"
        found = dimsweep.Results("mine")
        assert found.headline == headline
        assert found.record.objectives == found.record.objectives, "the page has them as keys"
        assert len(dimsweep.compare("mine", "results/mine")) == 2
        assert len(found.to_arrow()) > 2
        for command, why in zip((["reproduce", "mine"], ["sweep", *words]), told, strict=True):
            assert main(command) == 1
            assert why in capsys.readouterr().err
        Path("loop.py").touch()


def test_a_module_is_shipped_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process gets it that cannot import it."""
    Path("mine").mkdir()
    Path("mine/__init__.py").write_text("from mine.blocks import Loop\n")
    Path("mine/blocks.py").write_text(BLOCK)
    monkeypatch.syspath_prepend(".")
    composed("plugins=mine")
    assert "Loop" in BLOCKS
    Path("shipped").write_bytes(pickle.dumps((plugins.PluginShipment(["mine"]), BLOCKS["Loop"])))
    read = "import pickle; _, loop = pickle.load(open('../shipped', 'rb')); print(loop.name)"
    Path("elsewhere").mkdir()
    root = str(Path(plugins.__file__).parents[2])
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {read}"],
        **{"cwd": "elsewhere", "capture_output": True, "text": True},
    )
    assert told.stdout == "Loop\n", told.stderr


def test_an_installed_plug_in_is_always_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("installed_loop.py").write_text(BLOCK)
    monkeypatch.syspath_prepend(".")
    without = Content(composed().config).text
    monkeypatch.setattr(plugins, "installed_plugins", lambda: ("installed_loop",))
    config = composed("topology.shape=Loop(4)_Switch(2)").config
    assert config.topology.build().dims[0].block is BLOCKS["Loop"]
    assert Content(composed().config).text != without


COMMANDS_OF_MINE = '''
import click
from dimsweep.sweeper.cli.registered import COMMANDS
from dimsweep.sweeper.extensions.verify import Verification
from dimsweep.sweeper.extensions.verify.registry import VERIFICATIONS

@click.command("hosts")
def hosts() -> int:
    """Print the hosts of traces."""
    print("two hosts")
    return 0

COMMANDS["trace hosts"] = COMMANDS["hosts"] = hosts
VERIFICATIONS["mine"] = Verification("Compare mine.", "a notebook", target=f"{__name__}:hosts")
'''


def test_an_installed_plug_in_adds_commands_and_verifications(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("installed_commands.py").write_text(COMMANDS_OF_MINE)
    monkeypatch.syspath_prepend(".")
    for module in (places, plugins):
        monkeypatch.setattr(module, "installed_plugins", lambda: ("installed_commands",))
    for words in (["hosts"], ["trace", "hosts"]):
        assert main(words) == 0
        assert capsys.readouterr().out == "two hosts\n"
        assert main([*words[:-1], "--help"]) == 0
        assert "Print the hosts of traces." in capsys.readouterr().out
    assert verifications()["mine"].source == "a notebook"


def test_a_registered_name_is_given_once() -> None:
    class Mine(type(BLOCKS["Ring"])):  # type: ignore[misc]
        name = "ring"

    with pytest.raises(DimsweepError, match="two blocks are named ring"):
        register(Mine())
    with pytest.raises(DimsweepError, match=r"'pool' is taken: there is a memory"):
        MEMORIES["pool"] = MEMORIES["npu"]


def test_a_plugin_does_not_register_what_it_imports_first(tmp_path: Path) -> None:
    """Our own modules register before, or are not noted: forgetting it must not forget ours."""
    code = """\
import dimsweep.sweeper.plugins as plugins
plugins.load_plugins(["first.py"])
entries = plugins.loaded_plugins(["first.py"])[-1].entries
assert [name for _, name in entries] == ["mine"], plugins._loaded
"""
    text = "import dimsweep.sweeper.config.schema\n"
    text += "from dimsweep.engine.cluster.remote_memory import MEMORIES, RemoteMemory\n"
    (tmp_path / "first.py").write_text(f"{text}MEMORIES['mine'] = RemoteMemory\n")
    root = str(Path(dimsweep.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": root}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
