"""RePurpose: its assignment and its objective against brute force, and what it must recover."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from dimsweep.engine import Cluster, DimsweepError, Npu, Topology, simulate
from dimsweep.engine.extensions.repurpose import (
    METHODS,
    Penalty,
    Workers,
    assign,
    inference,
    restructure,
    workers_on,
)
from dimsweep.engine.extensions.repurpose.placement import alternate, contiguous
from dimsweep.engine.extensions.repurpose.problem import Places, Problem
from dimsweep.engine.workload import TrainedLayer, TrainedNetwork


def dense(sizes: Sequence[int], seed: int = 0) -> TrainedNetwork:
    rng = np.random.default_rng(seed)
    return chain([rng.standard_normal((n, m)) for m, n in itertools.pairwise(sizes)])


def chain(weights: Sequence[np.ndarray]) -> TrainedNetwork:
    layers = [
        TrainedLayer(f"layer{i}", weight, np.zeros(len(weight)), "relu")
        for i, weight in enumerate(weights)
    ]
    return TrainedNetwork(tuple(layers), (weights[0].shape[1],))


def all_places(slots: Sequence[int]) -> Iterator[Places]:
    """Every way to put units on workers with these slots."""
    whole = contiguous(np.asarray(slots))
    return map(np.array, sorted(set(itertools.permutations(whole.tolist()))))


UNLIKE = Workers(
    (1.0, 1.0, 1.0, 1.0),
    np.array([[0, 1, 4, 4], [1, 0, 4, 4], [4, 4, 0, 1], [4, 4, 1, 0]], dtype=float),
)


@pytest.mark.parametrize("slots", [(2, 2, 2), (1, 2, 3), (1, 1, 1, 1, 1)])
def test_an_assignment_is_as_cheap_as_any(slots: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(slots))
    for _ in range(5):
        cost = rng.integers(0, 9, (sum(slots), len(slots))).astype(float)
        places = assign(cost, np.asarray(slots))
        rows = np.arange(len(cost))
        assert tuple(np.bincount(places, minlength=len(slots))) == slots
        assert cost[rows, places].sum() == min(
            cost[rows, other].sum() for other in all_places(slots)
        )


def test_the_objective_is_what_its_parts_say() -> None:
    """Error, kept weights and traffic, counted one by one from the definition."""
    network, penalty = dense((4, 4, 4)), Penalty(weights=0.3, traffic=0.7)
    problem = Problem.build(network, UNLIKE, penalty)
    rng = np.random.default_rng(3)
    places = [rng.permutation(4) for _ in range(3)]
    masks = [rng.random((4, 4)) < 0.6 for _ in range(2)]
    everywhere = 8 * UNLIKE.link_cost.sum() / 4
    expected = 0.0
    for number, layer in enumerate(network.layers):
        kept = np.where(masks[number], layer.weight, 0.0)
        expected += float(((kept - layer.weight) ** 2).sum() / (layer.weight**2).sum())
        expected += 0.3 * masks[number].sum() / 32
        blocks = {
            (j, int(places[number + 1][i])) for i, j in zip(*masks[number].nonzero(), strict=True)
        }
        sent = sum(UNLIKE.link_cost[places[number][j], worker] for j, worker in blocks)
        expected += 0.7 * sent / everywhere
    assert problem.objective(places, masks) == pytest.approx(expected, rel=1e-12)


def test_pruning_is_the_best_there_is_for_given_places() -> None:
    """The proximal step against every mask of a layer."""
    problem = Problem.build(
        dense((3, 4)), Workers.build_equal(2), Penalty(weights=0.3, traffic=0.4)
    )
    places = [np.array([0, 1, 1]), np.array([0, 1, 0, 1])]
    found = problem.objective(places, problem.prune(places))
    masks = (np.array(bits).reshape(4, 3) for bits in itertools.product((False, True), repeat=12))
    assert found == pytest.approx(min(problem.objective(places, [mask]) for mask in masks))


@pytest.mark.parametrize("seed", range(3))
def test_the_outputs_of_a_layer_are_placed_as_well_as_they_can_be(seed: int) -> None:
    """With a worker for each unit Munkres minimises the objective itself, not only a bound."""
    problem = Problem.build(dense((4, 4), seed), UNLIKE, Penalty(traffic=1.0))
    inputs, best = np.arange(4), []
    for outputs in all_places((1, 1, 1, 1)):
        places = [inputs, outputs]
        best.append(problem.objective(places, problem.prune(places)))
    layer, there = problem.layers[0], np.arange(4)
    cost = layer.as_outputs(np.zeros((4, 4), dtype=bool), inputs, there, shared=False)
    places = [inputs, assign(cost, np.ones(4, dtype=np.int64))]
    assert problem.objective(places, problem.prune(places)) == pytest.approx(min(best))


def test_alternation_ends_near_the_best_there_is() -> None:
    """All places of a small layer; what is found from the best of two starts."""
    gaps = []
    for seed in range(6):
        network, workers, penalty = (
            dense((6, 6), seed),
            Workers.build_equal(2),
            Penalty(traffic=1.0),
        )
        problem = Problem.build(network, workers, penalty)
        every = itertools.product(all_places((3, 3)), repeat=2)
        best = min(problem.objective(places, problem.prune(places)) for places in every)
        found = restructure(network, workers, penalty).placement.objectives[-1]
        assert found >= best - 1e-12
        gaps.append(found / best - 1)
    assert np.mean(gaps) < 0.03


@pytest.mark.parametrize("workers", [Workers.build_equal(3), Workers((1, 2, 3), 2 - 2 * np.eye(3))])
def test_the_objective_never_rises(workers: Workers) -> None:
    for seed in range(4):
        penalty = Penalty(weights=0.2 * seed, traffic=0.5 + seed)
        problem = Problem.build(dense((17, 24, 12, 9), seed), workers, penalty)
        start = [contiguous(workers.slots(n)) for n in problem.units]
        placement = alternate(problem, start)
        assert len(placement.objectives) > 1
        assert (np.diff(placement.objectives) < 0).all()
        exact = problem.objective(placement.places, placement.masks)
        assert placement.objectives[-1] == pytest.approx(exact)
        for units, places in zip(problem.units, placement.places, strict=True):
            counts = np.bincount(places, minlength=3)
            assert counts.tolist() == workers.slots(units).tolist()


@pytest.mark.parametrize(("sizes", "k"), [((64, 64, 64), 4), ((96, 64, 32), 8)])
def test_blocks_that_were_shuffled_are_found_again(sizes: tuple[int, ...], k: int) -> None:
    rng = np.random.default_rng(k)
    workers = Workers.build_equal(k)
    at = [rng.permutation(contiguous(workers.slots(n))) for n in sizes]
    network = chain(
        [
            rng.standard_normal((n, m)) * (there[:, None] == here)
            + 0.05 * rng.standard_normal((n, m))
            for (m, here), (n, there) in itertools.pairwise(zip(sizes, at, strict=True))
        ]
    )
    naive = restructure(network, workers, Penalty(), method="naive")
    direct = restructure(network, workers, Penalty(traffic=1.0), method="direct")
    found = restructure(network, workers, Penalty(traffic=1.0))
    assert naive.traffic == sum(sizes[:-1]) * (k - 1)
    assert direct.traffic > 0.3 * naive.traffic
    assert found.traffic <= 0.01 * naive.traffic


def images(seed: int = 0) -> TrainedNetwork:
    """Two convolutions and a dense layer."""
    rng = np.random.default_rng(seed)
    return TrainedNetwork(
        (
            TrainedLayer("conv1", rng.standard_normal((6, 2, 3, 3)), np.ones(6), "relu", 1, 1, 2),
            TrainedLayer("conv2", rng.standard_normal((8, 6, 3, 3)), np.zeros(8), "relu", 2),
            TrainedLayer("dense", rng.standard_normal((5, 8)), np.zeros(5)),
        ),
        (2, 7, 7),
    )


def test_a_convolution_is_the_sum_over_its_windows() -> None:
    network, image = images(), np.random.default_rng(1).standard_normal((1, 2, 7, 7))
    assert network.shapes == ((2, 7, 7), (6, 3, 3), (8, 1, 1), (5,))
    padded = np.pad(image[0], ((0, 0), (1, 1), (1, 1)))
    first = network.layers[0]
    out = np.zeros((6, 7, 7))
    for c, y, x in np.ndindex(6, 7, 7):
        out[c, y, x] = (first.weight[c] * padded[:, y : y + 3, x : x + 3]).sum() + 1
    pooled = np.maximum(out[:, :6, :6], 0).reshape(6, 3, 2, 3, 2).max(axis=(2, 4))
    hidden = np.maximum((network.layers[1].weight * pooled).sum(axis=(1, 2, 3)), 0)
    assert network.run(image)[0] == pytest.approx(network.layers[2].weight @ hidden)


def test_channels_go_as_whole_images() -> None:
    """What is sent is counted in pixels, and what is computed in windows."""
    naive = restructure(images(), Workers.build_equal(2), Penalty(), method="naive")
    assert [int(naive.sent(n).sum()) for n in range(3)] == [2 * 49, 6 * 9, 8]
    assert naive.operations == 2 * (6 * 2 * 9 * 49 + 8 * 6 * 9 * 1 + 5 * 8)


def test_samples_show_which_inputs_matter_and_mend_what_is_kept() -> None:
    rng = np.random.default_rng(5)
    samples = rng.standard_normal((400, 12)) * np.repeat([1.0, 0.1], 6)
    network, workers, penalty = dense((12, 16, 4)), Workers.build_equal(2), Penalty(traffic=1.0)

    def error(network: TrainedNetwork) -> float:
        return float(((network.run(samples) - trained) ** 2).mean())

    trained = network.run(samples)
    blind = restructure(network, workers, penalty)
    seeing = restructure(network, workers, penalty, calibration=samples)
    assert error(seeing.network) < 0.5 * error(blind.network)
    for layer, mask in zip(seeing.network.layers, seeing.placement.masks, strict=True):
        assert not layer.weight[~mask].any()


@pytest.mark.parametrize("method", METHODS)
def test_both_kernels_serve_what_a_method_makes(method: str) -> None:
    topology = Topology.build("Switch(4)", bandwidth=[4e9], latency=[1000])
    cluster = Cluster(topology, Npu(flops=1e12, memory_bandwidth=1e11))
    workers = workers_on(topology, (1.0, 1.0, 2.0, 2.0))
    made = restructure(dense((24, 36, 12)), workers, Penalty(traffic=1.5), method=method)
    workload = inference(made, topology.sizes, batch=8, value=4.0)
    by_phase, by_message = (
        simulate(workload, cluster, fidelity=fidelity) for fidelity in ("phase", "message")
    )
    # Messages that meet at one worker's link are seen by the message kernel alone.
    assert by_phase.time <= by_message.time * 1.001 < 1.6 * by_phase.time
    if method == "naive":
        assert by_phase.time == pytest.approx(by_message.time, rel=0.1)
    fewer = restructure(dense((24, 36, 12)), workers, Penalty(traffic=9.0), method=method)
    if method not in ("naive", "magnitude"):
        assert simulate(inference(fewer, topology.sizes, batch=8), cluster).time < by_phase.time


def test_a_byte_costs_what_the_narrowest_link_on_its_way_does() -> None:
    topology = Topology.build("Ring(2)_Switch(2)", bandwidth=[4e9, 1e9], latency=[1000, 5000])
    cost = workers_on(topology).link_cost
    assert cost[0].tolist() == pytest.approx([0, 1 / 4e9, 1e-9, 1e-9])
    assert (cost == cost.T).all()


def test_a_faster_worker_holds_more() -> None:
    assert Workers((1.0, 1.0, 2.0), np.zeros((3, 3))).slots(10).tolist() == [3, 2, 5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Workers((0.0,), np.zeros((1, 1))), "speed: every worker"),
        (lambda: Workers((1.0, 1.0), np.ones((2, 2))), "link_cost: "),
        (lambda: Penalty(traffic=-1.0), "traffic: -1.0"),
        (
            lambda: restructure(dense((3, 2)), Workers.build_equal(5), Penalty()),
            "use at most 3 workers",
        ),
        (
            lambda: restructure(dense((3, 2)), Workers.build_equal(2), Penalty(), method="dircet"),
            "did you mean 'direct'",
        ),
        (
            lambda: restructure(
                dense((3, 2)), Workers.build_equal(2), Penalty(), calibration=np.ones((5, 4))
            ),
            r"samples of shape \(4,\); it must be \(3,\)",
        ),
        (
            lambda: chain([np.ones((2, 3)), np.ones((2, 3))]),
            "layer1: inputs of 2 values; it needs 3",
        ),
        (lambda: chain([np.full((2, 3), np.nan)]), "layer0: weights and biases must be finite"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(DimsweepError, match=message):
        make()  # type: ignore[operator]
