"""The weights of a restructured network: the kept ones, fitted to what samples show."""

from dataclasses import replace

import numpy as np

from dimsweep.engine.extensions.repurpose.problem import Mask
from dimsweep.engine.workload.trained import TrainedLayer, TrainedNetwork, Values

_RIDGE = 1e-3  # of the mean variance, so that a fit to few samples stays near the trained weights


def refitted(
    network: TrainedNetwork, masks: tuple[Mask, ...], calibration: Values | None
) -> TrainedNetwork:
    """``network`` with the pairs of units outside ``masks`` at 0.

    With ``calibration``, samples of shape (N, *input_shape), the kept weights and the biases of
    each layer are those whose sums are nearest to the trained network's in the mean square, given
    what the restructured layers before it make of the samples.
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
    """The layer with the weights of its mask nearest to ``sums`` (N, positions, out)."""
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
