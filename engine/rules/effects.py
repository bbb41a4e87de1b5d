"""Checks for settings that cannot affect the time, and for collectives without measurements."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.engine import units
from dimsweep.engine.account.breakdown import merits
from dimsweep.engine.bound.event import demand_of
from dimsweep.engine.collective.library import request_for
from dimsweep.engine.collective.library.measured import rows_for
from dimsweep.engine.kernels.phase.batch import run_batch
from dimsweep.engine.kinds import CollectiveKind, Fidelity, QueueOrder
from dimsweep.engine.lower.program import Program
from dimsweep.engine.workload.graph import Collective, Compute

# --- no effect ------------------------------------------------------------------------------------


def list_silent_dimensions(program: Program) -> list[int]:
    """Return the numbers of the dimensions that the program sends no bytes over."""
    return np.flatnonzero(demand_of(program).sum(axis=0) == 0).tolist()


def crosses_dimensions(program: Program) -> bool:
    """Return whether any collective has chunks that visit several dimensions one after another."""
    forms = program.structure.forms
    collective = forms["kind"] <= CollectiveKind.ALL_TO_ALL
    return bool((forms["use_end"] - forms["use_start"] > 1)[collective].any())


def maximum_lone_chunks(program: Program) -> int:
    """Return the maximum number of chunks of a collective that uses one dimension only, or 0."""
    forms = program.structure.forms
    dims = forms["use_end"] - forms["use_start"]
    lone = (forms["kind"] <= CollectiveKind.ALL_TO_ALL) & (dims == 1)
    return int(forms["chunks"][lone].max(initial=0))


def is_measured(program: Program) -> bool:
    """Return whether all computations have given durations, so NPU rates have no effect."""
    return all(
        work.duration is not None for work in program.workload.works() if isinstance(work, Compute)
    )


def queue_matters(program: Program) -> bool:
    """Return whether first-in-first-out port queues would change the program's simulated time.

    Simulates the program twice, at its own bandwidth.
    """
    s = program.structure
    # A plain number, as lower writes it: for a member the whole kernel would be compiled anew.
    fifo = s._replace(shape=s.shape._replace(queue=int(QueueOrder.FIFO)))
    times = [
        run_batch(dataclasses.replace(program, structure=other), program.bandwidth).time[0]
        for other in (s, fifo)
    ]
    return bool(times[0] != times[1])


# --- beyond measurements --------------------------------------------------------------------------


_Ranks = tuple[CollectiveKind, int, int]  # collective, number of ranks, number of nodes


def describe_unmeasured(program: Program) -> list[str]:
    """Return a sentence about each collective that the cluster's measurements do not cover.

    Such a collective was not measured at all, or only in larger or smaller sizes.
    """
    timings = program.cluster.collectives.timings
    if timings is None:
        return []
    found = [f"{timings.source}: left out {timings.left_out}"] if timings.left_out else []
    for key, sizes in _sizes(program).items():
        kind, ranks, nodes = key
        what = f"{kind} among {ranks} GPUs on {nodes} nodes"
        rows = rows_for(timings, *key)
        if not rows:
            found.append(f"{timings.source} has no {what}: NCCL's model gives its time")
            continue
        least, most = rows[0].n_bytes, rows[-1].n_bytes
        if min(sizes) < least:
            found.append(
                f"{timings.source} has {what} from {units.format_bytes(least)} up: smaller ones "
                "take as long as that"
            )
        if max(sizes) > most:
            found.append(
                f"{timings.source} has {what} up to {units.format_bytes(most)}: larger ones go at "
                "the rate of that"
            )
    return found


def _sizes(program: Program) -> dict[_Ranks, set[float]]:
    sizes: dict[_Ranks, set[float]] = {}
    for work in _collectives(program):
        group = program.workload.groups[work.group]
        if group.n_members > 1:
            asked = request_for(work.kind, work.n_bytes, group, program.cluster)
            key = asked.kind, asked.ranks, asked.nodes
            sizes.setdefault(key, set()).add(asked.n_bytes)
    return sizes


def _collectives(program: Program) -> Iterator[Collective]:
    """Return the program's distinct collectives, in the order in which they first occur."""
    works = program.workload.works()
    return iter(dict.fromkeys(work for work in works if isinstance(work, Collective)))


# --- equal programs -------------------------------------------------------------------------------


if TYPE_CHECKING:
    from dimsweep.engine.kernels.network import MessageRunner

_TIMES = np.array([1_000_000, 7_000_000])  # ps; figures of merit are compared at both


class KernelInputs:
    """All inputs of the simulation of one program and of its reports, to compare two programs.

    Expensive inputs are computed once for all comparisons.
    """

    def __init__(self, program: Program, fidelity: Fidelity = Fidelity.PHASE) -> None:
        self.program, self._fidelity = program, fidelity

    def parts(self, *, priced: bool) -> Iterator[Any]:
        """Yield the inputs, cheap ones first; with ``priced``, also prices and derived figures."""
        program = self.program
        workload, cluster = program.workload, program.cluster
        yield program.structure
        yield program.bandwidth, program.latency, program.names.class_count, program.names.tally
        yield (
            workload.footprint,
            [npu.usable_memory for npu in cluster.npus.kinds if workload.footprint],
        )
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


def has_equal_inputs(one: KernelInputs, other: KernelInputs, *, priced: bool = True) -> bool:
    """Return whether two programs certainly have equal results.

    They have if all inputs of the kernel are equal, bit by bit, as are prices, watts and the work
    of an iteration.  Without ``priced``, only inputs of the simulation count, and figures from
    prices and watts may differ.  If the answer is False, the results may still be equal.
    """
    if one.program.witness is not None or other.program.witness is not None:
        return False  # it looks at traces of its own
    parts = zip(one.parts(priced=priced), other.parts(priced=priced), strict=False)
    return all(_is_equal(ours, theirs) for ours, theirs in parts)


def _is_equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and bool((one == other).all())
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(_is_equal(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)
