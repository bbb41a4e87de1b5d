"""Whether two programs are the same to whoever simulates them, and to whoever tells of it."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.engine.account.merit import merits
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.lower.program import Program

if TYPE_CHECKING:
    from dimsweep.engine.kernels.network import MessageRunner

_TIMES = np.array([1_000_000, 7_000_000])  # ps; figures of merit are compared at both


class Told:
    """All that a kernel is told of a program, and whoever tells of its runs: what takes long to
    find is found once, however many others it is compared with."""

    def __init__(self, program: Program, fidelity: Fidelity = Fidelity.PHASE) -> None:
        self.program, self._fidelity = program, fidelity

    def parts(self, *, priced: bool) -> Iterator[Any]:
        """What is had at once comes first; prices and what they enter only where ``priced``."""
        program = self.program
        workload, cluster = program.workload, program.cluster
        yield program.structure
        yield program.bandwidth, program.latency, program.names.class_count, program.names.tally
        yield workload.footprint, [npu.room for npu in cluster.npus.kinds if workload.footprint]
        if priced:
            points = program.bandwidth * np.array([[1.0], [3.0]])
            yield program.prices and program.prices.cost(points)
            yield merits(program, points, _TIMES)
        if self._fidelity is not Fidelity.PHASE:
            yield from self._runner.inputs()

    @cached_property
    def _runner(self) -> "MessageRunner":
        from dimsweep.engine.kernels.network import MessageRunner  # which few need

        return MessageRunner(self.program, self._fidelity)


def alike(one: Told, other: Told, *, priced: bool = True) -> bool:
    """Whether no figure of a run of ``one`` can differ from that of ``other``, since all that its
    kernel is told is equal, bit by bit, and so are prices, watts and what an iteration gets done.
    Not ``priced``, it is told of the run alone: figures that prices and watts enter may differ.

    True is certain.  False is not: what differs need not matter to the time.
    """
    if one.program.witness is not None or other.program.witness is not None:
        return False  # it looks at traces of its own
    parts = zip(one.parts(priced=priced), other.parts(priced=priced), strict=False)
    return all(_same(ours, theirs) for ours, theirs in parts)


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
