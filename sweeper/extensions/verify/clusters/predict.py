"""What dimsweep says of a row: seconds of an iteration, and bytes of the fullest GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement
from dimsweep.sweeper.extensions.verify.clusters.plans import configure, n_micro_batches
from dimsweep.sweeper.simulation.simulate import simulate


@dataclass(frozen=True)
class Prediction:
    """Seconds of an iteration, and bytes of the fullest GPU's memory: those that are counted, and
    those that PyTorch's cache may reserve for them."""

    seconds: float
    memory: float
    reserved: float


Changed = Callable[[Config], Config]


def _as_it_is(config: Config) -> Config:
    return config


def predict(measured: Measurement, changed: Changed = _as_it_is) -> Prediction:
    """Simulate a row, its configuration ``changed``.

    A pipeline repeats itself once it is full, so an iteration of many micro-batches is simulated
    with as many as fill it and with one round more, and each further round lasts as long as that
    one to the picosecond.  Raises :class:`LeftOut` for a row that cannot be simulated.
    """
    n, stages = n_micro_batches(measured), measured.pipeline
    chunks = measured.interleave if stages > 1 else 1
    few = max(stages, 2)  # one micro-batch has no gradients to add up
    more = few + (stages if chunks > 1 else 1)
    try:
        if n <= more:
            return simulated(measured, n, changed)
        first, second = (simulated(measured, some, changed) for some in (few, more))
    except DimsweepError as error:
        raise LeftOut(str(error)) from error
    each = (second.seconds - first.seconds) / (more - few)
    return replace(second, seconds=second.seconds + (n - more) * each)


def simulated(
    measured: Measurement, micro_batches: int, changed: Changed = _as_it_is
) -> Prediction:
    """Simulate a row with so many micro-batches of each replica."""
    result = simulate(changed(configure(measured, micro_batches)))
    footprint = result.program.workload.footprint
    assert footprint is not None
    return Prediction(result.time, footprint.total, footprint.reserved)
