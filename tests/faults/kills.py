"""Sweeps of which a part is killed at a random moment, and their rows."""

import multiprocessing
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import dimsweep.sweeper.cli.report
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.main import main
from tests.faults.nodes import Nodes
from tests.support.studies import planned, run
from tests.support.waiting import LONG

TRIALS = 4000
STUDY = (
    "study=libra_gpt3_4d",
    "search=random",
    f"budget.trials={TRIALS}",
    "search.batch=256",
    "collective.chunks=64",
)
KINDS = ("actor", "actor", "actor", "node", "node", "driver", "driver", "head")
N_NODES = 2
_SERVER = multiprocessing.get_context("forkserver")  # imports once what every sweep imports
_SERVER.set_forkserver_preload(
    [
        "dimsweep.sweeper.cli.sweep",
        "dimsweep.sweeper.run.loop",
        "dimsweep.sweeper.questions.plan",
        "dimsweep.sweeper.cli.report",
    ]
)


@dataclass
class Found:
    """What came of the kills; ``waits`` are the seconds from a kill to the next row."""

    killed: Counter[str] = field(default_factory=Counter)
    equal: int = 0
    doubled: int = 0
    missing: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)


def kill_at_random(runs: int, scratch: Path) -> Found:
    """Have as many sweeps as ``runs`` disturbed, each compared with an undisturbed one."""
    expected, found = undisturbed(scratch), Found()
    nodes = Nodes(N_NODES)
    try:
        for i in range(runs):
            draw, folder = random.Random(i), scratch / f"run{i}"
            kind = draw.choice(KINDS)
            finished = _disturbed(kind, draw, nodes, folder, found)
            if kind == "head":
                nodes.close()
                nodes = Nodes(N_NODES)
            nodes.fill(N_NODES)
            if not finished:
                _finish(nodes, folder)
            _compare(load(folder / "libra_gpt3_4d"), expected, found)
            shutil.rmtree(folder)
            print(f"  run {i}: {kind}, {found.equal} of {i + 1} equal", flush=True)
    finally:
        nodes.close()
    return found


def undisturbed(scratch: Path) -> pa.Table:
    """The rows of the study, run in this process."""
    plan = planned(STUDY, scratch / "whole")
    run(plan)
    return load(plan.folder)


class Sweep:
    """A sweep on the cluster's actors, in a process of its own; its report is not drawn."""

    def __init__(self, nodes: Nodes, results: Path, *words: str) -> None:
        place = [f"results={results}", "executor=address", f"executor.address={nodes.address}"]
        results.mkdir(parents=True, exist_ok=True)
        self._said = results / "said.txt"
        self._process = _SERVER.Process(target=_run, args=([*words, *place], str(self._said)))
        self._process.start()

    @property
    def has_ended(self) -> bool:
        """Whether the process has."""
        return not self._process.is_alive()

    def kill(self) -> None:
        """As if the machine had no memory left."""
        self._process.kill()

    def end(self) -> tuple[int | None, str]:
        """Wait for it; its exit code, and all that it printed."""
        self._process.join(LONG)
        if self._process.is_alive():
            self._process.kill()
            raise AssertionError(f"no end in {LONG:.0f} s: {self._said.read_text()}")
        return self._process.exitcode, self._said.read_text()


def _run(words: Sequence[str], said: str) -> None:
    with open(said, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    dimsweep.sweeper.cli.report.report_study = lambda *_, **__: None
    sys.exit(main(["sweep", *words]))


def wait_for_rows(folder: Path, more_than: int, sweep: Sweep) -> float:
    """Wait until there are more rows than that, or the sweep ends; the seconds waited."""
    start = time.monotonic()
    while time.monotonic() - start < LONG:
        if rows(folder) > more_than or sweep.has_ended:
            return time.monotonic() - start
        time.sleep(0.05)
    raise AssertionError(f"nothing came in {LONG:.0f} s: {folder}")


def rows(folder: Path) -> int:
    """The rows of a study so far."""
    try:
        return int(load(folder).num_rows)
    except DimsweepError:  # there is none yet
        return 0


def _disturbed(kind: str, draw: random.Random, nodes: Nodes, folder: Path, found: Found) -> bool:
    """Run a sweep and kill something of it; whether it has finished nevertheless."""
    study = folder / "libra_gpt3_4d"
    sweep = Sweep(nodes, folder, *STUDY)
    wait_for_rows(study, draw.randrange(TRIALS * 3 // 4), sweep)
    time.sleep(draw.random() / 5)
    before = rows(study)
    if kind == "driver":
        sweep.kill()
    elif kind == "head":
        nodes.kill_head(whole=draw.random() < 0.7)
    elif kind == "node":
        nodes.kill_node(draw)
    elif not nodes.kill_actor(draw):
        kind = "nothing (all was done)"
    found.killed[kind] += 1
    if kind in ("actor", "node") and before < TRIALS:
        found.waits.append(wait_for_rows(study, before, sweep))
    code, said = sweep.end()
    ending = f"{kind} killed: exit code {code}"
    found.endings[ending] += 1
    if "Traceback" in said or "[state-dump]" in said or "core_worker" in said:
        found.endings[f"{ending}, with debug text"] += 1
        print(said, flush=True)
    return code == 0 and "lost to faults" not in said


def _finish(nodes: Nodes, folder: Path) -> None:
    for _ in range(3):
        code, said = Sweep(nodes, folder, *STUDY).end()
        if code == 0 and "lost to faults" not in said:
            return
    raise AssertionError(said)


def _compare(found_rows: pa.Table, expected: pa.Table, found: Found) -> None:
    found.equal += found_rows.equals(expected)
    keys = found_rows["key"].to_pylist()
    found.doubled += len(keys) - len(set(keys))
    found.missing += len(set(expected["key"].to_pylist()) - set(keys))
