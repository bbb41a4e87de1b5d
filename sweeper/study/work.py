"""What a study's designs get done: an iteration of one is compared with an iteration of another."""

from collections.abc import Mapping, Sequence

from dimsweep.engine import DimsweepError
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
    objective = next((each.name for each in config.objective if each.of_iterations), None)
    if objective is None:
        return
    known = dict[tuple[str, ...], tuple[float, str]]()
    for cell in cells:
        if (amount := cell.program.workload.amount) is None:
            continue
        coordinates = cell.plan.cell.coordinates
        scenario = tuple(v for k, v in coordinates.items() if roles.get(k) is Role.SCENARIO)
        name = _name(cell, roles)
        samples, other = known.setdefault(scenario, (amount.samples, name))
        if samples != amount.samples:
            raise DimsweepError(
                f"{objective} is of an iteration, which is of {samples:,} samples with {other}, "
                f"and of {amount.samples:,} with {name}",
                where="objective",
                hint=f"{_HINT}; or say of an axis that it is no decision: roles: {{KEY: scenario}}",
            )
    _check_searched(config, objective)


def _name(cell: PlannedCell, roles: Mapping[str, Role]) -> str:
    """What to call a design among the others of its scenario."""
    if cell.record.baseline is not None:
        return "the baseline"
    decided = [
        f"{key} {value}"
        for key, value in cell.plan.cell.coordinates.items()
        if roles.get(key) is Role.DECISION
    ]
    return ", ".join(decided) or "the study's design"


def _check_searched(config: Config, objective: str) -> None:
    """Whether all designs that a cell searches get as much done."""
    workload = config.workload
    if not isinstance(workload, Model) or workload.plan.batch is not None:
        return
    for key in config.space.parameters:
        if key.startswith(_OF_BATCH):
            raise DimsweepError(
                f"{objective} is of an iteration, and this key changes how many samples that has",
                where=f"space.parameters.{key}",
                hint=_HINT,
            )
