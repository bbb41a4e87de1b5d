"""What of a design cannot matter to its time."""

import dataclasses

import numpy as np

from dimsweep.engine.bound.closed_form import demand_of
from dimsweep.engine.kernels.phase.batch import run_batch
from dimsweep.engine.kinds import CollectiveKind, QueueOrder
from dimsweep.engine.lower.program import Program
from dimsweep.engine.workload.graph import Compute


def silent_dimensions(program: Program) -> list[int]:
    """The dimensions that no byte crosses."""
    return np.flatnonzero(demand_of(program).sum(axis=0) == 0).tolist()


def crosses_dimensions(program: Program) -> bool:
    """Whether any collective has chunks that visit more than one dimension, one after another."""
    forms = program.structure.forms
    collective = forms["kind"] <= CollectiveKind.ALL_TO_ALL
    return bool((forms["use_end"] - forms["use_start"] > 1)[collective].any())


def lone_chunks(program: Program) -> int:
    """The most chunks of a collective that crosses one dimension only; 0 if there is none."""
    forms = program.structure.forms
    dims = forms["use_end"] - forms["use_start"]
    lone = (forms["kind"] <= CollectiveKind.ALL_TO_ALL) & (dims == 1)
    return int(forms["chunks"][lone].max(initial=0))


def is_measured(program: Program) -> bool:
    """Whether every computation has a duration of its own, so that no rate of the NPU matters."""
    return all(
        work.duration is not None for work in program.workload.works() if isinstance(work, Compute)
    )


def queue_matters(program: Program) -> bool:
    """Whether first-in-first-out queues would take another time, at the program's own point.
    Costs two runs."""
    s = program.structure
    # A plain number, as lower writes it: for a member the whole kernel would be compiled anew.
    fifo = s._replace(shape=s.shape._replace(queue=int(QueueOrder.FIFO)))
    times = [
        run_batch(dataclasses.replace(program, structure=other), program.bandwidth).time[0]
        for other in (s, fifo)
    ]
    return bool(times[0] != times[1])
