"""The simulation of one configuration."""

from typing import NamedTuple

from dimsweep.engine import DimsweepError, Fidelity, Program, Result, check_phases, run_one, units
from dimsweep.sweeper.build.program import build_cluster, build_program
from dimsweep.sweeper.config.jobs import Jobs
from dimsweep.sweeper.config.schema import Config


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
    if not config.by_message:
        check_phases(program)
        return Result(run_one(program, record=record))
    from dimsweep.engine.kernels.network import run_messages  # which few need

    return Result(
        run_messages(program, config.fidelity, record=record, watch=config.watch, fold=config.fold)
    )


def job_times(config: Config, result: Result) -> dict[str, JobTime]:
    """The jobs of the workload by their names; none where there is one workload.  Each is simulated
    again, alone."""
    if not isinstance(config.workload, Jobs):
        return {}
    found = {}
    for name, ranks, program in config.workload.alone(build_cluster(config), config.fidelity):
        ends = [
            each.run.measures.end[0][ranks.start : ranks.stop].max() / units.PICOSECONDS
            for each in (result, simulate(config, program))
        ]
        found[name] = JobTime(len(ranks), *map(float, ends))
    return found


def not_known(key: str, config: Config, shown: str, fidelities: list[str]) -> DimsweepError:
    """The error for a ``key`` whose ``shown`` is known in other ``fidelities`` only."""
    return DimsweepError(
        f"it shows {shown}, which fidelity={config.fidelity} does not know",
        where=key,
        hint=f"add fidelity={' or '.join(fidelities)}, or leave {key} out",
    )
