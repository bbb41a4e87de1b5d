"""Devices and links of a network that are down for a share of the time, while training goes on."""

from collections.abc import Iterable
from dataclasses import dataclass

from dimsweep.engine.network.graph import Device

_YEAR = 365.25 * 86400


@dataclass(frozen=True)
class Outage:
    """Things of a kind, so many of them: each is ``down`` for a share of the time, and training has
    these ``speeds`` (shares of its own) while one of them is, one a thing that was simulated."""

    what: str
    count: int
    down: float
    speeds: tuple[float, ...]

    @property
    def slowdown(self) -> float:
        """How many times as long an iteration takes while one is down, in the mean."""
        return len(self.speeds) / sum(self.speeds)

    @property
    def time(self) -> float:
        """The share of the time in which at least one is down."""
        return float(1 - (1 - self.down) ** self.count)


def mean_speed(outages: Iterable[Outage]) -> float:
    """The speed of training in the mean, as a share of that on the whole network.

    Things are down independently of each other, and the speeds of several that are down at once
    multiply: each takes a factor 1 - u (1 - v), with its share u of the time and the speed v.
    """
    left = 1.0
    for outage in outages:
        lost = 1 - sum(outage.speeds) / len(outage.speeds)
        left *= (1 - outage.down * lost) ** outage.count
    return left


def share_down(device: Device) -> float | None:
    """The share of the time that a device is down which fails so many times a year of its being up,
    and is repaired so long; None where it does not say both."""
    if device.fails is None or device.repair is None:
        return None
    down = device.fails * device.repair / _YEAR
    return down / (1 + down)
