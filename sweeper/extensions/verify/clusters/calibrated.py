"""Three rows of each source, and the rest predicted from them: what a calibration is worth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from rich.console import Console

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.calibrate.bands import SHARES, Band
from dimsweep.sweeper.calibrate.evidence import known
from dimsweep.sweeper.calibrate.observations import deviation, shared, unseen, widths
from dimsweep.sweeper.calibrate.posterior import (
    Errors,
    Floats,
    Linear,
    Posterior,
    changes,
    parameters_of,
    solve,
    step_of,
)
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.extensions.verify.clusters.compared import Compared, by, origin
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement
from dimsweep.sweeper.extensions.verify.clusters.plans import configure
from dimsweep.sweeper.extensions.verify.clusters.predict import predict
from dimsweep.sweeper.extensions.verify.side_by_side import side_by_side
from dimsweep.sweeper.terminal import say, table

ROWS = 3
# What a training iteration says something of; latencies it says too little of.
_NAMES = ("compute", "memory", "launch", "overlap", "network_0", "network_1")


@dataclass(frozen=True)
class Predicted:
    """A row that was left out: its error before and after, and whether it lies in each interval of
    SHARES."""

    row: Compared
    before: float
    after: float
    inside: tuple[bool, ...]


def calibrated(rows: Sequence[Compared]) -> dict[str, list[Predicted]]:
    """The rest of each source's rows on a kind of GPU, by three of them; sources of five rows and
    more.

    The posterior is that of the three, linear around the preset; the rest is simulated at its mode.
    Their intervals have the three rows' mean slopes.
    """
    groups = by(lambda row: f"{row.gpu}, {row.kind}: {origin(row)}", rows)
    groups = {name: own for name, own in groups.items() if len(_distinct(own)) > ROWS + 1}
    chosen = {name: _chosen(own) for name, own in groups.items()}
    asked = [
        (row.measured, name, -step_of(name))
        for own in chosen.values()
        for row in own
        for name in _NAMES
    ]
    steps = side_by_side(_shifted, asked, chunksize=5)
    posteriors = {}
    for group, own in chosen.items():
        slopes = np.array(
            [
                [(math.log(row.ours.seconds) - next(steps)) / step_of(name) for name in _NAMES]
                for row in own
            ]
        )
        posteriors[group] = (_posterior(own, slopes), slopes.mean(axis=0))
    rest = {name: [row for row in own if row not in chosen[name]] for name, own in groups.items()}
    at = [
        (row.measured, _NAMES, tuple(posteriors[name][0].mean))
        for name, own in rest.items()
        for row in own
    ]
    logs = side_by_side(_shifted, at, chunksize=5)
    return {
        name: [_predicted(row, next(logs), *posteriors[name]) for row in own]
        for name, own in rest.items()
    }


def _distinct(rows: Sequence[Compared]) -> list[Compared]:
    """The rows whose plans differ in what is simulated."""
    return list({row.ours.seconds: row for row in rows}.values())


def _chosen(rows: Sequence[Compared]) -> list[Compared]:
    """Three of them, spread over the table."""
    some = _distinct(rows)
    return [some[len(some) * (2 * i + 1) // (2 * ROWS)] for i in range(ROWS)]


def _posterior(rows: Sequence[Compared], slopes: Floats) -> Posterior:
    configs = [configure(row.measured, 1) for row in rows]
    config = configs[0]
    parameters = {each.name: each for each in parameters_of(config, widths(config))}
    known = [parameters.get(name) for name in _NAMES]
    linear = Linear(
        np.zeros(len(_NAMES)),
        np.log([row.values[1] for row in rows]),
        slopes,
        np.log([row.values[0] for row in rows]),
        Errors(np.full(len(rows), deviation(config)), shared(configs)),
    )
    prior = np.array([each.width if each else 0.05 for each in known])
    most = np.array([each.most(config) if each else 1.0 for each in known])
    return solve(linear, prior, most)


def _shifted(asked: tuple[Measurement, str | tuple[str, ...], float | tuple[float, ...]]) -> float:
    """The logarithm of a row's seconds with parameters changed; NaN where it cannot be."""
    measured, names, values = asked
    wanted = dict(zip(*(np.atleast_1d(each).tolist() for each in (names, values)), strict=True))

    def changed(config: Config) -> Config:
        some = [p for p in parameters_of(config) if p.name in wanted]
        at = np.array([min(wanted[p.name], p.most(config)) for p in some])
        return config.changed(changes(config, some, at))

    try:
        return math.log(predict(measured, changed).seconds)
    except (DimsweepError, LeftOut):
        return math.nan


def _predicted(row: Compared, log: float, posterior: Posterior, slopes: Floats) -> Predicted:
    theirs = row.values[0]
    error = log - math.log(theirs)
    off = posterior.deviation(slopes, unseen(configure(row.measured, 1)))
    band = Band.around(0.0, off, known().bands.ends)
    inside = tuple(low <= error <= high for low, high in band.ends)
    return Predicted(row, row.error, math.expm1(error), inside)


def print_calibrated(found: dict[str, list[Predicted]], console: Console) -> None:
    """Errors of the rest before and after, by source and in all."""
    say("", console)
    console.print(table(HEADS, cells(found)))


HEADS = (
    f"{ROWS} rows calibrate",
    "predicted",
    "preset",
    "calibrated",
    *(f"in {share:.0%}" for share in SHARES),
)


def cells(found: Mapping[str, Sequence[Predicted]]) -> list[tuple[str, ...]]:
    """The rows of that table under HEADS: a source each, and all."""
    every = [each for own in found.values() for each in own]
    return [(name, *_words(own)) for name, own in [*found.items(), ("all", every)] if own]


def _words(own: Sequence[Predicted]) -> tuple[str, ...]:
    return (
        str(len(own)),
        f"{fmean(abs(each.before) for each in own):.1%}",
        f"{fmean(abs(each.after) for each in own):.1%}",
        *(f"{fmean(each.inside[i] for each in own):.0%}" for i in range(len(SHARES))),
    )
