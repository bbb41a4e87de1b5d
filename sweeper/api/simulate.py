"""Simulate one design from Python."""

from typing import Any

from dimsweep.engine import DimsweepError, Result
from dimsweep.sweeper.api.keys import compose_keys
from dimsweep.sweeper.simulation.simulate import simulate as simulated

_FILES = {  # the keys of files that the command writes, and what a result has in their place
    "timeline": "record=True, and the result's timeline_file() is its content",
    "picture": "the result's links have what it draws",
    "congestion": "the result's packets have what it draws",
}


def simulate(*overrides: str, record: bool = False, **keys: Any) -> Result:
    """Simulate one training iteration, as ``dimsweep simulate`` does.

        simulate(workload="gpt3_175b", cluster="dgx_h100", nodes=16).time
        simulate("topology.shape=Ring(8)", topology="one_switch", workload="all_reduce")

    Keys are those of :class:`Study`; dotted ones are overrides, or ``**{"workload.layers": 1}``.
    ``record`` keeps the data that :meth:`Result.timeline` needs.  Raises :class:`DimsweepError`
    naming the key that is wrong, or for a file that only the command writes.
    """
    given = compose_keys(keys, overrides)
    with given.adding_sources():
        for key, hint in _FILES.items():
            if getattr(given.config, key) is not None:
                raise DimsweepError(
                    "simulate writes no file", where=key, hint=hint, code="unsupported"
                )
        return simulated(given.config, record=record)
