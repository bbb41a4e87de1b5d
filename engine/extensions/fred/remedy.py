"""What becomes of flows that cannot all pass a FRED switch at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

from dimsweep.engine.extensions.fred.flow import Flow, Route, UnroutableError, check_flows
from dimsweep.engine.extensions.fred.switch import FredSwitch

_T = TypeVar("_T")


class Remedy(StrEnum):
    """``REFUSE``: an error.  ``SERIALISE``: some flows pass later.  ``DECOMPOSE``: some groups pass
    as unicasts around a ring, one step after another.  ``PLACE``: groups move to consecutive
    ports."""

    REFUSE = "refuse"
    SERIALISE = "serialise"
    DECOMPOSE = "decompose"
    PLACE = "place"


@dataclass(frozen=True)
class Schedule:
    """Which flows pass a switch at once.

    ``rounds`` pass one after another.  ``serialised`` and ``decomposed`` are the flows that pass
    later, or as unicasts (of which a ring's p - 1 steps each repeat the round's routes).
    ``ports[i]`` is the port to which what was at port i has moved, and ``moved`` how many have.
    """

    rounds: tuple[tuple[Route, ...], ...]
    serialised: tuple[Flow, ...] = ()
    decomposed: tuple[Flow, ...] = ()
    ports: tuple[int, ...] = ()

    @property
    def moved(self) -> int:
        return sum(port != place for port, place in enumerate(self.ports))

    @property
    def conflict_free(self) -> bool:
        """Whether all flows pass at once, whole, from where they were."""
        return len(self.rounds) == 1 and not (self.decomposed or self.moved)


def schedule(switch: FredSwitch, flows: Sequence[Flow], remedy: Remedy) -> Schedule:
    """Routes for all ``flows``: at once if that can be, else by the ``remedy``.

    Raises :class:`UnroutableError` if the remedy is to refuse, or does not help: a flow whose
    inputs are not its outputs is no group, and can neither be decomposed into a ring nor move.
    """
    try:
        return Schedule((switch.route(flows),))
    except UnroutableError:
        if remedy is Remedy.REFUSE:
            raise
    if remedy is Remedy.SERIALISE:
        return _serialise(switch, flows)
    groups = all(flow.inputs == flow.outputs for flow in flows)
    if not groups:
        raise UnroutableError.naming(flows, switch.middles)
    return _place(switch, flows) if remedy is Remedy.PLACE else _decompose(switch, flows)


def _fits(switch: FredSwitch, flows: Sequence[Flow]) -> bool:
    try:
        switch.route(flows)
    except UnroutableError:
        return False
    return True


def in_rounds(
    things: Sequence[_T], size: Callable[[_T], int], fit: Callable[[Sequence[_T]], bool]
) -> list[list[_T]]:
    """Each thing goes into the first round that has room for it, the largest things first."""
    rounds: list[list[_T]] = []
    for thing in sorted(things, key=lambda thing: -size(thing)):
        room = next((one for one in rounds if fit([*one, thing])), None)
        if room is None:
            rounds.append([thing])
        else:
            room.append(thing)
    return rounds


def _serialise(switch: FredSwitch, flows: Sequence[Flow]) -> Schedule:
    rounds = in_rounds(flows, lambda flow: len(flow.inputs | flow.outputs), partial(_fits, switch))
    later = tuple(flow for one in rounds[1:] for flow in one)
    return Schedule(tuple(switch.route(one) for one in rounds), serialised=later)


def _decompose(switch: FredSwitch, flows: Sequence[Flow]) -> Schedule:
    """The smallest groups become rings, until all can pass.  Two middle switches pass any unicasts,
    so the last resort always works."""
    order = sorted(flows, key=lambda flow: len(flow.inputs))
    for n in range(1, len(order) + 1):
        rings, whole = order[:n], order[n:]
        steps = [*whole, *(unicast for flow in rings for unicast in ring(flow))]
        if _fits(switch, steps):
            return Schedule((switch.route(steps),), decomposed=tuple(rings))
    raise UnroutableError.naming(flows, switch.middles)


def ring(flow: Flow) -> list[Flow]:
    """A group's unicasts, each member to the next; a group of one sends nothing."""
    members = sorted(flow.inputs)
    following = [*members[1:], members[0]]
    return [
        Flow(frozenset({one}), frozenset({other}), f"{flow.name}: {one} to {other}")
        for one, other in zip(members, following, strict=True)
        if one != other
    ]


def _place(switch: FredSwitch, flows: Sequence[Flow]) -> Schedule:
    """Groups one after another on consecutive ports, in the order of their first ports; whatever
    is in no group comes behind them."""
    check_flows(flows, switch.ports)
    order = [port for flow in sorted(flows, key=_first) for port in sorted(flow.inputs)]
    idle = sorted(set(range(switch.ports)) - set(order))
    to = {port: place for place, port in enumerate([*order, *idle])}
    moved = [Flow.among((to[port] for port in flow.inputs), flow.name) for flow in flows]
    ports = tuple(to[port] for port in range(switch.ports))
    return Schedule((switch.route(moved),), ports=ports)


def _first(flow: Flow) -> int:
    return min(flow.inputs)
