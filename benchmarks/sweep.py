"""A whole sweep: how much of its time is spent inside the engine.

python -m benchmarks.sweep cmaes 1000000 executor.actors=2

Three shares, since a driver beside two workers on two cores takes its time from theirs:

* of the workers' wall time: engine CPU seconds over (wall seconds x workers);
* of the CPU time of all processes of the sweep, Ray's daemons included: what the first one is on a
  machine that has nothing else to do, and no fewer workers than cores;
* of the CPU time of the workers' own processes: what the first one would be with cores to spare for
  the driver and the daemons, if no worker ever waits.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benchmarks.study import peak_megabytes
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor import make_executor
from dimsweep.sweeper.run.loop import Progress, StudyPlan, run_sweep

TRIALS = 200_000
_WARM = 0.05  # of the trials: before them workers start, and packages are imported
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Moment:
    """A time, the trials and engine seconds until then, and CPU seconds of processes by name."""

    wall: float
    done: int
    engine: float
    cpu: dict[str, float]

    @classmethod
    def now(cls, progress: Progress) -> Self:
        return cls(time.monotonic(), progress.done, progress.engine_seconds, _cpu())


def main() -> None:
    """Print the shares for the main study, with each kind of search."""
    _measure("random", TRIALS, ["executor=inline"])
    for sampler in ("random", "qmc", "cmaes", "auto"):
        _measure(sampler, TRIALS, ["executor.actors=2"])


def _measure(sampler: str, trials: int, options: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as results:
        study = ["study=libra_gpt3_4d", f"search={sampler}", f"budget.trials={trials}"]
        plan = plan_study(compose([*study, f"results={results}", *options]))
        _sweep(f"{sampler} {' '.join(options)}", trials, plan)


def _sweep(name: str, trials: int, plan: StudyPlan) -> None:
    moments: list[_Moment] = []

    def watch(progress: Progress) -> None:
        if not moments and progress.done >= _WARM * trials:
            moments.append(_Moment.now(progress))

    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        executor = make_executor(plan.config, plan.simulated, plan.schema)
        try:
            progress = run_sweep(plan, ledger, executor, watch)
            _tell(name, moments[0], _Moment.now(progress), progress)
        finally:
            executor.close()


def _tell(name: str, start: _Moment, end: _Moment, progress: Progress) -> None:
    trials, wall, engine = end.done - start.done, end.wall - start.wall, end.engine - start.engine
    cpu = {each: end.cpu[each] - start.cpu.get(each, 0.0) for each in end.cpu}
    own = {each: f"{cpu[each] / trials * 1e6:.1f}" for each in cpu}
    workers = cpu["workers"] or cpu["driver"]
    print(
        f"{name}, {trials:,} trials: {trials / wall:,.0f} trials/s; engine "
        f"{engine / wall / progress.workers:.1%} of the workers' wall time, "
        f"{engine / sum(cpu.values()):.1%} of all CPU time, {engine / workers:.1%} of the workers' "
        f"CPU time; us of CPU a trial: engine {engine / trials * 1e6:.1f}, workers "
        f"{own['workers']}, driver {own['driver']}, Ray's daemons {own['daemons']}; driver "
        f"{peak_megabytes():.0f} MB; {progress.reused:,} asked for twice",
        flush=True,
    )


def _cpu() -> dict[str, float]:
    """CPU seconds of this process, of its workers, and of the other processes that it started."""
    parents, own = dict[int, int](), dict[int, tuple[str, float]]()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = entry.read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        fields, pid = rest.split(), int(entry.parent.name)
        parents[pid] = int(fields[1])
        own[pid] = head.partition("(")[2], (int(fields[11]) + int(fields[12])) / _TICK
    found = {"driver": 0.0, "workers": 0.0, "daemons": 0.0}
    for pid, (name, seconds) in own.items():
        if pid == os.getpid():
            found["driver"] += seconds
        elif _descends(pid, parents):
            found["workers" if name.startswith("ray::Guest") else "daemons"] += seconds
    return found


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
