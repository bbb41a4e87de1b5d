"""The self-check of a memory."""

import dataclasses
from collections.abc import Iterator

from dimsweep.engine import simulate
from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.memory import MEMORIES, RemoteMemory, Request
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.testing.findings import faults_of_copies, told
from dimsweep.engine.testing.transport import others
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import Access, Group, Workload

_RATE = 1e9  # bytes/s
_SIZES = (1.0, 1e6, 3e6, 1e9)  # bytes of an access
_NPUS = 8


def check_memory(name: str) -> None:
    """Hold a registered memory against what all of them must be able to.

    A copy equals it; more bytes take no less time, nor do as many for more NPUs at once; a load and
    a store take as long by phases as by messages, flows and packets; and some other value of each
    key that is its own makes some access take another time.

    Raises :class:`DimsweepError` that says what does not hold.
    """
    told(_findings(MEMORIES[name]), f"memory {name}")


def _findings(kind: type[RemoteMemory]) -> Iterator[str]:
    try:
        memory = kind(_RATE)
    except TypeError as error:
        yield f"a bandwidth alone does not make one: {error}"
        return
    yield from faults_of_copies(memory)
    for store in (False, True):
        word = "store" if store else "load"
        times = [memory.access(Request(size, store=store)) for size in _SIZES]
        if times != sorted(times) or times[0] < 0:
            yield f"a {word} of more bytes takes less time"
        alone, shared = (memory.access(Request(1e6, n, 1, store=store)) for n in (1, _NPUS))
        if shared < alone:
            yield f"a {word} of {_NPUS} NPUs at once takes less time than one alone"
        by = {str(each): _time(memory, store, each) for each in Fidelity}
        if len(set(by.values())) > 1:
            yield f"a {word} takes " + ", ".join(f"{t} ps by {each}s" for each, t in by.items())
    inherited = {each.name for each in dataclasses.fields(RemoteMemory)}
    for field in dataclasses.fields(kind):
        if field.name not in inherited and not _matters(memory, field.name):
            yield f"its key {field.name!r} changes nothing"


def _time(memory: RemoteMemory, store: bool, fidelity: Fidelity) -> int:
    topology = Topology.build(f"Ring({_NPUS})", bandwidth=[_RATE], latency=[0])
    workload = Workload.of_one(Access(1e6, store), Group((_NPUS,), (1,)))
    return simulate(workload, Cluster(topology, memory=memory), fidelity=fidelity).time_ps


def _matters(memory: RemoteMemory, key: str) -> bool:
    """Whether some other value of a key makes some access take another time, or fills nodes."""
    if getattr(memory, key) is None:
        return True  # what is left out may have any meaning
    for value in others(getattr(memory, key)):
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
    return [*map(memory.service, requests), memory.node(sizes), memory.held_for_each(_NPUS)]
