"""What is minimised: how far a layer's map is from the trained one, its weights, and its traffic.

The *loss* of a pair of units is what the layer's map loses without the weights between them.  With
inputs x of variance s (1 where no samples are given) and a bias that makes up for their mean, the
squared Frobenius error of a layer is a sum over the weights that are left out,

    ||(W - W0) diag(s)^1/2||_F^2 = sum of s_j w0_ij^2,

so the best kept weights are the trained ones, and restructuring is a choice of *which* are kept.
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
    """Who shares the work: ``speed`` of each worker (that of the cluster's NPU is 1), and
    ``link_cost``, shape (K, K), of a byte from one to another (in any unit; from a worker to itself
    it costs nothing)."""

    speed: tuple[float, ...]
    link_cost: Values

    def __post_init__(self) -> None:
        k = len(self.speed)
        if k < 1 or not all(0 < speed < math.inf for speed in self.speed):
            raise DimsweepError("workers need speeds above 0", where="speed")
        cost = self.link_cost
        if cost.shape != (k, k) or not (np.isfinite(cost) & (cost >= 0)).all():
            what = f"{k} workers need {k} x {k} costs of 0 or more"
            raise DimsweepError(what, where="link_cost")
        if np.diag(cost).any():
            raise DimsweepError("what stays on a worker costs nothing", where="link_cost")

    @classmethod
    def build_equal(cls, k: int) -> "Workers":
        """``k`` workers of one speed, every two of them joined by a link of cost 1."""
        return cls((1.0,) * k, 1.0 - np.eye(k))

    def slots(self, n: int) -> NDArray[np.int64]:
        """How many of ``n`` units each worker holds, shape (K,): in proportion to its speed, the
        largest remainders rounded up."""
        exact = n * np.asarray(self.speed) / sum(self.speed)
        slots = np.floor(exact).astype(np.int64)
        slots[np.argsort(slots - exact, kind="stable")[: n - slots.sum()]] += 1
        return slots


@dataclass(frozen=True)
class Penalty:
    """What of a layer's map a weight is worth, and what a byte between workers.

    The objective is the sum of all layers' errors, each as a share of its map, plus ``weights``
    times the share of weights that are kept, plus ``traffic`` times the traffic's cost as a share
    of what it would be if every value went to every other worker.
    """

    weights: float = 0.0
    traffic: float = 0.0

    def __post_init__(self) -> None:
        for key in ("weights", "traffic"):
            if not 0 <= getattr(self, key) < math.inf:
                raise DimsweepError(f"{getattr(self, key)} is no penalty; 0 or more", where=key)


@dataclass(frozen=True)
class LayerProblem:
    """A layer's part: the ``loss`` without each pair of units, shape (out, in); the penalty of
    keeping a pair, ``keep``; and that of an input unit's values going from one worker to another,
    ``send``, shape (K, K)."""

    loss: Values
    keep: float
    send: Values

    def thresholds(self, here: Places) -> Values:
        """What it costs to have each input unit, which is ``here``, on each worker: (in, K)."""
        return self.send[here]

    def prune(self, here: Places, there: Places) -> Mask:
        """The pairs of units to keep: the proximal step, exact for given places.

        A worker's use of an input unit (a block of the weights) is kept if what its pairs save of
        the error is more than what it costs to send the unit's values, and within it a pair that
        is worth more than its weights (hard thresholds, of blocks and of pairs).
        """
        gain = np.maximum(self.loss - self.keep, 0.0)
        used = sum_by_worker(gain, there, len(self.send)) > self.thresholds(here).T
        return (gain > 0) & used[there]

    def cost(self, mask: Mask, here: Places, there: Places) -> float:
        """The layer's part of the objective."""
        kept = int(mask.sum())
        lost = float(self.loss.sum(where=~mask))
        used = sum_by_worker(mask, there, len(self.send)) > 0
        return lost + self.keep * kept + float(self.thresholds(here).T[used].sum())

    def as_outputs(self, mask: Mask, here: Places, there: Places, *, shared: bool) -> Values:
        """What each output unit costs on each worker, shape (out, K), given who uses what now.

        A block that one pair of units needs costs all of it, and one that N > 1 need is there
        anyway: this is never below the objective of any other places, and equal to it for those as
        they are (a majorizer).  ``shared``: each of the N pays its part instead, which may be below
        it, and leads further.
        """
        users = sum_by_worker(mask, there, len(self.send))  # (K, in)
        part = 1 / np.maximum(users, 1) if shared else users <= 1
        limits = self.keep + self.thresholds(here).T * part
        return np.stack([np.minimum(self.loss, limit).sum(axis=1) for limit in limits], axis=1)

    def as_inputs(self, there: Places) -> Values:
        """What each input unit costs on each worker, shape (in, K), with the best pairs kept."""
        workers = len(self.send)
        lost = sum_by_worker(self.loss, there, workers)  # (K there, in)
        kept = sum_by_worker(np.minimum(self.loss, self.keep), there, workers)
        costs = [np.minimum(lost, kept + to[:, None]).sum(axis=0) for to in self.send]
        return np.stack(costs, axis=1)


@dataclass(frozen=True)
class Problem:
    """All layers of a network on workers."""

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
        """``calibration``: samples of shape (N, *input_shape) that weigh inputs by their variance.

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
        """The best pairs to keep in every layer, for units at ``places`` (one for a boundary)."""
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
    """Of what each weight of a unit pair is multiplied with, shape (in, k); 1 without samples."""
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
    """Sums over the output units of each worker, shape (K, in)."""
    members = (there == np.arange(workers)[:, None]).astype(np.float64)
    return members @ pairs
