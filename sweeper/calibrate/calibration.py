"""The calibration of a cluster: fit its parameters to measurements, print it, write its file."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import expm1, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from scipy.stats import t as student

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.calibrate.bands import SHARES
from dimsweep.sweeper.calibrate.evidence import MODEL, compute_plan_coordinates, serialize_posterior
from dimsweep.sweeper.calibrate.observations import (
    Observation,
    compute_shared_errors,
    compute_unmeasured_deviation,
)
from dimsweep.sweeper.calibrate.posterior import (
    Errors,
    Floats,
    LeaveOneOut,
    Linear,
    Parameter,
    Posterior,
    compute_posterior,
    compute_settings,
    fit_posterior,
    list_parameters,
    slope_step,
)
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.terminal import plural, say, table

# Beyond which no cluster is from its preset, and a measurement must be of another unit or machine.
_IMPLAUSIBLE = 30.0
UNEXPLAINED = 3.0  # deviations beyond which the others do not explain a measurement


@dataclass(frozen=True)
class Calibration:
    """What a cluster's measurements say of its parameters, with the simulations near them."""

    config: Config
    parameters: list[Parameter]
    observations: Sequence[Observation]
    posterior: Posterior
    linear: Linear
    before: Floats  # (N,) logarithms of what the preset predicts

    @property
    def widths(self) -> Floats:
        return np.array([each.width for each in self.parameters])

    @property
    def maxima(self) -> Floats:
        return np.array([each.maximum_logarithm(self.config) for each in self.parameters])

    @cached_property
    def leave_one_out(self) -> LeaveOneOut:
        return LeaveOneOut(self.linear, self.widths, self.maxima)

    @property
    def preset_errors(self) -> Floats:
        """(N,) errors of the preset: ours over theirs, less 1."""
        return np.asarray(np.expm1(self.before - self.linear.measured))

    @property
    def fitted_errors(self) -> Floats:
        """(N,) errors of the calibrated cluster."""
        return np.asarray(np.expm1(self.linear.predict(self.posterior.mean) - self.linear.measured))

    @property
    def left_out_errors(self) -> Floats:
        """(N,) errors, each without its own measurement."""
        return np.asarray(np.expm1(self.leave_one_out.errors))

    def describe_effect(self, number: int) -> str:
        """What a measurement says by itself: the parameter that it would move most, by how much."""
        rows = np.arange(len(self.observations)) == number
        near = replace(self.linear, center=np.zeros(len(self.parameters)), values=self.before)
        one = near.select_rows(rows)
        mean = compute_posterior(one, self.widths, self.maxima).mean
        p = int(np.abs(mean / self.widths).argmax())
        if abs(mean[p]) < 0.005:
            return "as the preset says"
        return f"{self.parameters[p].label} {math.expm1(mean[p]):+.0%}"

    @property
    def unexplained(self) -> list[int]:
        """The measurements that the others and the parameters do not explain."""
        return [i for i, score in enumerate(self.leave_one_out.scores) if abs(score) > UNEXPLAINED]

    @property
    def has_one_model(self) -> bool:
        """Whether all iterations are of one model, so that what it is off by itself is in part
        taken for the cluster's."""
        plans = [
            compute_plan_coordinates(each.config)
            for each in self.observations
            if each.config is not None
        ]
        sizes = {plan and plan[MODEL] for plan in plans}
        return len(sizes) == 1 and None not in sizes

    @property
    def error(self) -> float:
        """The deviation of an iteration's error beyond the parameters, of a plan of its own."""
        return compute_unmeasured_deviation(self.config)

    @property
    def maximum_gpus(self) -> int:
        """The most that an iteration was measured on."""
        own = [each.config for each in self.observations if each.config is not None]
        return max((each.topology.build().n_npus for each in own), default=1)

    def settings(self) -> dict[str, Any]:
        """The keys of the calibrated cluster."""
        return compute_settings(self.config, self.parameters, self.posterior.mean)

    @property
    def mean_errors(self) -> tuple[float, float]:
        """The mean error of iterations before, and of each predicted from the others."""
        own = [i for i, each in enumerate(self.observations) if each.kind == "iteration"]
        own = own or list(range(len(self.observations)))
        return (
            fmean(abs(self.preset_errors[i]) for i in own),
            fmean(abs(self.left_out_errors[i]) for i in own),
        )


def calibrate(
    config: Config, observations: Sequence[Observation], widths: dict[str, float]
) -> Calibration:
    """The calibration of a cluster.  ``config`` has its preset, and any workload.

    Raises :class:`DimsweepError` where nothing was measured, and for a measurement that cannot be
    simulated, naming it.
    """
    if not observations:
        raise DimsweepError("nothing was measured")
    parameters = list_parameters(config, widths)

    def simulate(at: Floats) -> Floats:
        return np.array([_predict_logarithm(each, config, parameters, at) for each in observations])

    measured = np.log([each.value for each in observations])
    own = np.array([each.deviation for each in observations])
    errors = Errors(own, compute_shared_errors([each.config for each in observations]))
    prior = np.array([each.width for each in parameters])
    most = np.array([each.maximum_logarithm(config) for each in parameters])
    steps = np.array([slope_step(each.name) for each in parameters])
    before = simulate(np.zeros(len(parameters)))
    _check_plausible(observations, before - measured)

    def near(at: Floats) -> Floats:
        return simulate(at) if at.any() else before

    posterior, linear = fit_posterior(near, measured, errors, prior, most, steps)
    return Calibration(config, parameters, observations, posterior, linear, before)


def _check_plausible(observations: Sequence[Observation], ratios: Floats) -> None:
    """Raise :class:`DimsweepError` for an iteration, or for most measurements of another kind, that
    the preset predicts beyond all reason; ``ratios`` are logarithms of predicted over measured."""
    kinds = np.array([each.kind for each in observations])
    of_kind = {kind: float(np.median(ratios[kinds == kind])) for kind in dict.fromkeys(kinds)}
    for each, own in zip(observations, ratios.tolist(), strict=True):
        single = each.kind == "iteration"
        ratio = own if single else of_kind[each.kind]
        if abs(ratio) <= math.log(_IMPLAUSIBLE) or each.kind == "profile":  # Kineto's unit is fixed
            continue
        what = f"{each.value:.4g} {each.unit}" if single else f"measurements of kind {each.kind}"
        raise DimsweepError(
            f"{what}: the preset predicts {math.exp(ratio):,.3g} times as much",
            where=each.place or each.name,
            hint="is it in another unit (seconds in a column ms?), or of another machine or model?",
        )


def _predict_logarithm(
    observation: Observation, config: Config, parameters: list[Parameter], at: Floats
) -> float:
    own = observation.config or config
    try:
        changed = own.changed(compute_settings(own, parameters, at)) if at.any() else own
        return math.log(observation.predict(changed))
    except DimsweepError as error:
        told = f"it cannot be simulated: {error.where}: {error.problem}"
        raise DimsweepError(told, where=observation.name, hint=error.hint) from error


_GROUPS = ("topology", "npu", "memory", "network", "cost", "collective")


def find_cluster_file(name: str) -> Path:
    """Where the cluster ``name`` lies in the working folder; raises :class:`DimsweepError` for what
    is no name of an option."""
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise DimsweepError(f"{name!r} is no name of a cluster", hint="such as mine")
    return Path("conf", "cluster", f"{name}.yaml")


def format_cluster_file(found: Calibration, choices: Mapping[str, str]) -> str:
    """The file's text: the parts that were calibrated, by ``choices`` of their groups, and the
    keys that were."""
    tree: dict[str, Any] = {
        "defaults": [{f"override /{group}": choices[group]} for group in _GROUPS]
    }
    values = found.settings()
    for key, value in values.items():
        group, _, name = key.partition(".")
        tree.setdefault(group, {})[name] = value
    tree["calibration"] = serialize_posterior(
        found.parameters,
        found.posterior,
        error=found.error,
        measured=len(found.observations),
        gpus=found.maximum_gpus,
        values=values,
    )
    before, after = found.mean_errors
    head = (
        "# @package _global_\n"
        f"# Calibrated by {len(found.observations)} measurements (`dimsweep calibrate`): mean "
        f"error {before:.1%} before,\n# {after:.1%} of each predicted from the others.\n"
    )
    return head + yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=100)


_SHOWN = 40  # measurements; of more only those that nothing explains
_LEARNED = 0.05  # of a parameter's spread, below which nothing was measured
_LOST = 4.0  # times as large as errors of published runs: then the plan is another one


def print_calibration(found: Calibration, console: Console) -> None:
    """What was measured and what that says; the parameters before and after; and the errors."""
    _print_measurements(found, console)
    _print_parameters(found, console)
    before, after = found.mean_errors
    say(
        f"mean error: {before:.1%} of the preset, {after:.1%} of each predicted from the others; "
        f"errors are {found.posterior.scale:.2f} times as large as those of published runs",
        console,
    )
    if found.posterior.scale > _LOST:
        say("nothing explains them: is the plan the one that ran, and the workload whole?", console)
    if found.has_one_model:
        say(
            "all iterations are of one model: what it is off by itself is in part taken for the "
            "cluster's, so others may be predicted worse than by the preset; measure a second one",
            console,
        )
    if strange := found.unexplained:
        say(
            f"{plural(len(strange), 'measurement')} more than {UNEXPLAINED:g} deviations from what "
            "the others say: " + ", ".join(found.observations[i].name for i in strange),
            console,
        )


def _print_measurements(found: Calibration, console: Console) -> None:
    numbers, strange = range(len(found.observations)), found.unexplained
    shown = [i for i in numbers if len(numbers) <= _SHOWN or i in strange]
    lines = [
        (
            found.observations[i].name,
            f"{found.observations[i].value:.4g} {found.observations[i].unit}",
            f"{found.preset_errors[i]:+.1%}",
            f"{found.fitted_errors[i]:+.1%}",
            f"{found.left_out_errors[i]:+.1%}",
            "not explained" if i in strange else found.describe_effect(i),
        )
        for i in shown
    ]
    heads = ("measurement", "measured", "preset", "calibrated", "left out", "says")
    if lines:
        console.print(table(heads, lines))
    if len(shown) < len(numbers):
        say(f"{len(numbers) - len(shown)} more, which the parameters explain", console)


def _print_parameters(found: Calibration, console: Console) -> None:
    lines = []
    for i, each in enumerate(found.parameters):
        mean, variance = found.posterior.mean[i], found.posterior.covariance[i, i]
        learned = 1 - variance / each.width**2
        words = "not measured" if learned < _LEARNED else f"{learned:.0%} of its spread"
        ends = _format_interval(mean, sqrt(variance), found.posterior.degrees, found.maxima[i])
        lines.append((each.label, f"{expm1(mean):+.1%}", ends, words))
    heads = ("parameter", "against the preset", "90% interval", "what was learned")
    console.print(table(heads, lines))


def _format_interval(mean: float, deviation: float, degrees: float, most: float) -> str:
    """That of nine in ten of a factor, less 1, by the mean and deviation of its logarithm, which is
    ``most`` at most."""
    half = student.ppf((1 + SHARES[-1]) / 2, degrees) * deviation
    return f"{expm1(mean - half):+.0%} to {expm1(min(mean + half, most)):+.0%}"
