"""The simulation of one configuration."""

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
    """The time of a job of ``ranks`` among the others, and in isolation, in seconds."""

    ranks: int
    time: float
    alone: float

    @property
    def slowdown(self) -> float:
        """The time among others, as a multiple of the time in isolation."""
        return self.time / self.alone if self.alone else 1.0


def simulate(config: Config, program: Program | None = None, *, record: bool = False) -> Result:
    """Simulate one iteration of a configuration in its fidelity, folded and watched as it says.

    ``program``: the configuration's, if already built. ``record`` keeps the data of a timeline.
    Raises :class:`DimsweepError` naming the key of a part that cannot be built, cannot finish, or
    is watched in a fidelity that does not know it.
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
    """The runners of a workload's jobs in isolation, with their ranks, by name.

    Empty for a single workload.
    """

    runners: Mapping[str, tuple[range, "MessageRunner"]]
    fold: bool

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the runners of a configuration."""
        runners = {}
        if isinstance(config.workload, Jobs):
            from dimsweep.engine.kernels.network import MessageRunner  # which few need

            jobs = config.workload.separate_programs(build_cluster(config), config.fidelity)
            runners = {name: (at, MessageRunner(own, config.fidelity)) for name, at, own in jobs}
        return cls(runners, config.fold)

    def times(self, ends: np.ndarray, bandwidth: np.ndarray | None = None) -> dict[str, JobTime]:
        """Return the time of each job among the others and in isolation.

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
    """Return the error for a ``key`` that shows something known only in other ``fidelities``."""
    return DimsweepError(
        f"it shows {shown}, which fidelity={config.fidelity} does not simulate",
        where=key,
        code="unsupported",
        hint=f"add fidelity={' or '.join(fidelities)}, or leave {key} out",
    )
