"""The learnt model of a family of jobs: named parts, each with a pattern, counts and quantities.

A *part* is one role of a rank (the first stage of a pipeline, say) in one *case*.  A case is the
set of degrees of parallelism that are 1, for which whole kinds of operators are missing.  The
pattern of a part is the grammar of its steps, loops within loops.  The number of rounds of a loop
and the size or duration of a step are formulas of the keys.  A model is written as readable JSON.
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
    """Observed sizes and durations of steps, and the formulas that fit them.

    The same step of other roles and cases mostly follows the same formula, and more jobs make a
    formula more reliable.  So the widest common formula of about the same quality is chosen: for
    all steps of one kind and name, else for those in one case, else for each place.
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
        """Record the means and the scatter of the sizes and durations of one stage's steps."""
        values: dict[tuple[str, Place, str], list[float]] = defaultdict(list)
        for place, step in zip(places, job.stages[stage], strict=True):
            for name, value in step.values.items():
                values[part, place, name].append(value)
        for key, each in values.items():
            self._means[key].append((float(np.mean(each)), job.keys))
            if min(each) > 0:
                self._spreads[key].append(float(np.var(np.log(each))))
            if key not in self._levels:
                symbol = Symbol.from_text(leaf(pattern, key[1]))
                alike = symbol.kind, symbol.name, symbol.over, key[2]
                self._levels[key] = alike, (*alike, case)
                for level in self._levels[key]:
                    self._common[level].append(key)

    def formulas(self, part: str) -> dict[Place, dict[str, Formula]]:
        """Return the formulas of a part, by place in the pattern and name of size or duration."""
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
        """Return one formula for all ``members``, and its relative root mean square error."""
        if level not in self._fits:
            pairs = [pair for member in members for pair in self._means[member]]
            means, keys = zip(*pairs, strict=True)
            formula = fit(means, keys)
            y = np.array(means)
            off = np.array([formula.evaluate(each) for each in keys]) - y
            residual = np.sqrt(np.mean((off / np.maximum(y, 1e-12)) ** 2)) if y.any() else 0.0
            self._fits[level] = formula, float(residual)
        return self._fits[level]


# --- the model and how it is learnt --------------------------------------------------------------


Example = tuple[Job, int]  # a job, and which of its stages


@dataclass(frozen=True)
class Part:
    """The learnt steps of one role in one case: a pattern, with formulas of counts and sizes."""

    pattern: Pattern
    counts: Mapping[Place, Formula]
    quantities: Mapping[Place, Mapping[str, Formula]]
    learnt: int


@dataclass(frozen=True)
class Extent:
    """A group in one dimension: number of members, and distance between them, as formulas."""

    size: Formula
    stride: Formula


@dataclass(frozen=True)
class Layout:
    """The learnt placement of ranks, stages and groups in the dimensions."""

    sizes: tuple[Formula, ...]
    axis: int
    stages: Formula
    stride: Formula
    groups: Mapping[str, tuple[Extent, ...]]


@dataclass(frozen=True)
class TraceModel:
    """The learnt model of a family of jobs, from which :func:`synthesise` makes new jobs."""

    keys: Mapping[str, tuple[float, ...]]
    degrees: tuple[str, ...]
    layouts: Mapping[str, Layout]
    parts: Mapping[str, Part]
    jobs: int
    in_order: bool = False
    rank_spread: float = 0.0


def case(keys: Mapping[str, float], degrees: Sequence[str]) -> str:
    """Return the name of a job's case: its degrees of parallelism that are 1.

    Nothing communicates along such an axis.
    """
    ones = [name for name in degrees if keys[name] == 1]
    return ", ".join(f"{name} = 1" for name in ones) or "no degree is 1"


def part_name(stage: int, n_stages: int, of_case: str) -> str:
    """Return the name of the part that a stage has in case ``of_case``."""
    return f"{role(stage, n_stages)}; {of_case}"


def _degrees(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the keys that are degrees of parallelism.

    Their values above 1 always equal the size of a group or the number of stages.
    """

    def is_degree(name: str) -> bool:
        larger = [job for job in jobs if job.keys[name] > 1]
        return bool(larger) and all(
            job.keys[name] in (len(job.stages), *(g.n_members for g in job.groups.values()))
            for job in larger
        )

    return tuple(name for name in jobs[0].keys if is_degree(name))


def learn(jobs: Sequence[Job]) -> TraceModel:
    """Return the model of ``jobs``, which differ in the values of their keys.

    Raises :class:`DimsweepError` naming the job for keys that differ in name or are not positive,
    for duplicate jobs, and for a structure that does not follow the pattern of its case.
    """
    _check_jobs(jobs)
    by_case: dict[str, list[Job]] = defaultdict(list)
    by_part: dict[str, list[Example]] = defaultdict(list)
    degrees = _degrees(jobs)
    for job in jobs:
        case_name = case(job.keys, degrees)
        by_case[case_name].append(job)
        for stage in range(len(job.stages)):
            by_part[part_name(stage, len(job.stages), case_name)].append((job, stage))
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
    """Return the symbols of each example's steps as text, by name of the job and stage."""
    waiting = {}
    for job, stage in examples:
        steps = job.stages[stage]
        waiting[job.name, stage] = Waiting(
            tuple(step.symbol.label for step in steps),
            tuple(step.symbol.kind == "send" for step in steps),
            tuple(step.after for step in steps),
        )
    described = describe(waiting.values())
    texts: dict[tuple[str, int], list[str]] = {}
    for job, stage in examples:
        steps, found = job.stages[stage], described[waiting[job.name, stage]]
        if isinstance(found, int):
            names = ", ".join(
                f"operator {before} ({steps[before].symbol.name!r})"
                for before in steps[found].after
                if found - before > NEAR or before > found
            )
            raise DimsweepError(
                f"no rule describes its dependency on {names}",
                where=job.describe_place(stage, found),
                hint=f"supported: operators up to {NEAR} steps before, all open ends, and of the "
                "operators of one name the last, next, first, all, or those in the same round of "
                "a loop",
                code="unsupported",
            )
        pairs = zip(steps, found, strict=True)
        texts[job.name, stage] = [str(step.symbol._replace(after=text)) for step, text in pairs]
    return texts


def _check_jobs(jobs: Sequence[Job]) -> None:
    if not jobs:
        raise DimsweepError("there are no traces to learn from", code="missing")
    seen: dict[tuple[tuple[str, float], ...], str] = {}
    for job in jobs:
        if job.keys.keys() != jobs[0].keys.keys():
            problem = f"its keys are {', '.join(job.keys)}, but {jobs[0].name} has "
            raise DimsweepError(problem + ", ".join(jobs[0].keys), where=job.name, code="mismatch")
        bad = next((name for name, value in job.keys.items() if not 0 < value < np.inf), None)
        if bad is not None:
            raise DimsweepError(
                f"{job.keys[bad]}; it must be greater than 0",
                where=f"{job.name}: {bad}",
                code="out-of-range",
            )
        if len(job.sizes) != len(jobs[0].sizes):
            problem = (
                f"it has {len(job.sizes)} dimensions, but {jobs[0].name} has {len(jobs[0].sizes)}"
            )
            raise DimsweepError(problem, where=job.name, code="mismatch")
        if job.in_order != jobs[0].in_order:
            raise DimsweepError(
                f"only one of this job and {jobs[0].name} was written by dimsweep, whose traces "
                "run in another order",
                where=job.name,
                hint="learn from the traces of one tool at a time",
                code="conflict",
            )
        same = seen.setdefault(tuple(sorted(job.keys.items())), job.name)
        if same != job.name:
            raise DimsweepError(f"{same} has the same keys", where=job.name, code="duplicate")
        if not all(job.stages):
            raise DimsweepError("a rank has no operators", where=job.name, code="missing")


def _layout(jobs: Sequence[Job], degrees: Sequence[str]) -> Layout:
    keys = [job.keys for job in jobs]
    groups = {name: group for job in jobs for name, group in job.groups.items()}
    for job in jobs:
        if job.axis != jobs[0].axis:
            problem = (
                f"its stages are along dimension {job.axis}, but those of {jobs[0].name} along "
            )
            raise DimsweepError(f"{problem}{jobs[0].axis}", where=job.name, code="mismatch")
        missing = next((name for name in groups if name not in job.groups), None)
        if missing is not None:
            problem = f"it lacks the group {missing!r} of other jobs with the same degrees"
            raise DimsweepError(problem, where=job.name, code="mismatch")

    def fit_numbers(number: Callable[[Job], float]) -> Formula:
        return fit_product([number(job) for job in jobs], keys, degrees)

    def of_group(name: str, d: int) -> Extent:
        return Extent(
            fit_numbers(lambda job: job.groups[name].sizes[d]),
            fit_numbers(lambda job: job.groups[name].strides[d]),
        )

    dims = range(len(jobs[0].sizes))
    return Layout(
        tuple(fit_numbers(lambda job, d=d: job.sizes[d]) for d in dims),  # type: ignore[misc]
        jobs[0].axis,
        fit_numbers(lambda job: len(job.stages)),
        fit_numbers(lambda job: job.stride),
        {name: tuple(of_group(name, d) for d in dims) for name in groups},
    )


def _structure(
    name: str, examples: Sequence[Example], texts: Mapping[tuple[str, int], list[str]]
) -> tuple[Pattern, dict[Place, Formula], list[list[Place]]]:
    """Return a part's pattern, the formulas of its loop counts, and places of examples' steps."""
    sequences = [texts[job.name, stage] for job, stage in examples]
    keys = [job.keys_of(stage) for job, stage in examples]
    pattern, followed = _pattern(name, examples, sequences)
    counts: dict[Place, Formula] = {}
    for place in loops(pattern):
        # A loop within a loop that never ran has no counts.
        seen = {i: found[0][place] for i, found in enumerate(followed) if found[0].get(place)}
        uneven = next((i for i, each in seen.items() if len(set(each)) > 1), None)
        if uneven is not None:
            problem = f"a loop of the {name} runs {seen[uneven][:4]} times in one job"
            raise DimsweepError(problem, where=examples[uneven][0].name, code="unsupported")
        formula = fit_count([each[0] for each in seen.values()], [keys[i] for i in seen])
        if formula is None:
            problem = f"the rounds of a loop of the {name} are not a simple function of the keys"
            times = sorted({each[0] for each in seen.values()})
            raise DimsweepError(problem, hint=f"it ran {times} times", code="unsupported")
        counts[place] = formula
    return pattern, counts, [places for _, places in followed]


def _pattern(
    name: str, examples: Sequence[Example], sequences: Sequence[list[str]]
) -> tuple[Pattern, list[tuple[Counts, list[Place]]]]:
    """Return the first pattern that all sequences follow, and how each follows it.

    The longest sequences are tried first.
    """
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
        f"its {name} differs in structure from other jobs",
        where=examples[worst][0].name,
        hint="jobs of one family may differ in repetitions, and in degrees of 1",
        code="unsupported",
    )


# --- the file of a model: parts by name, steps in their loops, and formulas ----------------------


FORMAT = "dimsweep trace model 2"
_LARGEST = 1e30  # a factor, and the value of a key
_WIDEST = 10.0  # a spread: the standard deviation of a logarithm
_POWER = 9  # of a key
_HINT = "give a file that dimsweep trace learn wrote"


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
    """Write a model to a file.  Raises :class:`DimsweepError` if it cannot be written."""
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
    """Return the model in a file.  Raises :class:`DimsweepError` if it is not a readable model."""
    path = Path(path)
    content = read_json(path)
    if content.get("format") != FORMAT:
        problem = f"this is not a model of traces: its format is {content.get('format')!r}"
        raise DimsweepError(problem, where=str(path), hint=_HINT, code="unsupported")
    file = validated(_File, content, path)
    try:
        parts = {name: _read_part(part) for name, part in file.parts.items()}
        given = {name: each for name, each in file if name not in ("format", "parts")}
        model = TraceModel(**given, parts=parts)
        _check_model(model)
        return model
    except ValueError as error:  # an invalid formula or symbol
        problem = f"this is not a model of traces: {error}"
        raise DimsweepError(problem, where=str(path), hint=_HINT, code="bad-syntax") from error


def _check_model(model: TraceModel) -> None:
    """Raise ValueError for a model from which no job can be synthesised."""
    for name, values in model.keys.items():
        if not values or not all(0 < value < _LARGEST for value in values):
            raise ValueError(f"the values of key {name!r} are not all greater than 0")
    if unknown := [name for name in model.degrees if name not in model.keys]:
        raise ValueError(f"the degree {unknown[0]!r} is not a key")
    if not 0 <= model.rank_spread <= _WIDEST:
        raise ValueError(f"the spread of ranks is {model.rank_spread:g}")
    groups = {name for layout in model.layouts.values() for name in layout.groups}
    for layout in model.layouts.values():
        if not 0 <= layout.axis < len(layout.sizes):
            raise ValueError(f"the axis {layout.axis} does not exist")
        extents = [each for dimensions in layout.groups.values() for each in dimensions]
        of_groups = (formula for each in extents for formula in (each.size, each.stride))
        for formula in (*layout.sizes, layout.stages, layout.stride, *of_groups):
            _check_formula(formula, model.keys)
    for name, part in model.parts.items():
        for formula in part.counts.values():
            _check_formula(formula, {*model.keys, "stage", "stages"})
        once = dict.fromkeys(loops(part.pattern), 1)
        for place in unroll(part.pattern, once):
            step, quantities = (
                Symbol.from_text(leaf(part.pattern, place)),
                part.quantities.get(place, {}),
            )
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
        raise ValueError(f"the spread of a formula is {formula.spread:g}")
    for term in formula.terms:
        if unknown := [name for name in term.powers if name not in keys]:
            raise ValueError(f"a formula uses {unknown[0]!r}, which is not a key")
        if not abs(term.factor) < _LARGEST or any(abs(p) > _POWER for p in term.powers.values()):
            raise ValueError(f"the formula {formula} has too large factors or powers")


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
            Symbol.from_text(name)
            if step:
                quantities[here] = {key: Formula.from_text(text) for key, text in step.items()}
            items.append(name)
        return tuple(items)

    return Part(pattern(part.steps, ()), counts, quantities, part.learnt)
