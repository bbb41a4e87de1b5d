"""The self-checks of workload models, remote memories and orders of dimensions."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from dimsweep.engine import Program, lower, simulate
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.cluster.remote_memory import MEMORIES, RemoteMemory, Request
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.kinds import CollectiveKind, DimensionOrder, Fidelity
from dimsweep.engine.testing.agreement import faults_of_copies, raise_findings
from dimsweep.engine.testing.transport import other_values
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import Access, Collective, Kernel, Workload
from dimsweep.engine.workload.models import Model, RankModel, Shard
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training

# --- models ---------------------------------------------------------------------------------------


_NPU = Npu(flops=1e14, memory_bandwidth=1e12)
_RING = Topology.build("Ring(4)", bandwidth=[1e11], latency=[500_000])
_ROUNDING = 1e-4  # of the time
_FIDELITIES = (Fidelity.PHASE, Fidelity.MESSAGE, Fidelity.FLOW)  # packets would take minutes


def check_model(model: Model) -> None:
    """Check that a model fulfils the assumptions of plans.

    A copy equals it; it has parameters, layers, and kernels in their forward and backward passes;
    twice the samples are no less work, no fewer bytes kept, and the same parameters; and an
    iteration of four data-parallel ranks takes as long by phases as by messages and by flows.

    Raises :class:`DimsweepError` naming the first violation, and for a shard that it refuses.
    """
    raise_findings(_findings_of_model(model), f"model {type(model).__name__}")


def _findings_of_model(model: Model) -> Iterator[str]:
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
    times = {fidelity: _time_of_model(model, fidelity) for fidelity in _FIDELITIES}
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


def _time_of_model(model: Model, fidelity: Fidelity) -> int:
    mesh = DeviceMesh.place({"data": "rest"}, _RING.sizes, (True,))
    workload = training(model, ParallelPlan(8), mesh)
    cluster = Cluster(_RING, _NPU, CollectiveModel(chunks=1))
    return simulate(workload, cluster, fidelity=fidelity).time_ps


# --- memories -------------------------------------------------------------------------------------


_RATE = 1e9  # bytes/s
_ACCESSES = (1.0, 1e6, 3e6, 1e9)  # bytes of an access
_NPUS = 8


def check_memory(name: str) -> None:
    """Check that a registered memory fulfils the requirements of all memories.

    A copy equals it; more bytes take no less time, nor does an access of more NPUs at once; a load
    and a store take as long by phases as by messages, flows and packets; and for each key some
    other value changes the time of some access.

    Raises :class:`DimsweepError` naming the first violation.
    """
    raise_findings(_findings_of_memory(MEMORIES[name]), f"memory {name}")


def _findings_of_memory(kind: type[RemoteMemory]) -> Iterator[str]:
    try:
        memory = kind(_RATE)
    except TypeError as error:
        yield f"a bandwidth alone does not make one: {error}"
        return
    yield from faults_of_copies(memory)
    for store in (False, True):
        word = "store" if store else "load"
        times = [memory.access_time(Request(size, store=store)) for size in _ACCESSES]
        if times != sorted(times) or times[0] < 0:
            yield f"a {word} of more bytes takes less time"
        alone, shared = (memory.access_time(Request(1e6, n, 1, store=store)) for n in (1, _NPUS))
        if shared < alone:
            yield f"a {word} of {_NPUS} NPUs at once takes less time than one alone"
        by = {str(each): _time_of_access(memory, store, each) for each in Fidelity}
        if len(set(by.values())) > 1:
            yield f"a {word} takes " + ", ".join(f"{t} ps by {each}s" for each, t in by.items())
    inherited = {each.name for each in dataclasses.fields(RemoteMemory)}
    for field in dataclasses.fields(kind):
        if field.name not in inherited and not _matters(memory, field.name):
            yield f"its key {field.name!r} changes nothing"


def _time_of_access(memory: RemoteMemory, store: bool, fidelity: Fidelity) -> int:
    topology = Topology.build(f"Ring({_NPUS})", bandwidth=[_RATE], latency=[0])
    workload = Workload.of_one(Access(1e6, store), Group((_NPUS,), (1,)))
    return simulate(workload, Cluster(topology, memory=memory), fidelity=fidelity).time_ps


def _matters(memory: RemoteMemory, key: str) -> bool:
    """Return whether another value of field ``key`` changes some access's time, or the nodes."""
    if getattr(memory, key) is None:
        return True  # a key without a value may have any meaning
    for value in other_values(getattr(memory, key)):
        try:
            other = dataclasses.replace(memory, **{key: value})
            if _answers(other) != _answers(memory):
                return True
        except DimsweepError:
            continue  # not every number is a value
    return False


def _answers(memory: RemoteMemory) -> list[object]:
    requests = [
        Request(1e6, _NPUS, nodes, members, member_nodes, copies, store)
        for nodes in (1, 4)
        for members, member_nodes, copies in ((1, 1, 1), (4, 2, 1), (1, 1, 4))
        for store in (False, True)
    ]
    sizes = (2, 4)
    return [
        *map(memory.service, requests),
        memory.node_shape(sizes),
        memory.capacity_per_npu(_NPUS),
    ]


# --- orders ---------------------------------------------------------------------------------------


_SHAPE = "Switch(4)_FullyConnected(2)_Ring(4)"
_SIZES = (4, 2, 4)
_BANDWIDTHS = ((1e11, 1e11, 1e11), (4e11, 1e11, 2.5e10), (1e10, 5e10, 2e11))  # bytes/s
_KINDS = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
_CHUNKS = 8
_N_BYTES = 1.6e7
_ROUNDING_OF_PHASES = 1e-4  # of the time


def check_order(name: str) -> None:
    """Check a registered order of dimensions against the requirements of all orders.

    Over three dimensions, at three splits of bandwidth, for each kind of collective that has an
    order: each chunk visits each dimension once, an all-reduce returns on the reverse path, and the
    collective takes as long by phases as by messages.

    Raises :class:`DimsweepError` with the violations.
    """
    named: Any = name  # a member, as its number is
    raise_findings(_findings_of_order(DimensionOrder(named)), f"order {name}")


def _findings_of_order(order: DimensionOrder) -> Iterator[str]:
    for bandwidth in _BANDWIDTHS:
        for kind in _KINDS:
            where = f"{kind} at {'/'.join(f'{each / 1e9:g}' for each in bandwidth)} GB/s"
            workload, cluster = _case(kind, bandwidth, order)
            wrong = list(_strange(lower(workload, cluster), kind))
            yield from (f"{where}: {each}" for each in wrong[:1])
            if wrong:
                continue  # messages would wait for ever
            by_phase, by_message = (
                simulate(workload, cluster, fidelity=each).time_ps
                for each in (Fidelity.PHASE, Fidelity.MESSAGE)
            )
            if abs(by_message - by_phase) > _ROUNDING_OF_PHASES * by_phase:
                yield f"{where}: {by_phase} ps by phases, {by_message} ps by messages"


def _case(
    kind: CollectiveKind, bandwidth: tuple[float, ...], order: DimensionOrder
) -> tuple[Workload, Cluster]:
    topology = Topology.build(_SHAPE, bandwidth=[*bandwidth], latency=[0] * len(_SIZES))
    n_bytes = _N_BYTES / np.prod(_SIZES) if kind is CollectiveKind.ALL_GATHER else _N_BYTES
    whole = Group(_SIZES, (1,) * len(_SIZES))
    workload = Workload.of_one(Collective(kind, float(n_bytes), "all"), whole)
    return workload, Cluster(topology, collectives=CollectiveModel(chunks=_CHUNKS, order=order))


def _strange(program: Program, kind: CollectiveKind) -> Iterator[str]:
    times = times_of(program)
    (span,) = times.spans
    for chunk in range(span["variants"]):
        start = span["start"] + chunk * span["length"]
        ways = times.phases["dim"][start : start + span["length"]]
        way = [int(dim) for dim in ways if dim >= 0]
        fused = 1 if kind is CollectiveKind.ALL_REDUCE and len(way) < len(ways) else 0
        there = way[: len(_SIZES)]
        if sorted(there) != list(range(len(_SIZES))):
            yield f"chunk {chunk} visits the dimensions {there}"
        elif kind is CollectiveKind.ALL_REDUCE and way[len(_SIZES) :] != there[::-1][fused:]:
            yield f"chunk {chunk} comes back over {way[len(_SIZES) :]}"
