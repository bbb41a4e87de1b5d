"""Simulate a configuration while a device or link of its network is down."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from dimsweep.engine import Cluster, DimsweepError, Fidelity, InfeasibleError, NetworkModel, Program
from dimsweep.engine.network import Change, Network, Selection, build_network, degrade_network
from dimsweep.engine.reliability import Outage, compute_share_down
from dimsweep.sweeper.config import reliability
from dimsweep.sweeper.config.network import build_selection
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.part import naming_key
from dimsweep.sweeper.simulation.program import build_cluster, build_program

_NUMBER = re.compile(r"(?<!\w)\d+")  # in "switch d1 line 3" that of the line


@dataclass(frozen=True)
class _Down:
    """A group of identical devices or links that may be down.

    It has a name, a count, the share of time that each is down, and the network without one of
    them.
    """

    what: str
    count: int
    share: float
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Outages:
    """The devices and links that may be down while a configuration is simulated.

    The phase fidelity has no links. A network that is simulated by phases is also simulated by
    flows (``by_flows``), whole and with a device down: flows give the slowdown, and phases the
    time.
    """

    config: Config
    kinds: tuple[_Down, ...] = ()
    by_flows: Program | None = None

    @classmethod
    def from_config(cls, config: Config, program: Program) -> Self:
        """Return the outages of a configuration and its program.

        Raises :class:`DimsweepError` naming the key for a device that the network lacks, except in
        a space of networks: there :func:`outlasted` checks that one of them has it.
        """
        if not config.reliability.outages:
            return cls(config)
        from dimsweep.engine.kernels.messages import network_of  # which few need

        by_flows = None
        if not config.by_message:
            config = config.with_values({"fidelity": Fidelity.FLOW.value})
            by_flows = program = build_program(config)
        kinds = _kinds(config, network_of(program), {} if config.space.network else None)
        return cls(config, tuple(kinds), by_flows)

    def simulated(
        self, picoseconds: int, bandwidth: np.ndarray | None = None
    ) -> tuple[Outage, ...]:
        """Simulate an iteration with each device or link down in turn, and return the slowdowns.

        The whole network's iteration takes ``picoseconds`` at this ``bandwidth`` (D,) in bytes/s
        (None: the cluster's). Raises :class:`InfeasibleError` if training cannot continue without a
        device.
        """
        found = []
        if self.kinds and self.by_flows is not None:
            picoseconds = self._time(self.by_flows, bandwidth)
        for kind in self.kinds:
            times = [self._without(change, bandwidth) for change in kind.changes]
            # What is down helps nobody: a time below the whole network's is an accident of the
            # order of events, and bounds are of the whole network.
            speeds = tuple(min(1.0, picoseconds / time) for time in times)
            found.append(Outage(kind.what, kind.count, kind.share, speeds))
        return tuple(found)

    def _without(self, change: Change, bandwidth: np.ndarray | None) -> int:
        """Return the picoseconds of an iteration after a ``change`` of the network.

        The program, which is large, is not kept.
        """
        cluster = build_cluster(self.config)
        network = cluster.network
        network = replace(network, degrade=(*network.degrade, change))
        program = build_program(self.config, replace(cluster, network=network))
        try:
            return self._time(program, bandwidth)
        except InfeasibleError as error:
            raise InfeasibleError(
                f"{error.problem}: that interrupts training",
                where="reliability.outages",
                hint="leave it out, for reliability.npu_time counts what interrupts training",
            ) from error

    def _time(self, program: Program, bandwidth: np.ndarray | None) -> int:
        from dimsweep.engine.kernels.network import MessageRunner  # which few need

        run = MessageRunner(program, self.config.fidelity).run(bandwidth, fold=self.config.fold)
        return int(run.measures.time[0])


def outlasted(config: Config, clusters: Iterable[Cluster]) -> list[bool]:
    """Return, for each of ``clusters``, whether training continues while any single device is down.

    A device that a network lacks is never down there.  Raises :class:`DimsweepError` naming the key
    for a device that all of them lack.
    """
    found, lacked = list[bool](), list[dict[int, DimsweepError]]()
    for cluster in clusters:
        model = cluster.network
        whole = model.graph or build_network(cluster.topology, model.fabrics)
        lacked.append({})
        kinds = _kinds(config, degrade_network(whole, model.degrade, model.placement), lacked[-1])
        found.append(all(_is_joined(whole, model, change) for k in kinds for change in k.changes))
    for number in set.intersection(*map(set, lacked)) if lacked else ():
        raise lacked[0][number]
    return found


def _is_joined(whole: Network, model: NetworkModel, change: Change) -> bool:
    try:
        degrade_network(whole, (*model.degrade, change), model.placement)
    except InfeasibleError:
        return False
    return True


def _kinds(
    config: Config, network: Network, lacked: dict[int, DimsweepError] | None
) -> list[_Down]:
    """Return the groups of devices and links of a network that may be down.

    If the network lacks a device, the error is added to ``lacked`` by number, or raised if that is
    None.
    """
    kinds, before = list[_Down](), dict[str, int]()
    for i, outage in enumerate(config.reliability.outages):
        with naming_key(f"reliability.outages[{i}]"):
            try:
                things = _things(outage, network)
            except DimsweepError as error:
                if lacked is None:
                    raise
                lacked[i] = error.with_prefix(f"reliability.outages[{i}]")
                continue
            if twice := [thing.name for thing in things if thing.name in before]:
                what = f"{twice[0]!r} is one of outages[{before[twice[0]]}], too"
                raise DimsweepError(what, hint="name each part once", code="duplicate")
            before |= dict.fromkeys((thing.name for thing in things), i)
            kinds += _down(outage, things)
    return kinds


class _Thing(NamedTuple):
    """A device, or the links between two devices, with its number of ``parts``.

    Its share of time down is None if unknown.
    """

    name: str
    parts: int
    down: float | None


def _kind_of(outage: reliability.Outage) -> str:
    return "link" if outage.switch is None else "switch"


def _things(outage: reliability.Outage, network: Network) -> list[_Thing]:
    """Return the devices or links of an outage; raises :class:`DimsweepError` if there are none."""
    of = _kind_of(outage)
    some: Selection = build_selection(of, getattr(outage, of))
    with naming_key(of):
        found = _links(network, some) if of == "link" else _devices(network, some)
    if outage.down is None:
        return found
    return [thing._replace(down=float(outage.down)) for thing in found]


def _down(outage: reliability.Outage, found: Sequence[_Thing]) -> Iterator[_Down]:
    """Yield the devices and links ``found``, grouped by their names without numbers.

    A device without a failure rate never fails.
    """
    alike: dict[str, list[_Thing]] = {}
    for thing in found:
        if thing.down is not None:
            alike.setdefault(_NUMBER.sub("*", thing.name), []).append(thing)
    if not alike:
        raise DimsweepError(
            f"{found[0].name!r} has no rate of failures",
            where="down",
            code="missing",
            hint="give its down share, such as 0.03 %, or fails and repair in the network",
        )
    for what, own in alike.items():
        n, parts = min(outage.draw, len(own)), sum(thing.parts for thing in own)
        share = sum(thing.parts * (thing.down or 0.0) for thing in own) / parts
        drawn = [own[(2 * i + 1) * len(own) // (2 * n)] for i in range(n)]  # equally far apart
        changes = tuple(_without_one(_kind_of(outage), thing) for thing in drawn)
        yield _Down(what, parts, share, changes)


def _devices(network: Network, some: Selection) -> list[_Thing]:
    devices = network.devices
    kinds = {node: device.kind for node, device in devices.items()}
    names = some.devices(kinds, npus=False)
    return [
        _Thing(str(name), devices[name].planes, compute_share_down(devices[name])) for name in names
    ]


def _links(network: Network, some: Selection) -> list[_Thing]:
    """Return the links between pairs of devices, both directions of which fail together."""
    lanes = {
        " <-> ".join(sorted(each.name.split(" -> "))): each.lanes for each in some.links(network)
    }
    return [_Thing(name, n, None) for name, n in lanes.items()]


def _without_one(of: str, thing: _Thing) -> Change:
    """Return the change of the network in which a device or link is down and the others work."""
    link, switch = (Selection(thing.name) if of == kind else None for kind in ("link", "switch"))
    if thing.parts == 1:
        return Change(link=link, switch=switch, down=True)
    return Change(link=link, switch=switch, bandwidth=1 - 1 / thing.parts)
