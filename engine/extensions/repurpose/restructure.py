"""The alternation: prune for the places as they are, place units anew, until nothing is gained."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.extensions.repurpose.assignment import assign
from dimsweep.engine.extensions.repurpose.problem import Mask, Places, Problem

_SWEEPS = 30  # over all boundaries; few are needed
_GAIN = 1e-3  # of the objective, for which another sweep is worth its time


@dataclass(frozen=True)
class Placement:
    """Where all units are, which pairs of them are kept, and the ``objectives`` on the way: that of
    the start, and after each step."""

    places: tuple[Places, ...]
    masks: tuple[Mask, ...]
    objectives: tuple[float, ...]


def alternate(problem: Problem, start: Sequence[Places]) -> Placement:
    """Improve on ``start`` until no boundary's assignment does; the objective never rises.

    A step assigns the units of one boundary, as outputs of the layer before it and as inputs of the
    layer behind it, so that both agree on where they are; and prunes both layers for it.
    """
    places = list(start)
    state = Placement(tuple(places), tuple(problem.prune(places)), ())
    objectives = [problem.objective(state.places, state.masks)]
    for _ in range(_SWEEPS):
        before = objectives[-1]
        for boundary in range(len(places)):
            for shared in (True, False):  # the bolder step first, if it gains anything
                moved = _step(problem, state, boundary, shared)
                objective = problem.objective(moved.places, moved.masks)
                if objective < objectives[-1]:
                    state = moved
                    objectives.append(objective)
                    break
        if objectives[-1] > before * (1 - _GAIN):
            break
    return Placement(state.places, state.masks, tuple(objectives))


def _step(problem: Problem, state: Placement, boundary: int, shared: bool) -> Placement:
    """The units of a boundary assigned anew, and the layers around it pruned."""
    places, masks = list(state.places), list(state.masks)
    cost = np.zeros((problem.units[boundary], len(problem.workers.speed)))
    above, below = boundary - 1, boundary  # the layers that it is the output, and the input of
    if boundary > 0:
        layer = problem.layers[above]
        cost += layer.as_outputs(masks[above], places[above], places[boundary], shared=shared)
    if boundary < len(problem.layers):
        cost += problem.layers[below].as_inputs(places[boundary + 1])
    places[boundary] = assign(cost, problem.workers.slots(len(cost)))
    for n in (above, below):
        if 0 <= n < len(problem.layers):
            masks[n] = problem.layers[n].prune(places[n], places[n + 1])
    return Placement(tuple(places), tuple(masks), ())
