"""Durations of all phases of a program at one point of bandwidth and latency.

A *form* is a distinct communication operator; equal operators share one form.
"""

from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.compiler import compiled, inlined, kernel
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import LONGEST, NONE
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import POINT_TO_POINT, Floats, Ints, Longs, Structure, Table
from dimsweep.engine.records import record
from dimsweep.engine.units import PICOSECONDS

# A run must end before the clock (int64 picoseconds) does; half of its range leaves room for sums.
_LONGEST = float(LONGEST)
ALMOST_ONE = (
    1.0 - 2.0**-40
)  # loads, or times of a byte, that differ by less are equal but for rounding

PHASE = record(
    dim="i4",  # NONE after a variant's last phase
    port="i4",  # of each member class, or NONE: it holds its operator's stream
    steps="i4",  # its PHASE_STEPS; ~form for a transfer from point to point
    entrance="i4",  # of such a transfer's target in ``dim``, or NONE
    duration="i8",
    hold="i8",  # of its ports: all of it, or without latencies and delays
    late="i8",  # what no port is held for, of this phase and those before it
    n_bytes="f8",  # held on entering the phase
    size="i8",  # the same in whole bytes, which ``smallest_first`` compares
)
SPAN = record(
    start="i4",  # of a form's phases
    length="i4",  # phases of a variant
    variants="i4",  # one, or one a chunk where each chooses its own order
)


class Parts(NamedTuple):
    """The components of the duration of a phase."""

    duration: float  # ps
    hops: float  # latencies
    delay: float  # ps of endpoint delays
    reduction: float  # ps
    fraction: float  # bytes that leave an NPU, as a share of those held on entry


class PhaseTimes(NamedTuple):
    """Times of the phases of every form, and each form's traffic per dimension, at one point.

    A form has several variants if its chunks visit the dimensions in different orders.
    """

    phases: Table  # PHASE
    spans: Table  # SPAN, one a form
    bytes_sent: Floats  # (forms, D): bytes an NPU sends
    demand: Floats  # (forms, D): bytes that the whole bandwidth would carry in the transfer time
    bandwidth: Floats  # (D,) of the point, bytes/s
    latency: Longs  # (D,) of the point, ps
    # Scratch of :func:`time_all`.
    form_total: Floats  # (forms,): ps of all chunks' phases
    loads: Floats  # (D,): ps that an order has put on each dimension
    order: Ints  # (D,): in which a chunk visits a form's uses


def empty_phase_times(s: Structure) -> PhaseTimes:
    """Allocate the phase times of ``s``; :func:`time_all` fills them in."""
    spans = np.zeros(len(s.forms), dtype=SPAN)
    start = 0
    for span, form in zip(spans, s.forms, strict=True):
        span["start"] = start
        if form["listed_start"] != NONE:
            span["length"], span["variants"] = form["listed_length"], form["listed_variants"]
        else:
            dims = int(form["use_end"] - form["use_start"])
            lengths = {CollectiveKind.ALL_REDUCE: 2 * dims, POINT_TO_POINT: 1}
            own_order = s.shape.order and form["kind"] <= CollectiveKind.ALL_GATHER
            span["length"] = lengths.get(int(form["kind"]), dims)
            span["variants"] = form["chunks"] if own_order else 1
        start += int(span["length"] * span["variants"])
    by_dim = (len(s.forms), s.shape.n_dims)
    return PhaseTimes(
        phases=np.zeros(start, dtype=PHASE),
        spans=spans,
        bytes_sent=np.zeros(by_dim),
        demand=np.zeros(by_dim),
        bandwidth=np.zeros(s.shape.n_dims),
        latency=np.zeros(s.shape.n_dims, dtype=np.int64),
        form_total=np.zeros(len(s.forms)),
        loads=np.zeros(s.shape.n_dims),
        order=np.zeros(s.shape.n_dims, dtype=np.int32),
    )


@compiled
def round_half_up(number: float) -> float:
    """Return the nearest whole number (picoseconds or bytes); halves round up.

    A number that rounding errors left just below a half also rounds up, so that two ways to compute
    a transfer never differ by a picosecond or a byte.
    """
    return np.floor(number * (1.0 + 2.0**-50) + 0.5)


@inlined
def message_time(sim: Any, steps: Any, step: Any, held: float, d: int) -> float:
    """Return the duration (ps) of the messages of one step of a phase, latency included."""
    # Hops and latency may overflow an integer; _LONGEST then catches the float.
    hops = float(step.hops) * sim.times.latency[d]
    per_byte = PICOSECONDS / (sim.times.bandwidth[d] * steps.share)
    return hops + step.messages * round_half_up(step.n_bytes * held * per_byte / step.messages)


@inlined
def latency_after() -> bool:
    """Return True: a chunk's latencies pass after its last phase, while its ports are free."""
    return True


@inlined
def phase_parts(sim: Any, steps: Any, held: float, d: int) -> Parts:
    """Return the components of a phase's duration in dimension ``d``.

    A member enters the phase with ``held`` bytes.  The formula is in
    :mod:`engine.collective.steps`; every step takes whole picoseconds (or ticks).
    """
    s, duration, hops, delay, reduction, fraction = sim.s, 0.0, 0.0, 0.0, 0.0, 0.0
    for step in s.steps[steps.step_start : steps.step_end]:
        message = sim.rules.message_time(sim, steps, step, held, d)
        fixed = float(s.shape.endpoint_delay + step.fixed)
        reduces = round_half_up(step.reduce * held * s.shape.reduce_time)
        duration += step.count * (message + fixed + reduces)
        hops += float(step.count * step.hops)
        delay += step.count * fixed
        reduction += step.count * reduces
        fraction += step.count * step.n_bytes
    return Parts(duration, hops, delay, reduction, fraction)


@kernel
def time_all(sim: Any, bandwidth: Floats, latency: Longs) -> float:
    """Fill in ``sim.times`` for a point; return an upper bound (ps) on the run's time.

    The bound is the sum of all durations.  ``sim`` need not have a state yet.
    """
    s, out, total = sim.s, sim.times, 0.0
    out.bytes_sent.fill(0.0)
    out.demand.fill(0.0)
    for d in range(s.shape.n_dims):
        out.bandwidth[d], out.latency[d] = bandwidth[d], latency[d]
    for f in range(len(s.forms)):
        if s.forms[f].listed_start != NONE:
            out.form_total[f] = _time_listed(sim, f)
        elif s.forms[f].kind == POINT_TO_POINT:
            out.form_total[f] = _time_transfer(sim, f)
        else:
            out.form_total[f] = _time_variants(sim, f)
    for flow in s.flows:
        total += out.form_total[flow.form]
    for node in s.nodes:
        if node.service != NONE:
            total += s.services[node.service].most
        total += node.duration
    return total


@kernel
def _time_variants(sim: Any, f: int) -> float:
    """Time the phases of all chunks of collective form ``f``; return their sum (ps)."""
    form, span, loads, order = sim.s.forms[f], sim.times.spans[f], sim.times.loads, sim.times.order
    n, total = form.use_end - form.use_start, 0.0
    if n == 0:  # a group of one
        return total
    for i in range(n):
        order[i], loads[i] = i, 0.0
    copies = form.chunks // span.variants
    for variant in range(span.variants):
        if span.variants > 1:
            sim.rules.choose(sim, f, variant)
        total += copies * _time_chunk(sim, f, span.start + variant * span.length, copies)
    return total


@kernel
def _time_chunk(sim: Any, f: int, at: int, copies: int) -> float:
    """Time one chunk's phases, written from ``at`` on: dimensions in order, then in reverse.

    Return their sum (ps).
    """
    s, out, form = sim.s, sim.times, sim.s.forms[f]
    uses = s.uses[form.use_start : form.use_end]
    kind, held, total, late = form.kind, form.n_bytes, 0.0, np.int64(0)
    n, n_phases = len(uses), long(out.spans[f].length)
    end, i = at + n_phases, 0
    while i < n_phases:
        up = i < n and kind != CollectiveKind.ALL_GATHER
        use = uses[out.order[i] if up else out.order[n_phases - 1 - i]]
        chosen = use.scatter if up else use.gather
        i += 1
        if kind == CollectiveKind.ALL_REDUCE and i == n and use.fused >= 0:
            chosen = use.fused  # instead of this reduce-scatter and the next all-gather
            i += 1
        phase = out.phases[at]
        phase.dim, phase.port = use.dim, use.dim * (s.shape.n_ports // s.shape.n_dims)
        phase.steps, phase.n_bytes = chosen, held
        total += _time_phase(sim, f, at, copies)
        held *= s.phase_steps[chosen].growth
        late += phase.duration - phase.hold
        phase.late = late
        at += 1
    while at < end:
        out.phases[at].dim = NONE
        at += 1
    return total


@kernel
def _time_listed(sim: Any, f: int) -> float:
    """Time the phases of a form that lists them one by one; return their sum (ps)."""
    s, form, at, total = sim.s, sim.s.forms[f], long(sim.times.spans[f].start), 0.0
    copies = form.chunks // form.listed_variants
    for variant in range(form.listed_variants):
        held = form.n_bytes
        for i in range(form.listed_length):
            listed = s.listed[form.listed_start + variant * form.listed_length + i]
            phase = sim.times.phases[at]
            phase.dim = listed.dim
            if listed.dim != NONE:
                phase.port, phase.steps, phase.n_bytes = listed.port, listed.steps, held
                total += copies * _time_phase(sim, f, at, copies)
                held *= s.phase_steps[listed.steps].growth
            at += 1
    return total


@inlined
def _time_phase(sim: Any, f: int, at: int, copies: int) -> float:
    """Time phase ``at`` of form ``f``, shared by ``copies`` chunks; return its duration (ps)."""
    out, phase = sim.times, sim.times.phases[at]
    d, held, steps = phase.dim, phase.n_bytes, sim.s.phase_steps[phase.steps]
    phase.size = np.int64(min(round_half_up(held), _LONGEST))
    parts = phase_parts(sim, steps, held, d)
    phase.duration = phase.hold = np.int64(min(parts.duration, _LONGEST))
    if sim.rules.latency_after():
        phase.hold -= np.int64(parts.hops) * out.latency[d] + np.int64(parts.delay)
    out.bytes_sent[f, d] += copies * held * steps.bytes_sent
    out.demand[f, d] += copies * held * parts.fraction / steps.share
    return parts.duration


@kernel
def _time_transfer(sim: Any, f: int) -> float:
    """Return the time (ps) of point-to-point form ``f``: all latencies, and the narrowest link."""
    s, out, form = sim.s, sim.times, sim.s.forms[f]
    fixed, slowest, messages = float(s.shape.endpoint_delay), -1.0, np.int64(1)
    phase = out.phases[out.spans[f].start]
    phase.dim, phase.entrance, phase.steps, phase.n_bytes = 0, NONE, ~f, form.n_bytes
    for use in s.uses[form.use_start : form.use_end]:
        d, steps = use.dim, s.phase_steps[use.scatter]
        step = s.steps[steps.step_start]
        fixed += float(step.hops) * out.latency[d]
        out.bytes_sent[f, d] += form.n_bytes
        out.demand[f, d] += form.n_bytes / steps.share
        per_byte = PICOSECONDS / (out.bandwidth[d] * steps.share)
        if per_byte * ALMOST_ONE > slowest:  # of equal ones the inner dimension's
            slowest, messages = per_byte, step.messages
            phase.dim, phase.entrance = d, use.entrance
    moves = messages * round_half_up(form.n_bytes * slowest / messages)
    duration = min(fixed + moves, _LONGEST)
    phase.port = phase.dim * (s.shape.n_ports // s.shape.n_dims)
    phase.duration = phase.hold = np.int64(duration)
    if sim.rules.latency_after():
        phase.hold = np.int64(min(moves, _LONGEST))
    phase.late = phase.duration - phase.hold
    return duration
