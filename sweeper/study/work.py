"""The work of an iteration: designs whose iterations do unlike work are not ranked by time."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod

from dimsweep.engine import Compute, DimsweepError, Group, Program, place
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.config.workload.layers import Layered
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.config.workload.workload import Workload
from dimsweep.sweeper.ledger.record import CellRecord
from dimsweep.sweeper.simulation.program import build_cluster

# Axes whose ranks share the samples of one replica.
_OF_ONE_REPLICA = ("tensor", "context", "pipeline")
# Keys that change how many replicas there are, or what each of them takes at a time.
_OF_SIZE = ("topology.shape", "nodes")
_OF_BATCH = ("workload.parallel", "workload.plan.micro_batch", *_OF_SIZE)
_OF_MODELS = (
    "give workload.plan.batch in the place of micro_batches (then null), so that all train as "
    "much; or search for what compares batches: objective=throughput"
)
_APART = "say of an axis that it is no decision: roles: {KEY: scenario}"


def describe_work(workload: Workload, program: Program) -> str | None:
    """Return the work of an iteration: "1,024 samples", or "32 replicas" of a workload of layers
    and "512 ranks" of a trace, each of which trains a fixed number of samples.

    Return None for a workload that computes nothing, such as one collective.
    """
    own = program.workload
    if own.amount is not None:
        return f"{own.amount.samples:,} samples"
    if not any(_computes(node.work) for graph in own.graphs for node in graph):
        return None
    if not isinstance(workload, Layered):
        return f"{program.n_npus:,} ranks"
    return f"{_n_replicas(own.groups, program.n_npus):,} replicas"


def _computes(work: object) -> bool:
    return isinstance(work, Compute) and bool(
        work.flops or work.n_bytes or work.duration or work.kernels
    )


def check_work(
    config: Config, roles: Mapping[str, Role], cells: Sequence[tuple[CellRecord, Workload]]
) -> None:
    """Check that the iterations of designs that compete do equal work.

    Cells of one scenario, baselines included, must do equal work in an iteration, and a cell's
    search must not change it.  Only objectives of an iteration are checked.

    Raises
    ------
    DimsweepError
        If designs do unequal work: the one that does least would win.
    """
    objective = next((each.name for each in config.objective if each.of_iterations), None)
    if objective is None:
        return
    known = dict[tuple[str, ...], tuple[str, str]]()
    for cell, workload in cells:
        if (work := cell.work) is None:
            continue
        by_role = {
            role: [(k, v) for k, v in cell.coordinates.items() if roles.get(k) is role]
            for role in (Role.SCENARIO, Role.DECISION)
        }
        scenario = tuple(v for _, v in by_role[Role.SCENARIO])
        name = ", ".join(f"{k} {v}" for k, v in by_role[Role.DECISION]) or "the study's design"
        name = "the baseline" if cell.baseline is not None else name
        first, other = known.setdefault(scenario, (work, name))
        if first != work:
            is_model = isinstance(workload, Model)
            raise DimsweepError(
                f"{objective} is of an iteration, which is of {first} with {other}, "
                f"and of {work} with {name}",
                where="objective",
                hint=f"{_OF_MODELS}; or {_APART}" if is_model else _APART,
            )
    _check_searched(config, objective)


def _check_searched(config: Config, objective: str) -> None:
    """Raise :class:`DimsweepError` if a searched key changes the work of an iteration."""
    workload = config.workload
    if isinstance(workload, Model) and workload.plan.batch is None:
        changing = list(config.space.parameters)
    elif isinstance(workload, Layered):
        sizes = [key for key in config.space.parameters if key.startswith(_OF_SIZE)]
        changing = [key for key in sizes if len(_count_replicas(config, key)) > 1]
    else:
        return
    for key in changing:
        if key.startswith(_OF_BATCH):
            raise DimsweepError(
                f"{objective} is of an iteration, and this key changes how many samples that has",
                where=f"space.parameters.{key}",
                hint=_OF_MODELS if isinstance(workload, Model) else "make it an axis of the grid",
            )


def _count_replicas(config: Config, key: str) -> set[int]:
    """Return the numbers of replicas of a workload of layers at the values of a searched key."""
    found = set[int]()
    for value in config.space.parameters[key].values or ():
        with suppress(DimsweepError):  # an infeasible design has no iteration to compare
            changed = config.with_values({key: value})
            sizes = build_cluster(changed).topology.sizes
            groups = place(changed.workload.parallel, sizes)
            found.add(_n_replicas(groups, prod(sizes)))
    return found


def _n_replicas(groups: Mapping[str, Group], n_npus: int) -> int:
    degrees = [groups[axis].n_members for axis in _OF_ONE_REPLICA if axis in groups]
    return n_npus // prod(degrees)
