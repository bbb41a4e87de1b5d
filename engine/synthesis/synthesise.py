"""Jobs from the model: for keys that were asked for, the operators of every rank."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.errors import DimsweepError, suggestion
from engine.kinds import CollectiveKind
from engine.synthesis.formula import Formula
from engine.synthesis.grammar import leaf, loops, unroll
from engine.synthesis.job import Symbol, stage_of
from engine.synthesis.model import Part, TraceModel, case, part_name
from engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Group,
    Operator,
    Receive,
    Send,
    Work,
    Workload,
)

FARTHEST = 8.0  # times beyond what was learnt, that is synthesised
_MOST = 5_000_000  # operators of all stages


@dataclass(frozen=True)
class Synthesised:
    """A workload on one dimension of ``n_ranks``, and ``warnings`` about what it was asked for."""

    workload: Workload
    n_ranks: int
    warnings: tuple[str, ...]


def synthesise(
    model: TraceModel, asked: Mapping[str, float], *, seed: int = 0, spread: bool = True
) -> Synthesised:
    """The job that the model expects for ``asked``; a key that is not asked for must have had one
    value only.  Durations and sizes scatter as they did, unless ``spread`` is off.

    Raises :class:`DimsweepError` for an unknown key, one that never varied, one that is missing, or
    one that is :data:`FARTHEST` times beyond what was learnt; and for a case that was not learnt.
    """
    keys, warnings = _keys(model, asked)
    here = case(keys, model.degrees)
    if here not in model.layouts:
        known = "; ".join(sorted(model.layouts))
        raise DimsweepError(f"no trace was learnt with {here}", hint=f"learnt: {known}")
    layout = model.layouts[here]
    n, stages = _whole(layout.ranks, keys, "ranks"), _whole(layout.stages, keys, "stages")
    stride = _whole(layout.stride, keys, "ranks between stages")
    groups = {
        name: Group(
            (_whole(size, keys, f"members of {name}"),), (_whole(step, keys, f"stride of {name}"),)
        )
        for name, (size, step) in layout.groups.items()
    }
    rng = np.random.default_rng(seed)
    graphs = tuple(
        _graph(model, stage, stages, stride, n, keys, rng if spread else None)
        for stage in range(stages)
    )
    graph_of = np.arange(n) // stride % stages if stages > 1 else None
    workload = Workload(graphs, groups, graph_of, name="synthesised")
    workload.check((n,))
    return Synthesised(workload, n, tuple(warnings))


def _keys(model: TraceModel, asked: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    warnings = []
    for name, value in asked.items():
        if name not in model.keys:
            hint = suggestion(name, model.keys)
            raise DimsweepError("no such key was learnt", where=name, hint=hint)
        low, high = model.keys[name][0], model.keys[name][-1]
        learnt = f"it was learnt from {low:g} to {high:g}"
        if not value > 0:
            raise DimsweepError(f"{value:g} is no number above 0", where=name, hint=learnt)
        if low == high and value != low:
            what = f"it was {low:g} in all traces, so what {value:g} means was not learnt"
            raise DimsweepError(what, where=name, hint="learn from traces in which it varies")
        beyond = max(value / high, low / value)
        if beyond > FARTHEST:
            what = f"{value:g} is {beyond:.3g} times beyond the traces; at most {FARTHEST:g}"
            raise DimsweepError(what, where=name, hint=learnt)
        if beyond > 1:
            warnings.append(f"{name}={value:g} is extrapolated: {learnt}")
    missing = [name for name, values in model.keys.items() if name not in asked and len(values) > 1]
    if missing:
        low, high = model.keys[missing[0]][0], model.keys[missing[0]][-1]
        raise DimsweepError(
            "this key needs a value",
            where=missing[0],
            hint=f"it was learnt from {low:g} to {high:g}",
        )
    return {
        name: float(asked.get(name, values[0])) for name, values in model.keys.items()
    }, warnings


def _whole(formula: Formula, keys: Mapping[str, float], what: str) -> int:
    exact = formula.at(keys)
    if abs(exact - round(exact)) > 1e-4 * max(exact, 1.0) or round(exact) < 0:
        asked = ", ".join(f"{name}={value:g}" for name, value in keys.items())
        raise DimsweepError(f"{exact:g} {what} are asked for by {asked}; it must be a whole number")
    return round(exact)


def _graph(
    model: TraceModel,
    stage: int,
    stages: int,
    stride: int,
    n: int,
    keys: Mapping[str, float],
    rng: np.random.Generator | None,
) -> tuple[Operator, ...]:
    name = part_name(stage, stages, case(keys, model.degrees))
    if name not in model.parts:
        known = "; ".join(sorted(model.parts))
        raise DimsweepError(f"no trace of a {name} was learnt", hint=f"learnt: {known}")
    part = model.parts[name]
    of_stage = {**keys, "stage": float(stage), "stages": float(stages)}
    counts = {
        place: _whole(part.counts[place], of_stage, f"rounds of a loop of the {name}")
        for place in loops(part.pattern)
    }
    makers = _Makers(part, of_stage, stride, n, rng)
    operators: list[Operator] = []
    ends: set[int] = set()
    for number, place in enumerate(unroll(part.pattern, counts)):
        if number > _MOST:
            raise DimsweepError(f"a rank would have more than {_MOST:,} operators")
        symbol, work = makers.make(place)
        after = (
            sorted(ends)
            if symbol.after == "open"
            else [number - int(d) for d in symbol.after.split()]
        )
        after = sorted(before for before in after if before >= 0)
        operators.append(Operator(symbol.name, work, tuple(after)))
        ends.difference_update(after)
        if symbol.kind != "send":
            ends.add(number)
    return tuple(operators)


class _Makers:
    """Works of one stage's steps.  Messages to each peer are numbered, as those from it are, so
    that the first one sent is the first one received."""

    def __init__(
        self,
        part: Part,
        keys: Mapping[str, float],
        stride: int,
        n: int,
        rng: np.random.Generator | None,
    ) -> None:
        self._part, self._keys, self._stride, self._n, self._rng = part, keys, stride, n, rng
        self._symbols: dict[tuple[int, ...], Symbol] = {}
        self._means: dict[tuple[int, ...], dict[str, tuple[float, float]]] = {}
        self._fixed: dict[tuple[int, ...], Work] = {}
        self._messages: dict[tuple[bool, str], int] = {}

    def make(self, place: tuple[int, ...]) -> tuple[Symbol, Work]:
        if place not in self._symbols:
            self._symbols[place] = Symbol.of(leaf(self._part.pattern, place))
            formulas = self._part.quantities.get(place, {})
            self._means[place] = {
                name: (max(formula.at(self._keys), 0.0), formula.spread)
                for name, formula in formulas.items()
            }
        symbol, means = self._symbols[place], self._means[place]
        is_message = symbol.kind in ("send", "receive")
        if place in self._fixed:
            return symbol, self._fixed[place]
        work = self._work(symbol, {name: self._sample(*mean) for name, mean in means.items()})
        # Without a spread equal steps are one object, which is checked and lowered once.
        if not is_message and not any(spread for _, spread in means.values() if self._rng):
            self._fixed[place] = work
        return symbol, work

    def _sample(self, mean: float, spread: float) -> float:
        if self._rng is None or not spread:
            return mean
        return float(mean * np.exp(spread * self._rng.standard_normal() - spread**2 / 2))

    def _work(self, symbol: Symbol, values: Mapping[str, float]) -> Work:
        if symbol.kind == "compute":
            if "duration" in values:
                return Compute(duration=round(values["duration"]))
            return Compute(values["flops"], values["bytes"])
        n_bytes = values.get("bytes", 0.0)
        if symbol.kind in ("load", "store"):
            return Access(n_bytes, symbol.kind == "store", symbol.over)
        if symbol.kind in ("send", "receive"):
            key = symbol.kind == "send", symbol.peer
            tag = self._messages[key] = self._messages.get(key, -1) + 1
            stage, stages = int(self._keys["stage"]), int(self._keys["stages"])
            hop = stage_of(symbol.peer, stage, stages) - stage
            offset = (hop * self._stride % self._n,)
            if symbol.kind == "receive":
                return Receive(offset, tag)
            return Send(float(round(n_bytes)), offset, tag, symbol.over)
        group, _, stream = symbol.over.partition("/")
        kind = CollectiveKind[symbol.kind.removeprefix("collective ").upper()]
        return Collective(kind, n_bytes, group, stream, symbol.priority)
