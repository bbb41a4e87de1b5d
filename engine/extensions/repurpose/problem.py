"""The objective of restructuring: a layer's error, its kept weights, and its traffic.

The *loss* of a pair of units is the layer's error without the weights between them.  With inputs x
of variance s (1 without samples) and a bias that corrects their mean, the squared Frobenius error
of a layer is a sum over the removed weights,

    ||(W - W0) diag(s)^1/2||_F^2 = sum of s_j w0_ij^2,

so the best kept weights are the trained ones, and restructuring chooses *which* are kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.workload.trained import TrainedNetwork, Values

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]  # the worker of every unit of a boundary


@dataclass(frozen=True)
class Workers:
    """The workers that share a network, and the costs of their links."""

    speed: tuple[float, ...]  # relative to the cluster's NPU
    link_cost: Values  # (K, K), of a byte from one worker to another, in any unit

    def __post_init__(self) -> None:
        k = len(self.speed)
        if k < 1 or not all(0 < speed < math.inf for speed in self.speed):
            raise DimsweepError(
                "every worker needs a speed greater than 0", where="speed", code="out-of-range"
            )
        cost = self.link_cost
        if cost.shape != (k, k) or not (np.isfinite(cost) & (cost >= 0)).all():
            what = f"{k} workers need {k} x {k} costs of 0 or more"
            raise DimsweepError(what, where="link_cost", code="mismatch")
        if np.diag(cost).any():
            raise DimsweepError(
                "costs from a worker to itself must be 0", where="link_cost", code="invalid"
            )

    @classmethod
    def build_equal(cls, k: int) -> "Workers":
        """Return ``k`` equally fast workers; a link of cost 1 joins every two of them."""
        return cls((1.0,) * k, 1.0 - np.eye(k))

    def slots(self, n: int) -> NDArray[np.int64]:
        """Return how many of ``n`` units each worker holds, shape (K,).

        It is in proportion to the speed, with the largest remainders rounded up.
        """
        exact = n * np.asarray(self.speed) / sum(self.speed)
        slots = np.floor(exact).astype(np.int64)
        slots[np.argsort(slots - exact, kind="stable")[: n - slots.sum()]] += 1
        return slots


@dataclass(frozen=True)
class Penalty:
    """The prices of weights and of bytes between workers, relative to the error.

    The objective is the sum of all layers' errors, each as a share of its map, plus ``weights``
    times the share of kept weights, plus ``traffic`` times the traffic's cost as a share of the
    cost if every value went to every other worker.
    """

    weights: float = 0.0
    traffic: float = 0.0

    def __post_init__(self) -> None:
        for key in ("weights", "traffic"):
            if not 0 <= getattr(self, key) < math.inf:
                raise DimsweepError(
                    f"{getattr(self, key)}; it must be 0 or more", where=key, code="out-of-range"
                )


@dataclass(frozen=True)
class LayerProblem:
    """One layer's part of the objective, with the loss of each pair of units."""

    loss: Values  # (out, in), without each pair of units
    keep: float  # penalty of a kept pair
    send: Values  # (K, K), penalty of an input unit's values from one worker to another

    def thresholds(self, here: Places) -> Values:
        """Return the cost of sending an input unit from place ``here`` to each worker, (in, K)."""
        return self.send[here]

    def prune(self, here: Places, there: Places) -> Mask:
        """Return the pairs of units to keep for given places of inputs and outputs.

        This is the exact proximal step. A worker's use of an input unit (a block of weights) is
        kept if its pairs reduce the error by more than the cost of sending the unit's values.
        Within it a pair is kept if it reduces the error by more than the cost of its weights (hard
        thresholds, of blocks and of pairs).
        """
        gain = np.maximum(self.loss - self.keep, 0.0)
        used = sum_by_worker(gain, there, len(self.send)) > self.thresholds(here).T
        return (gain > 0) & used[there]

    def cost(self, mask: Mask, here: Places, there: Places) -> float:
        """Return the layer's part of the objective for kept pairs ``mask`` and given places."""
        kept = int(mask.sum())
        lost = float(self.loss.sum(where=~mask))
        used = sum_by_worker(mask, there, len(self.send)) > 0
        return lost + self.keep * kept + float(self.thresholds(here).T[used].sum())

    def as_outputs(self, mask: Mask, here: Places, there: Places, *, shared: bool) -> Values:
        """Return the cost of placing each output unit on each worker, (out, K), for kept pairs.

        A block that one pair of units needs costs the full amount, and one that N > 1 pairs need
        costs nothing more.  So this is never below the objective of any other places, and equal to
        it for the current ones (a majorizer).  With ``shared`` each of the N pays its part instead,
        which may be below the objective, and leads further.
        """
        users = sum_by_worker(mask, there, len(self.send))  # (K, in)
        part = 1 / np.maximum(users, 1) if shared else users <= 1
        limits = self.keep + self.thresholds(here).T * part
        return np.stack([np.minimum(self.loss, limit).sum(axis=1) for limit in limits], axis=1)

    def as_inputs(self, there: Places) -> Values:
        """Return the cost of placing each input unit on each worker, (in, K), with best pairs."""
        workers = len(self.send)
        lost = sum_by_worker(self.loss, there, workers)  # (K there, in)
        kept = sum_by_worker(np.minimum(self.loss, self.keep), there, workers)
        costs = [np.minimum(lost, kept + to[:, None]).sum(axis=0) for to in self.send]
        return np.stack(costs, axis=1)


@dataclass(frozen=True)
class Problem:
    """The restructuring objective of all layers of a network on given workers."""

    layers: tuple[LayerProblem, ...]
    workers: Workers

    @classmethod
    def build(
        cls,
        network: TrainedNetwork,
        workers: Workers,
        penalty: Penalty,
        calibration: Values | None = None,
    ) -> "Problem":
        """Build the problem of a network on workers.

        ``calibration``, samples of shape (N, *input_shape), weighs inputs by their variance.
        Raises :class:`DimsweepError` for samples of another shape.
        """
        k = len(workers.speed)
        variances = input_variances(network, calibration)
        n_weights = sum(layer.weight.size for layer in network.layers)
        everywhere = sum(
            units * values
            for units, values in zip(network.units[:-1], network.values, strict=False)
        ) * (workers.link_cost.sum() / k)
        layers = []
        for number in range(len(network.layers)):
            blocks = network.blocks(number)
            loss = np.einsum("oik,ik->oi", blocks**2, variances[number])
            total = loss.sum()
            price = penalty.traffic * network.values[number] / everywhere if everywhere else 0.0
            layers.append(
                LayerProblem(
                    loss / total if total else loss,
                    penalty.weights * blocks.shape[2] / n_weights,
                    price * workers.link_cost,
                )
            )
        return cls(tuple(layers), workers)

    def prune(self, places: Sequence[Places]) -> list[Mask]:
        """Return the best pairs of units to keep in every layer, given the worker of each unit.

        ``places`` has one array for each boundary.
        """
        return [
            layer.prune(places[number], places[number + 1])
            for number, layer in enumerate(self.layers)
        ]

    def objective(self, places: Sequence[Places], masks: Sequence[Mask]) -> float:
        return sum(
            layer.cost(mask, places[number], places[number + 1])
            for number, (layer, mask) in enumerate(zip(self.layers, masks, strict=True))
        )

    @cached_property
    def units(self) -> tuple[int, ...]:
        return (self.layers[0].loss.shape[1], *(layer.loss.shape[0] for layer in self.layers))


def input_variances(network: TrainedNetwork, calibration: Values | None) -> list[Values]:
    """Return the variances of each unit pair's inputs, (in, k) a layer; 1 without samples."""
    if calibration is None:
        return [np.ones(network.blocks(number).shape[1:]) for number in range(len(network.layers))]
    variances, values = [], network.shaped(calibration)
    for number, layer in enumerate(network.layers):
        patches = network.patches(number, values)
        flat = patches.reshape(-1, patches.shape[-1])
        variances.append(flat.var(axis=0).reshape(network.blocks(number).shape[1:]))
        weight = layer.weight.reshape(len(layer.weight), -1)
        values = network.finish(number, patches @ weight.T + layer.bias)
    return variances


def sum_by_worker(pairs: Values | Mask, there: Places, workers: int) -> Values:
    """Return the sums of ``pairs`` over the output units of each worker, shape (K, in)."""
    members = (there == np.arange(workers)[:, None]).astype(np.float64)
    return members @ pairs
