"""Methods that distribute a trained network over workers: RePurpose and its baselines.

RePurpose: Abdi, Rashidi, Fekri and Krishna, "Efficient distributed inference of deep neural
networks via restructuring and pruning" (AAAI 2023, arXiv 2008.08289).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.extensions.repurpose.placement import (
    Placement,
    alternate,
    clustered,
    contiguous,
)
from dimsweep.engine.extensions.repurpose.problem import (
    Mask,
    Penalty,
    Problem,
    Workers,
    sum_by_worker,
)
from dimsweep.engine.workload.trained import TrainedLayer, TrainedNetwork, Values


@dataclass(frozen=True)
class Restructured:
    """A trained network distributed over workers, with pruned weights.

    Pruned weights are 0; units keep the order of the trained network.
    """

    network: TrainedNetwork
    placement: Placement
    workers: Workers

    def sent(self, number: int) -> NDArray[np.int64]:
        """Return the number of input values of a layer that each worker sends to each other worker.

        It is for one sample; shape (K, K), from row to column.
        """
        k = len(self.workers.speed)
        here, there = self.placement.places[number : number + 2]
        used = sum_by_worker(self.placement.masks[number], there, k) > 0  # (K, in)
        values = np.stack([used[:, here == worker].sum(axis=1) for worker in range(k)])
        values[np.diag_indices(k)] = 0
        return values * self.network.values[number]

    @property
    def traffic(self) -> int:
        """Number of values that workers send to one another for one sample."""
        return sum(int(self.sent(number).sum()) for number in range(len(self.network.layers)))

    def products(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the multiply-adds of a layer on each worker for one sample, shape (K,) twice.

        The first array counts inputs of the same worker, the second one inputs of other workers.
        """
        k = len(self.workers.speed)
        here, there = self.placement.places[number : number + 2]
        mask = self.placement.masks[number]
        own = here[None, :] == there[:, None]
        each = self.network.blocks(number).shape[2] * self.network.uses[number]
        counts = (np.bincount(there, (mask & part).sum(axis=1), k) for part in (own, ~own))
        near, far = (np.rint(count * each).astype(np.int64) for count in counts)
        return near, far

    @property
    def operations(self) -> int:
        """Operations of all workers for one sample; a multiply-add is two."""
        layers = range(len(self.network.layers))
        return 2 * sum(int(part.sum()) for number in layers for part in self.products(number))


@dataclass(frozen=True)
class Task:
    """The input of a distribution method: network, workers, penalty, samples and seed."""

    network: TrainedNetwork
    workers: Workers
    penalty: Penalty
    calibration: Values | None
    seed: int

    def problem(self) -> Problem:
        return Problem.build(self.network, self.workers, self.penalty, self.calibration)

    def as_it_lies(self) -> list[NDArray[np.int64]]:
        return [contiguous(self.workers.slots(units)) for units in self.network.units]


def _repurpose(task: Task) -> Placement:
    """Return RePurpose's placement: units that need one another are grouped, then pruned."""
    problem = task.problem()
    starts = (task.as_it_lies(), clustered(problem, task.seed))
    best = min(starts, key=lambda places: problem.objective(places, problem.prune(places)))
    return alternate(problem, best)


def _direct(task: Task) -> Placement:
    """Return the pruned placement of units in their order, the first ones on the first worker."""
    return _pruned(task.problem(), task.as_it_lies())


def _random(task: Task) -> Placement:
    """Return the pruned placement of units in a random order."""
    rng = np.random.default_rng(task.seed)
    return _pruned(task.problem(), [rng.permutation(places) for places in task.as_it_lies()])


def _magnitude(task: Task) -> Placement:
    """Return the placement of units in their order, with the smallest weights pruned.

    The share of the map that other methods give up for traffic and weights is given up for weights.
    """
    alone = Penalty(weights=task.penalty.weights + task.penalty.traffic)
    plain = replace(task, penalty=alone, calibration=None)
    return _pruned(plain.problem(), task.as_it_lies())


def _naive(task: Task) -> Placement:
    """Return the placement of units in their order, with all weights kept."""
    masks: list[Mask] = [
        np.asarray(task.network.blocks(number).any(axis=2))
        for number in range(len(task.network.layers))
    ]
    return Placement(tuple(task.as_it_lies()), tuple(masks), ())


def _pruned(problem: Problem, places: list[NDArray[np.int64]]) -> Placement:
    masks = problem.prune(places)
    return Placement(tuple(places), tuple(masks), (problem.objective(places, masks),))


METHODS: Mapping[str, Callable[[Task], Placement]] = {
    "repurpose": _repurpose,
    "direct": _direct,
    "magnitude": _magnitude,
    "random": _random,
    "naive": _naive,
}


def restructure(
    network: TrainedNetwork,
    workers: Workers,
    penalty: Penalty,
    *,
    method: str = "repurpose",
    calibration: Values | None = None,
    seed: int = 0,
) -> Restructured:
    """Return ``network`` distributed over ``workers`` by one of :data:`METHODS`.

    ``calibration``, samples of shape (N, *input_shape), weighs the error by the variance of inputs,
    and the kept weights are fitted to the samples afterwards.  The naive method changes no weight.

    Raises :class:`DimsweepError` for an unknown method, for fewer units than workers, and for
    samples of another shape.
    """
    if method not in METHODS:
        hint = suggest_names(method, METHODS)
        raise DimsweepError(
            f"unknown method {method!r}", where="method", hint=hint, code="unknown-name"
        )
    if max(network.units) < len(workers.speed):
        raise DimsweepError(
            f"{len(workers.speed)} workers cannot each hold a unit: the widest layer has "
            f"{max(network.units)}",
            where="workers",
            hint=f"use at most {max(network.units)} workers",
            code="out-of-range",
        )
    placement = METHODS[method](Task(network, workers, penalty, calibration, seed))
    fitted = network if method == "naive" else refitted(network, placement.masks, calibration)
    return Restructured(fitted, placement, workers)


# --- fitting the kept weights --------------------------------------------------------------------


_RIDGE = 1e-3  # of the mean variance, so that a fit to few samples stays near the trained weights


def refitted(
    network: TrainedNetwork, masks: tuple[Mask, ...], calibration: Values | None
) -> TrainedNetwork:
    """Return ``network`` with zero weights for the pairs of units outside ``masks``.

    With ``calibration``, samples of shape (N, *input_shape), the kept weights and biases of each
    layer minimise the mean squared error of its sums against the trained network's, given the
    outputs of the restructured layers before it.
    """
    if calibration is None:
        cut = [_cut(network, number, mask) for number, mask in enumerate(masks)]
        return replace(network, layers=tuple(cut))
    layers: list[TrainedLayer] = []
    trained = values = network.shaped(calibration)
    for number, (layer, mask) in enumerate(zip(network.layers, masks, strict=True)):
        before = network.patches(number, trained)
        sums = before @ layer.weight.reshape(len(layer.weight), -1).T + layer.bias
        patches = network.patches(number, values)
        layers.append(_fitted(_cut(network, number, mask), mask, patches, sums))
        weight = layers[-1].weight.reshape(len(layer.weight), -1)
        values = network.finish(number, patches @ weight.T + layers[-1].bias)
        trained = network.finish(number, sums)
    return replace(network, layers=tuple(layers))


def _cut(network: TrainedNetwork, number: int, mask: Mask) -> TrainedLayer:
    layer = network.layers[number]
    weight = (network.blocks(number) * mask[:, :, None]).reshape(layer.weight.shape)
    return replace(layer, weight=weight)


def _fitted(layer: TrainedLayer, mask: Mask, patches: Values, sums: Values) -> TrainedLayer:
    """Return ``layer`` with the weights inside ``mask`` by which its sums are nearest to ``sums``.

    ``sums`` have shape (N, positions, out), for the inputs in ``patches``.
    """
    x, y = patches.reshape(-1, patches.shape[-1]), sums.reshape(-1, sums.shape[-1])
    centre, target = x.mean(axis=0), y.mean(axis=0)
    x, y = x - centre, y - target
    gram, products = x.T @ x, x.T @ y
    ridge = _RIDGE * np.trace(gram) / len(gram)
    weight = layer.weight.reshape(len(mask), -1).copy()
    kept = np.repeat(mask, weight.shape[1] // mask.shape[1], axis=1)
    # A ridge towards the trained weights; units of one worker often keep the same inputs.
    supports, which = np.unique(kept, axis=0, return_inverse=True)
    for number, support in enumerate(supports):
        (here,), (mine,) = support.nonzero(), (which == number).nonzero()
        if not len(here) or not ridge:
            continue
        system = gram[np.ix_(here, here)] + ridge * np.eye(len(here))
        wanted = products[np.ix_(here, mine)] + ridge * weight[np.ix_(mine, here)].T
        weight[np.ix_(mine, here)] = np.linalg.solve(system, wanted).T
    bias = target - weight @ centre
    return replace(layer, weight=weight.reshape(layer.weight.shape), bias=bias)
