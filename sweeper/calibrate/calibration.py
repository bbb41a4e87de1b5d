"""Calibrate a cluster: fit its parameters to measurements, print them, and write its file."""

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
from dimsweep.sweeper.terminal import format_count, make_table, print_line

# A measurement that differs from the preset by more has another unit or is of another machine.
_IMPLAUSIBLE = 30.0
UNEXPLAINED = 3.0  # deviations beyond which the others do not explain a measurement


@dataclass(frozen=True)
class Calibration:
    """A calibrated cluster: its parameters' posterior, and the measurements used."""

    config: Config
    parameters: list[Parameter]
    observations: Sequence[Observation]
    posterior: Posterior
    linear: Linear
    before: Floats  # (N,) logarithms of what the preset predicts

    @property
    def widths(self) -> Floats:
        """Standard deviations (P,) of the prior of the parameters."""
        return np.array([each.width for each in self.parameters])

    @property
    def maxima(self) -> Floats:
        """Upper bounds (P,) of the parameters."""
        return np.array([each.maximum_logarithm(self.config) for each in self.parameters])

    @cached_property
    def leave_one_out(self) -> LeaveOneOut:
        """Predictions of each measurement from all other measurements."""
        return LeaveOneOut(self.linear, self.widths, self.maxima)

    @property
    def preset_errors(self) -> Floats:
        """Relative errors (N,) of times simulated with the preset: simulated / measured - 1."""
        return np.asarray(np.expm1(self.before - self.linear.measured))

    @property
    def fitted_errors(self) -> Floats:
        """Relative errors (N,) of times simulated with the calibrated cluster."""
        return np.asarray(np.expm1(self.linear.predict(self.posterior.mean) - self.linear.measured))

    @property
    def left_out_errors(self) -> Floats:
        """Relative errors (N,) of each measurement, predicted from all other measurements."""
        return np.asarray(np.expm1(self.leave_one_out.errors))

    def describe_effect(self, number: int) -> str:
        """Return the parameter that a measurement alone changes most, and its change, as text."""
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
        """Numbers of the measurements that differ too much from the prediction by the others."""
        return [i for i, score in enumerate(self.leave_one_out.scores) if abs(score) > UNEXPLAINED]

    @property
    def has_one_model(self) -> bool:
        """True if all iterations are of one model; its error is then attributed to the cluster."""
        plans = [
            compute_plan_coordinates(each.config)
            for each in self.observations
            if each.config is not None
        ]
        sizes = {plan and plan[MODEL] for plan in plans}
        return len(sizes) == 1 and None not in sizes

    @property
    def error(self) -> float:
        """Standard deviation of an unmeasured plan's error, apart from the parameters."""
        return compute_unmeasured_deviation(self.config)

    @property
    def maximum_gpus(self) -> int:
        """Largest number of GPUs of a measured iteration."""
        own = [each.config for each in self.observations if each.config is not None]
        return max((each.topology.build().n_npus for each in own), default=1)

    def settings(self) -> dict[str, Any]:
        """Return the configuration keys of the calibrated cluster with their values."""
        return compute_settings(self.config, self.parameters, self.posterior.mean)

    @property
    def mean_errors(self) -> tuple[float, float]:
        """Mean absolute errors of iterations: of the preset, and predicted from the others."""
        own = [i for i, each in enumerate(self.observations) if each.kind == "iteration"]
        own = own or list(range(len(self.observations)))
        return (
            fmean(abs(self.preset_errors[i]) for i in own),
            fmean(abs(self.left_out_errors[i]) for i in own),
        )


def calibrate(
    config: Config, observations: Sequence[Observation], widths: dict[str, float]
) -> Calibration:
    """Calibrate a cluster: fit its parameters to measurements.

    Parameters
    ----------
    config
        The cluster's preset, with any workload.
    observations
        The measurements.
    widths
        The standard deviation of the prior of each of WIDTHS.

    Raises
    ------
    DimsweepError
        If there are no measurements, or one cannot be simulated.
    """
    if not observations:
        raise DimsweepError("there are no measurements", code="missing")
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
    """Raise :class:`DimsweepError` for measurements that differ implausibly from the preset.

    Checked are iterations, and medians of other kinds. ``ratios`` are logarithms of predicted over
    measured values.
    """
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
            hint="check the unit (seconds in a column ms?), the machine and the model",
            code="out-of-range",
        )


def _predict_logarithm(
    observation: Observation, config: Config, parameters: list[Parameter], at: Floats
) -> float:
    own = observation.config or config
    try:
        changed = own.with_values(compute_settings(own, parameters, at)) if at.any() else own
        return math.log(observation.predict(changed))
    except DimsweepError as error:
        problem = f"cannot simulate it: {error.where}: {error.problem}"
        where = observation.name
        raise DimsweepError(problem, where=where, hint=error.hint, code=error.code) from error


_GROUPS = ("topology", "npu", "memory", "network", "cost", "collective")


def find_cluster_file(name: str) -> Path:
    """Return the file of the cluster ``name`` in the working folder.

    Raises :class:`DimsweepError` for an invalid name.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        hint = "use a letter, then letters, digits, _ or -, such as mine"
        raise DimsweepError(f"invalid cluster name {name!r}", hint=hint, code="bad-syntax")
    return Path("conf", "cluster", f"{name}.yaml")


def format_cluster_file(found: Calibration, choices: Mapping[str, str]) -> str:
    """Return the text of a cluster's file: options of config groups, and the calibrated keys."""
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


_SHOWN = 40  # measurements; if there are more, only unexplained ones are printed
_LEARNED = 0.05  # reduction of a parameter's variance below which it counts as not measured
_LOST = 4.0  # scale of errors above which the plan is probably wrong


def print_calibration(found: Calibration, console: Console) -> None:
    """Print the measurements, the parameters before and after, and the errors."""
    _print_measurements(found, console)
    _print_parameters(found, console)
    before, after = found.mean_errors
    print_line(
        f"mean error: {before:.1%} of the preset, {after:.1%} of each predicted from the others; "
        f"errors are {found.posterior.scale:.2f} times as large as those of published runs",
        console,
    )
    if found.posterior.scale > _LOST:
        print_line("no parameter explains them: check the plan and the workload", console)
    if found.has_one_model:
        print_line(
            "all iterations are of one model, so part of the model's own error is attributed to "
            "the cluster, and other models may be predicted worse than by the preset; measure a "
            "second model",
            console,
        )
    if strange := found.unexplained:
        print_line(
            f"{format_count(len(strange), 'measurement')} more than {UNEXPLAINED:g} deviations "
            "from the prediction of the others: "
            + ", ".join(found.observations[i].name for i in strange),
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
        console.print(make_table(heads, lines))
    if len(shown) < len(numbers):
        print_line(f"{len(numbers) - len(shown)} more that the parameters explain", console)


def _print_parameters(found: Calibration, console: Console) -> None:
    lines = []
    for i, each in enumerate(found.parameters):
        mean, variance = found.posterior.mean[i], found.posterior.covariance[i, i]
        learned = 1 - variance / each.width**2
        words = "not measured" if learned < _LEARNED else f"{learned:.0%} of its spread"
        ends = _format_interval(mean, sqrt(variance), found.posterior.degrees, found.maxima[i])
        lines.append((each.label, f"{expm1(mean):+.1%}", ends, words))
    heads = ("parameter", "against the preset", "90% interval", "what was learned")
    console.print(make_table(heads, lines))


def _format_interval(mean: float, deviation: float, degrees: float, most: float) -> str:
    """Format the 90 % interval of a factor minus 1, given its logarithm's mean and deviation.

    The logarithm has the upper bound ``most``.
    """
    half = student.ppf((1 + SHARES[-1]) / 2, degrees) * deviation
    return f"{expm1(mean - half):+.0%} to {expm1(min(mean + half, most)):+.0%}"
