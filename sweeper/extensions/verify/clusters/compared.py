"""Compare simulated and measured times, also after calibration, and check the error intervals."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import spearmanr
from scipy.stats import t as student

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.calibrate.bands import SHARES, Band, Bands, LeaveSourceOut
from dimsweep.sweeper.calibrate.evidence import (
    SOFTWARE,
    Run,
    can_be_judged,
    collect_facts,
    load_known_errors,
)
from dimsweep.sweeper.calibrate.observations import (
    compute_iteration_deviation,
    compute_prior_widths,
    compute_shared_errors,
    compute_unmeasured_deviation,
)
from dimsweep.sweeper.calibrate.posterior import Errors as StepErrors
from dimsweep.sweeper.calibrate.posterior import (
    Floats,
    Linear,
    Posterior,
    compute_posterior,
    compute_settings,
    list_parameters,
    slope_step,
)
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement
from dimsweep.sweeper.extensions.verify.clusters.plans import Prediction, configure, predict
from dimsweep.sweeper.extensions.verify.clusters.systems import build_model, find_system
from dimsweep.sweeper.extensions.verify.points import map_in_processes
from dimsweep.sweeper.terminal import format_count, make_table, print_line


@dataclass(frozen=True)
class Compared:
    """A measured row of a table and its simulated values."""

    line: int
    measured: Measurement
    ours: Prediction
    gpu: str
    family: str  # of models
    fitted: bool  # constants were fitted to its source
    uses_peaks: bool = False  # its chip has only the peak of a data sheet, no measured kernels

    @property
    def is_time(self) -> bool:
        """True if the row is a time in seconds; False if it is a memory in bytes."""
        return self.measured.seconds is not None

    @property
    def values(self) -> tuple[float, float]:
        """Measured and simulated value, in seconds or bytes."""
        if self.measured.seconds is not None:
            return self.measured.seconds, self.ours.seconds
        assert self.measured.memory is not None
        return self.measured.memory, self.ours.memory

    @property
    def error(self) -> float:
        """Relative error: simulated / measured - 1."""
        theirs, ours = self.values
        return ours / theirs - 1

    @property
    def kind(self) -> str:
        """Kind of model: "dense" or "experts"."""
        return "experts" if "experts" in build_model(self.measured) else "dense"

    @property
    def scale(self) -> str:
        """Range of numbers of GPUs that the row is in, as text."""
        for limit in (8, 64, 512):
            if self.measured.gpus <= limit:
                return f"up to {limit} GPUs"
        return "more GPUs"


@dataclass(frozen=True)
class Errors:
    """Statistics of the errors of a set of rows."""

    rows: int
    mean: float
    median: float
    worst: float
    bias: float
    rank: float  # Spearman's coefficient; NaN below 3 rows

    @classmethod
    def from_rows(cls, rows: Sequence[Compared]) -> "Errors":
        """Compute the statistics of the errors of rows."""
        sizes = [abs(row.error) for row in rows]
        return cls(
            len(rows),
            fmean(sizes),
            median(sizes),
            max(sizes),
            math.exp(fmean(math.log1p(row.error) for row in rows)) - 1,
            _compute_rank(rows),
        )


def _compute_rank(rows: Sequence[Compared]) -> float:
    """Return Spearman's rank correlation of measured and predicted values.

    Repeated rows are counted once.
    """
    distinct = sorted({row.values for row in rows})
    theirs, ours = [a for a, _ in distinct], [b for _, b in distinct]
    if len(set(theirs)) < 3 or len(set(ours)) < 2:
        return math.nan
    return float(spearmanr(theirs, ours).statistic)


def group_rows(
    key: Callable[[Compared], str], rows: Iterable[Compared]
) -> dict[str, list[Compared]]:
    """Return the rows in groups, in the order of the keys."""
    groups: dict[str, list[Compared]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))


def find_origin(row: Compared) -> str:
    """Return the document that published a row."""
    return row.measured.origin


def correct_fitted_rows(rows: Sequence[Compared]) -> list[Compared]:
    """Return rows with predictions as if constants had been fitted without the row's source.

    Rows of unfitted sources are returned unchanged.  Rows of a fitted source are corrected by the
    factor for their GPU and kind that makes the mean error of the other fitted sources zero;
    constants are not fitted again.  Rows without another fitted source are left out.
    """
    found = []
    for row in rows:
        alike = [o for o in rows if o.fitted and (o.gpu, o.kind) == (row.gpu, row.kind)]
        others = [o for o in alike if find_origin(o) != find_origin(row)]
        if row.fitted:
            if not others:
                continue
            seconds = row.ours.seconds / (1 + Errors.from_rows(others).bias)
            row = replace(row, ours=replace(row.ours, seconds=seconds))
        found.append(row)
    return found


ROWS = 3
# Parameters that training iterations determine; latencies have too little effect.
_NAMES = ("compute", "memory", "launch", "overlap", "network_0", "network_1")


@dataclass(frozen=True)
class Predicted:
    """A row that was not used in the calibration, and its predictions before and after it."""

    row: Compared
    before: float  # relative error of the preset
    after: float  # relative error of the calibrated cluster
    inside: tuple[bool, ...]  # whether the error is in each interval of SHARES


def calibrate_sources(rows: Sequence[Compared]) -> dict[str, list[Predicted]]:
    """Calibrate each source on a GPU by three of its rows, and predict its other rows.

    Sources with fewer than five rows are skipped.  The posterior is linear around the preset; the
    other rows are simulated at its mode, and their intervals use the three rows' mean slopes.
    """
    groups = group_rows(lambda row: f"{row.gpu}, {row.kind}: {find_origin(row)}", rows)
    groups = {name: own for name, own in groups.items() if len(_select_distinct(own)) > ROWS + 1}
    chosen = {name: _choose_rows(own) for name, own in groups.items()}
    asked = [
        (row.measured, name, -slope_step(name))
        for own in chosen.values()
        for row in own
        for name in _NAMES
    ]
    steps = map_in_processes(_simulate_shifted, asked, chunksize=5)
    posteriors = {}
    for group, own in chosen.items():
        slopes = np.array(
            [
                [(math.log(row.ours.seconds) - next(steps)) / slope_step(name) for name in _NAMES]
                for row in own
            ]
        )
        posteriors[group] = (_compute_posterior(own, slopes), slopes.mean(axis=0))
    rest = {name: [row for row in own if row not in chosen[name]] for name, own in groups.items()}
    at = [
        (row.measured, _NAMES, tuple(posteriors[name][0].mean))
        for name, own in rest.items()
        for row in own
    ]
    logs = map_in_processes(_simulate_shifted, at, chunksize=5)
    return {
        name: [_predict_row(row, next(logs), *posteriors[name]) for row in own]
        for name, own in rest.items()
    }


def _select_distinct(rows: Sequence[Compared]) -> list[Compared]:
    """Return the rows with different simulated times."""
    return list({row.ours.seconds: row for row in rows}.values())


def _choose_rows(rows: Sequence[Compared]) -> list[Compared]:
    """Return three rows, spread over the table."""
    distinct = _select_distinct(rows)
    return [distinct[len(distinct) * (2 * i + 1) // (2 * ROWS)] for i in range(ROWS)]


def _compute_posterior(rows: Sequence[Compared], slopes: Floats) -> Posterior:
    configs = [configure(row.measured, 1) for row in rows]
    config = configs[0]
    parameters = {each.name: each for each in list_parameters(config, compute_prior_widths(config))}
    known = [parameters.get(name) for name in _NAMES]
    linear = Linear(
        np.zeros(len(_NAMES)),
        np.log([row.values[1] for row in rows]),
        slopes,
        np.log([row.values[0] for row in rows]),
        StepErrors(
            np.full(len(rows), compute_iteration_deviation(config)), compute_shared_errors(configs)
        ),
    )
    prior = np.array([each.width if each else 0.05 for each in known])
    most = np.array([each.maximum_logarithm(config) if each else 1.0 for each in known])
    return compute_posterior(linear, prior, most)


def _simulate_shifted(
    asked: tuple[Measurement, str | tuple[str, ...], float | tuple[float, ...]],
) -> float:
    """Return the logarithm of a row's seconds with other parameters; NaN if it fails."""
    measured, names, values = asked
    wanted = dict(zip(*(np.atleast_1d(each).tolist() for each in (names, values)), strict=True))

    def changed(config: Config) -> Config:
        some = [p for p in list_parameters(config) if p.name in wanted]
        at = np.array([min(wanted[p.name], p.maximum_logarithm(config)) for p in some])
        return config.with_values(compute_settings(config, some, at))

    try:
        return math.log(predict(measured, changed).seconds)
    except (DimsweepError, LeftOut):
        return math.nan


def _predict_row(row: Compared, log: float, posterior: Posterior, slopes: Floats) -> Predicted:
    theirs = row.values[0]
    error = log - math.log(theirs)
    off = posterior.deviation(slopes, compute_unmeasured_deviation(configure(row.measured, 1)))
    band = Band.from_deviation(0.0, off, load_known_errors().bands.ends)
    inside = tuple(low <= error <= high for low, high in band.ends)
    return Predicted(row, row.error, math.expm1(error), inside)


def print_calibrated(found: dict[str, list[Predicted]], console: Console) -> None:
    """Print the errors of rows not used in the calibration, before and after it."""
    print_line("", console)
    console.print(make_table(HEADS, format_calibrated(found)))


HEADS = (
    f"{ROWS} rows calibrate",
    "predicted",
    "preset",
    "calibrated",
    *(f"in {share:.0%}" for share in SHARES),
)


def format_calibrated(found: Mapping[str, Sequence[Predicted]]) -> list[tuple[str, ...]]:
    """Return the rows of the table under HEADS: one for each source, and one for all."""
    every = [each for own in found.values() for each in own]
    return [(name, *_format_errors(own)) for name, own in [*found.items(), ("all", every)] if own]


def _format_errors(own: Sequence[Predicted]) -> tuple[str, ...]:
    return (
        str(len(own)),
        f"{fmean(abs(each.before) for each in own):.1%}",
        f"{fmean(abs(each.after) for each in own):.1%}",
        *(f"{fmean(each.inside[i] for each in own):.0%}" for i in range(len(SHARES))),
    )


# Maximum deviation of the share of rows in an interval from its nominal share.
COVERAGE_AIMS = {0.5: 0.07, 0.9: 0.05}
_GROUPS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("document", lambda run: run.source),
    ("scale", lambda run: _describe_scale(run.facts.gpus)),
    ("GPU and kind", lambda run: f"{run.facts.gpu}, {run.facts.kind}"),
)


def collect_runs(rows: Sequence[Compared]) -> list[Run]:
    """Return measured times as runs of evidence, with errors corrected for fitted constants."""
    errors = {id(row.measured): row.error for row in correct_fitted_rows(rows)}
    return [_build_run(row, errors.get(id(row.measured))) for row in rows]


def _build_run(row: Compared, error: float | None) -> Run:
    """Build a run; ``error`` is corrected by other sources, or None if there is none."""
    own = collect_facts(configure(row.measured, 1), row.gpu)
    stock = find_system(row.measured).config.npu
    known = {name: {*getattr(own, name), float(getattr(stock, name))} for name in SOFTWARE}
    software: dict[str, Any] = {name: tuple(sorted(values)) for name, values in known.items()}
    facts = replace(own, **software)
    if error is None:
        return Run(facts, find_origin(row), row.fitted, row.error, alone=True)
    return Run(facts, find_origin(row), row.fitted, error)


@dataclass(frozen=True)
class CoveredRun:
    """A run, and the error intervals that other sources give for it."""

    run: Run
    inside: tuple[bool, ...]  # whether its error is in each interval of SHARES
    width: float  # of the widest interval


@dataclass(frozen=True)
class Coverage:
    """The share of errors that lie in the intervals computed from other sources.

    It covers times, and differences between two times of a source.
    """

    bands: Bands
    runs: tuple[Run, ...]

    @cached_property
    def _leave_source_out(self) -> LeaveSourceOut:
        places, errors = zip(*((run.place, run.logarithm) for run in self.runs), strict=True)
        return LeaveSourceOut(self.bands, places, errors)

    @cached_property
    def rows(self) -> list[CoveredRun]:
        """The runs for which other sources give intervals."""
        found = []
        for number, run in enumerate(self.runs):
            others = [each.facts for each in self.runs if each.origin != run.origin]
            if run.alone or not can_be_judged(run.facts, others):
                continue
            band = self._leave_source_out.band(number)
            low, high = band.relative_ends(SHARES[-1])
            inside = tuple(band.contains(run.error, share) for share in SHARES)
            found.append(CoveredRun(run, inside, high - low))
        return found

    def group_rows(self) -> dict[str, dict[str, list[CoveredRun]]]:
        """Return the rows by document, by scale, and by GPU and kind."""
        found: dict[str, dict[str, list[CoveredRun]]] = {}
        for name, key in _GROUPS:
            for row in self.rows:
                found.setdefault(name, {}).setdefault(key(row.run), []).append(row)
        return found

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield a line of the table for each document, scale, and GPU and kind of model.

        See :func:`format_coverage`.
        """
        for groups in self.group_rows().values():
            yield from (format_coverage(name, own) for name, own in groups.items())

    def list_sentences(self) -> list[str]:
        """Return sentences about all rows, rows without an interval, and differences."""
        if not self.rows:
            return []
        shares = [
            _format_share([row.inside[i] for row in self.rows], share, "row")
            for i, share in enumerate(SHARES)
        ]
        origins = [row.run.origin for row in self.rows]
        doubts = [
            compute_standard_error([row.inside[i] for row in self.rows], origins)
            for i in range(len(SHARES))
        ]
        alone = sum(run.alone for run in self.runs)
        none = len(self.runs) - alone - len(self.rows)
        return [
            f"intervals from other sources: {', '.join(shares)}",
            f"rows of a source are correlated: from the {len({*origins})} sources, the standard "
            "errors of the shares are " + " and ".join(f"{each:.0%}" for each in doubts),
            f"without an interval: {format_count(none, 'row')} of a kind that no other source has; "
            f"not judged: {format_count(alone, 'row')} of the only fitted source of a GPU and kind",
            *self._describe_pairs(),
        ]

    def _describe_pairs(self) -> Iterator[str]:
        """Yield sentences on the coverage of differences between two runs."""
        left, couples = self._leave_source_out, self._leave_source_out.list_pairs()
        if not couples:
            return
        students = {source: left.pairs(source) for source in left.groups}
        inside: dict[float, list[bool]] = {share: [] for share in SHARES}
        for a, b in couples:
            degrees, scale = students[left.places[a].source]
            deviation = scale * left.bands.deviation_of_difference(left.places[a], left.places[b])
            error = abs(left.errors[a] - left.errors[b])
            for share in SHARES:
                inside[share].append(error <= deviation * student.ppf((1 + share) / 2, degrees))
        shares = [_format_share(inside[share], share, "pair") for share in SHARES]
        yield f"differences between two runs of a source: {', '.join(shares)}"


def compute_standard_error(inside: Sequence[bool], sources: Sequence[str]) -> float:
    """Return the standard error of a share of rows that are correlated within sources.

    It is the cluster-robust estimate of Liang and Zeger, "Longitudinal data analysis using
    generalized linear models" (1986); 0 for one source.
    """
    share, off = fmean(inside), defaultdict[str, float](float)
    for each, source in zip(inside, sources, strict=True):
        off[source] += each - share
    n = len(off)
    return math.sqrt(sum(o**2 for o in off.values()) * n / max(1, n - 1)) / len(inside)


def format_coverage(name: str, rows: Sequence[CoveredRun]) -> tuple[str, ...]:
    """Return a row of the table: a group's rows, sources, shares inside intervals, median width."""
    return (
        name,
        str(len(rows)),
        str(len({row.run.origin for row in rows})),
        *(f"{fmean(row.inside[i] for row in rows):.0%}" for i in range(len(SHARES))),
        f"{median(row.width for row in rows):.0%}",
    )


def print_coverage(coverage: Coverage, console: Console) -> None:
    """Print the coverage by groups, and its sentences."""
    for name, groups in coverage.group_rows().items():
        shares = (f"in {share:.0%}" for share in SHARES)
        columns = (f"intervals, by {name}", "rows", "sources", *shares, "90% width")
        print_line("", console)
        console.print(
            make_table(columns, [format_coverage(group, own) for group, own in groups.items()])
        )
    print_line("", console)
    for sentence in coverage.list_sentences():
        print_line(sentence, console)


def _format_share(inside: Sequence[bool], share: float, what: str) -> str:
    """Format "143 of 272 rows within the 50% band (53%, aim 50% ± 7%)"."""
    return (
        f"{sum(inside)} of {format_count(len(inside), what)} within the {share:.0%} band "
        f"({fmean(inside):.0%}, aim {share:.0%} ± {COVERAGE_AIMS[share]:.0%})"
    )


def _describe_scale(gpus: int) -> str:
    for limit in (8, 64, 512, 1024):
        if gpus <= limit:
            return f"up to {limit:,} GPUs"
    return "more than 1,024 GPUs"
