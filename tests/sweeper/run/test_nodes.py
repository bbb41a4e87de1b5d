"""A study on a cluster whose nodes come and go has the rows of one machine."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.compute as pc
import pytest

import dimsweep
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.questions.plan import plan_study
from tests.faults.nodes import ENVIRONMENT, Nodes
from tests.support.studies import run
from tests.support.waiting import until

COMPARED = 1000  # trials
LOST = "is lost; other nodes do its work"
INPUTS = Path(dimsweep.__file__).parents[1] / "studies" / "traces" / "astra_sim"
STUDY = """\
defaults: [override /profile: astra_sim, override /search: random, _self_]
workload: {name: mine, traces: mine/all_reduce.et, system: mine/system.json}
topology: {file: mine/network.yml, tiers: []}
space:
  bandwidth: {total: 300 GB/s, min: 5 GB/s, step: 0.1 GB/s}
search: {batch: 64}
budget: {trials: 1000000}
"""


def n_rows(folder: Path) -> int:
    try:
        return int(load(folder).num_rows)
    except DimsweepError:
        return 0


def wait_for(more_than: int, folder: Path, process: subprocess.Popen[str]) -> None:
    """Return when there are more rows than that, on a machine with however much else to do."""

    def came() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return n_rows(folder) > more_than

    until(came, every=0.1)


def stopped_after(text: str, process: subprocess.Popen[str]) -> str:
    """All that a process says, which is told to end when it says ``text``, or after a while."""
    assert process.stdout is not None
    late = threading.Timer(300, process.terminate)
    late.start()
    said = ""
    while text not in said and (line := process.stdout.readline()):
        said += line
    late.cancel()
    process.terminate()
    return said + process.stdout.read()


@pytest.mark.long
@pytest.mark.xdist_group("ray")  # one Ray at a time: two cores
def test_a_second_node_joins_and_the_first_one_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes start in another folder than the sweep, whose study names files beside itself."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "mine").symlink_to(INPUTS)
    (tmp_path / "study.yaml").write_text(STUDY)
    folder = tmp_path / "results" / "study"
    nodes = Nodes(1)
    try:
        command = [sys.executable, "-m", "dimsweep", "sweep", "study=study.yaml", "results=results"]
        command += ["executor=address", f"executor.address={nodes.address}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
        ) as process:
            try:
                wait_for(100, folder, process)
                nodes.fill(2)
                nodes.kill_node(random.Random(1))  # the first one, as the seed has it
                wait_for(n_rows(folder), folder, process)
                wait_for(COMPARED + 64, folder, process)
                said = stopped_after(LOST, process)  # a node silent for three seconds
            except BaseException:
                process.kill()  # or a test that fails would wait for its end for ever
                raise
    finally:
        nodes.close()
    assert process.returncode == 130, said
    assert LOST in said and "Traceback" not in said

    monkeypatch.chdir(tmp_path)
    words = ["study=study.yaml", "results=alone", f"budget.trials={COMPARED}", "what_if=null"]
    alone = plan_study(compose(words))
    run(alone)
    found = load(folder)
    assert found.filter(pc.less(found["trial"], COMPARED)).equals(load(alone.folder))
