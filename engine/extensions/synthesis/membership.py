"""What a model gives away of who it learnt from."""

import itertools
from collections.abc import Sequence

import numpy as np

from dimsweep.engine.extensions.synthesis.grammar import leaf
from dimsweep.engine.extensions.synthesis.job import Job, Symbol
from dimsweep.engine.extensions.synthesis.model import TraceModel, case, part_name
from dimsweep.engine.extensions.synthesis.synthesise import unrolled


def distance(model: TraceModel, job: Job) -> float:
    """How far a job's sizes and durations are from what the model expects of its keys: the mean of
    |ln(value / expected)|; infinite where the model has no such structure."""
    total, n = 0.0, 0
    for stage, steps in enumerate(job.stages):
        name = part_name(stage, len(job.stages), case(job.keys, model.degrees))
        part = model.parts.get(name)
        places = unrolled(part, job.keys_of(stage)) if part else []
        if part is None or len(places) != len(steps):
            return float("inf")
        labels = {place: Symbol.of(leaf(part.pattern, place)).label for place in set(places)}
        for place, step in zip(places, steps, strict=True):
            if labels[place] != step.symbol.label:
                return float("inf")
            for quantity, value in step.values.items():
                expected = part.quantities[place][quantity].at(job.keys)
                if value > 0 and expected > 0:
                    total, n = total + abs(float(np.log(value / expected))), n + 1
    return total / max(n, 1)


def membership(model: TraceModel, learnt: Sequence[Job], others: Sequence[Job]) -> float:
    """The share of pairs, of a job that was learnt from and one that was not, in which the model is
    nearer to the first (ties count half): 0.5 tells nothing, 1 gives every member away."""
    distances = ([distance(model, job) for job in jobs] for jobs in (learnt, others))
    pairs = itertools.product(*distances)
    return float(np.mean([0.5 if a == b else float(a < b) for a, b in pairs]))
