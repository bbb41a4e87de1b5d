"""What a study's designs get done: an iteration of one is compared with an iteration of another."""

from collections.abc import Mapping, Sequence

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.roles import label
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.study.grid import PlannedCell

# Keys that change how many replicas there are, or what each of them takes at a time.
_OF_BATCH = ("workload.parallel", "workload.plan.micro_batch", "topology.shape", "nodes")
_HINT = (
    "give workload.plan.batch in the place of micro_batches (then null), so that all train as "
    "much; or search for what compares batches: objective=throughput"
)


def check_work(config: Config, roles: Mapping[str, Role], cells: Sequence[PlannedCell]) -> None:
    """Whether ``cells`` of one scenario, baselines among them, get as much done in an iteration,
    and the designs that one cell searches do, where the objective is of an iteration.

    Raises :class:`DimsweepError` if not: the design that does least would win.
    """
    found = [each.name for each in config.objective if each.of_iterations]
    if not found:
        return
    known = dict[tuple[str, ...], tuple[float, str]]()
    for each in cells:
        coordinates, amount = each.plan.cell.coordinates, each.program.workload.amount
        if amount is None:
            continue
        scenario = tuple(v for k, v in coordinates.items() if roles.get(k) is Role.SCENARIO)
        name = ", ".join(
            f"{k} {label(v)}" for k, v in coordinates.items() if roles.get(k) is Role.DECISION
        )
        samples, other = known.setdefault(scenario, (amount.samples, name))
        if samples != amount.samples:
            raise DimsweepError(
                f"{found[0]} is of an iteration, which is of {samples:,} samples with {other}, and "
                f"of {amount.samples:,} with {name}",
                where="objective",
                hint=f"{_HINT}; or say of an axis that it is no decision: roles: {{KEY: scenario}}",
            )
    workload = config.workload
    if not isinstance(workload, Model) or workload.plan.batch is not None:
        return
    for key in config.space.parameters:
        if key.startswith(_OF_BATCH):
            raise DimsweepError(
                f"{found[0]} is of an iteration, and this key changes how many samples that has",
                where=f"space.parameters.{key}",
                hint=_HINT,
            )
