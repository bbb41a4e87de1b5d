"""Simulate one configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from dimsweep.engine import DimsweepError, Fidelity, Program, Result, check_phases, run_one, units
from dimsweep.sweeper.config.jobs import Jobs
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.outages import Outages
from dimsweep.sweeper.simulation.program import build_cluster, build_program

if TYPE_CHECKING:
    from dimsweep.engine.kernels.network import MessageRunner


class JobTime(NamedTuple):
    """The time of a job of ``ranks``, next to the other jobs and in isolation, in seconds."""

    ranks: int
    time: float
    alone: float

    @property
    def slowdown(self) -> float:
        """Time next to the other jobs, divided by the time in isolation."""
        return self.time / self.alone if self.alone else 1.0


def simulate(config: Config, program: Program | None = None, *, record: bool = False) -> Result:
    """Simulate one iteration of a configuration in its fidelity.

    ``program``: the configuration's program, if already built. ``record`` keeps the data of a
    timeline. Raises :class:`DimsweepError` naming the key of an object that cannot be built or
    cannot finish, or that is to be watched in a fidelity without it.
    """
    if config.watch and config.fidelity is not Fidelity.PACKET:
        raise not_known("watch", config, "queues, marks and pauses of links", ["packet"])
    if program is None:
        program = build_program(config)
    outages = Outages.from_config(config, program)
    if not config.by_message:
        check_phases(program)
        phases = run_one(program, record=record)
        return Result(phases, outages.simulated(int(phases.measures.time[0])))
    from dimsweep.engine.kernels.network import run_messages  # which few need

    run = run_messages(
        program, config.fidelity, record=record, watch=config.watch, fold=config.fold
    )
    return Result(run, outages.simulated(int(run.measures.time[0])))


@dataclass(frozen=True)
class AloneRunners:
    """The simulators of a workload's jobs in isolation, with their ranks, by the job's name.

    Empty for a single workload.
    """

    runners: Mapping[str, tuple[range, "MessageRunner"]]
    fold: bool

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the simulators for the jobs of a configuration."""
        runners = {}
        if isinstance(config.workload, Jobs):
            from dimsweep.engine.kernels.network import MessageRunner  # which few need

            jobs = config.workload.separate_programs(build_cluster(config), config.fidelity)
            runners = {name: (at, MessageRunner(own, config.fidelity)) for name, at, own in jobs}
        return cls(runners, config.fold)

    def times(self, ends: np.ndarray, bandwidth: np.ndarray | None = None) -> dict[str, JobTime]:
        """Return each job's time, next to the other jobs and in isolation, by name.

        Ranks end at ``ends`` (R,) in ps.  The jobs in isolation are simulated now, at this
        ``bandwidth`` (D,) in bytes/s (None: the cluster's).
        """
        found = {}
        for name, (ranks, runner) in self.runners.items():
            alone = runner.run(bandwidth, fold=self.fold).measures.end[0]
            last = (each[ranks.start : ranks.stop].max() for each in (ends, alone))
            found[name] = JobTime(len(ranks), *(float(end / units.PICOSECONDS) for end in last))
        return found


def not_known(key: str, config: Config, shown: str, fidelities: list[str]) -> DimsweepError:
    """Return the error for a ``key`` whose output exists only in other ``fidelities``."""
    return DimsweepError(
        f"it shows {shown}, which fidelity={config.fidelity} does not simulate",
        where=key,
        code="unsupported",
        hint=f"add fidelity={' or '.join(fidelities)}, or leave {key} out",
    )
