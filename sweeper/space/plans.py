"""List the parallel plans of a space, and count the infeasible designs that are left out."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.engine.bound import PlanCounts, Staging, Stagings, bound_memory
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, Schedule
from dimsweep.sweeper.config.study import Plans
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.part import naming_key


class Refusals(Counter[str]):
    """The numbers of infeasible networks, plans or placements, by reason."""

    def __init__(self) -> None:
        super().__init__()
        self._first = dict[tuple[str, str], tuple[str, DimsweepError]]()

    def add(self, what: str, error: DimsweepError, where: str, n: int = 1) -> None:
        """Count ``n`` cases with an ``error`` at the key ``where``.

        The first error gives the reason.
        """
        reason = format_reason(what, error, where)
        self[self._first.setdefault((what, where), (reason, error))[0]] += n

    def error(self, what: str, where: str, hint: str = "") -> DimsweepError:
        """Return the error for a space without feasible designs.

        It is the only counted error if that rejects the configuration; otherwise it says ``what``
        is impossible and lists all reasons.
        """
        errors = [error for _, error in self._first.values()]
        if len(self) == len(errors) == 1 and not isinstance(errors[0], InfeasibleError):
            return errors[0]
        return InfeasibleError(what + (f": {self}" if self else ""), where=where, hint=hint)

    def __str__(self) -> str:
        return ", ".join(f"{n:,} {reason}" for reason, n in self.items())


def format_reason(what: str, error: DimsweepError, where: str) -> str:
    """Return the reason why ``what`` is left out: the key ``where``, and the error's problem."""
    example = "such as: " * isinstance(error, InfeasibleError)
    joint = ", " if where and example else ": " if where else ""
    return f"{what} ({where}{joint}{example}{error.problem})"


# The keys of workload.plan that may have several values, the slowest to vary first.
KEYS = ("micro_batch", "interleave", "zero", "recompute", "schedule", "offload")
_PIPELINE_KEYS = ("interleave", "schedule")  # keys whose values may need a pipeline
Degrees = tuple[int, ...]  # by AXES


@dataclass(frozen=True)
class PlanRow:
    """A parallel plan of a space: its degrees, settings and memory."""

    degrees: Degrees
    values: Mapping[str, Any]  #: values of the searched ``KEYS``
    plan: ParallelPlan
    micro_batches: int
    memory: float = 0.0  #: minimum memory of an NPU (bytes)
    remote: float = 0.0  #: minimum remote memory of an NPU (bytes)

    @property
    def turns(self) -> PlanCounts:
        """Numbers of passes and messages of the plan, as a table of one row."""
        _, context, expert, _, data = self.degrees
        numbers = (self.micro_batches, context * expert * data, context * data)
        return PlanCounts(*(np.array([number]) for number in numbers))

    def settings(self) -> dict[str, object]:
        """Return the configuration keys of the plan, without its degrees."""
        return {f"workload.plan.{name}": value for name, value in self.values.items()}


def list_plans(
    workload: Model,
    space: Plans,
    npus: int,
    stagings: Stagings,
    memory: float | None,
    refused: Refusals,
) -> list[PlanRow]:
    """Return the plans of a space on ``npus`` NPUs of ``memory`` bytes each (None: any).

    Plans that run as the same program count once; infeasible plans are counted in ``refused``.
    """
    found, known = list[PlanRow](), set[object]()
    for degrees, values in _walk_choices(workload, space, npus):
        try:
            row = _build_row(workload, degrees, values)
            with naming_key("workload"):
                staging = stagings.build_staging(row.plan, degrees)
        except DimsweepError as error:
            refused.add("plans are left out", error, _space_key(error.where, space))
            continue
        # Automatic offloading also depends on each network's memory.
        same = degrees, row.plan, values.get("offload")
        if same in known:
            continue
        known.add(same)
        settings = workload.plan.model_copy(update=dict(values))
        plans = settings.offloading(row.plan, holds=stagings.can_hold_overflow)
        if (fitting := _fit_memory(row, plans, staging, memory)) is None:
            refused["plans do not fit the memory"] += 1
            continue
        found.append(fitting)
    return found


def _space_key(where: str, space: Plans) -> str:
    """Return the study's key, such as space.plan.tensor, that an error at ``where`` is about."""
    name = where.rpartition(".")[2]
    return f"space.plan.{name}" if name in space.model_fields_set else where


def _fit_memory(
    row: PlanRow, plans: Iterable[ParallelPlan], staging: Staging, memory: float | None
) -> PlanRow | None:
    """Return the first of ``plans`` that fits into ``memory`` bytes per NPU, or None.

    Each plan keeps more in remote memory than the one before, so the last one needs the least
    memory.
    """
    found, own = None, 0.0
    for plan in plans:
        own, remote = (each.item() for each in bound_memory(staging, plan, row.turns))
        if found is None and (memory is None or own <= memory):
            found = replace(row, plan=plan, remote=remote)
    return None if found is None else replace(found, memory=own)


def _walk_choices(
    workload: Model, space: Plans, npus: int
) -> Iterator[tuple[Degrees, dict[str, Any]]]:
    """Yield degrees and settings (values of KEYS) of all plans on ``npus`` NPUs."""
    lists = {name: getattr(space, name) for name in KEYS}
    if 1 in space.pipeline:  # the workload's own values may need a pipeline
        own = {name: getattr(workload.plan, name) for name in _PIPELINE_KEYS}
        lists |= {k: lists[k] or (v,) for k, v in own.items() if v != _value_without_pipeline(k, v)}
    names, seen = [name for name in KEYS if lists[name]], set[object]()
    for degrees in _walk_degrees(space, npus):
        for chosen in itertools.product(*(lists[name] for name in names)):
            values = dict(zip(names, chosen, strict=True))
            if degrees[AXES.index("pipeline")] == 1:
                values = {
                    name: _value_without_pipeline(name, value) for name, value in values.items()
                }
            if (same := (degrees, *values.values())) not in seen:
                seen.add(same)
                yield degrees, values


def _walk_degrees(space: Plans, npus: int) -> Iterator[Degrees]:
    for tensor, context, expert, pipeline in itertools.product(
        space.tensor, space.context, space.expert, space.pipeline
    ):
        data, left = divmod(npus, tensor * context * expert * pipeline)
        if not left:
            yield tensor, context, expert, pipeline, data


def _value_without_pipeline(name: str, value: Any) -> Any:
    """Return the value that a plan's setting has without a pipeline.

    One stage has nothing to interleave, and no bubbles for gradients of weights to fill.
    """
    if name == "interleave":
        return 1
    if name == "schedule" and value.cuts_backward:
        return Schedule.ONE_F_ONE_B
    return value


def _build_row(workload: Model, degrees: Degrees, values: Mapping[str, Any]) -> PlanRow:
    named = dict(zip(AXES, degrees, strict=True))
    placed = {axis: named[axis] for axis in ("tensor", "pipeline", "expert", "context", "data")}
    mesh = DeviceMesh.place(placed, (int(np.prod(degrees)),))
    with naming_key("workload"):
        with naming_key("plan"):
            plan = workload.plan.model_copy(update=dict(values)).training(mesh)
            plan = plan.without_idle_keys(mesh)
        n = mesh.n_micro_batches(plan.batch, plan.micro_batch)
    if plan.interleave > 1 and n % degrees[3]:
        problem = "micro-batches are not a multiple of the stages, which interleaving needs"
        raise InfeasibleError(problem, where="workload.plan.interleave")
    return PlanRow(degrees, values, plan, n)


def check_model(workload: object) -> Model:
    """Return the workload; raises :class:`DimsweepError` if its plans cannot be searched."""
    if not isinstance(workload, Model) or workload.plan.task != "training":
        raise DimsweepError(
            "a search of plans needs a workload of kind model that is trained",
            where="space.plan",
            hint="choose workload=, such as workload=gpt3_175b",
            code="unsupported",
        )
    if workload.plan.batch is None:
        raise DimsweepError(
            "with micro_batches, plans train different batches, and the plan with the fewest "
            "samples would win",
            where="workload.plan.batch",
            hint="give the batch of all plans (sequences or samples), such as 1024; and set "
            "micro_batches to null",
            code="missing",
        )
    if workload.scale != 1:
        problem = f"{workload.scale:g}; it must be 1 for bounds to hold"
        raise DimsweepError(problem, where="workload.scale", code="unsupported")
    return workload
