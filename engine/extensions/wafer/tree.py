"""Reduction trees: the switches that a group's bytes are reduced and distributed by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dimsweep.engine.extensions.fred.flow import Flow
from dimsweep.engine.extensions.fred.switch import FredSwitch

L2 = "L2"


@dataclass(frozen=True)
class Tree:
    """``leaves``: the switch below which each member lies, and the members there.  If there are
    several, ``lanes`` are the links of each leaf to the ``top`` that joins them, as nodes; each
    takes an equal part of the bytes, and lanes at one place are for the same part."""

    leaves: Mapping[str, tuple[int, ...]]
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    top: str = L2

    @property
    def n_parts(self) -> int:
        return len(next(iter(self.lanes.values()))) if self.lanes else 1


def leaf_name(leaf: int) -> str:
    """The node of an L1 switch."""
    return f"L1 no {leaf}"


def lane_name(leaf: int, lane: int) -> str:
    """The node of one of the links between an L1 switch and the L2 switch."""
    return f"lane {lane} of L1 no {leaf}"


def plan_trees(
    lines: Sequence[tuple[int, ...]], *, leaf: int, leaves: int, middles: int
) -> dict[frozenset[int], Tree]:
    """A tree for each of ``lines``, which run at once on ``leaves`` L1 switches of ``leaf`` NPUs
    and as many lanes each.

    The lines that leave an L1 switch share out its lanes, as many to each line everywhere.  Then
    every switch, FRED_m(2 leaf) at the NPUs and FRED_m(leaf * leaves) above them with m =
    ``middles``, must route the part of each line that passes it.  Raises
    :class:`UnroutableError` naming the lines where there is no colouring.
    """
    parts = [_parts(line, leaf) for line in lines]
    leaving: dict[int, list[int]] = {}  # of each L1 switch, the lines
    for i, part in enumerate(parts):
        for number in part if len(part) > 1 else ():
            leaving.setdefault(number, []).append(i)
    each = leaf // max(map(len, leaving.values()), default=1)
    lanes: list[dict[int, tuple[int, ...]]] = [{} for _ in lines]
    for number, own in leaving.items():
        for place, i in enumerate(own):
            lanes[i][number] = tuple(range(place * each, (place + 1) * each))
    for switch, flows in _flows(lines, parts, lanes, leaf).items():
        FredSwitch(leaf * leaves if switch == L2 else 2 * leaf, middles).route(flows)
    return {
        frozenset(line): Tree(
            {leaf_name(number): members for number, members in part.items()},
            {
                leaf_name(number): tuple(lane_name(number, lane) for lane in taken)
                for number, taken in own.items()
            },
        )
        for line, part, own in zip(lines, parts, lanes, strict=True)
    }


Parts = Mapping[int, tuple[int, ...]]  # of a line at each L1 switch: its members, or its lanes


def _parts(line: Sequence[int], leaf: int) -> Parts:
    found: dict[int, tuple[int, ...]] = {}
    for npu in line:
        found[npu // leaf] = (*found.get(npu // leaf, ()), npu)
    return found


def _flows(
    lines: Sequence[tuple[int, ...]], parts: Sequence[Parts], lanes: Sequence[Parts], leaf: int
) -> dict[str, list[Flow]]:
    """What passes each switch at once.  An L1 switch has its NPUs at the first ports and its lanes
    behind them; the L2 switch has the lanes of one L1 switch behind those of the other."""
    flows: dict[str, list[Flow]] = {}
    for line, part, own in zip(lines, parts, lanes, strict=True):
        name = "{" + ", ".join(map(str, line)) + "}"
        for number, members in part.items():
            here, what = leaf_name(number), f"{name} at {leaf_name(number)}"
            down = frozenset(npu % leaf for npu in members)
            up = frozenset(leaf + lane for lane in own.get(number, ()))
            ends = ((down, up), (up, down)) if up else ((down, down),)
            flows.setdefault(here, []).extend(Flow(*sides, what) for sides in ends)
        if own:
            ports = {number * leaf + lane for number, taken in own.items() for lane in taken}
            flows.setdefault(L2, []).append(Flow.among(ports, f"{name} at {L2}"))
    return flows
