"""Figures of merit: what a time means for those who train, pay and supply the power."""

import numpy as np

from dimsweep.engine.errors import at
from dimsweep.engine.lower.program import Floats, Longs, Program
from dimsweep.engine.reliability import Renewal
from dimsweep.engine.units import PICOSECONDS

_WATTS = "watts: cost.power.npu, and cost.power.tiers for all tiers of the topology, or cost.parts"
_FAILURES = "how often training is interrupted (reliability)"
# What each figure needs to be known.
MERIT_NEEDS = {
    "memory_bytes": "a model, of which it is known what an NPU holds (workload.model)",
    "memory_reserved_bytes": "a training plan on a GPU whose kernels were measured (npu.kernels)",
    "samples_per_s": "a model with a batch (workload.model)",
    "tokens_per_s": "a transformer with a batch (workload.model)",
    "mfu": "a model with a batch (workload.model) and npu.flops",
    "accuracy": "a trained network and samples with labels (workload.model, workload.samples)",
    "power_w": _WATTS,
    "energy_j": _WATTS,
    "perf_per_watt": _WATTS,
    "ettr": _FAILURES,
    "effective_time_s": _FAILURES,
    "usd_per_token": "a transformer with a batch, prices, and cost.lifetime",
}


def known_merits(program: Program) -> list[str]:
    """The figures that can be told of a program's points."""
    return list(merits(program, program.bandwidth[None], np.ones(1, dtype=np.int64)))


def merits(
    program: Program, bandwidth: Floats, time: Longs, speed: float = 1.0
) -> dict[str, Floats]:
    """The figures that are known, (P,) each, of points with ``bandwidth`` (P, D) in bytes/s and
    ``time`` (P,) in ps.

    ``memory_bytes`` is what the fullest NPU must hold, in its own memory and beside it, and
    ``memory_reserved_bytes`` what PyTorch's cache may reserve for that in training.  ``mfu`` is
    model FLOPs utilisation: the time of the model's operations on all NPUs at their peaks, each in
    its own precision, over this time.  ``accuracy`` is the trained network's, whatever the cluster.
    ``power_w`` is drawn all the time, so ``energy_j`` of an iteration is its product with the time,
    and ``perf_per_watt`` (iterations/s per W) the inverse of that.
    ``ettr``, the effective training time ratio, is the share of the time that interruptions and
    checkpoints leave to an iteration, and ``effective_time_s`` what it takes with its part of them,
    at the share ``speed`` of its own that outages of devices leave in the mean.
    ``usd_per_token`` is the cost spread over the lifetime, and the energy, over the tokens of it:
    those that are kept, where it is known how often training is interrupted, and spare nodes cost
    what others do.
    """
    seconds, cluster, found = time / PICOSECONDS, program.cluster, dict[str, Floats]()
    amount, prices = program.workload.amount, program.prices
    watts = None if cluster.power is None else cluster.power.cost(bandwidth)
    if (footprint := program.workload.footprint) is not None:
        found["memory_bytes"] = np.full(len(seconds), float(footprint.total))
        if footprint.gradients and cluster.npu.kernels:  # others need not run PyTorch
            found["memory_reserved_bytes"] = np.full(len(seconds), float(footprint.reserved))
    if amount is not None:
        found["samples_per_s"] = amount.samples / seconds
        if amount.tokens:
            found["tokens_per_s"] = amount.tokens / seconds
        if amount.flops and (peak := cluster.npus.peak(amount.flops, amount.narrow)):
            found["mfu"] = amount.flops / (seconds * program.n_npus * peak)
        if amount.accuracy is not None:
            found["accuracy"] = np.full(len(seconds), amount.accuracy)
    if watts is not None:
        found["power_w"] = watts
        found["energy_j"] = watts * seconds
        found["perf_per_watt"] = 1 / found["energy_j"]
    left: Floats | float = 1.0
    if (renewal := renewal_of(program, seconds)) is not None:
        found["ettr"] = np.full(len(seconds), renewal.kept)
        left = found["ettr"] * speed
        found["effective_time_s"] = seconds / left
    if prices is not None and prices.lifetime and "tokens_per_s" in found:
        spent = _price_of_spares(program) * prices.cost(bandwidth) / prices.lifetime
        if watts is not None:
            spent = spent + watts * prices.energy
        found["usd_per_token"] = spent / (found["tokens_per_s"] * left)
    return found


def _price_of_spares(program: Program) -> float:
    """How many times as much is paid as for the NPUs that are billed, with spare nodes."""
    if (reliability := program.cluster.reliability) is None:
        return 1.0
    graph = program.cluster.network.graph
    billed = program.n_npus if graph is None else graph.n_npus
    return reliability.price(program.n_npus, billed)


def renewal_of(program: Program, seconds: Floats | float) -> Renewal | None:
    """What interruptions and checkpoints make of the time of a job whose iterations take so many
    ``seconds``, (P,) or one; None where it is not known how often it is interrupted.

    Raises :class:`DimsweepError` as :meth:`Reliability.renewal` does.
    """
    if (reliability := program.cluster.reliability) is None:
        return None
    with at("reliability"):
        return reliability.renewal(program.n_npus, program.workload.state, seconds)
