"""Synthesis of jobs from a learnt model: the operators of every rank for requested keys."""

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

FARTHEST = 8.0  # largest factor beyond the learnt values
FEW = 5  # parts learnt from fewer jobs raise a warning
_MOST = 5_000_000  # operators of all stages
_MOST_RANKS = 10**7
_MANY = 1e9  # of anything


@dataclass(frozen=True)
class Synthesised:
    """A synthetic workload on dimensions of ``sizes``, with ``warnings`` on the requested keys."""

    workload: Workload
    sizes: tuple[int, ...]
    warnings: tuple[str, ...]

    @property
    def n_ranks(self) -> int:
        """Number of ranks of the synthetic job."""
        return math.prod(self.sizes)


def synthesise(
    model: TraceModel, asked: Mapping[str, float], *, seed: int = 0, spread: bool = True
) -> Synthesised:
    """Return a job with the keys ``asked``, as the model expects it.

    Keys with a single learnt value may be omitted.  Durations and sizes scatter as in the learnt
    jobs, unless ``spread`` is off; ``seed`` is the seed of the scatter.

    Raises :class:`DimsweepError` for an unknown, constant or missing key, for a key more than
    :data:`FARTHEST` times beyond the learnt values, and for a case that was not learnt.
    """
    keys, warnings = _keys(model, asked)
    here = case(keys, model.degrees)
    if here not in model.layouts:
        known = "; ".join(sorted(model.layouts))
        raise DimsweepError(
            f"no trace was learnt with {here}", hint=f"learnt: {known}", code="missing"
        )
    layout = model.layouts[here]
    sizes = tuple(_whole_number(size, keys, "ranks of a dimension") for size in layout.sizes)
    if not 1 <= (n_ranks := math.prod(sizes)) <= _MOST_RANKS:
        raise DimsweepError(
            f"the job has {n_ranks:,} ranks; it must have 1 to {_MOST_RANKS:,}", code="out-of-range"
        )
    stages = _whole_number(layout.stages, keys, "stages")
    stride = _whole_number(layout.stride, keys, "ranks between stages")
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
    """Yield a warning for each of the parts ``names`` whose spread between jobs is unknown."""
    for name in sorted(names):
        n = model.parts[name].learnt
        if n < FEW:
            jobs = "1 job" if n == 1 else f"{n} jobs"
            yield (
                f"the part {name!r} was learnt from {jobs}: its sizes and durations may depend "
                f"differently on the {len(model.keys)} keys"
            )


class _Asked(NamedTuple):
    """The requested keys, sizes and groups, which all stages of a synthetic job share."""

    keys: Mapping[str, float]
    sizes: tuple[int, ...]
    axis: int
    stages: int
    stride: int
    rng: np.random.Generator | None  # draws durations; None without spread
    tags: dict[tuple[int, int, str, int], int]  # by source, target, name and number


def _scattered(
    graph: Sequence[Operator], spread: float, rng: np.random.Generator
) -> tuple[Operator, ...]:
    """Return one rank's copy of a stage's graph, each duration times a random factor."""

    def scatter(work: Work) -> Work:
        if not isinstance(work, Compute) or work.duration is None:
            return work
        return replace(work, duration=round(work.duration * _factor(spread, rng)))

    return tuple(Operator(each.name, scatter(each.work), each.after) for each in graph)


def _factor(spread: float, rng: np.random.Generator) -> float:
    """Return a random log-normal factor with mean 1."""
    return math.exp(spread * rng.standard_normal() - spread**2 / 2)


def _group(name: str, dimensions: Sequence[Extent], keys: Mapping[str, float]) -> Group:
    return Group(
        tuple(_whole_number(each.size, keys, f"members of {name}") for each in dimensions),
        tuple(_whole_number(each.stride, keys, f"stride of {name}") for each in dimensions),
    )


def _keys(model: TraceModel, asked: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    warnings = []
    for name, value in asked.items():
        if name not in model.keys:
            hint = suggest_names(name, model.keys)
            raise DimsweepError(
                "no key of this name was learnt", where=name, hint=hint, code="unknown-key"
            )
        low, high = model.keys[name][0], model.keys[name][-1]
        learnt = f"it was learnt from {low:g} to {high:g}"
        if not value > 0:
            raise DimsweepError(
                f"{value:g}; it must be greater than 0",
                where=name,
                hint=learnt,
                code="out-of-range",
            )
        if low == high and value != low:
            problem = f"it was {low:g} in all traces, so the effect of {value:g} is unknown"
            raise DimsweepError(
                problem, where=name, hint="learn from traces in which it varies", code="unsupported"
            )
        beyond = max(value / high, low / value)
        if beyond > FARTHEST:
            problem = (
                f"{value:g} is {beyond:.3g} times beyond the traces; the limit is {FARTHEST:g}"
            )
            raise DimsweepError(problem, where=name, hint=learnt, code="out-of-range")
        if beyond > 1:
            warnings.append(f"{name}={value:g} is extrapolated: {learnt}")
    missing = [name for name, values in model.keys.items() if name not in asked and len(values) > 1]
    if missing:
        low, high = model.keys[missing[0]][0], model.keys[missing[0]][-1]
        raise DimsweepError(
            "this key needs a value",
            where=missing[0],
            hint=f"it was learnt from {low:g} to {high:g}",
            code="missing",
        )
    return {
        name: float(asked.get(name, values[0])) for name, values in model.keys.items()
    }, warnings


def _whole_number(formula: Formula, keys: Mapping[str, float], noun: str) -> int:
    exact = formula.evaluate(keys)
    if not exact < _MANY:
        raise DimsweepError(
            f"the job has {exact:g} {noun}; the limit is {_MANY:g}", code="too-many"
        )
    if abs(exact - round(exact)) > 1e-4 * max(exact, 1.0) or round(exact) < 0:
        asked = ", ".join(f"{name}={value:g}" for name, value in keys.items())
        raise DimsweepError(
            f"{asked} give {exact:g} {noun}; it must be a whole number", code="out-of-range"
        )
    return round(exact)


def _graph(model: TraceModel, stage: int, asked: _Asked) -> tuple[Operator, ...]:
    keys, stages = asked.keys, asked.stages
    name = part_name(stage, stages, case(keys, model.degrees))
    if name not in model.parts:
        known = "; ".join(sorted(model.parts))
        raise DimsweepError(
            f"no trace with a {name} was learnt", hint=f"learnt: {known}", code="missing"
        )
    part = model.parts[name]
    of_stage = {**keys, "stage": float(stage), "stages": float(stages)}
    places = unrolled(part, of_stage)
    symbols = {place: Symbol.from_text(leaf(part.pattern, place)) for place in set(places)}
    makers = _Makers(part, symbols, stage, asked)
    steps = Steps(
        [symbols[place].label for place in places],
        [symbols[place].kind == "send" for place in places],
    )
    reader = Reader(steps)
    operators: list[Operator] = []
    for place in places:
        symbol = symbols[place]
        after = _list_dependencies(reader, symbol, name)
        operators.append(Operator(symbol.name, makers.make(place), after))
        reader.advance(after)
    return tuple(operators)


def unrolled(part: Part, keys: Mapping[str, float]) -> list[Place]:
    """Return the places of a part's steps in order, with loop counts for the values of ``keys``."""
    counts = {
        place: _whole_number(part.counts[place], keys, "rounds of a loop")
        for place in loops(part.pattern)
    }
    places = list(itertools.islice(unroll(part.pattern, counts), _MOST + 1))
    if len(places) > _MOST:
        raise DimsweepError(f"a rank would have more than {_MOST:,} operators", code="too-many")
    return places


def _list_dependencies(reader: Reader, symbol: Symbol, part: str) -> tuple[int, ...]:
    found: set[int] = set()
    for rule in symbol.after.split(SEPARATOR) if symbol.after else ():
        picked = reader.picks(rule)
        if not picked:
            problem = f"{symbol.name!r} of the {part} has a dependency that does not exist: {rule}"
            raise DimsweepError(
                problem,
                hint="learn from jobs that are more similar to the requested one",
                code="unsupported",
            )
        found.update(picked)
    return tuple(sorted(found))


class _Makers:
    """Factory of the works (computations, messages, ...) of one stage's steps.

    Messages of a name to each peer are numbered, so that the first one sent is the first one
    received.
    """

    def __init__(
        self, part: Part, symbols: Mapping[Place, Symbol], stage: int, asked: _Asked
    ) -> None:
        self._symbols, self._stage, self._asked = symbols, stage, asked
        self._means = {
            place: {
                name: (max(formula.evaluate(asked.keys), 0.0), formula.spread)
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


# --- how much a model reveals of the jobs that it was learnt from ---------------------------------


def distance(model: TraceModel, job: Job) -> float:
    """Return how far a job is from the model's expectation for its keys, as a mean log ratio.

    It is the mean of |ln(value / expected)| over sizes and durations, or infinite if the model
    lacks the job's structure.
    """
    total, n = 0.0, 0
    for stage, steps in enumerate(job.stages):
        name = part_name(stage, len(job.stages), case(job.keys, model.degrees))
        part = model.parts.get(name)
        places = unrolled(part, job.keys_of(stage)) if part else []
        if part is None or len(places) != len(steps):
            return float("inf")
        labels = {place: Symbol.from_text(leaf(part.pattern, place)).label for place in set(places)}
        for place, step in zip(places, steps, strict=True):
            if labels[place] != step.symbol.label:
                return float("inf")
            for quantity, value in step.values.items():
                expected = part.quantities[place][quantity].evaluate(job.keys)
                if value > 0 and expected > 0:
                    total, n = total + abs(float(np.log(value / expected))), n + 1
    return total / max(n, 1)


def membership(model: TraceModel, learnt: Sequence[Job], others: Sequence[Job]) -> float:
    """Return how well distances reveal which jobs were learnt, from 0.5 (not at all) to 1.

    It is the share of pairs of a learnt and another job in which the model is nearer to the learnt
    one; ties count half.
    """
    distances = ([distance(model, job) for job in jobs] for jobs in (learnt, others))
    pairs = itertools.product(*distances)
    return float(np.mean([0.5 if a == b else float(a < b) for a, b in pairs]))
