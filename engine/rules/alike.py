"""Whether two programs are the same to whoever simulates them, and to whoever tells of it."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from engine.account.merit import merits
from engine.fidelity import Fidelity
from engine.lower.program import Program

_TIMES = np.array([1_000_000, 7_000_000])  # ps; figures of merit are compared at both


def alike(
    one: Program, other: Program, fidelity: Fidelity = Fidelity.PHASE, *, priced: bool = True
) -> bool:
    """Whether no figure of a run of ``one`` can differ from that of ``other``, since all that its
    kernel is told is equal, bit by bit, and so are prices, watts and what an iteration gets done.
    Not ``priced``, it is told of the run alone: figures that prices and watts enter may differ.

    True is certain.  False is not: what differs need not matter to the time.
    """
    if one.witness is not None or other.witness is not None:
        return False  # it looks at traces of its own
    parts = zip(_parts(one, fidelity, priced), _parts(other, fidelity, priced), strict=False)
    return all(_same(ours, theirs) for ours, theirs in parts)


def _parts(program: Program, fidelity: Fidelity, priced: bool) -> Iterator[Any]:
    """All that a run and its account depend on, what is had at once first."""
    workload, cluster = program.workload, program.cluster
    yield program.structure
    yield program.bandwidth, program.latency, program.names.class_count, program.names.tally
    yield workload.footprint, cluster.npu.memory if workload.footprint else None
    if priced:
        points = program.bandwidth * np.array([[1.0], [3.0]])
        yield program.prices and program.prices.cost(points)
        yield merits(program, points, _TIMES)
    if fidelity is not Fidelity.PHASE:
        yield from _links(program, fidelity)


def _links(program: Program, fidelity: Fidelity) -> Iterator[Any]:
    """What a kernel of links is told beside."""
    from engine.kernels.messages import network_of  # which few need
    from engine.kernels.network import told

    network = network_of(program)
    yield network.links
    yield from told(program, network, fidelity)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and bool((one == other).all())
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(_same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)
