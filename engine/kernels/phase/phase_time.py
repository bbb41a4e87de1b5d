"""How long every phase of a program lasts at one point of bandwidth and latency."""

from typing import NamedTuple

import numpy as np

from engine.compiler import compiled, inlined, kernel
from engine.kernels.core.none import LONGEST
from engine.kinds import CollectiveKind
from engine.lower.program import (
    NO_DIM,
    NO_ENTRANCE,
    NO_SERVICE,
    NOT_LISTED,
    POINT_TO_POINT,
    Floats,
    Ints,
    Longs,
    Structure,
    Table,
)
from engine.units import PICOSECONDS

# A run must end before the clock (int64 picoseconds) does; half of its range leaves room for sums.
_LONGEST = float(LONGEST)
_ALIKE = 1.0 - 2.0**-40  # loads that differ by less are equal, but for rounding

PHASE = np.dtype(
    [
        ("dim", "i4"),  # NO_DIM after a variant's last phase
        ("port", "i4"),  # of each member class, or NO_PORT: it holds its operator's stream
        ("steps", "i4"),  # its PHASE_STEPS; ~form for a transfer from point to point
        ("entrance", "i4"),  # of such a transfer's target in ``dim``, or NO_ENTRANCE
        ("duration", "i8"),
        ("hold", "i8"),  # of its ports: all of it, or what is no latency or delay
        ("late", "i8"),  # what no port is held for, of this phase and those before it
        ("n_bytes", "f8"),  # held on entering the phase
    ],
    align=True,
)
SPAN = np.dtype(
    [
        ("start", "i4"),  # of a form's phases
        ("length", "i4"),  # phases of a variant
        ("variants", "i4"),  # one, or one a chunk where each chooses its own order
    ]
)


class Parts(NamedTuple):
    """What the duration of a phase is made of."""

    duration: float  # ps
    hops: float  # latencies
    delay: float  # ps of endpoint delays
    reduction: float  # ps
    fraction: float  # bytes that leave an NPU, as a share of those held on entry


class PhaseTimes(NamedTuple):
    """The phases of every form, variant by variant, and what the form asks of the dimensions."""

    phases: Table  # PHASE
    spans: Table  # SPAN, one a form
    bytes_sent: Floats  # (forms, D): bytes an NPU sends
    demand: Floats  # (forms, D): bytes that the whole bandwidth would carry in the transfer time
    bandwidth: Floats  # (D,) of the point, bytes/s
    latency: Longs  # (D,) of the point, ps
    # Scratch of :func:`time_phases`.
    form_total: Floats  # (forms,): ps of all chunks' phases
    loads: Floats  # (D,): ps that Themis has put on each dimension
    order: Ints  # (D,): in which a chunk visits a form's uses


def empty_phase_times(s: Structure) -> PhaseTimes:
    """Room for the times of ``s``; filled by :func:`time_phases`."""
    spans = np.zeros(len(s.forms), dtype=SPAN)
    start = 0
    for span, form in zip(spans, s.forms, strict=True):
        span["start"] = start
        if form["listed_start"] != NOT_LISTED:
            span["length"], span["variants"] = form["listed_length"], form["listed_variants"]
        else:
            dims = int(form["use_end"] - form["use_start"])
            lengths = {CollectiveKind.ALL_REDUCE: 2 * dims, POINT_TO_POINT: 1}
            own_order = s.shape.themis and form["kind"] <= CollectiveKind.ALL_GATHER
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
def whole(picoseconds: float) -> float:
    """The nearest picosecond.  Halves go up, and so does what a few roundings left below a half:
    the same transfer, worked out in two ways, must not last a picosecond longer in one of them."""
    return np.floor(picoseconds * (1.0 + 2.0**-50) + 0.5)


@inlined
def parts_of(s: Structure, steps: np.void, held: float, bandwidth: float, latency: float) -> Parts:
    """A phase in which members enter with ``held`` bytes, by the formula of
    engine.collective.steps, every step in whole picoseconds (or ticks)."""
    duration, hops, delay, reduction, fraction = 0.0, 0.0, 0.0, 0.0, 0.0
    for step in s.steps[steps["step_start"] : steps["step_end"]]:
        message = message_time(s, steps, step, held, bandwidth, latency)
        fixed = float(s.shape.endpoint_delay + step["fixed"])
        reduces = whole(step["reduce"] * held * s.shape.reduce_time)
        duration += step["count"] * (message + fixed + reduces)
        hops += float(step["count"] * step["hops"])
        delay += step["count"] * fixed
        reduction += step["count"] * reduces
        fraction += step["count"] * step["n_bytes"]
    return Parts(duration, hops, delay, reduction, fraction)


@inlined
def message_time(
    s: Structure, steps: np.void, step: np.void, held: float, bandwidth: float, latency: float
) -> float:
    """The picoseconds of one step's messages, with their latency."""
    # Hops and latency may overflow an integer; _LONGEST then catches the float.
    hops = float(step["hops"]) * latency
    if s.shape.tick > 1:  # one rounding of it all, and the link's own bandwidth: to the same bit
        ticks = PICOSECONDS / s.shape.tick
        link = bandwidth / np.rint(1.0 / steps["share"])
        n_bytes = step["n_bytes"] * held
        return np.floor(hops / s.shape.tick + n_bytes / (link / ticks)) * s.shape.tick
    per_byte = PICOSECONDS / (bandwidth * steps["share"])
    return hops + step["messages"] * whole(step["n_bytes"] * held * per_byte / step["messages"])


@compiled
def time_phases(s: Structure, bandwidth: Floats, latency: Longs, out: PhaseTimes) -> float:
    """Fill ``out``; returns an upper bound on the run's picoseconds (everything one by one)."""
    out.bytes_sent.fill(0.0)
    out.demand.fill(0.0)
    for d in range(s.shape.n_dims):
        out.bandwidth[d], out.latency[d] = bandwidth[d], latency[d]
    form_total, loads, order = out.form_total, out.loads, out.order
    for f in range(len(s.forms)):
        form, span = s.forms[f], out.spans[f]
        form_total[f] = 0.0
        if form["listed_start"] != NOT_LISTED:
            form_total[f] = _time_listed(s, f, out)
            continue
        if form["kind"] == POINT_TO_POINT:
            form_total[f] = _time_transfer(s, f, bandwidth, latency, out)
            continue
        uses = s.uses[form["use_start"] : form["use_end"]]
        if len(uses) == 0:  # a group of one
            continue
        for i in range(len(uses)):
            order[i] = i
            loads[i] = 0.0
        copies = form["chunks"] // span["variants"]
        for variant in range(span["variants"]):
            if span["variants"] > 1:
                _themis_order(s, f, bandwidth, loads, order)
            at = span["start"] + variant * span["length"]
            total = _time_chunk(s, f, order, at, copies, out)
            form_total[f] += copies * total
    total = 0.0
    for flow in s.flows:
        total += form_total[flow["form"]]
    for node in s.nodes:
        if node["service"] != NO_SERVICE:
            total += s.services[node["service"]]["most"]
        total += node["duration"]
    return total


@kernel
def _time_chunk(
    s: Structure,
    f: int,
    order: Ints,
    at: int,
    copies: int,
    out: PhaseTimes,
) -> float:
    """One chunk's phases, written from ``at``: up the dimensions in ``order``, then down."""
    form = s.forms[f]
    uses = s.uses[form["use_start"] : form["use_end"]]
    kind, held, total, late = form["kind"], form["n_bytes"], 0.0, np.int64(0)
    n, end = len(uses), at + out.spans[f]["length"]
    n_phases = end - at
    i = 0
    while i < n_phases:
        up = i < n and kind != CollectiveKind.ALL_GATHER
        use = uses[order[i] if up else order[n_phases - 1 - i]]
        chosen = use["scatter"] if up else use["gather"]
        i += 1
        if kind == CollectiveKind.ALL_REDUCE and i == n and use["fused"] >= 0:
            chosen = use["fused"]  # in the place of this reduce-scatter and the next all-gather
            i += 1
        d, port = use["dim"], use["dim"] * (s.shape.n_ports // s.shape.n_dims)
        total += _time_phase(s, f, at, d, port, chosen, held, copies, out)
        held *= s.phase_steps[chosen]["growth"]
        late += out.phases[at]["duration"] - out.phases[at]["hold"]
        out.phases[at]["late"] = late
        at += 1
    while at < end:
        out.phases[at]["dim"] = -1
        at += 1
    return total


@kernel
def _time_listed(s: Structure, f: int, out: PhaseTimes) -> float:
    """All variants of a form whose phases are listed."""
    form, at, total = s.forms[f], out.spans[f]["start"], 0.0
    copies = form["chunks"] // form["listed_variants"]
    for variant in range(form["listed_variants"]):
        held = form["n_bytes"]
        for i in range(form["listed_length"]):
            phase = s.listed[form["listed_start"] + variant * form["listed_length"] + i]
            d, port, chosen = phase["dim"], phase["port"], phase["steps"]
            out.phases[at]["dim"] = d
            if d != NO_DIM:
                part = _time_phase(s, f, at, d, port, chosen, held, copies, out)
                total += copies * part
                held *= s.phase_steps[chosen]["growth"]
            at += 1
    return total


@inlined
def _time_phase(
    s: Structure,
    f: int,
    at: int,
    d: int,
    port: int,
    chosen: int,
    held: float,
    copies: int,
    out: PhaseTimes,
) -> float:
    """Write phase ``at``, which ``copies`` chunks of form ``f`` go through; its picoseconds."""
    steps = s.phase_steps[chosen]
    parts = parts_of(s, steps, held, out.bandwidth[d], out.latency[d])
    phase = out.phases[at]
    phase["dim"], phase["port"], phase["steps"] = d, port, chosen
    phase["duration"], phase["n_bytes"] = np.int64(min(parts.duration, _LONGEST)), held
    phase["hold"] = phase["duration"]
    if s.shape.latency_after:
        phase["hold"] -= np.int64(parts.hops) * out.latency[d] + np.int64(parts.delay)
    out.bytes_sent[f, d] += copies * held * steps["bytes_sent"]
    out.demand[f, d] += copies * held * parts.fraction / steps["share"]
    return parts.duration


@kernel
def _time_transfer(
    s: Structure, f: int, bandwidth: Floats, latency: Longs, out: PhaseTimes
) -> float:
    """Point to point: every crossed dimension's latency, and the narrowest one's bandwidth."""
    form = s.forms[f]
    fixed, narrowest, slowest = float(s.shape.endpoint_delay), 0, -1.0
    messages, entrance = np.int64(1), np.int32(NO_ENTRANCE)
    for use in s.uses[form["use_start"] : form["use_end"]]:
        d, steps = use["dim"], s.phase_steps[use["scatter"]]
        step = s.steps[steps["step_start"]]
        fixed += float(step["hops"]) * latency[d]
        out.bytes_sent[f, d] += form["n_bytes"]
        out.demand[f, d] += form["n_bytes"] / steps["share"]
        per_byte = PICOSECONDS / (bandwidth[d] * steps["share"])
        if per_byte > slowest:
            narrowest, slowest, messages = d, per_byte, step["messages"]
            entrance = use["entrance"]
    moves = messages * whole(form["n_bytes"] * slowest / messages)
    duration = min(fixed + moves, _LONGEST)
    phase = out.phases[out.spans[f]["start"]]
    phase["dim"], phase["port"] = narrowest, narrowest * (s.shape.n_ports // s.shape.n_dims)
    phase["entrance"] = entrance
    phase["steps"], phase["duration"], phase["n_bytes"] = ~f, np.int64(duration), form["n_bytes"]
    phase["hold"] = phase["duration"]
    if s.shape.latency_after:
        phase["hold"] = np.int64(min(moves, _LONGEST))
    phase["late"] = phase["duration"] - phase["hold"]
    return duration


@kernel
def _themis_order(s: Structure, f: int, bandwidth: Floats, loads: Floats, order: Ints) -> None:
    """Themis (Rashidi et al., ISCA 2022): the next chunk goes to the least loaded dimension first.

    Latencies, which keep no port busy, are no load.  While loads differ by less than the time of a
    sixteenth of the chunk on the least loaded dimension, the baseline order is as good.  Of equal
    loads that of the inner dimension goes first; what rounding made of them does not matter.
    An all-gather is scheduled as the reduce-scatter that it reverses.
    """
    form = s.forms[f]
    uses = s.uses[form["use_start"] : form["use_end"]]
    n, whole = len(uses), form["n_bytes"]
    if form["kind"] == CollectiveKind.ALL_GATHER:
        for use in uses:
            whole *= s.phase_steps[use["gather"]]["growth"]
    for i in range(n):  # insertion sort, stable
        j = i
        while j > 0 and loads[order[j - 1]] * _ALIKE > loads[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    least, most = order[0], order[n - 1]
    threshold = _load(s.phase_steps, s.steps, uses[least], whole / 16, bandwidth)
    if loads[most] - loads[least] < threshold * _ALIKE:
        for i in range(n):
            order[i] = i
    held = whole
    for i in range(n):
        use = uses[order[i]]
        loads[order[i]] += _load(s.phase_steps, s.steps, use, held, bandwidth)
        held *= s.phase_steps[use["scatter"]]["growth"]


@kernel
def _load(phase_steps: Table, steps: Table, use: np.void, held: float, bandwidth: Floats) -> float:
    """Picoseconds of transfer that a reduce-scatter of ``held`` bytes puts on a dimension."""
    chosen, fraction = phase_steps[use["scatter"]], 0.0
    for step in steps[chosen["step_start"] : chosen["step_end"]]:
        fraction += step["count"] * step["n_bytes"]
    return fraction * held * PICOSECONDS / (bandwidth[use["dim"]] * chosen["share"])
