"""Columns of a table that say how fast an iteration was: times, rates, FLOP/s and MFU."""

import re
from collections.abc import Callable, Mapping

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.program import build_program

# Seconds of an iteration from a column's value and the configuration that ran.
Seconds = Callable[[float, Config], float]

_WORDS = {"sec": "s", "second": "s", "seconds": "s", "chip": "gpu", "device": "gpu"}
_WORDS |= {"sequences": "samples", "tflops": "tflop_s", "percent": "%"}


def _times(unit: float) -> Seconds:
    return lambda value, config: value * unit


def _rate(name: str, *, per_gpu: bool = False) -> Seconds:
    """Return seconds from an amount of an iteration per second, such as tokens."""

    def seconds(value: float, config: Config) -> float:
        program = build_program(config)
        amount = program.workload.amount
        total = getattr(amount, name) if amount is not None else 0
        if not total:
            raise DimsweepError(f"the {name} of an iteration of this workload are unknown")
        return float(total / value / (program.n_npus if per_gpu else 1))

    return seconds


def _tflops(value: float, config: Config) -> float:
    """Return seconds from 10^12 model FLOP/s of one GPU."""
    return _rate("flops", per_gpu=True)(value * 1e12, config)


def _mfu(value: float, config: Config, *, is_percent: bool = False) -> float:
    """Return seconds from model FLOPs utilisation; a value above 1 is percent."""
    share = value / 100 if is_percent or value > 1 else value
    if share > 1:
        raise DimsweepError(f"an MFU of {value:g} % exceeds 100 %")
    program = build_program(config)
    amount = program.workload.amount
    peak = program.cluster.npus.peak(amount.flops, amount.narrow) if amount is not None else None
    if not peak:
        raise DimsweepError("the peak FLOP/s of the NPU are unknown", hint="npu.flops")
    return _rate("flops", per_gpu=True)(share * peak, config)


def _mfu_percent(value: float, config: Config) -> float:
    return _mfu(value, config, is_percent=True)


#: What the columns of a table mean, by their normalised names.
SPEEDS: Mapping[str, Seconds] = {
    **dict.fromkeys(("s", "iteration_s", "time_s", "step_time_s"), _times(1.0)),
    **dict.fromkeys(("ms", "iteration_ms", "time_ms", "step_time_ms"), _times(1e-3)),
    "tokens_s": _rate("tokens"),
    **dict.fromkeys(("tokens_s_gpu", "tokens_gpu_s"), _rate("tokens", per_gpu=True)),
    "samples_s": _rate("samples"),
    "samples_s_gpu": _rate("samples", per_gpu=True),
    **dict.fromkeys(("tflop_s", "tflop_s_gpu", "model_tflop_s_gpu"), _tflops),
    "mfu": _mfu,
    "mfu_%": _mfu_percent,
}
#: Examples of such columns, for messages.
EXAMPLES = "seconds, ms, tokens/s, tokens/s/GPU, samples/s, TFLOP/s/GPU or MFU"


def speed_of(column: str) -> Seconds | None:
    """Return what a column of times or rates means, or None for any other column.

    Words are compared in small letters, without "per" and signs between them: "TFLOPs/GPU",
    "tokens_per_second_per_gpu" and "MFU (%)" are known.
    """
    words = re.findall(r"[a-z]+|%", column.lower())
    named = "_".join(_WORDS.get(word, word) for word in words if word != "per")
    return SPEEDS.get(named.replace("tflop_s_s", "tflop_s"))
