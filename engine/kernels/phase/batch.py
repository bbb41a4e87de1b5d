"""Run programs by phases: one point, or a batch of points in one compiled call.

The module also holds the measures (results) of a run, the entry points that Python calls (compiled
for each set of rules), and the error that explains a deadlock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.compiling import by_reference
from dimsweep.engine.kernels.core.tables import DONE, LONGEST, QUEUED, RUNNING
from dimsweep.engine.kernels.phase import orders
from dimsweep.engine.kernels.phase.chains import join_chains, time_chains
from dimsweep.engine.kernels.phase.kernel import MODEL, run
from dimsweep.engine.kernels.phase.path import (
    Chain,
    Path,
    add_labelled_phases,
    empty_path,
    walk_back,
)
from dimsweep.engine.kernels.phase.phase_time import PhaseTimes, empty_phase_times, time_all
from dimsweep.engine.kernels.phase.state import (
    FINISHED,
    STUCK,
    TIED,
    TOO_LONG,
    Rules,
    Sim,
    State,
    empty_state,
    lay_out_chunks,
)
from dimsweep.engine.lower.program import (
    Entrances,
    Floats,
    Ints,
    Longs,
    NodeKind,
    Program,
    Structure,
    check_bandwidth,
    check_latency,
)


class Measures(NamedTuple):
    """Results of the kernel, one row per point: P points, C classes, D dimensions, L tallies."""

    outcome: Ints  # (P,)
    time: Longs  # (P,) ps
    end: Longs  # (P, C) ps when the class's last operator ended
    compute: Longs  # (P, C) ps
    exposed: Longs  # (P, C) ps of communication that no compute hides
    exposed_by_dim: Floats  # (P, C, D + 1) ps; the last: waiting, no dimension serves
    exposed_by_tally: Floats  # (P, C, L) ps
    busy: Longs  # (P, C, D) ps that the class's port was in use
    bytes_sent: Floats  # (P, C, D) bytes sent by one NPU
    path: Path | None  # the critical path; not known of a run message by message


def empty_measures(s: Structure, n: int) -> Measures:
    """Allocate the results of ``n`` points for structure ``s``."""
    c, d = s.shape.n_classes, s.shape.n_dims
    return Measures(
        outcome=np.zeros(n, dtype=np.int32),
        time=np.zeros(n, dtype=np.int64),
        end=np.zeros((n, c), dtype=np.int64),
        compute=np.zeros((n, c), dtype=np.int64),
        exposed=np.zeros((n, c), dtype=np.int64),
        exposed_by_dim=np.zeros((n, c, d + 1)),
        exposed_by_tally=np.zeros((n, c, s.shape.n_tallies)),
        busy=np.zeros((n, c, d), dtype=np.int64),
        bytes_sent=np.zeros((n, c, d)),
        path=empty_path(s, n),
    )


@kernel
def run_points_of(sim: Sim, bandwidth: Floats, latency: Longs, out: Measures) -> None:
    """Simulate each point of ``bandwidth`` and ``latency``, shape (P, D) each, into ``out``."""
    lay_out_chunks(sim)
    for point in range(len(bandwidth)):
        longest = time_all(sim, bandwidth[point], latency[point]) + time_chains(sim)
        out.outcome[point] = run(sim) if longest < LONGEST else TOO_LONG
        if out.outcome[point] == FINISHED:
            _write_measures(sim, out, point)
            walk_back(sim, out.path, point)  # type: ignore[arg-type]  # there is one
        else:
            out.time[point] = -1


@kernel
def _write_measures(sim: Sim, out: Measures, point: int) -> None:
    s, st, n_dims = sim.s, sim.st, sim.s.shape.n_dims
    for c in range(s.shape.n_classes):
        cls = st.classes[c]
        out.time[point] = max(out.time[point], cls.end)
        out.end[point, c], out.compute[point, c] = cls.end, cls.compute
        out.exposed[point, c] = cls.exposed
        for number in range(s.shape.n_ports):
            d, port = number // (s.shape.n_ports // n_dims), st.ports[c * s.shape.n_ports + number]
            out.busy[point, c, d] += port.busy
            out.exposed_by_dim[point, c, d] += port.exposed
        out.exposed_by_dim[point, c, n_dims] = cls.unserved
        for tally in range(s.shape.n_tallies):
            out.exposed_by_tally[point, c, tally] = st.tally_exposed[c, tally]
    for flow in s.flows:
        for member in s.members[flow.member_start : flow.member_end]:
            for d in range(n_dims):
                out.bytes_sent[point, member.cls, d] += sim.times.bytes_sent[flow.form, d]
    if len(s.chains) > 0:
        for node in s.nodes:
            if node.kind == NodeKind.CHAIN:
                for d in range(n_dims):
                    out.bytes_sent[point, node.cls, d] += st.chain_bytes[node.tally, d]


class _CompiledEntrances(NamedTuple):
    """The compiled functions through which Python calls the kernel; see :class:`Entrances`."""

    run_points: Any
    time_phases: Any
    add_phases: Any


@compiled
def _make_no_notes(n_slots: int, n_classes: int) -> None:
    """Return None: the model's rules keep no extra state."""


def build_entrances(rules: Rules, new_own: Any = _make_no_notes) -> _CompiledEntrances:
    """Compile the kernel's entry points for a set of rules.

    ``new_own`` is a compiled function that allocates the extra state of these rules for the given
    numbers of slots (:mod:`engine.kernels.phase.classes`) and classes.
    """

    @compiled
    def run_points(
        s: Structure,
        bandwidth: Floats,
        latency: Longs,
        times: PhaseTimes,
        state: State,
        measures: Measures,
    ) -> None:
        own = new_own(len(state.due), len(state.classes))
        sim = by_reference(Sim(s, times, state, rules, own))
        run_points_of(sim, bandwidth, latency, by_reference(measures))

    @compiled
    def time_phases(s: Structure, bandwidth: Floats, latency: Longs, out: PhaseTimes) -> float:
        no_state: Any = None  # a phase's time asks for none
        return time_all(by_reference(Sim(s, out, no_state, rules, None)), bandwidth, latency)

    @compiled
    def add_phases(
        s: Structure, times: PhaseTimes, state: State, chain: Chain, labels: Longs, path: Path
    ) -> None:
        add_labelled_phases(by_reference(Sim(s, times, state, rules, None)), chain, labels, path)

    return _CompiledEntrances(run_points, time_phases, add_phases)


@cache
def entrances_of_order(choose: Any) -> _CompiledEntrances:
    """Return the entry points of the model's rules, with ``choose`` as the order of dimensions."""
    return build_entrances(MODEL._replace(choose=choose))


def entrances_of(program: Program) -> Entrances:
    """Return the kernel's entry points for the rules of a program."""
    if program.entrances is not None:
        return program.entrances
    return entrances_of_order(orders.choice_function(program.structure.shape.order))


def times_of(program: Program) -> PhaseTimes:
    """Return the phase times of a program at its own bandwidth and latency."""
    times = empty_phase_times(program.structure)
    point = program.bandwidth, program.latency
    entrances_of(program).time_phases(program.structure, *point, times)
    return times


_SHOWN = 8


def explain_stuck(
    program: Program, states: Sequence[int], runs: Mapping[int, int]
) -> DimsweepError:
    """Return an error that names the waiting ranks and operators, and why they wait.

    ``states`` are the states of the nodes, as the phase kernel numbers them; ``runs`` maps a stream
    to the node that it runs.
    """
    s, names = program.structure, program.names
    behind, reasons = _stream_blockers(program, states), []
    for node, node_state in enumerate(states):
        if node_state not in (QUEUED, RUNNING) and node not in behind:
            continue  # done, or behind another that is named
        rank = f"rank {names.class_first[s.nodes[node]['cls']]}"
        if node_state == RUNNING:
            reason = _running_reason(program, states, node)
        elif node in behind:
            reason = f"its turn behind {names.node[behind[node]]!r}"
        else:
            holder = runs[int(s.nodes[node]["stream"])]
            reason = f"its stream, held by {names.node[holder]!r}"
        reasons.append(f"{rank}: {names.node[node]!r} waits for {reason}")
    done = sum(state == DONE for state in states)
    more = f"\n  ... and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return DimsweepError(
        f"deadlock: {done} of {len(names.node)} operators finished; the others wait\n  "
        + "\n  ".join(reasons[:_SHOWN])
        + more,
        where="workload",
        code="stalled",
    )


def _stream_blockers(program: Program, states: Sequence[int]) -> dict[int, int]:
    """Map each collective that only waits for its stream to the operator before it there."""
    nodes, following = program.structure.nodes, program.structure.following
    before = np.repeat(np.arange(len(nodes)), nodes["next_end"] - nodes["next_start"])
    waits = np.asarray(states)[before] != DONE
    before, after = before[waits], following[waits]
    alike = nodes["stream"][before] == nodes["stream"][after]
    only = ~np.isin(after, after[~alike]) & (nodes["kind"][after] == NodeKind.COLLECTIVE)
    first = only & ~np.isin(before, after[only])
    return dict(zip(after[first].tolist(), before[first].tolist(), strict=True))


def _running_reason(program: Program, states: Sequence[int], node: int) -> str:
    s, names = program.structure, program.names
    flow = s.flows[s.nodes[node]["flow"]]
    members = s.members[flow["member_start"] : flow["member_end"]]
    if s.nodes[node]["kind"] == NodeKind.RECEIVE:
        return f"the send {names.node[members[0]['node']]!r}"
    absent = [
        f"rank {names.class_first[member['cls']]}"
        for member in members
        if states[member["node"]] not in (RUNNING, DONE)
    ]
    if s.nodes[node]["kind"] == NodeKind.COLLECTIVE and absent:
        return f"{', '.join(absent[:4])} to join"
    return "its transfer"


@dataclass(frozen=True)
class Run:
    """One simulated point of a program, with its final ``state`` and its phase ``times``."""

    program: Program
    measures: Measures
    times: PhaseTimes
    state: State
    recorded: bool


class Runner:
    """Simulates a program at many points (bandwidths, latencies); prepares it once."""

    def __init__(self, program: Program) -> None:
        _check_algorithms(program)
        self.program = program

    def batch(self, bandwidth: ArrayLike, latency: ArrayLike | None = None) -> Measures:
        """Simulate P points in one compiled call per choice of algorithms by a collective library.

        ``bandwidth`` has shape (P, D) in bytes/s, ``latency`` shape (P, D) in ps, or (D,) for all
        points (the program's own if not given).  A point that cannot finish has an ``outcome``
        other than FINISHED and a time of -1; see :func:`outcome_error`.  Raises
        :class:`DimsweepError` for a bandwidth that is not positive, another shape, or a deadlock
        that only the program's witness finds.
        """
        points, delays = self._points(bandwidth, latency)
        groups = self.program.group_by_choice(points)
        if len(groups) == 1:
            return self._run_one_choice(groups[0][0], points, delays)
        measures = empty_measures(self.program.structure, len(points))
        for one, rows in groups:
            _write_rows(measures, rows, self._run_one_choice(one, points[rows], delays[rows]))
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
                    f"shape {array.shape}; expected (P, D), equal to {points.shape} of bandwidth",
                    where=name,
                    code="mismatch",
                )
        return points, delays

    @cached_property
    def _chained(self) -> Structure:
        """The structure with chains of operators merged; unchanged under an extension's rules."""
        s = self.program.structure
        return join_chains(s) if self.program.entrances is None else s

    def _run_one_choice(self, program: Program, points: Floats, delays: Longs) -> Measures:
        """Simulate points at which a library chooses the algorithms that ``program`` has."""
        s = self._chained  # the same, whatever it chooses
        if program.chooser is not None and program is not self.program:
            s = program.chooser.apply(s, program.chosen)
        return _run(program, s, points, delays, record=False).measures


def run_batch(program: Program, bandwidth: ArrayLike, latency: ArrayLike | None = None) -> Measures:
    """Simulate ``program`` at P points; see :meth:`Runner.batch`.

    To simulate more points of one program later, keep a :class:`Runner`.
    """
    return Runner(program).batch(bandwidth, latency)


def _run(program: Program, s: Structure, points: Floats, delays: Longs, *, record: bool) -> Run:
    """Simulate structure ``s`` of ``program`` at all points."""
    times = empty_phase_times(s)
    state = empty_state(s, times, record=record)
    measures = empty_measures(s, len(points))
    entrances_of(program).run_points(s, points, delays, times, state, measures)
    asked = _fill_open_points(program, points, delays, measures)
    return Run(program, measures, times, state, record and not asked)


def _write_rows(measures: Measures, rows: Longs, some: Measures) -> None:
    """Copy the results ``some`` of some points into their ``rows`` of ``measures``."""
    for name, value in some._asdict().items():
        if isinstance(value, Path):
            for into, column in zip(getattr(measures, name), value, strict=True):
                into[rows] = column
        else:
            getattr(measures, name)[rows] = value


def run_one(program: Program, *, record: bool = False) -> Run:
    """Simulate the program at its own point; ``record`` keeps the data of a timeline.

    Raises :class:`DimsweepError` for a deadlock, naming the waiting operators, and for algorithms
    that use individual links.
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
            f"{name!r} uses the links of a network, which fidelity=phase does not model",
            where="collective.algorithms",
            code="unsupported",
            hint="use fidelity=flow, message or packet",
        )


def try_one(program: Program, *, record: bool = False) -> Run:
    """Simulate the program at its own point and return the run, whatever its outcome."""
    point = program.bandwidth[None], program.latency[None]
    return _run(program, program.structure, *point, record=record)


def _fill_open_points(program: Program, points: Floats, delays: Longs, out: Measures) -> bool:
    """Let the program's witness simulate the points left open; return whether there are any.

    For these points only times are known: bytes sent and the critical path's demand are NaN.
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
    """Return the error of a point that did not finish; :func:`run_one` gives details."""
    if outcome == TOO_LONG:
        return DimsweepError(
            f"the iteration would take longer than {LONGEST / 1e12 / 86400:.0f} days",
            code="out-of-range",
            hint="check bandwidths, latencies and message sizes",
        )
    return DimsweepError("deadlock", where="workload", code="stalled")
