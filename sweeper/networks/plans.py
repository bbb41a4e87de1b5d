"""All plans of a space, whatever network they run on."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.engine.bound import Staging, Stagings, Turns, least_memory
from dimsweep.engine.plan import DeviceMesh, ParallelPlan
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.config.designs import Plans
from dimsweep.sweeper.config.parts.part import key
from dimsweep.sweeper.config.workload.model import Model

# The keys of workload.plan that may have several values, the slowest to vary first.
KEYS = ("micro_batch", "interleave", "zero", "recompute", "schedule", "offload")
Degrees = tuple[int, ...]  # by AXES


@dataclass(frozen=True)
class Row:
    """A plan: its degrees, the values of KEYS that are searched, the engine's plan, and the bytes
    of an NPU's memory, and of its remote memory, that it needs at least."""

    degrees: Degrees
    values: Mapping[str, Any]
    plan: ParallelPlan
    micro_batches: int
    memory: float = 0.0
    remote: float = 0.0

    @property
    def turns(self) -> Turns:
        """What it does how often, as a table of one row."""
        _, context, expert, _, data = self.degrees
        numbers = (self.micro_batches, context * expert * data, context * data)
        return Turns(*(np.array([number]) for number in numbers))

    def settings(self) -> dict[str, object]:
        """The keys of the plan, but for its degrees."""
        return {f"workload.plan.{name}": value for name, value in self.values.items()}


def rows_of(
    workload: Model,
    space: Plans,
    npus: int,
    stagings: Stagings,
    memory: float | None,
    refused: Counter[str],
) -> list[Row]:
    """The plans of a space on so many NPUs of some ``memory`` (None: any), and how many are
    ``refused``, by reason.  Of plans that are the same but by their names there is the first.

    Raises :class:`DimsweepError` for plans of which bounds say nothing.
    """
    found = list[Row]()
    for degrees in _degrees(space, npus):
        for values in _values(space):
            if _is_other_name(values, degrees, space):
                continue
            try:
                row = _row(workload, degrees, values)
                with key("workload"):
                    staging = stagings.of(row.plan, degrees)
            except InfeasibleError as error:
                refused[f"plans do not divide ({error.where})"] += 1
                continue
            settings = workload.plan.model_copy(update=dict(values))
            plans = settings.offloading(row.plan, holds=stagings.holds)
            if (fitting := _fitting(row, plans, staging, memory)) is None:
                refused["plans do not fit the memory"] += 1
                continue
            found.append(fitting)
    return found


def _fitting(
    row: Row, plans: Iterable[ParallelPlan], staging: Staging, memory: float | None
) -> Row | None:
    """The first of some ``plans`` that fits the memory; of these, each of which keeps more in
    remote memory, the last one fits the smallest.  None if there is none."""
    found, own = None, 0.0
    for plan in plans:
        own, remote = (each.item() for each in least_memory(staging, plan, row.turns))
        if found is None and (memory is None or own <= memory):
            found = replace(row, plan=plan, remote=remote)
    return None if found is None else replace(found, memory=own)


def _degrees(space: Plans, npus: int) -> Iterator[Degrees]:
    for tensor, context, expert, pipeline in itertools.product(
        space.tensor, space.context, space.expert, space.pipeline
    ):
        data, left = divmod(npus, tensor * context * expert * pipeline)
        if not left:
            yield tensor, context, expert, pipeline, data


def _values(space: Plans) -> Iterator[dict[str, Any]]:
    names = [name for name in KEYS if getattr(space, name)]
    for values in itertools.product(*(getattr(space, name) for name in names)):
        yield dict(zip(names, values, strict=True))


def _is_other_name(values: Mapping[str, Any], degrees: Degrees, space: Plans) -> bool:
    """Whether another plan of the space is the same: without a pipeline all schedules are, and
    without replicas all stages of ZeRO."""
    _, context, expert, pipeline, data = degrees
    alone = []
    if pipeline == 1:
        alone += ["schedule", "interleave"]
    if context * expert * data == 1:
        alone += ["zero"]
    return any(name in values and values[name] != getattr(space, name)[0] for name in alone)


def _row(workload: Model, degrees: Degrees, values: Mapping[str, Any]) -> Row:
    named = dict(zip(AXES, degrees, strict=True))
    side_by_side = {
        axis: named[axis] for axis in ("tensor", "pipeline", "context", "expert", "data")
    }
    mesh = DeviceMesh.place(side_by_side, (int(np.prod(degrees)),))
    with key("workload"):
        with key("plan"):
            plan = workload.plan.model_copy(update=dict(values)).training(mesh)
        n = mesh.n_micro_batches(plan.batch, plan.micro_batch)
    if plan.interleave > 1 and (degrees[3] == 1 or n % degrees[3]):
        what = "interleaved chunks go through all stages in whole rounds"
        raise InfeasibleError(what, where="workload.plan.interleave")
    return Row(degrees, values, plan, n)


def check_model(workload: object) -> Model:
    """The workload, of which plans can be searched; raises :class:`DimsweepError` for another."""
    if not isinstance(workload, Model) or workload.plan.task != "training":
        raise DimsweepError(
            "plans are searched for a model that is trained", where="space.plan", hint="kind: model"
        )
    if workload.plan.batch is None:
        raise DimsweepError(
            "so many micro-batches of each replica are another batch in each plan, and the plan "
            "would win that trains the fewest samples",
            where="workload.plan.batch",
            hint="how many sequences or samples all plans train at a time, such as 1024; and "
            "micro_batches: null",
        )
    if workload.scale != 1:
        raise DimsweepError("bounds know no scale", where="workload.scale", hint="scale: 1")
    return workload
