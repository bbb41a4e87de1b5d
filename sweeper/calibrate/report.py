"""What `dimsweep calibrate` prints: measurements, what they say, and the parameters."""

from math import expm1, sqrt

from rich.console import Console
from scipy.stats import t as student

from dimsweep.sweeper.calibrate.bands import SHARES
from dimsweep.sweeper.calibrate.calibration import UNEXPLAINED, Calibration
from dimsweep.sweeper.terminal import plural, say, table

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
    if found.of_one_model:
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
            f"{found.uncalibrated[i]:+.1%}",
            f"{found.fitted[i]:+.1%}",
            f"{found.unseen[i]:+.1%}",
            "not explained" if i in strange else found.says(i),
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
        ends = _interval(mean, sqrt(variance), found.posterior.degrees, found.most[i])
        lines.append((each.what, f"{expm1(mean):+.1%}", ends, words))
    heads = ("parameter", "against the preset", "90% interval", "what was learned")
    console.print(table(heads, lines))


def _interval(mean: float, deviation: float, degrees: float, most: float) -> str:
    """That of nine in ten of a factor, less 1, by the mean and deviation of its logarithm, which is
    ``most`` at most."""
    half = student.ppf((1 + SHARES[-1]) / 2, degrees) * deviation
    return f"{expm1(mean - half):+.0%} to {expm1(min(mean + half, most)):+.0%}"
