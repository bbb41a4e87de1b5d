"""Lower bounds on the time of each form of communication, for all bandwidths of a space.

A phase takes its latencies and reductions, and its bytes over its share of the bandwidth.  Rounding
a transfer gains at most half a picosecond: ``half a picosecond * the largest bandwidth of the
space`` bytes, which are subtracted here.

Under Themis every chunk visits the dimensions in a separate order.  Let a chunk of s bytes visit
dimension d, of p_d members, holding h bytes: it leaves h / p_d, so the drops h - h / p_d add up to
s (1 - 1 / prod p) in any order, and over a subset Q of the dimensions to no less than

    g(Q) = s / prod_{j not in Q} p_j * (1 - 1 / prod_{j in Q} p_j)

which is reached if Q comes last, when a chunk holds the fewest bytes.  An all-gather is the
reverse. Dimension d needs w_d bytes of time for a byte of drop, so within a time T it takes in
drops of at most T b_d / w_d; over Q:  T * sum_{d in Q} b_d / w_d >= g(Q).  Such a sum of bandwidths
counts as a further dimension here.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import POINT_TO_POINT, Floats, Longs, Structure
from dimsweep.engine.units import PICOSECONDS


class Work(NamedTuple):
    """Lower bounds on the time of F forms over E dimensions, sums of dimensions included.

    A row (E + 1,) has the bytes over each dimension's whole bandwidth, then fixed seconds.
    ``hops`` are the hops whose latencies are among the fixed seconds of each piece; under Themis
    not all, since the minimum of several counts.
    """

    sums: Floats  # (E - D, D)
    pieces: list[Floats]  # of each form (n, E + 1): it lasts no less than any of them
    load: Floats  # (F, E, E + 1): the busy time of one port of the dimension
    hops: list[Floats]  # of each form (n, D)


class _Phase(NamedTuple):
    dim: int
    fixed: float  # seconds
    slope: float  # bytes
    reduce: float = 0.0  # of the fixed seconds, those that keep a port busy as bytes do
    hops: int = 0  # whose latencies are among them


class _Part(NamedTuple):
    """The bytes and reductions of a phase's steps for each held byte, and its fixed seconds."""

    fixed: float
    n_bytes: float
    reduce: float
    roundings: int  # of transfers
    reductions: int  # roundings of reductions
    growth: float
    hops: int


def work_of(structure: Structure, latency: Longs, most: Floats) -> Work:
    """Return lower bounds on the time of each form of ``structure``.

    ``latency`` (D,) is in picoseconds a hop; ``most`` (D,) is the greatest bandwidth of each
    dimension, in bytes/s.
    """
    forms = _FormBounds(structure, latency, most)
    raw = [forms.bound_form(f) for f in range(len(structure.forms))]
    sums = np.array(list(forms.sums), dtype=float).reshape(len(forms.sums), len(most))
    n = len(most) + len(sums)
    load = np.zeros((len(raw), n, n + 1))
    pieces, hops = [], []
    for f, (lasts, busy) in enumerate(raw):
        pieces.append(
            np.array([_build_row(terms, n) for terms in lasts]).reshape(len(lasts), n + 1)
        )
        hops.append(np.array([_count_hops(terms, len(most)) for terms in lasts]))
        for term in busy:
            load[f, term.dim] = _build_row([term], n)
    return Work(sums, pieces, load, hops)


def _count_hops(terms: list[_Phase], n: int) -> Floats:
    found = np.zeros(n)
    for term in terms:
        if term.hops:
            found[term.dim] += term.hops
    return found


def _build_row(terms: list[_Phase], n: int) -> Floats:
    row = np.zeros(n + 1)
    for term in terms:
        row[term.dim] += term.slope
        row[n] += term.fixed
    return row


class _FormBounds:
    """Builder of the bounds of forms; ``sums`` collects the sums of bandwidths that they need."""

    def __init__(self, structure: Structure, latency: Longs, most: Floats) -> None:
        self.sums: dict[tuple[float, ...], int] = {}  # weights (D,): the dimension
        self._s, self._latency, self._most = structure, latency, most
        self._parts: dict[tuple[int, int], _Part] = {}  # forms share phases

    def bound_form(self, f: int) -> tuple[list[list[_Phase]], list[_Phase]]:
        """Return the bounds on form ``f``, each a sum of phases, and the form's loads of ports."""
        form = self._s.forms[f]
        chunks = int(form["chunks"])
        if form["use_start"] == form["use_end"]:
            return [[]], []
        if form["kind"] == POINT_TO_POINT:
            return self._bound_message(f)
        if self._s.shape.order and form["kind"] != CollectiveKind.ALL_TO_ALL:
            return self._bound_any_order(f)
        phases = self._phases(f)
        pieces, load = [phases], []
        for d in {phase.dim for phase in phases}:
            visits = [i for i, phase in enumerate(phases) if phase.dim == d]
            here = self._occupancy(_repeat_phases([phases[i] for i in visits], chunks))
            load.append(here)
            # The port waits for its first chunk, and the last one still has some way to go, and all
            # of its own latencies.
            way = [self._occupancy(p) for p in (*phases[: visits[0]], *phases[visits[-1] + 1 :])]
            way += [_Phase(p.dim, p.fixed - p.reduce, 0.0, hops=p.hops) for p in phases]
            pieces.append([here] if self._s.shape.order else [here, *way])
        return pieces, load

    def _bound_message(self, f: int) -> tuple[list[list[_Phase]], list[_Phase]]:
        """Return the bounds of a point-to-point message, which occupies its narrowest dimension."""
        form, delay = self._s.forms[f], self._s.shape.endpoint_delay / PICOSECONDS
        crossed = []
        for use in self._s.uses[form["use_start"] : form["use_end"]]:
            # Its one step is the crossing; the endpoint's delay comes once.
            part = self._part(use["dim"], use["scatter"])
            crossed.append(self._phase(use["dim"], part, form["n_bytes"]))
        passed = [phase._replace(fixed=phase.fixed - delay, slope=0.0) for phase in crossed]
        pieces = [[phase, *passed[:i], *passed[i + 1 :]] for i, phase in enumerate(crossed)]
        return pieces, [*map(self._occupancy, crossed)] if len(crossed) == 1 else []

    def _occupancy(self, phase: _Phase) -> _Phase:
        """Return the part of a phase that keeps a port busy: bytes and reductions, no latency."""
        return phase._replace(fixed=phase.reduce, hops=0)

    def _phases(self, f: int) -> list[_Phase]:
        """Return the phases of one chunk of form ``f``, in the baseline order of dimensions."""
        form = self._s.forms[f]
        uses = self._s.uses[form["use_start"] : form["use_end"]]
        way = [(use, "scatter") for use in uses]
        if form["kind"] == CollectiveKind.ALL_GATHER:
            way = [(use, "gather") for use in uses[::-1]]
        elif form["kind"] == CollectiveKind.ALL_REDUCE:
            way += [(use, "gather") for use in uses[::-1]]
            if uses[-1]["fused"] >= 0:
                way[len(uses) - 1 : len(uses) + 1] = [(uses[-1], "fused")]
        held, phases = float(form["n_bytes"]), []
        for use, which in way:
            part = self._part(use["dim"], use[which])
            phases.append(self._phase(use["dim"], part, held))
            held *= part.growth
        return phases

    def _bound_any_order(self, f: int) -> tuple[list[list[_Phase]], list[_Phase]]:
        """Return the bounds of a reduce-scatter, all-gather or all-reduce for any chunk order."""
        form = self._s.forms[f]
        uses = self._s.uses[form["use_start"] : form["use_end"]]
        kind, chunks = form["kind"], int(form["chunks"])
        dims = [int(use["dim"]) for use in uses]
        members = [1 / self._s.phase_steps[use["scatter"]]["growth"] for use in uses]
        whole = form["n_bytes"] * (np.prod(members) if kind == CollectiveKind.ALL_GATHER else 1.0)
        needs = [self._per_drop(use, p, kind) for use, p in zip(uses, members, strict=True)]
        load, one = [], []
        for size in range(1, len(uses) + 1):
            for q in combinations(range(len(uses)), size):
                last = np.prod([members[i] for i in q])
                drop = whole * last / np.prod(members) * (1 - 1 / last)
                fixed = min(needs[i].fixed for i in q)
                roundings = max(needs[i].roundings for i in q)
                dim, unit = self._summed_dimension(
                    [dims[i] for i in q], [needs[i].n_bytes for i in q]
                )
                slope = self._subtract_rounding(drop * unit, roundings, dim)
                load.append(self._occupancy(_Phase(dim, chunks * fixed, chunks * slope)))
                if size == 1:
                    one.append(_Phase(dim, fixed, slope))
        return [one, *([phase] for phase in load)], load

    def _per_drop(self, use: np.void, members: float, kind: int) -> _Part:
        """Return the minimum need of a byte of drop (see the module) in ``use``'s dimension."""
        d = use["dim"]
        up, down = self._part(d, use["scatter"]), self._part(d, use["gather"])
        gathers = kind == CollectiveKind.ALL_GATHER
        parts = [_scale_part(down, 1 / members)] if gathers else [up]
        if kind == CollectiveKind.ALL_REDUCE:
            parts = [_add_parts(up, _scale_part(down, 1 / members))]
            if use["fused"] >= 0:
                parts.append(self._part(d, use["fused"]))
        least = min(part.n_bytes for part in parts) / (1 - 1 / members)
        fixed = min(part.fixed for part in parts)
        return _Part(fixed, least, 0.0, max(part.roundings for part in parts), 0, 1.0, 0)

    def _summed_dimension(self, dims: list[int], needs: list[float]) -> tuple[int, float]:
        """Return the dimension that stands for a weighted sum over ``dims``, and its weight."""
        if len(dims) == 1:
            return dims[0], needs[0]
        weights = [0.0] * len(self._most)
        for d, need in zip(dims, needs, strict=True):
            weights[d] = float(f"{needs[0] / need:.14g}")
        number = self.sums.setdefault(tuple(weights), len(self._most) + len(self.sums))
        return number, needs[0]

    def _part(self, d: int, number: int) -> _Part:
        if (d, number) not in self._parts:
            self._parts[d, number] = self._read_part(d, number)
        return self._parts[d, number]

    def _read_part(self, d: int, number: int) -> _Part:
        phase_steps, s = self._s.phase_steps[number], self._s
        steps = s.steps[phase_steps["step_start"] : phase_steps["step_end"]]
        fixed = sum(
            int(t["count"])
            * (int(t["hops"]) * int(self._latency[d]) + s.shape.endpoint_delay + int(t["fixed"]))
            for t in steps
        )
        reduces = [int(t["count"]) for t in steps if t["reduce"] * s.shape.reduce_time > 0]
        return _Part(
            fixed / PICOSECONDS,
            float((steps["count"] * steps["n_bytes"]).sum() / phase_steps["share"]),
            float((steps["count"] * steps["reduce"]).sum()) * s.shape.reduce_time / PICOSECONDS,
            int((steps["count"] * steps["messages"]).sum()),
            sum(reduces),
            float(phase_steps["growth"]),
            int((steps["count"] * steps["hops"]).sum()),
        )

    def _phase(self, d: int, part: _Part, held: float) -> _Phase:
        slope = self._subtract_rounding(part.n_bytes * held, part.roundings, d)
        reduce = max(0.0, part.reduce * held - 0.5 * part.reductions / PICOSECONDS)
        return _Phase(int(d), part.fixed + reduce, slope, reduce, part.hops)

    def _subtract_rounding(self, slope: float, roundings: int, dim: int) -> float:
        """Return ``slope`` (bytes) less the bytes that ``roundings`` of times to ps may gain."""
        most = self._most
        if dim >= len(most):
            weights = list(self.sums)[dim - len(most)]
            fastest = sum(w * b for w, b in zip(weights, most, strict=True) if w > 0)
        else:
            fastest = most[dim]
        return max(0.0, float(slope - 0.5 * roundings / PICOSECONDS * fastest))


def _repeat_phases(phases: list[_Phase], times: int) -> _Phase:
    return _Phase(
        phases[0].dim,
        times * sum(phase.fixed for phase in phases),
        times * sum(phase.slope for phase in phases),
        times * sum(phase.reduce for phase in phases),
        times * sum(phase.hops for phase in phases),
    )


def _scale_part(part: _Part, factor: float) -> _Part:
    return part._replace(n_bytes=part.n_bytes * factor, reduce=part.reduce * factor)


def _add_parts(a: _Part, b: _Part) -> _Part:
    return _Part(
        a.fixed + b.fixed,
        a.n_bytes + b.n_bytes,
        a.reduce + b.reduce,
        a.roundings + b.roundings,
        a.reductions + b.reductions,
        1.0,
        a.hops + b.hops,
    )
