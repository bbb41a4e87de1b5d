"""The pulse of a sweep: a file beside the ledger that says how it is doing, for who looks on.

Nothing depends on it; where it cannot be written the sweep goes on without.
"""

import json
import time
from contextlib import suppress
from dataclasses import asdict

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from dimsweep.sweeper.ledger.place import Place, reaching, read, write

PULSE = "pulse.json"
_DEAD = 30.0  # seconds without a beat


@dataclass(frozen=True, config=ConfigDict(allow_inf_nan=False))
class Pulse:
    """How a sweep was doing ``at`` a time (seconds since 1970): how many trials are ``done`` and
    ``failed``, trials/s, its ``workers``, what share of the time these were ``busy``, and on how
    many ``nodes`` they are; ``over`` once it has ended, in whatever way."""

    at: float
    done: int
    failed: int
    rate: float
    workers: int
    busy: float
    nodes: int
    over: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether the sweep still runs."""
        return not self.over and time.time() - self.at < _DEAD


def beat(folder: Place, pulse: Pulse) -> None:
    """Write the pulse of the sweep in ``folder``."""
    with suppress(OSError), reaching(folder):
        write(folder / PULSE, json.dumps(asdict(pulse)).encode())


def last_pulse(folder: Place) -> Pulse | None:
    """The last one; None where there is none."""
    try:
        with reaching(folder):
            return Pulse(**json.loads(read(folder / PULSE).to_pybytes()))
    except (OSError, ValueError, TypeError):
        return None
