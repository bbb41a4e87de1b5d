"""The work of an iteration: designs are only ranked by iteration time if they do equal work."""

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
_REPLICA_AXES = ("tensor", "context", "pipeline")
# Keys that change the number of replicas, or the batch of each.
_SIZE_KEYS = ("topology.shape", "nodes")
_BATCH_KEYS = ("workload.parallel", "workload.plan.micro_batch", *_SIZE_KEYS)
_MODEL_HINT = (
    "give workload.plan.batch instead of micro_batches (then null), so that all designs train "
    "equal batches; or compare batches with objective=throughput"
)
_ROLE_HINT = "declare an axis a scenario: roles: {KEY: scenario}"


def describe_work(workload: Workload, program: Program) -> str | None:
    """Return the work of an iteration as text, or None for a workload without computations.

    It is "1,024 samples" for a model, "32 replicas" for a workload of layers, and "512 ranks" for a
    trace. Replicas and ranks train a fixed number of samples.
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
                f"{objective} compares iterations, but an iteration has {first} with {other}, "
                f"and {work} with {name}",
                where="objective",
                hint=f"{_MODEL_HINT}; or {_ROLE_HINT}" if is_model else _ROLE_HINT,
                code="mismatch",
            )
    _check_searched(config, objective)


def _check_searched(config: Config, objective: str) -> None:
    """Raise :class:`DimsweepError` if a searched key changes the work of an iteration."""
    workload = config.workload
    if isinstance(workload, Model) and workload.plan.batch is None:
        changing = list(config.space.parameters)
    elif isinstance(workload, Layered):
        sizes = [key for key in config.space.parameters if key.startswith(_SIZE_KEYS)]
        changing = [key for key in sizes if len(_count_replicas(config, key)) > 1]
    else:
        return
    for key in changing:
        if key.startswith(_BATCH_KEYS):
            raise DimsweepError(
                f"{objective} compares iterations, but this key changes their number of samples",
                where=f"space.parameters.{key}",
                hint=_MODEL_HINT if isinstance(workload, Model) else "make it an axis of the grid",
                code="mismatch",
            )


def _count_replicas(config: Config, key: str) -> set[int]:
    """Return the numbers of replicas of a workload of layers for all values of a searched key."""
    found = set[int]()
    for value in config.space.parameters[key].values or ():
        with suppress(DimsweepError):  # an infeasible design has no iteration to compare
            changed = config.with_values({key: value})
            sizes = build_cluster(changed).topology.sizes
            groups = place(changed.workload.parallel, sizes)
            found.add(_n_replicas(groups, prod(sizes)))
    return found


def _n_replicas(groups: Mapping[str, Group], n_npus: int) -> int:
    degrees = [groups[axis].n_members for axis in _REPLICA_AXES if axis in groups]
    return n_npus // prod(degrees)
