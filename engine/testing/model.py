"""The self-check of a family of models."""

from collections.abc import Iterator

from dimsweep.engine import simulate
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.testing.findings import faults_of_copies, told
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models import Model, RankModel, Shard
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training

_NPU = Npu(flops=1e14, memory_bandwidth=1e12)
_RING = Topology.build("Ring(4)", bandwidth=[1e11], latency=[500_000])
_ROUNDING = 1e-4  # of the time
_FIDELITIES = (Fidelity.PHASE, Fidelity.MESSAGE, Fidelity.FLOW)  # packets would take minutes


def check_model(model: Model) -> None:
    """Hold a model against what plans take for granted.

    A copy equals it; it has parameters, layers, and kernels in their forward and backward passes;
    twice as many samples are no less work, no fewer bytes kept, and the same parameters; and an
    iteration of four data-parallel ranks takes as long by phases as by messages and by flows.

    Raises :class:`DimsweepError` that says what does not hold, and for a shard that it refuses.
    """
    told(_findings(model), f"model {type(model).__name__}")


def _findings(model: Model) -> Iterator[str]:
    yield from faults_of_copies(model)
    one, two = model.for_rank(Shard(batch=1)), model.for_rank(Shard(batch=2))
    if not one.parameters > 0:
        yield "it has no parameters"
    if one.parameters != two.parameters:
        yield "how many parameters it has depends on the batch"
    if not one.layers:
        yield "it has no layers"
        return
    for layer in one.layers:
        for name, steps in (("forward", layer.forward), ("backward", layer.backward)):
            if not any(isinstance(step, Kernel) for step in steps):
                yield f"layer {layer.name} computes nothing in its {name} pass"
    for what, (few, many) in _amounts(one, two).items():
        if many < few:
            yield f"two samples have less {what} than one"
    times = {fidelity: _time(model, fidelity) for fidelity in _FIDELITIES}
    by_phase = times[Fidelity.PHASE]
    if any(abs(time - by_phase) > _ROUNDING * by_phase for time in times.values()):
        yield "an iteration takes " + ", ".join(
            f"{t / 1e9:.6g} ms by {f}s" for f, t in times.items()
        )


def _amounts(*models: RankModel) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"work": [], "kept": [], "output": []}
    for model in models:
        kernels = [s for b in model.layers for s in b.forward + b.backward if isinstance(s, Kernel)]
        found["work"].append(sum(kernel.flops for kernel in kernels))
        found["kept"].append(sum(block.activations for block in model.layers))
        found["output"].append(sum(block.output for block in model.layers))
    return found


def _time(model: Model, fidelity: Fidelity) -> int:
    mesh = DeviceMesh.place({"data": "rest"}, _RING.sizes, (True,))
    workload = training(model, ParallelPlan(8), mesh)
    cluster = Cluster(_RING, _NPU, CollectiveModel(chunks=1))
    return simulate(workload, cluster, fidelity=fidelity).time_ps
