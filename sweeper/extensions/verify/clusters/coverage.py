"""Whether intervals of the error hold: of each source, those that the other ones give."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import Any

from rich.console import Console
from scipy.stats import t as student

from dimsweep.sweeper.calibrate.bands import SHARES, Bands, LeaveSourceOut
from dimsweep.sweeper.calibrate.evidence import SOFTWARE, Run, facts, judged
from dimsweep.sweeper.extensions.verify.clusters.compared import (
    Compared,
    origin,
    without_own_source,
)
from dimsweep.sweeper.extensions.verify.clusters.plans import configure
from dimsweep.sweeper.extensions.verify.clusters.systems import system_of
from dimsweep.sweeper.terminal import plural, say, table

# How far the share of rows in an interval may be from what it is to hold.
COVERAGE_AIMS = {0.5: 0.07, 0.9: 0.05}
_GROUPS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("document", lambda run: run.source),
    ("scale", lambda run: _scale(run.facts.gpus)),
    ("GPU and kind", lambda run: f"{run.facts.gpu}, {run.facts.kind}"),
)


def runs_of(rows: Sequence[Compared]) -> list[Run]:
    """Measured times as evidence for times like them, each without what its own source made of the
    constants."""
    errors = {id(row.measured): row.error for row in without_own_source(rows)}
    return [_run(row, errors.get(id(row.measured))) for row in rows]


def _run(row: Compared, error: float | None) -> Run:
    """``error``: with its own source left out; None where no other one judges it."""
    own = facts(configure(row.measured, 1), row.gpu)
    stock = system_of(row.measured).config.npu
    known = {name: {*getattr(own, name), float(getattr(stock, name))} for name in SOFTWARE}
    software: dict[str, Any] = {name: tuple(sorted(values)) for name, values in known.items()}
    of = replace(own, **software)
    if error is None:
        return Run(of, origin(row), row.fitted, row.error, alone=True)
    return Run(of, origin(row), row.fitted, error)


@dataclass(frozen=True)
class Covered:
    """A run, whether it lies in each interval of SHARES that other sources give, and how wide the
    last one is."""

    run: Run
    inside: tuple[bool, ...]
    width: float


@dataclass(frozen=True)
class Coverage:
    """How many errors lie in the intervals that the other sources give, of times and of differences
    between two of a source."""

    bands: Bands
    runs: tuple[Run, ...]

    @cached_property
    def _left(self) -> LeaveSourceOut:
        places, errors = zip(*((run.place, run.logarithm) for run in self.runs), strict=True)
        return LeaveSourceOut(self.bands, places, errors)

    @cached_property
    def rows(self) -> list[Covered]:
        """The runs that others judge, and for which other sources give intervals."""
        found = []
        for number, run in enumerate(self.runs):
            others = [each.facts for each in self.runs if each.origin != run.origin]
            if run.alone or not judged(run.facts, others):
                continue
            band = self._left.band(number)
            low, high = band.of(SHARES[-1])
            inside = tuple(band.holds(run.error, share) for share in SHARES)
            found.append(Covered(run, inside, high - low))
        return found

    def groups(self) -> dict[str, dict[str, list[Covered]]]:
        """The rows by document, by scale, and by GPU and kind."""
        found: dict[str, dict[str, list[Covered]]] = {}
        for name, key in _GROUPS:
            for row in self.rows:
                found.setdefault(name, {}).setdefault(key(row.run), []).append(row)
        return found

    def cells(self) -> Iterator[tuple[str, ...]]:
        """A line for each document, scale, and GPU and kind: see :func:`words_of`."""
        for groups in self.groups().values():
            yield from (words_of(name, own) for name, own in groups.items())

    def sentences(self) -> list[str]:
        """How many in all, how many have none and why, and the same of differences."""
        if not self.rows:
            return []
        told = [
            _share([row.inside[i] for row in self.rows], share, "row")
            for i, share in enumerate(SHARES)
        ]
        origins = [row.run.origin for row in self.rows]
        doubts = [doubt([row.inside[i] for row in self.rows], origins) for i in range(len(SHARES))]
        alone = sum(run.alone for run in self.runs)
        none = len(self.runs) - alone - len(self.rows)
        return [
            f"intervals from other sources: {', '.join(told)}",
            f"rows of a source are in or out together: by the differences among these "
            f"{len({*origins})} sources the shares have standard errors of "
            + " and ".join(f"{each:.0%}" for each in doubts),
            f"without an interval: {plural(none, 'row')} of a kind that no other source has; not "
            f"judged: {plural(alone, 'row')} of sources that constants were fitted to and nobody "
            "else judges",
            *self._pairs(),
        ]

    def _pairs(self) -> Iterator[str]:
        """Differences between two runs of a source, by what pairs of other sources say."""
        left, couples = self._left, self._left.couples()
        if not couples:
            return
        students = {source: left.pairs(source) for source in left.groups}
        inside: dict[float, list[bool]] = {share: [] for share in SHARES}
        for a, b in couples:
            degrees, scale = students[left.places[a].source]
            deviation = scale * left.bands.apart(left.places[a], left.places[b])
            error = abs(left.errors[a] - left.errors[b])
            for share in SHARES:
                inside[share].append(error <= deviation * student.ppf((1 + share) / 2, degrees))
        told = [_share(inside[share], share, "pair") for share in SHARES]
        yield f"differences between two runs of a source: {', '.join(told)}"


def doubt(inside: Sequence[bool], sources: Sequence[str]) -> float:
    """The standard error of a share of rows, of which those of a source are alike (Liang and Zeger,
    "Longitudinal data analysis using generalized linear models", 1986); 0 for one source."""
    share, off = fmean(inside), defaultdict[str, float](float)
    for each, source in zip(inside, sources, strict=True):
        off[source] += each - share
    n = len(off)
    return math.sqrt(sum(o**2 for o in off.values()) * n / max(1, n - 1)) / len(inside)


def words_of(name: str, rows: Sequence[Covered]) -> tuple[str, ...]:
    """A group's line: its rows and sources, the shares that are inside, and the width."""
    return (
        name,
        str(len(rows)),
        str(len({row.run.origin for row in rows})),
        *(f"{fmean(row.inside[i] for row in rows):.0%}" for i in range(len(SHARES))),
        f"{median(row.width for row in rows):.0%}",
    )


def print_coverage(coverage: Coverage, console: Console) -> None:
    """The groups, and the sentences."""
    for name, groups in coverage.groups().items():
        shares = (f"in {share:.0%}" for share in SHARES)
        columns = (f"intervals, by {name}", "rows", "sources", *shares, "90% width")
        say("", console)
        console.print(table(columns, [words_of(group, own) for group, own in groups.items()]))
    say("", console)
    for told in coverage.sentences():
        say(told, console)


def _share(inside: Sequence[bool], share: float, what: str) -> str:
    """ "143 of 272 rows within the 50% band (53%, aim 50% ± 7%)"."""
    return (
        f"{sum(inside)} of {plural(len(inside), what)} within the {share:.0%} band "
        f"({fmean(inside):.0%}, aim {share:.0%} ± {COVERAGE_AIMS[share]:.0%})"
    )


def _scale(gpus: int) -> str:
    for limit in (8, 64, 512, 1024):
        if gpus <= limit:
            return f"up to {limit:,} GPUs"
    return "more than 1,024 GPUs"
