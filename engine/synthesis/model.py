"""The model of a family of jobs: parts with names, each a pattern, its counts and its quantities.

A *part* is one role of a rank (the first stage of a pipeline, say) in one *case*: which degrees of
parallelism are 1, so that whole kinds of operators are missing.  Its pattern is the grammar of its
steps, loops within loops.  How often a loop runs and how large or long a step is are formulas of
the keys.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DimsweepError
from engine.synthesis.formula import Formula, fit, fit_count
from engine.synthesis.grammar import Counts, Pattern, Place, follow, induce, loops
from engine.synthesis.job import Job, role
from engine.synthesis.samples import Samples

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
class Layout:
    """Where ranks are: how many, how far apart the stages, and each group's size and stride."""

    ranks: Formula
    stages: Formula
    stride: Formula
    groups: Mapping[str, tuple[Formula, Formula]]


@dataclass(frozen=True)
class TraceModel:
    """``keys``: the values of each that were learnt from; ``degrees``: those that are numbers of
    ranks or stages; ``layouts`` by the name of their case, ``parts`` by role and case."""

    keys: Mapping[str, tuple[float, ...]]
    degrees: tuple[str, ...]
    layouts: Mapping[str, Layout]
    parts: Mapping[str, Part]
    jobs: int


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
    _check(jobs)
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
        {name: _layout(those) for name, those in by_case.items()},
        _parts(by_part, {name: name.partition("; ")[2] for name in by_part}),
        len(jobs),
    )


def _parts(by_part: Mapping[str, Sequence[Example]], cases: Mapping[str, str]) -> dict[str, Part]:
    structures = {name: _structure(name, those) for name, those in by_part.items()}
    samples = Samples()
    for name, (pattern, _, followed) in structures.items():
        for (job, stage), places in zip(by_part[name], followed, strict=True):
            samples.add(job, stage, places, name, cases[name], pattern)
    return {
        name: Part(pattern, counts, samples.formulas(name), len(by_part[name]))
        for name, (pattern, counts, _) in structures.items()
    }


def _check(jobs: Sequence[Job]) -> None:
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
        same = seen.setdefault(tuple(sorted(job.keys.items())), job.name)
        if same != job.name:
            raise DimsweepError(f"{same} has the same keys", where=job.name)
        if not all(job.stages):
            raise DimsweepError("a rank has no operators", where=job.name)


def _layout(jobs: Sequence[Job]) -> Layout:
    keys = [job.keys for job in jobs]
    groups = {name: group for job in jobs for name, group in job.groups.items()}
    for job in jobs:
        missing = next((name for name in groups if name not in job.groups), None)
        if missing is not None:
            what = f"it has no group {missing!r}, others with these keys do"
            raise DimsweepError(what, where=job.name)

    def of(number: Sequence[float]) -> Formula:
        return fit(number, keys)

    return Layout(
        of([job.n_ranks for job in jobs]),
        of([len(job.stages) for job in jobs]),
        of([job.stride for job in jobs]),
        {
            name: (
                of([job.groups[name].sizes[0] for job in jobs]),
                of([job.groups[name].strides[0] for job in jobs]),
            )
            for name in groups
        },
    )


def _structure(
    name: str, examples: Sequence[Example]
) -> tuple[Pattern, dict[Place, Formula], list[list[Place]]]:
    """The pattern of a part, how often its loops run, and where in it each example's steps are."""
    sequences = [[step.symbol for step in job.stages[stage]] for job, stage in examples]
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
        followed = [follow(pattern, sequence) for sequence in sequences]
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
