"""RePurpose on trained networks, as ratios at equal accuracy, and on a layer of 4,096 neurons."""

import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from dimsweep.engine.extensions.repurpose import METHODS, Penalty, Workers, restructure
from dimsweep.engine.formats.weights import Samples
from dimsweep.engine.workload import TrainedLayer, TrainedNetwork

SEEDS = range(10)
PENALTIES = np.geomspace(1, 20, 12)
TOLERANCE = 0.01  # of accuracy, below the trained networks'


def main() -> None:
    """Digits on 4 and 8 workers; then the large layer."""
    nets = [trained(seed) for seed in SEEDS]
    before = np.mean([net.accuracy(data.inputs, data.labels) for net, data in nets])
    print(f"digits, {len(nets)} splits and networks of 64-256-128-10: {before:.2%} accurate")
    for k in (4, 8):
        print(f"{k} workers: share of the naive traffic at {TOLERANCE:.0%} less accuracy")
        for method, share in shares(nets, k, float(before) - TOLERANCE):
            print(f"  {method:10}{share:7.1%}  ({1 / share:.1f} times less)")
    for name, network in (("shuffled blocks", large(True)), ("no structure", large(False))):
        cpu, wall = time.process_time(), time.perf_counter()
        made = restructure(network, Workers.build_equal(16), Penalty(traffic=1.0))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        traffic = made.traffic / (4096 * 15)
        print(f"4096 x 4096 on 16 workers, {name}: {cpu:.0f} s of CPU, {wall:.0f} s; {traffic:.1%}")


def trained(seed: int) -> tuple[TrainedNetwork, Samples]:
    """A network that tells digits apart, and samples: half to test, half it was trained on."""
    images, labels = load_digits(return_X_y=True)
    train, test, known, unknown = train_test_split(
        images / 16, labels, test_size=0.5, random_state=seed
    )
    net = MLPClassifier((256, 128), max_iter=30, random_state=seed).fit(train, known)
    last = len(net.coefs_) - 1
    layers = [
        TrainedLayer(f"layer{i}", weight.T.copy(), bias, "relu" if i < last else "identity")
        for i, (weight, bias) in enumerate(zip(net.coefs_, net.intercepts_, strict=True))
    ]
    return TrainedNetwork(tuple(layers), (64,)), Samples(test, unknown, train)


def shares(
    nets: list[tuple[TrainedNetwork, Samples]], k: int, least: float
) -> Iterator[tuple[str, float]]:
    """Of each method the share of the naive traffic at which the accuracy falls to ``least``: both
    are means over the networks, and between penalties the accuracy is linear in the traffic."""
    for method in METHODS:
        penalties = PENALTIES if method != "naive" else PENALTIES[:1]
        points = [_mean(nets, k, method, penalty) for penalty in penalties]
        traffic, accuracy = np.array(sorted(points)).T
        right = np.maximum.accumulate(accuracy)  # what sends more is no worse
        yield method, float(np.interp(least, right, traffic)) if right[0] < least else traffic[0]


def _mean(
    nets: list[tuple[TrainedNetwork, Samples]], k: int, method: str, penalty: float
) -> tuple[float, float]:
    points = []
    for net, data in nets:
        made = restructure(
            net,
            Workers.build_equal(k),
            Penalty(traffic=penalty),
            method=method,
            calibration=data.calibration,
        )
        accuracy = made.network.accuracy(data.inputs, data.labels)
        points.append((made.traffic / (sum(net.units[:-1]) * (k - 1)), accuracy))
    traffic, accuracy = np.mean(points, axis=0).tolist()
    return traffic, accuracy


def large(planted: bool) -> TrainedNetwork:
    """A layer of normal weights; of blocks of them, shuffled, in noise."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4096, 4096))
    if planted:
        rows, columns = (rng.permutation(np.repeat(np.arange(16), 256)) for _ in range(2))
        weight *= np.where(rows[:, None] == columns, 1.0, 0.05)
    return TrainedNetwork((TrainedLayer("layer", weight, np.zeros(4096)),), (4096,))
