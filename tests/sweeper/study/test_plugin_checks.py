"""The self-checks of plug-ins: by check-plugin, and before what they are used for is simulated."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dimsweep import Study
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.study import plugin_checks as checks

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/extending.md").read_text()
WRITTEN = {
    code.partition("\n")[0].removeprefix("# "): code
    for code in re.findall(r"<!-- written -->\n```python\n(.*?)```", PAGE, re.DOTALL)
}
HASTY = """
from dataclasses import replace

from dimsweep.engine.collective.algorithms import ALGORITHMS, AllReduceOnly, register


class Hasty(AllReduceOnly):
    name = "hasty"
    blocks = ("Switch",)

    def fused_steps(self, setting):  # a fifth of what the messages take
        steps = super().fused_steps(setting)
        few = [replace(step, bytes_fraction=step.bytes_fraction / 5) for step in steps.steps]
        return replace(steps, steps=tuple(few))

    def fused_rounds(self, p):
        from dimsweep.engine.collective.rounds import Shift, in_step

        return in_step([(Shift(k, 1.0),) for k in range(1, p)], p, reduces=True)


register(Hasty())
"""
WORDS = (
    *("workload=all_reduce", "topology.shape=Switch(4)", "topology.bandwidth=100 GB/s"),
    *("topology.latency=1 us", "topology.tiers=[]", "collective.chunks=1"),
)

pytestmark = [pytest.mark.usefixtures("forgotten"), pytest.mark.xdist_group("plug-ins")]


@pytest.fixture(autouse=True)
def _own_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "cache_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("hasty.py").write_text(HASTY)


@pytest.mark.long
def test_every_plug_in_of_the_page_holds(capsys: pytest.CaptureFixture[str]) -> None:
    for name, code in WRITTEN.items():
        Path(name).write_text(code)
    assert main(["check-plugin", *WRITTEN]) == 0
    assert capsys.readouterr().out.count("holds") == len(WRITTEN) - 1, "a kind has no check"


@pytest.mark.long
def test_a_block_and_its_all_to_all_may_be_in_one_file_or_in_two() -> None:
    hypercube, exchange = WRITTEN["hypercube.py"], WRITTEN["exchange.py"]
    Path("both.py").write_text(f"{hypercube}\n{exchange}")
    assert main(["check-plugin", "both.py"]) == 0


def test_a_block_that_does_not_refuse_a_size_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    careless = WRITTEN["hypercube.py"].replace("if n & (n - 1)", "if False")
    Path("careless.py").write_text(f"{careless}\n{WRITTEN['exchange.py']}")
    assert main(["check-plugin", "careless.py"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "Hypercube(3)" in told and "a block raises DimsweepError for a size" in told


@pytest.mark.parametrize("folder", ["examples/package", "examples/package/shuffles"])
def test_a_package_is_checked_by_its_folder(
    folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shuffles", raising=False)
    assert main(["check-plugin", str(ROOT / folder)]) == 0
    assert "workload=shuffle" in capsys.readouterr().out


def test_a_folder_without_plug_ins_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert main(["check-plugin", "."]) == 1
    assert "pyproject.toml: no plug-ins" in capsys.readouterr().err


@pytest.mark.long
def test_a_plug_in_that_fails_is_told_where_it_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("plugins=[hasty.py]", *WORDS, "collective.algorithms=[hasty]")
    assert main(["simulate", *words]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "algorithm hasty of the plug-in hasty.py fails its self-check" in told
    monkeypatch.setattr(checks, "find_fault", lambda *_: pytest.fail("once for each text"))
    (warning,) = checks.plugin_warnings(compose(words).config)
    assert "by phases" in warning and "dimsweep check-plugin hasty.py" in warning
    study = Study({"name": "hasty", "grid": {"collective.chunks": [1, 2]}}, *words[:-2], words[-1])
    assert warning in study.warnings


def test_a_plug_in_that_nothing_uses_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_fault", lambda *_: pytest.fail("hasty is not used"))
    assert checks.plugin_warnings(compose(["plugins=[hasty.py]", *WORDS]).config) == []


@pytest.mark.long
def test_what_dimsweep_registers_late_is_not_the_plug_ins() -> None:
    """The kind jobs was registered, and taken back, with the first plug-in that was loaded."""
    Path("nothing.py").write_text(
        "from dimsweep.sweeper.objective import OBJECTIVES, TIME\nimport dataclasses\n"
        "from dimsweep.sweeper.search.sampler import Task\n"
        "OBJECTIVES['x'] = dataclasses.replace(TIME, name='x')\n"
    )
    script = (
        "from dimsweep.sweeper import plugins\nplugins.load_plugins(['nothing.py'])\n"
        "print([name for _, name in plugins.loaded_plugins(['nothing.py'])[-1].entries])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "['x']\n", done.stderr
