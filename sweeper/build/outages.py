"""Simulations beside one: the same on a network of which something is down."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError, Program
from dimsweep.engine.network import Change, Network, Which
from dimsweep.engine.reliability import Outage, share_down
from dimsweep.sweeper.build.program import build_cluster, build_program
from dimsweep.sweeper.config import reliability
from dimsweep.sweeper.config.network import which
from dimsweep.sweeper.config.parts.part import key
from dimsweep.sweeper.config.schema import Config

_NUMBER = re.compile(r"(?<!\w)\d+")  # in "switch d1 line 3" that of the line


@dataclass(frozen=True)
class _Down:
    """Things that are alike, by what they are called: how many there are, for which share of the
    time each is down, and what becomes of the network without one of them, for some."""

    what: str
    count: int
    share: float
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Outages:
    """What may be down while a configuration is simulated; nothing where nothing is said of it."""

    config: Config
    kinds: tuple[_Down, ...] = ()

    @classmethod
    def of(cls, config: Config, program: Program) -> Self:
        """Those of a configuration and its program.

        Raises :class:`DimsweepError` naming the key for what the network does not have.
        """
        if not config.reliability.outages:
            return cls(config)
        from dimsweep.engine.kernels.messages import network_of  # which few need

        network, kinds = network_of(program), list[_Down]()
        for i, outage in enumerate(config.reliability.outages):
            with key(f"reliability.outages[{i}]"):
                kinds += _down(outage, network)
        return cls(config, tuple(kinds))

    def simulated(
        self, picoseconds: int, bandwidth: np.ndarray | None = None
    ) -> tuple[Outage, ...]:
        """What becomes of an iteration of so many ``picoseconds`` at this ``bandwidth`` (D,) in
        bytes/s, or at the cluster's: it is simulated now, without each in turn.

        Raises :class:`InfeasibleError` for what training cannot go on without.
        """
        found = []
        for kind in self.kinds:
            times = [self._without(change, bandwidth) for change in kind.changes]
            speeds = tuple(picoseconds / time for time in times)
            found.append(Outage(kind.what, kind.count, kind.share, speeds))
        return tuple(found)

    def _without(self, change: Change, bandwidth: np.ndarray | None) -> int:
        """The picoseconds of an iteration; its program, which is large, is not kept."""
        from dimsweep.engine.kernels.network import MessageRunner

        cluster = build_cluster(self.config)
        network = cluster.network
        network = replace(network, degrade=(*network.degrade, change))
        program = build_program(self.config, replace(cluster, network=network))
        try:
            run = MessageRunner(program, self.config.fidelity).run(bandwidth, fold=self.config.fold)
        except InfeasibleError as error:
            raise InfeasibleError(
                f"{error.what}: that interrupts training",
                where="reliability.outages",
                hint="leave it out, for reliability.npu_time counts what interrupts training",
            ) from error
        return int(run.measures.time[0])


class _Thing(NamedTuple):
    """A device, or the links both ways between two: the ``parts`` that it is made of, each of which
    is down for a share of the time (None: nobody says it)."""

    name: str
    parts: int
    down: float | None


def _down(outage: reliability.Outage, network: Network) -> Iterator[_Down]:
    """Those of an outage, whose names without their numbers tell them apart: a leaf is not missed
    as a spine is.  What does not say that it fails never does."""
    of = "link" if outage.switch is None else "switch"
    some: Which = which(of, getattr(outage, of))
    with key(of):
        found = _links(network, some) if of == "link" else _devices(network, some)
        if outage.down is not None:
            found = [thing._replace(down=float(outage.down)) for thing in found]
    alike: dict[str, list[_Thing]] = {}
    for thing in found:
        if thing.down is not None:
            alike.setdefault(_NUMBER.sub("*", thing.name), []).append(thing)
    if not alike:
        raise DimsweepError(
            f"{found[0].name!r} does not say how often it fails, and how long it is repaired",
            where="down",
            hint="a share of the time, such as 0.03 %, or fails and repair in the network",
        )
    for what, own in alike.items():
        n, parts = min(outage.draw, len(own)), sum(thing.parts for thing in own)
        share = sum(thing.parts * (thing.down or 0.0) for thing in own) / parts
        drawn = [own[(2 * i + 1) * len(own) // (2 * n)] for i in range(n)]  # equally far apart
        yield _Down(what, parts, share, tuple(_without_one(of, thing) for thing in drawn))


def _devices(network: Network, some: Which) -> list[_Thing]:
    devices = network.devices
    kinds = {node: device.kind for node, device in devices.items()}
    names = some.devices(kinds, npus=False)
    return [_Thing(str(name), devices[name].planes, share_down(devices[name])) for name in names]


def _links(network: Network, some: Which) -> list[_Thing]:
    """What is between two devices, which is down both ways together."""
    lanes = {
        " <-> ".join(sorted(each.name.split(" -> "))): each.lanes for each in some.links(network)
    }
    return [_Thing(name, n, None) for name, n in lanes.items()]


def _without_one(of: str, thing: _Thing) -> Change:
    """What becomes of the network where a part of it is down, and the others carry on."""
    link, switch = (Which(thing.name) if of == kind else None for kind in ("link", "switch"))
    if thing.parts == 1:
        return Change(link=link, switch=switch, down=True)
    return Change(link=link, switch=switch, bandwidth=1 - 1 / thing.parts)
