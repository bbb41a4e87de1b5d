"""Jobs from the model: for keys that were asked for, the operators of every rank."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.extensions.synthesis.formula import Formula
from dimsweep.engine.extensions.synthesis.grammar import Place, leaf, loops, unroll
from dimsweep.engine.extensions.synthesis.job import Job, Symbol, offset_to, stage_of
from dimsweep.engine.extensions.synthesis.model import Extent, Part, TraceModel, case, part_name
from dimsweep.engine.extensions.synthesis.waiting import SEPARATOR, Reader, Steps
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.coordinates import Group, all_coordinates
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Operator,
    Receive,
    Send,
    Work,
    Workload,
)

FARTHEST = 8.0  # times beyond what was learnt, that is synthesised
FEW = 5  # jobs, below which a part is warned of
_MOST = 5_000_000  # operators of all stages
_MOST_RANKS = 10**7
_MANY = 1e9  # of anything


@dataclass(frozen=True)
class Synthesised:
    """A workload on dimensions of ``sizes``, and ``warnings`` about what it was asked for."""

    workload: Workload
    sizes: tuple[int, ...]
    warnings: tuple[str, ...]

    @property
    def n_ranks(self) -> int:
        return math.prod(self.sizes)


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
    sizes = tuple(_whole(size, keys, "ranks of a dimension") for size in layout.sizes)
    if not 1 <= (n_ranks := math.prod(sizes)) <= _MOST_RANKS:
        raise DimsweepError(f"{n_ranks:,} ranks are asked for, of 1 to {_MOST_RANKS:,}")
    stages = _whole(layout.stages, keys, "stages")
    stride = _whole(layout.stride, keys, "ranks between stages")
    groups = {name: _group(name, of, keys) for name, of in layout.groups.items()}
    rng = np.random.default_rng(seed) if spread else None
    asked_for = _Asked(keys, sizes, layout.axis, stages, stride, rng, {})
    graphs = tuple(_graph(model, stage, asked_for) for stage in range(stages))
    along = all_coordinates(sizes)[:, layout.axis] if stages > 1 else None
    stage_of_rank = None if along is None else along // stride % stages
    if rng is not None and model.rank_spread:
        each = np.zeros(math.prod(sizes), dtype=int) if stage_of_rank is None else stage_of_rank
        graphs = tuple(_scattered(graphs[stage], model.rank_spread, rng) for stage in each)
        stage_of_rank = np.arange(len(graphs))
    workload = Workload(graphs, groups, stage_of_rank, name="synthesised", in_order=model.in_order)
    workload.check(sizes)
    few = _learnt_from_few(model, {part_name(stage, stages, here) for stage in range(stages)})
    return Synthesised(workload, sizes, (*warnings, *few))


def _learnt_from_few(model: TraceModel, names: Collection[str]) -> Iterator[str]:
    """A warning for each part that no spread between jobs is known of."""
    for name in sorted(names):
        n = model.parts[name].learnt
        if n < FEW:
            jobs = "1 job" if n == 1 else f"{n} jobs"
            yield (
                f"the part {name!r} was learnt from {jobs}: how its sizes and durations depend on "
                f"{len(model.keys)} keys is a guess"
            )


class _Asked(NamedTuple):
    """What all stages of a job have in common: its keys, where stages are, what durations are drawn
    with, and the tags of messages, by source, target, name and number."""

    keys: Mapping[str, float]
    sizes: tuple[int, ...]
    axis: int
    stages: int
    stride: int
    rng: np.random.Generator | None
    tags: dict[tuple[int, int, str, int], int]


def _scattered(
    graph: Sequence[Operator], spread: float, rng: np.random.Generator
) -> tuple[Operator, ...]:
    """One rank's graph of a stage: others take longer or shorter."""

    def of(work: Work) -> Work:
        if not isinstance(work, Compute) or work.duration is None:
            return work
        return replace(work, duration=round(work.duration * _factor(spread, rng)))

    return tuple(Operator(each.name, of(each.work), each.after) for each in graph)


def _factor(spread: float, rng: np.random.Generator) -> float:
    """Log-normal, 1 in the mean."""
    return math.exp(spread * rng.standard_normal() - spread**2 / 2)


def _group(name: str, dimensions: Sequence[Extent], keys: Mapping[str, float]) -> Group:
    return Group(
        tuple(_whole(each.size, keys, f"members of {name}") for each in dimensions),
        tuple(_whole(each.stride, keys, f"stride of {name}") for each in dimensions),
    )


def _keys(model: TraceModel, asked: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    warnings = []
    for name, value in asked.items():
        if name not in model.keys:
            hint = suggest_names(name, model.keys)
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
    if not exact < _MANY:
        raise DimsweepError(f"{exact:g} {what} are too many")
    if abs(exact - round(exact)) > 1e-4 * max(exact, 1.0) or round(exact) < 0:
        asked = ", ".join(f"{name}={value:g}" for name, value in keys.items())
        raise DimsweepError(f"{exact:g} {what} are asked for by {asked}; it must be a whole number")
    return round(exact)


def _graph(model: TraceModel, stage: int, asked: _Asked) -> tuple[Operator, ...]:
    keys, stages = asked.keys, asked.stages
    name = part_name(stage, stages, case(keys, model.degrees))
    if name not in model.parts:
        known = "; ".join(sorted(model.parts))
        raise DimsweepError(f"no trace of a {name} was learnt", hint=f"learnt: {known}")
    part = model.parts[name]
    of_stage = {**keys, "stage": float(stage), "stages": float(stages)}
    places = unrolled(part, of_stage)
    symbols = {place: Symbol.of(leaf(part.pattern, place)) for place in set(places)}
    makers = _Makers(part, symbols, stage, asked)
    steps = Steps(
        [symbols[place].label for place in places],
        [symbols[place].kind == "send" for place in places],
    )
    reader = Reader(steps)
    operators: list[Operator] = []
    for place in places:
        symbol = symbols[place]
        after = _after(reader, symbol, name)
        operators.append(Operator(symbol.name, makers.make(place), after))
        reader.advance(after)
    return tuple(operators)


def unrolled(part: Part, keys: Mapping[str, float]) -> list[Place]:
    """The places of a part's steps in their order; ``keys`` are those that counts depend on."""
    counts = {
        place: _whole(part.counts[place], keys, "rounds of a loop") for place in loops(part.pattern)
    }
    places = list(itertools.islice(unroll(part.pattern, counts), _MOST + 1))
    if len(places) > _MOST:
        raise DimsweepError(f"a rank would have more than {_MOST:,} operators")
    return places


def _after(reader: Reader, symbol: Symbol, part: str) -> tuple[int, ...]:
    found: set[int] = set()
    for rule in symbol.after.split(SEPARATOR) if symbol.after else ():
        picked = reader.picks(rule)
        if not picked:
            what = f"{symbol.name!r} of the {part} waits for what is not there: {rule}"
            raise DimsweepError(what, hint="learn from jobs that are more like what is asked for")
        found.update(picked)
    return tuple(sorted(found))


class _Makers:
    """Works of one stage's steps.  Messages of a name to each peer are numbered, as those received
    are, so that the first one sent is the first one received."""

    def __init__(
        self, part: Part, symbols: Mapping[Place, Symbol], stage: int, asked: _Asked
    ) -> None:
        self._symbols, self._stage, self._asked = symbols, stage, asked
        self._means = {
            place: {
                name: (max(formula.at(asked.keys), 0.0), formula.spread)
                for name, formula in part.quantities.get(place, {}).items()
            }
            for place in symbols
        }
        self._fixed: dict[Place, Work] = {}
        self._messages = Counter[tuple[int, int, str]]()

    def make(self, place: Place) -> Work:
        if place in self._fixed:
            return self._fixed[place]
        symbol, means = self._symbols[place], self._means[place]
        work = self._work(symbol, {name: self._sample(*mean) for name, mean in means.items()})
        scatters = self._asked.rng and any(spread for _, spread in means.values())
        # Without a spread equal steps are one object, which is checked and lowered once.
        if not scatters and symbol.kind not in ("send", "receive"):
            self._fixed[place] = work
        return work

    def _sample(self, mean: float, spread: float) -> float:
        rng = self._asked.rng
        if rng is None or not spread:
            return mean
        return mean * _factor(spread, rng)

    def _work(self, symbol: Symbol, values: Mapping[str, float]) -> Work:
        if symbol.kind in ("compute", "host"):
            if "duration" in values:
                on_host = symbol.kind == "host"
                return Compute(duration=round(values["duration"]), on_host=on_host)
            return Compute(values["flops"], values["bytes"])
        n_bytes = values.get("bytes", 0.0)
        if symbol.kind.endswith(("load", "store")):
            store, shared = symbol.kind.endswith("store"), symbol.kind.startswith("shared")
            return Access(n_bytes, store, symbol.over, shared)
        if symbol.kind in ("send", "receive"):
            return self._message(symbol, n_bytes)
        group, _, stream = symbol.over.partition("/")
        kind = CollectiveKind[symbol.kind.removeprefix("collective ").upper()]
        return Collective(kind, n_bytes, group, stream, symbol.priority)

    def _message(self, symbol: Symbol, n_bytes: float) -> Send | Receive:
        asked, here = self._asked, self._stage
        there = stage_of(symbol.peer, here, asked.stages)
        offset = offset_to(there - here, asked.axis, asked.stride, asked.sizes)
        sends = symbol.kind == "send"
        way = (here, there, symbol.name) if sends else (there, here, symbol.over)
        tag = asked.tags.setdefault((*way, self._messages[way]), len(asked.tags))
        self._messages[way] += 1
        if sends:
            return Send(float(round(n_bytes)), offset, tag, symbol.over)
        return Receive(offset, tag)


# --- what a model gives away of the jobs that it learnt from -------------------------------------


def distance(model: TraceModel, job: Job) -> float:
    """How far a job's sizes and durations are from what the model expects of its keys: the mean of
    |ln(value / expected)|; infinite where the model has no such structure."""
    total, n = 0.0, 0
    for stage, steps in enumerate(job.stages):
        name = part_name(stage, len(job.stages), case(job.keys, model.degrees))
        part = model.parts.get(name)
        places = unrolled(part, job.keys_of(stage)) if part else []
        if part is None or len(places) != len(steps):
            return float("inf")
        labels = {place: Symbol.of(leaf(part.pattern, place)).label for place in set(places)}
        for place, step in zip(places, steps, strict=True):
            if labels[place] != step.symbol.label:
                return float("inf")
            for quantity, value in step.values.items():
                expected = part.quantities[place][quantity].at(job.keys)
                if value > 0 and expected > 0:
                    total, n = total + abs(float(np.log(value / expected))), n + 1
    return total / max(n, 1)


def membership(model: TraceModel, learnt: Sequence[Job], others: Sequence[Job]) -> float:
    """The share of pairs, of a job that was learnt from and one that was not, in which the model is
    nearer to the first (ties count half): 0.5 tells nothing, 1 gives every member away."""
    distances = ([distance(model, job) for job in jobs] for jobs in (learnt, others))
    pairs = itertools.product(*distances)
    return float(np.mean([0.5 if a == b else float(a < b) for a, b in pairs]))
