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
    """How long a job of so many ranks takes among the others, and alone, in seconds."""

    ranks: int
    time: float
    alone: float

    @property
    def slowdown(self) -> float:
        """How many times as long it takes as alone."""
        return self.time / self.alone if self.alone else 1.0


def simulate(config: Config, program: Program | None = None, *, record: bool = False) -> Result:
    """Simulate one iteration of a configuration in its fidelity, folded and watched as it says.

    Whoever has its ``program`` already gives it; ``record`` keeps what a timeline needs.  Raises
    :class:`DimsweepError` naming the key of what cannot be built, cannot finish, or is watched in a
    fidelity that does not know it.
    """
    if config.watch and config.fidelity is not Fidelity.PACKET:
        raise not_known("watch", config, "queues, marks and pauses of links", ["packet"])
    if program is None:
        program = build_program(config)
    outages = Outages.of(config, program)
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
    """What runs each job of a workload alone, and its ranks, by the names of the jobs; of one
    workload nothing."""

    runners: Mapping[str, tuple[range, "MessageRunner"]]
    fold: bool

    @classmethod
    def of(cls, config: Config) -> Self:
        """Those of a configuration, whose fidelity knows jobs if it has some."""
        runners = {}
        if isinstance(config.workload, Jobs):
            from dimsweep.engine.kernels.network import MessageRunner  # which few need

            jobs = config.workload.alone(build_cluster(config), config.fidelity)
            runners = {name: (at, MessageRunner(own, config.fidelity)) for name, at, own in jobs}
        return cls(runners, config.fold)

    def times(self, ends: np.ndarray, bandwidth: np.ndarray | None = None) -> dict[str, JobTime]:
        """How long each takes among the others, where ranks come to their ``ends`` (R,) in ps, and
        alone, which is simulated now at this ``bandwidth`` (D,) in bytes/s or at the cluster's."""
        found = {}
        for name, (ranks, runner) in self.runners.items():
            alone = runner.run(bandwidth, fold=self.fold).measures.end[0]
            last = (each[ranks.start : ranks.stop].max() for each in (ends, alone))
            found[name] = JobTime(len(ranks), *(float(end / units.PICOSECONDS) for end in last))
        return found


def not_known(key: str, config: Config, shown: str, fidelities: list[str]) -> DimsweepError:
    """The error for a ``key`` whose ``shown`` is known in other ``fidelities`` only."""
    return DimsweepError(
        f"it shows {shown}, which fidelity={config.fidelity} does not know",
        where=key,
        hint=f"add fidelity={' or '.join(fidelities)}, or leave {key} out",
    )
