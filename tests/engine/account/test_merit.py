"""Figures of merit: what a time means for those who train, pay and supply the power."""

from dataclasses import replace

import pytest

from dimsweep.engine import (
    Cluster,
    Compute,
    GraphBuilder,
    Npu,
    Prices,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.workload.graph import Amount
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.models.model import Task

TOPOLOGY = Topology.build("Ring(4)", bandwidth=[2e9], latency=[0])


def one_second() -> Workload:
    graph = GraphBuilder()
    graph.add("step", Compute(duration=10**12))
    return Workload((graph.build(),), amount=Amount(samples=8, tokens=800, flops=2e12))


def test_what_a_transformer_gets_done() -> None:
    """Products of all tokens, scores of all pairs, logits; a backward pass is twice that, and what
    is cut among ranks or computed again counts once."""
    model = Transformer(hidden=64, layers=2, heads=4, sequence=32, vocabulary=100)
    tokens, h = 32, 64
    forward = 2 * (24 * tokens * h**2 + 4 * tokens**2 * h) + 2 * tokens * h * 100
    done = model.amount(batch=8)
    assert done == Amount(8, 8 * tokens, 3 * 8 * forward)
    read = model.amount(8, Task.PREFILL).flops
    assert read == done.flops / 3 - 8 * 2 * (tokens - 1) * h * 100, "logits of the last token alone"
    assert model.amount(8, Task.DECODE).tokens == 8
    busy = replace(model, experts=4, top_k=2, imbalance=3.0)
    assert busy.amount(8) == replace(busy, imbalance=1.0).amount(8)


def test_figures_of_a_second() -> None:
    prices = Prices((1e-9,), fixed=990.0, lifetime=1e6, energy=1e-5)
    power = Prices((5e-9,), fixed=40.0)
    cluster = Cluster(TOPOLOGY, Npu(flops=1e12), prices=prices, power=power)
    assert simulate(one_second(), cluster).merits == pytest.approx(
        {
            "samples_per_s": 8,
            "tokens_per_s": 800,
            "mfu": 0.5,  # 2 TFLOP of the 4 that four NPUs could do
            "power_w": 50,  # 40 and 2 GB/s at 5 W each
            "energy_j": 50,
            "perf_per_watt": 1 / 50,
            "usd_per_token": (992 / 1e6 + 50 * 1e-5) / 800,
        }
    )


def test_what_is_not_known_is_left_out() -> None:
    assert simulate(replace(one_second(), amount=None), Cluster(TOPOLOGY)).merits == {}
    found = simulate(one_second(), Cluster(TOPOLOGY, prices=Prices((1e-9,)))).merits
    assert set(found) == {"samples_per_s", "tokens_per_s"}, "no peak, no watts, no lifetime"
