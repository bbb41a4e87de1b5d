"""Collectives whose times were measured on a cluster, such as by nccl-tests."""

from bisect import bisect_left
from functools import lru_cache
from math import log
from statistics import fmean

from dimsweep.engine.cluster.cluster import Timing, Timings
from dimsweep.engine.collective.request import Answer, Phases, Request
from dimsweep.engine.collective.steps import PhaseSteps, Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.units import PICOSECONDS


def is_measured(timings: Timings, request: Request) -> bool:
    """Return whether a collective of this kind, these ranks and nodes was measured in any size."""
    return bool(rows_for(timings, request.kind, request.ranks, request.nodes))


def measured_answer(timings: Timings, request: Request) -> Answer | None:
    """Return phases that take the measured time, or None without a measurement.

    The time above that at the highest measured rate is latency, paid once. The rest is transfer,
    shared among the dimensions in proportion to their needs at the measured bandwidths, from which
    other bandwidths scale it.
    """
    rows = rows_for(timings, request.kind, request.ranks, request.nodes)
    if not rows:
        return None
    fastest = min(row.duration / row.n_bytes for row in rows)  # ps a byte
    transfer = fastest * request.n_bytes
    latency = max(0, round(interpolated(rows, request.n_bytes) - transfer))
    scale = _transfer_time(request) / transfer if transfer else 1.0
    n = len(request.settings)
    phases = tuple(_dimension(request, i, scale, latency if i == n - 1 else 0) for i in range(n))
    return Answer(1, phases)


@lru_cache(maxsize=1024)
def rows_for(timings: Timings, kind: CollectiveKind, ranks: int, nodes: int) -> tuple[Timing, ...]:
    """Return the measured times of a kind of collective by size, with repetitions averaged."""
    durations: dict[int, list[int]] = {}
    for row in timings.timings:
        if (row.kind, row.ranks, row.nodes) == (kind, ranks, nodes):
            durations.setdefault(row.n_bytes, []).append(row.duration)
    return tuple(
        Timing(kind, ranks, nodes, n_bytes, round(fmean(measured)))
        for n_bytes, measured in sorted(durations.items())
    )


def interpolated(rows: tuple[Timing, ...], n_bytes: float) -> float:
    """Return the picoseconds of a collective of ``n_bytes``, interpolated between ``rows``.

    The interpolation is linear in the logarithms of size and time. Below all sizes it returns the
    first time, above all sizes the time at the last rate.
    """
    first, last = rows[0], rows[-1]
    if n_bytes <= first.n_bytes:
        return float(first.duration)
    if n_bytes >= last.n_bytes:
        return last.duration * (n_bytes / last.n_bytes)
    i = bisect_left([row.n_bytes for row in rows], n_bytes)
    below, above = rows[i - 1], rows[i]
    part = log(n_bytes / below.n_bytes) / log(above.n_bytes / below.n_bytes)
    return float(below.duration * (above.duration / below.duration) ** part)


def _dimension(request: Request, i: int, scale: float, latency: int) -> Phases:
    if request.kind is CollectiveKind.ALL_TO_ALL:
        return Phases(_phase(request, request.kind, i, scale, latency))
    last = i == len(request.settings) - 1
    fused = request.kind is CollectiveKind.ALL_REDUCE and last
    return Phases(
        _phase(request, CollectiveKind.REDUCE_SCATTER, i, scale, latency),
        _phase(request, CollectiveKind.ALL_GATHER, i, scale, latency),
        _phase(request, request.kind, i, scale, latency) if fused else None,
    )


def _phase(
    request: Request, kind: CollectiveKind, i: int, scale: float, latency: int
) -> PhaseSteps:
    p = request.settings[i].p
    n_bytes, growth = (p - 1) / p, 1.0
    if kind is CollectiveKind.ALL_REDUCE:
        n_bytes *= 2
    elif kind is CollectiveKind.REDUCE_SCATTER:
        growth = 1 / p
    elif kind is CollectiveKind.ALL_GATHER:
        n_bytes, growth = p - 1.0, float(p)
    return PhaseSteps((Step(1, 0, n_bytes, fixed=latency),), scale, growth, n_bytes)


def _transfer_time(request: Request) -> float:
    """Return the picoseconds that the request's transfers take at the measured bandwidths."""
    total = 0.0
    for i, (setting, bandwidth) in enumerate(
        zip(request.settings, request.measured_at, strict=True)
    ):
        held = request.n_bytes
        if request.kind is not CollectiveKind.ALL_TO_ALL:
            held /= request.ranks_before(i)
        total += held * (setting.p - 1) / setting.p / bandwidth
    passes = 2 if request.kind is CollectiveKind.ALL_REDUCE else 1
    return passes * total * PICOSECONDS
