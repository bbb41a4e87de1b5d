"""The model of a family of jobs: parts with names, each a pattern, its counts and its quantities.

A *part* is one role of a rank (the first stage of a pipeline, say) in one *case*: which degrees of
parallelism are 1, so that whole kinds of operators are missing.  Its pattern is the grammar of its
steps, loops within loops.  How often a loop runs and how large or long a step is are formulas of
the keys.  A model is written as JSON that a person can read.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from dimsweep.engine.errors import DimsweepError, accessing
from dimsweep.engine.extensions.synthesis.formula import Formula, Keys, fit, fit_count, fit_product
from dimsweep.engine.extensions.synthesis.grammar import (
    Counts,
    Loop,
    Pattern,
    Place,
    follow,
    induce,
    leaf,
    loops,
    unroll,
)
from dimsweep.engine.extensions.synthesis.job import Job, Symbol, role
from dimsweep.engine.extensions.synthesis.waiting import (
    NEAR,
    SEPARATOR,
    Waiting,
    check_rule,
    describe,
)
from dimsweep.engine.formats.reading import read_json, validated

_WORSE = 1.5  # times the residuals of separate formulas, up to which a common one is taken
_EXACT = 0.002  # a residual that is as good as none


class Samples:
    """Quantities of steps, by the place in their part.

    The same step of other roles and cases mostly follows the same formula: the more jobs it is
    fitted to, the surer it is.  So a common formula is taken where it is about as good: of all
    steps of one kind and name, else of those in one case, else of each place.
    """

    def __init__(self) -> None:
        self._means: dict[tuple[str, Place, str], list[tuple[float, Keys]]] = defaultdict(list)
        self._spreads: dict[tuple[str, Place, str], list[float]] = defaultdict(list)
        self._levels: dict[tuple[str, Place, str], tuple[Hashable, Hashable]] = {}
        self._common: dict[Hashable, list[tuple[str, Place, str]]] = defaultdict(list)
        self._fits: dict[Hashable, tuple[Formula, float]] = {}

    def add(
        self, job: Job, stage: int, places: Sequence[Place], part: str, case: str, pattern: Pattern
    ) -> None:
        """Note the means of one stage's steps, and how they scatter around them."""
        values: dict[tuple[str, Place, str], list[float]] = defaultdict(list)
        for place, step in zip(places, job.stages[stage], strict=True):
            for name, value in step.values.items():
                values[part, place, name].append(value)
        for key, each in values.items():
            self._means[key].append((float(np.mean(each)), job.keys))
            if min(each) > 0:
                self._spreads[key].append(float(np.var(np.log(each))))
            if key not in self._levels:
                symbol = Symbol.of(leaf(pattern, key[1]))
                alike = symbol.kind, symbol.name, symbol.over, key[2]
                self._levels[key] = alike, (*alike, case)
                for level in self._levels[key]:
                    self._common[level].append(key)

    def formulas(self, part: str) -> dict[Place, dict[str, Formula]]:
        """Those of a part, by place and quantity."""
        found: dict[Place, dict[str, Formula]] = defaultdict(dict)
        for key in self._means:
            if key[0] == part:
                found[key[1]][key[2]] = self._formula(key)
        return dict(found)

    def _formula(self, key: tuple[str, Place, str]) -> Formula:
        spread = float(np.sqrt(np.mean(self._spreads[key] or [0.0])))
        own, least = self._fit(key, [key])
        chosen = own
        for level in reversed(self._levels[key]):
            formula, residual = self._fit(level, self._common[level])
            if residual <= max(_WORSE * least, _EXACT):
                chosen = formula
        return Formula(chosen.terms, spread if spread > 1e-6 else 0.0)

    def _fit(
        self, level: Hashable, members: Sequence[tuple[str, Place, str]]
    ) -> tuple[Formula, float]:
        """A formula for all ``members``, and its relative residual (root mean square)."""
        if level not in self._fits:
            pairs = [pair for member in members for pair in self._means[member]]
            means, keys = zip(*pairs, strict=True)
            formula = fit(means, keys)
            y = np.array(means)
            off = np.array([formula.at(each) for each in keys]) - y
            residual = np.sqrt(np.mean((off / np.maximum(y, 1e-12)) ** 2)) if y.any() else 0.0
            self._fits[level] = formula, float(residual)
        return self._fits[level]


# --- the model and how it is learnt --------------------------------------------------------------


Example = tuple[Job, int]  # a job, and which of its stages


@dataclass(frozen=True)
class Part:
    """A role's ``pattern``; the ``counts`` of its loops and the ``quantities`` of its steps by
    their places in it; from ``learnt`` jobs."""

    pattern: Pattern
    counts: Mapping[Place, Formula]
    quantities: Mapping[Place, Mapping[str, Formula]]
    learnt: int


@dataclass(frozen=True)
class Extent:
    """A group's members in a dimension: how many there are, and how far apart."""

    size: Formula
    stride: Formula


@dataclass(frozen=True)
class Layout:
    """Where ranks are: the sizes of the dimensions, how many stages there are and how far apart
    along which of them (``axis``), and each group's extent in every dimension."""

    sizes: tuple[Formula, ...]
    axis: int
    stages: Formula
    stride: Formula
    groups: Mapping[str, tuple[Extent, ...]]


@dataclass(frozen=True)
class TraceModel:
    """``keys``: the values of each that were learnt from; ``degrees``: those that are numbers of
    ranks or stages; ``layouts`` by the name of their case, ``parts`` by role and case;
    ``in_order``: ranks start what stands first of what is ready; ``rank_spread``: how much ranks of
    a stage differ in their durations (see :class:`engine.extensions.synthesis.job.Job`)."""

    keys: Mapping[str, tuple[float, ...]]
    degrees: tuple[str, ...]
    layouts: Mapping[str, Layout]
    parts: Mapping[str, Part]
    jobs: int
    in_order: bool = False
    rank_spread: float = 0.0


def case(keys: Mapping[str, float], degrees: Sequence[str]) -> str:
    """Which degrees are 1, so that what communicates along them is not there."""
    ones = [name for name in degrees if keys[name] == 1]
    return ", ".join(f"{name} = 1" for name in ones) or "no degree is 1"


def part_name(stage: int, n_stages: int, of_case: str) -> str:
    return f"{role(stage, n_stages)}; {of_case}"


def _degrees(jobs: Sequence[Job]) -> tuple[str, ...]:
    """The keys that are, wherever they are above 1, the size of a group or the number of stages."""

    def is_degree(name: str) -> bool:
        larger = [job for job in jobs if job.keys[name] > 1]
        return bool(larger) and all(
            job.keys[name] in (len(job.stages), *(g.n_members for g in job.groups.values()))
            for job in larger
        )

    return tuple(name for name in jobs[0].keys if is_degree(name))


def learn(jobs: Sequence[Job]) -> TraceModel:
    """The model of ``jobs`` that differ in their keys.

    Raises :class:`DimsweepError` naming the job for keys that are not the same ones or no positive
    numbers, for one that is given twice, and for structures that no pattern of their case has.
    """
    _check_jobs(jobs)
    by_case: dict[str, list[Job]] = defaultdict(list)
    by_part: dict[str, list[Example]] = defaultdict(list)
    degrees = _degrees(jobs)
    for job in jobs:
        here = case(job.keys, degrees)
        by_case[here].append(job)
        for stage in range(len(job.stages)):
            by_part[part_name(stage, len(job.stages), here)].append((job, stage))
    names = list(jobs[0].keys)
    return TraceModel(
        {name: tuple(sorted({job.keys[name] for job in jobs})) for name in names},
        degrees,
        {name: _layout(those, degrees) for name, those in by_case.items()},
        _parts(by_part, {name: name.partition("; ")[2] for name in by_part}),
        len(jobs),
        jobs[0].in_order,
        float(np.sqrt(np.mean([job.rank_spread**2 for job in jobs]))),
    )


def _parts(by_part: Mapping[str, Sequence[Example]], cases: Mapping[str, str]) -> dict[str, Part]:
    texts = _texts([example for those in by_part.values() for example in those])
    structures = {name: _structure(name, those, texts) for name, those in by_part.items()}
    samples = Samples()
    for name, (pattern, _, followed) in structures.items():
        for (job, stage), places in zip(by_part[name], followed, strict=True):
            samples.add(job, stage, places, name, cases[name], pattern)
    return {
        name: Part(
            pattern, counts, samples.formulas(name), len({job.name for job, _ in by_part[name]})
        )
        for name, (pattern, counts, _) in structures.items()
    }


def _texts(examples: Sequence[Example]) -> dict[tuple[str, int], list[str]]:
    """The symbols of each example's steps, by the name of its job and its stage."""
    waiting = {}
    for job, stage in examples:
        steps = job.stages[stage]
        waiting[job.name, stage] = Waiting(
            tuple(step.symbol.label for step in steps),
            tuple(step.symbol.kind == "send" for step in steps),
            tuple(step.after for step in steps),
        )
    told = describe(waiting.values())
    texts: dict[tuple[str, int], list[str]] = {}
    for job, stage in examples:
        steps, found = job.stages[stage], told[waiting[job.name, stage]]
        if isinstance(found, int):
            names = ", ".join(
                f"operator {before} ({steps[before].symbol.name!r})"
                for before in steps[found].after
                if found - before > NEAR or before > found
            )
            raise DimsweepError(
                f"no rule tells that it waits for {names}",
                where=job.where(stage, found),
                hint=f"learnt: what is up to {NEAR} operators before, all open ends, and of the "
                "operators of a name the last, next, first, all, or the one or those of the same "
                "round of a loop",
            )
        pairs = zip(steps, found, strict=True)
        texts[job.name, stage] = [str(step.symbol._replace(after=text)) for step, text in pairs]
    return texts


def _check_jobs(jobs: Sequence[Job]) -> None:
    if not jobs:
        raise DimsweepError("no traces to learn from")
    seen: dict[tuple[tuple[str, float], ...], str] = {}
    for job in jobs:
        if job.keys.keys() != jobs[0].keys.keys():
            what = f"its keys are {', '.join(job.keys)}; those of {jobs[0].name}, "
            raise DimsweepError(what + ", ".join(jobs[0].keys), where=job.name)
        bad = next((name for name, value in job.keys.items() if not 0 < value < np.inf), None)
        if bad is not None:
            raise DimsweepError(f"{job.keys[bad]} is no number above 0", where=f"{job.name}: {bad}")
        if len(job.sizes) != len(jobs[0].sizes):
            what = f"it has {len(job.sizes)} dimensions; {jobs[0].name}, {len(jobs[0].sizes)}"
            raise DimsweepError(what, where=job.name)
        if job.in_order != jobs[0].in_order:
            raise DimsweepError(
                f"only one of this job and {jobs[0].name} was written by dimsweep, whose traces "
                "run in another order",
                where=job.name,
                hint="learn from the traces of one tool at a time",
            )
        same = seen.setdefault(tuple(sorted(job.keys.items())), job.name)
        if same != job.name:
            raise DimsweepError(f"{same} has the same keys", where=job.name)
        if not all(job.stages):
            raise DimsweepError("a rank has no operators", where=job.name)


def _layout(jobs: Sequence[Job], degrees: Sequence[str]) -> Layout:
    keys = [job.keys for job in jobs]
    groups = {name: group for job in jobs for name, group in job.groups.items()}
    for job in jobs:
        if job.axis != jobs[0].axis:
            what = f"its stages lie along dimension {job.axis}; those of {jobs[0].name}, along "
            raise DimsweepError(f"{what}{jobs[0].axis}", where=job.name)
        missing = next((name for name in groups if name not in job.groups), None)
        if missing is not None:
            what = f"it has no group {missing!r}, others with these keys do"
            raise DimsweepError(what, where=job.name)

    def of(number: Callable[[Job], float]) -> Formula:
        return fit_product([number(job) for job in jobs], keys, degrees)

    def of_group(name: str, d: int) -> Extent:
        return Extent(
            of(lambda job: job.groups[name].sizes[d]),
            of(lambda job: job.groups[name].strides[d]),
        )

    dims = range(len(jobs[0].sizes))
    return Layout(
        tuple(of(lambda job, d=d: job.sizes[d]) for d in dims),  # type: ignore[misc]
        jobs[0].axis,
        of(lambda job: len(job.stages)),
        of(lambda job: job.stride),
        {name: tuple(of_group(name, d) for d in dims) for name in groups},
    )


def _structure(
    name: str, examples: Sequence[Example], texts: Mapping[tuple[str, int], list[str]]
) -> tuple[Pattern, dict[Place, Formula], list[list[Place]]]:
    """The pattern of a part, how often its loops run, and where in it each example's steps are."""
    sequences = [texts[job.name, stage] for job, stage in examples]
    keys = [job.keys_of(stage) for job, stage in examples]
    pattern, followed = _pattern(name, examples, sequences)
    counts: dict[Place, Formula] = {}
    for place in loops(pattern):
        # A loop within one that never ran says nothing.
        seen = {i: found[0][place] for i, found in enumerate(followed) if found[0].get(place)}
        uneven = next((i for i, each in seen.items() if len(set(each)) > 1), None)
        if uneven is not None:
            what = f"a loop of the {name} runs {seen[uneven][:4]} times in one and the same job"
            raise DimsweepError(what, where=examples[uneven][0].name)
        formula = fit_count([each[0] for each in seen.values()], [keys[i] for i in seen])
        if formula is None:
            what = f"how often a loop of the {name} runs is no simple function of the keys"
            times = sorted({each[0] for each in seen.values()})
            raise DimsweepError(what, hint=f"it ran {times} times")
        counts[place] = formula
    return pattern, counts, [places for _, places in followed]


def _pattern(
    name: str, examples: Sequence[Example], sequences: Sequence[list[str]]
) -> tuple[Pattern, list[tuple[Counts, list[Place]]]]:
    """The pattern that all sequences follow, of the first one, the longest first, that has it."""
    tried: set[Pattern] = set()
    worst = 0
    for number in sorted(range(len(sequences)), key=lambda i: -len(sequences[i])):
        pattern = induce(sequences[number])
        if pattern in tried:
            continue
        tried.add(pattern)
        for least in (1, 0):
            followed = [follow(pattern, sequence, least) for sequence in sequences]
            if all(found is not None for found in followed):
                return pattern, [found for found in followed if found is not None]
        worst = next(i for i, found in enumerate(followed) if found is None)
        if len(tried) == 8:
            break
    raise DimsweepError(
        f"its {name} has another structure than those of other jobs",
        where=examples[worst][0].name,
        hint="jobs of one family differ in how often things are repeated, and in keys of 1",
    )


# --- the file of a model: parts by name, steps in their loops, and formulas ----------------------


FORMAT = "dimsweep trace model 2"
_LARGEST = 1e30  # a factor, and the value of a key
_WIDEST = 10.0  # a spread: the standard deviation of a logarithm
_POWER = 9  # of a key
_HINT = "a file that dimsweep trace learn wrote"


class _Loop(BaseModel):
    times: Formula
    steps: "list[_Loop | dict[str, str]]"


_Steps = list[_Loop | dict[str, str]]


class _Part(BaseModel):
    learnt: int
    steps: _Steps


class _File(BaseModel):
    format: str = FORMAT
    jobs: int
    in_order: bool
    rank_spread: float
    keys: dict[str, tuple[float, ...]]
    degrees: tuple[str, ...]
    layouts: dict[str, Layout]
    parts: dict[str, _Part]


def write_model(path: Path | str, model: TraceModel) -> None:
    """Raises :class:`DimsweepError` if the file cannot be written."""
    parts = {
        name: _Part.model_construct(learnt=part.learnt, steps=_steps(part, part.pattern, ()))
        for name, part in model.parts.items()
    }
    file = _File.model_construct(**{**vars(model), "parts": parts})
    with accessing(path, "the model cannot be written"):
        Path(path).write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _steps(part: Part, pattern: Pattern, place: Place) -> _Steps:
    steps: _Steps = []
    for number, item in enumerate(pattern):
        here = (*place, number)
        if isinstance(item, Loop):
            inner = _steps(part, item.body, here)
            steps.append(_Loop.model_construct(times=part.counts[here], steps=inner))
        else:
            formulas = part.quantities.get(here, {})
            steps.append({"step": item} | {name: str(f) for name, f in formulas.items()})
    return steps


def read_model(path: Path | str) -> TraceModel:
    """Raises :class:`DimsweepError` for a file that cannot be read or holds no model."""
    path = Path(path)
    content = read_json(path)
    if content.get("format") != FORMAT:
        what = (
            f"this is no model of traces: its format is {content.get('format')!r}, not {FORMAT!r}"
        )
        raise DimsweepError(what, where=str(path), hint=_HINT)
    file = validated(_File, content, path)
    try:
        parts = {name: _read_part(part) for name, part in file.parts.items()}
        given = {name: each for name, each in file if name not in ("format", "parts")}
        model = TraceModel(**given, parts=parts)
        _check_model(model)
        return model
    except ValueError as error:  # a formula or a symbol that is none
        what = f"this is no model of traces: {error}"
        raise DimsweepError(what, where=str(path), hint=_HINT) from error


def _check_model(model: TraceModel) -> None:
    """Raise ValueError for a model of which no job could be made, whatever is asked for."""
    for name, values in model.keys.items():
        if not values or not all(0 < value < _LARGEST for value in values):
            raise ValueError(f"the key {name!r} has not been learnt from numbers above 0")
    if unknown := [name for name in model.degrees if name not in model.keys]:
        raise ValueError(f"{unknown[0]!r} is a degree and no key")
    if not 0 <= model.rank_spread <= _WIDEST:
        raise ValueError(f"ranks do not spread by {model.rank_spread:g}")
    groups = {name for layout in model.layouts.values() for name in layout.groups}
    for layout in model.layouts.values():
        if not 0 <= layout.axis < len(layout.sizes):
            raise ValueError(f"there is no axis {layout.axis}")
        extents = [each for dimensions in layout.groups.values() for each in dimensions]
        of_groups = (formula for each in extents for formula in (each.size, each.stride))
        for formula in (*layout.sizes, layout.stages, layout.stride, *of_groups):
            _check_formula(formula, model.keys)
    for name, part in model.parts.items():
        for formula in part.counts.values():
            _check_formula(formula, {*model.keys, "stage", "stages"})
        once = dict.fromkeys(loops(part.pattern), 1)
        for place in unroll(part.pattern, once):
            step, quantities = Symbol.of(leaf(part.pattern, place)), part.quantities.get(place, {})
            step.check(groups)
            for rule in filter(None, step.after.split(SEPARATOR)):
                check_rule(rule)
            if step.kind in ("compute", "host") and not (
                "duration" in quantities or {"flops", "bytes"} <= quantities.keys()
            ):
                raise ValueError(f"{step.name!r} of the {name} has no duration")
            for formula in quantities.values():
                _check_formula(formula, model.keys)


def _check_formula(formula: Formula, keys: Collection[str]) -> None:
    if not 0 <= formula.spread <= _WIDEST:
        raise ValueError(f"values do not spread by {formula.spread:g}")
    for term in formula.terms:
        if unknown := [name for name in term.powers if name not in keys]:
            raise ValueError(f"a formula asks for {unknown[0]!r}, which is no key")
        if not abs(term.factor) < _LARGEST or any(abs(p) > _POWER for p in term.powers.values()):
            raise ValueError(f"{formula} is no formula of what a job can be")


def _read_part(part: _Part) -> Part:
    counts: dict[Place, Formula] = {}
    quantities: dict[Place, dict[str, Formula]] = {}

    def pattern(steps: _Steps, place: Place) -> Pattern:
        items: list[str | Loop] = []
        for number, step in enumerate(steps):
            here = (*place, number)
            if isinstance(step, _Loop):
                counts[here] = step.times
                items.append(Loop(pattern(step.steps, here)))
                continue
            name = step.pop("step", "")
            Symbol.of(name)
            if step:
                quantities[here] = {key: Formula.of(text) for key, text in step.items()}
            items.append(name)
        return tuple(items)

    return Part(pattern(part.steps, ()), counts, quantities, part.learnt)
