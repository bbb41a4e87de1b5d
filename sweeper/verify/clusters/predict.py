"""What dimsweep says of a row: seconds of an iteration, and bytes of the fullest GPU."""

from dataclasses import dataclass

from engine import DimsweepError, Result, run_one
from sweeper.build.program import build_program
from sweeper.verify.clusters.measurements import LeftOut, Measurement
from sweeper.verify.clusters.plans import configure, n_micro_batches


@dataclass(frozen=True)
class Prediction:
    """Seconds of an iteration, and bytes of the fullest GPU's memory."""

    seconds: float
    memory: float


def predict(measured: Measurement) -> Prediction:
    """Simulate a row.

    A pipeline repeats itself once it is full, so an iteration of many micro-batches is simulated
    with as many as fill it and with one round more, and each further round lasts as long as that
    one (to the picosecond; tests/sweeper/verify/test_clusters.py).  Raises :class:`LeftOut` for a
    row that cannot be simulated.
    """
    n, stages = n_micro_batches(measured), measured.pipeline
    chunks = measured.interleave if stages > 1 else 1
    few = max(stages, 2)  # one micro-batch has no gradients to add up
    more = few + (stages if chunks > 1 else 1)
    try:
        if n <= more:
            return simulated(measured, n)
        first, second = simulated(measured, few), simulated(measured, more)
    except DimsweepError as error:
        raise LeftOut(str(error)) from error
    each = (second.seconds - first.seconds) / (more - few)
    return Prediction(second.seconds + (n - more) * each, second.memory)


def simulated(measured: Measurement, micro_batches: int) -> Prediction:
    """Simulate a row with so many micro-batches of each replica."""
    program = build_program(configure(measured, micro_batches))
    assert program.workload.footprint is not None
    return Prediction(Result(run_one(program)).time, program.workload.footprint.total)
