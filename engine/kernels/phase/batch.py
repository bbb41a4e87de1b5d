"""Running programs: one point, or a batch of points in one compiled call."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.none import LONGEST
from dimsweep.engine.kernels.phase.chains import chained
from dimsweep.engine.kernels.phase.diagnosis import explain_stuck
from dimsweep.engine.kernels.phase.entrances import entrances_of
from dimsweep.engine.kernels.phase.measures import Measures, empty_measures
from dimsweep.engine.kernels.phase.path import Path
from dimsweep.engine.kernels.phase.phase_time import PhaseTimes, empty_phase_times
from dimsweep.engine.kernels.phase.state import FINISHED, STUCK, TIED, TOO_LONG, State, empty_state
from dimsweep.engine.lower.program import (
    Floats,
    Longs,
    Program,
    Structure,
    check_bandwidth,
    check_latency,
)


@dataclass(frozen=True)
class Run:
    """One simulated point with its details (``state`` and ``times`` as the kernel left them)."""

    program: Program
    measures: Measures
    times: PhaseTimes
    state: State
    recorded: bool


class Runner:
    """Runs a program at many points: what the kernel makes of it beforehand is made once."""

    def __init__(self, program: Program) -> None:
        _check_algorithms(program)
        self.program = program

    def batch(self, bandwidth: ArrayLike, latency: ArrayLike | None = None) -> Measures:
        """Simulate P points in one compiled call, or in one for each way in which a library of
        collectives chooses at them.

        ``bandwidth`` has shape (P, D) in bytes/s, ``latency`` the same in ps, or (D,) for all
        points (the program's own if not given).  A point that cannot finish has an ``outcome``
        other than FINISHED and a time of -1; see :func:`outcome_error`.  Raises
        :class:`DimsweepError` for a bandwidth that is not positive, another shape, or a deadlock
        that only the program's witness finds.
        """
        points, delays = self._points(bandwidth, latency)
        groups = self.program.by_choice(points)
        if len(groups) == 1:
            return self._alike(groups[0][0], points, delays)
        measures = empty_measures(self.program.structure, len(points))
        for one, rows in groups:
            _put(measures, rows, self._alike(one, points[rows], delays[rows]))
        return measures

    def _points(self, bandwidth: ArrayLike, latency: ArrayLike | None) -> tuple[Floats, Longs]:
        n_dims = self.program.structure.shape.n_dims
        points = np.atleast_2d(check_bandwidth(bandwidth, n_dims))
        delays = self.program.latency if latency is None else latency
        delays = np.atleast_2d(check_latency(delays, n_dims))
        if len(delays) == 1:
            delays = np.repeat(delays, len(points), axis=0)
        for name, array in (("bandwidth", points), ("latency", delays)):
            if array.ndim != 2 or array.shape != points.shape:
                raise DimsweepError(
                    f"shape {array.shape}; bandwidth has shape {points.shape}, and (P, D) is "
                    "wanted",
                    where=name,
                )
        return points, delays

    @cached_property
    def _chained(self) -> Structure:
        """The structure with its chains; a replica's stays as it is."""
        s = self.program.structure
        return chained(s) if self.program.replica is None else s

    def _alike(self, program: Program, points: Floats, delays: Longs) -> Measures:
        """Simulate all points, at which a library chooses as it does in ``program``."""
        s = self._chained  # the same, whatever it chooses
        if program.chooser is not None and program is not self.program:
            s = program.chooser.made(s, program.chosen)
        return _run(program, s, points, delays, record=False).measures


def run_batch(program: Program, bandwidth: ArrayLike, latency: ArrayLike | None = None) -> Measures:
    """Simulate ``program`` at P points (see :meth:`Runner.batch`); whoever asks for more points
    later keeps a :class:`Runner`."""
    return Runner(program).batch(bandwidth, latency)


def _run(program: Program, s: Structure, points: Floats, delays: Longs, *, record: bool) -> Run:
    """Simulate ``s``, the structure of ``program`` or what has become of it, at all points."""
    times = empty_phase_times(s)
    state = empty_state(s, times, record=record)
    measures = empty_measures(s, len(points))
    entrances_of(program).run_points(s, points, delays, times, state, measures)
    asked = _ask_witness(program, points, delays, measures)
    return Run(program, measures, times, state, record and not asked)


def _put(measures: Measures, rows: Longs, some: Measures) -> None:
    """Write what was measured at some of the points."""
    for name, value in some._asdict().items():
        if isinstance(value, Path):
            for into, column in zip(getattr(measures, name), value, strict=True):
                into[rows] = column
        else:
            getattr(measures, name)[rows] = value


def run_one(program: Program, *, record: bool = False) -> Run:
    """Simulate the program at its own point; ``record`` keeps what a timeline needs.

    Raises :class:`DimsweepError` when it cannot finish, naming who waits for what, and for
    algorithms that go by links.
    """
    _check_algorithms(program)
    run = try_one(program, record=record)
    outcome = int(run.measures.outcome[0])
    if outcome == STUCK:
        runs = dict(enumerate(run.state.streams["node"].tolist()))
        raise explain_stuck(program, run.state.nodes["state"].tolist(), runs)
    if outcome != FINISHED:
        raise outcome_error(outcome)
    return run


def _check_algorithms(program: Program) -> None:
    for name in program.communication.by_network:
        raise DimsweepError(
            f"{name!r} goes by the links of a network, which phases do not know",
            where="collective.algorithms",
            hint="fidelity=flow, message or packet",
        )


def try_one(program: Program, *, record: bool = False) -> Run:
    """Simulate the program at its own point, whatever the outcome."""
    point = program.bandwidth[None], program.latency[None]
    return _run(program, program.structure, *point, record=record)


def _ask_witness(program: Program, points: Floats, delays: Longs, out: Measures) -> bool:
    """Fill in the points that the kernel left open; whether there were any.

    Of these only times are known: bytes sent and what the critical path demands are NaN.
    """
    if program.witness is None:
        return False
    is_open = (out.outcome == TIED) | (len(program.structure.nodes) == 0)
    for point in np.flatnonzero(is_open):
        ends, compute = program.witness(points[point], delays[point])
        out.outcome[point], out.time[point], out.end[point] = FINISHED, ends.max(), ends
        out.compute[point], out.exposed[point] = compute, ends - compute
        out.exposed_by_dim[point, :, -1] = out.exposed_by_tally[point, :, 0] = ends - compute
        out.bytes_sent[point] = np.nan
        if out.path is not None:
            out.path.compute[point] = compute[ends.argmax()]
            out.path.demand[point] = np.nan
    return bool(is_open.any())


def outcome_error(outcome: int) -> DimsweepError:
    """What went wrong at a point of a batch; :func:`run_one` at that point says more."""
    if outcome == TOO_LONG:
        return DimsweepError(
            f"the iteration would take longer than {LONGEST / 1e12 / 86400:.0f} days",
            hint="check the streams of bandwidth, latency and message sizes",
        )
    return DimsweepError("deadlock", where="workload")
