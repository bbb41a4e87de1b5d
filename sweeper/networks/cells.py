"""The cells of a space of networks and plans, and what bounds say of them, many at a time.

A cell is a plan, where it lies on a shape, and a network of that shape.  Plans of the same degrees
have the same places and networks, so a cell's number tells all of it, and no cell has an object: a
million of them are one array of bounds.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine import DimsweepError, Group, units
from dimsweep.engine.bound import (
    Groups,
    Reach,
    Stagings,
    Table,
    Turns,
    Ways,
    least_time,
    ways_by_cuts,
)
from dimsweep.engine.plan import DeviceMesh, grouped
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.networks.networks import Floats, Shape
from dimsweep.sweeper.networks.plans import Degrees, Row

Longs = NDArray[np.int64]
Alike = tuple[Degrees, int, int]
PIPELINE = "pipeline"
GREATEST = 2.0  # times a network's bandwidths are what is asked for at most


class Place(NamedTuple):
    """Where degrees lie on a shape: the order of the axes, and the groups by their names."""

    shape: int
    order: tuple[str, ...]
    groups: Mapping[str, Group]


class Moved(NamedTuple):
    """What the bandwidths and latencies of tiers are multiplied by; as they are where nothing is
    said.  No bandwidth is multiplied by more than GREATEST."""

    bandwidth: tuple[float, ...] = ()
    latency: tuple[float, ...] = ()

    @property
    def slowdown(self) -> float:
        """What no path gets shorter by: it has computations, latencies, and bytes to carry."""
        return min(1 / max(*self.bandwidth, 1.0, 1.0), *self.latency, 1.0, 1.0)


@dataclass(frozen=True)
class Spot:
    """All places and networks for plans of some degrees, M in all: the number of each one's place,
    its shape, and its network there (M,)."""

    place: Longs
    shape: Longs
    network: Longs

    def __len__(self) -> int:
        return len(self.place)

    def some(self, cells: Longs) -> "Spot":
        return Spot(self.place[cells], self.shape[cells], self.network[cells])


AS_IS = Moved()


class Where(NamedTuple):
    """A cell, taken apart: its plan, its place, the number of its network among those of its
    shape, and its own number among the cells of the plan."""

    row: Row
    place: Place
    network: int
    number: int


@dataclass
class Cells:
    """The cells of ``rows`` on ``shapes``; ``refused`` counts places that cannot be."""

    rows: Sequence[Row]
    shapes: Sequence[Shape]
    orders: Sequence[tuple[str, ...]]
    stagings: Stagings
    refused: Counter[str]
    places: list[Place] = field(default_factory=list)
    groups: Groups = field(default_factory=Groups)
    _spots: dict[Alike, Spot] = field(default_factory=dict)
    _scaled: dict[tuple[float, ...], Floats] = field(default_factory=dict)
    _later: dict[tuple[float, ...], Table] = field(default_factory=dict)
    _meshes: dict[tuple[object, ...], DeviceMesh | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if (alike := self.alike(row)) not in self._spots:
                self._spots[alike] = self._spot(row)
        self.first: Longs = np.cumsum([0, *(len(self.spot(row)) for row in self.rows)])

    def __len__(self) -> int:
        return int(self.first[-1])

    def of(self, rows: Sequence[Row], stagings: Stagings) -> "Cells":
        """The cells of other plans on the same networks, of which what is known stays known."""
        found, n = copy(self), len(self.places)
        found.rows, found.stagings = rows, stagings
        found.places, found._spots = [*self.places], {**self._spots}
        found.__dict__.pop("least", None)
        found.__post_init__()
        if len(found.places) > n:
            for name in ("_ways", "_pipelines", "_hops", "_table", "_numbers"):
                found.__dict__.pop(name, None)
            found._scaled, found._later = {}, {}
        return found

    def spot(self, row: Row) -> Spot:
        return self._spots[self.alike(row)]

    def alike(self, row: Row) -> Alike:
        """What plans with the same places and networks have in common."""
        own, remote = self._memories
        return row.degrees, bisect_left(own, row.memory), bisect_left(remote, row.remote)

    @cached_property
    def _memories(self) -> tuple[list[float], list[float]]:
        """The sizes of memory, and of remote memory, that NPUs may have."""
        own, remote = {each.memory for each in self.shapes}, {each.remote for each in self.shapes}
        return sorted(own), sorted(remote)

    def where(self, number: int) -> Where:
        """The cell of a number."""
        i = int(np.searchsorted(self.first, number, side="right")) - 1
        row, m = self.rows[i], number - int(self.first[i])
        spot = self.spot(row)
        return Where(row, self.places[int(spot.place[m])], int(spot.network[m]), m)

    def _spot(self, row: Row) -> Spot:
        """The places of a plan's degrees on all shapes; those that are alike count once."""
        columns, n = list[tuple[Longs, Longs, Longs]](), math.prod(row.degrees)
        for number, shape in enumerate(self.shapes):
            if math.prod(shape.sizes) != n:
                continue
            if shape.memory < row.memory:
                self.refused["networks have too little memory for some plans"] += len(shape.cost)
                continue
            if shape.remote < row.remote:
                self.refused["plans do not fit the remote memory"] += len(shape.cost)
                continue
            known = set[tuple[object, ...]]()
            for order in self.orders:
                mesh = self._mesh(row, shape, order)
                if mesh is None:
                    self.refused["places do not fit the network"] += len(shape.cost)
                    continue
                groups = {name: g for name, g in mesh.groups.items() if g.n_members > 1}
                key = tuple(sorted((name, g.sizes, g.strides) for name, g in groups.items()))
                if key in known:
                    continue
                known.add(key)
                own = np.arange(len(shape.cost))
                columns.append(
                    (np.full_like(own, len(self.places)), np.full_like(own, number), own)
                )
                self.places.append(Place(number, order, groups))
        if not columns:
            return Spot(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
        return Spot(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _mesh(self, row: Row, shape: Shape, order: tuple[str, ...]) -> DeviceMesh | None:
        """The mesh of a plan in an order; None where it does not fit."""
        symmetric = shape.cluster.symmetric
        key = (row.degrees, shape.sizes, symmetric, order)
        if key not in self._meshes:
            degrees = dict(zip(AXES, row.degrees, strict=True))
            try:
                wanted = {axis: degrees[axis] for axis in order}
                mesh = DeviceMesh.place(wanted, shape.sizes, symmetric)
                self._meshes[key] = grouped(row.plan, mesh)
            except DimsweepError:
                self._meshes[key] = None
        return self._meshes[key]

    # --- bounds -----------------------------------------------------------------------------

    @cached_property
    def least(self) -> Floats:
        """Level 0: seconds of each row that it computes for, on whatever network."""
        found = [
            least_time(
                self.stagings.of(row.plan, row.degrees),
                row.plan,
                row.turns,
                Reach(1),
                self.stagings,
            )
            for row in self.rows
        ]
        return np.array(found).reshape(-1)

    def loads_of(self, i: int, moved: Moved = AS_IS, cells: Longs | None = None) -> Floats:
        """Level 1: the least seconds of all cells of a row, or of some, on ``moved`` tiers."""
        row, spot = self.rows[i], self.spot(self.rows[i])
        if cells is not None:
            if not len(cells):
                return np.zeros(0)
            spot = spot.some(cells)
        turns = Turns(*(np.broadcast_to(each, len(spot)) for each in row.turns))
        groups = {axis: own[spot.place] for axis, own in self._numbers.items()}
        at = self._at(moved.bandwidth)[self._first_network[spot.shape] + spot.network]
        in_turn = self.shapes[0].cluster.collectives.streams == 1
        p = row.degrees[AXES.index(PIPELINE)]
        hops = self._hops[spot.place, :p] if p > 1 else None
        reach = Reach(len(spot), self._late(moved.latency), groups, hops, at, in_turn)
        return least_time(
            self.stagings.of(row.plan, row.degrees), row.plan, turns, reach, self.stagings
        )

    @cached_property
    def _ways(self) -> tuple[list[Ways], list[dict[Group, int]]]:
        """Those of each network that is another to collectives, for all groups that any place has
        there, by their number."""
        first = {number: i for i, number in reversed([*enumerate(self._network)])}
        numbers: list[dict[Group, int]] = [{} for _ in first]
        for place in self.places:
            own = numbers[self._network[place.shape]]
            for group in place.groups.values():
                own.setdefault(group, len(own))
        ways = []
        for number, own in enumerate(numbers):
            shape = self.shapes[first[number]]
            if shape.made is not None:
                ways.append(ways_by_cuts(shape.cluster, list(own)))
                continue
            most = shape.bandwidth.max(axis=0) * GREATEST
            ways.append(self.groups.ways(shape.cluster, list(own), most))
        return ways, numbers

    @cached_property
    def _network(self) -> list[int]:
        """The number of each shape's network, which several have that differ in what else they
        have."""
        numbers = dict[int, int]()
        return [numbers.setdefault(id(shape.cluster), len(numbers)) for shape in self.shapes]

    @cached_property
    def _pipelines(self) -> tuple[list[Ways], dict[tuple[int, Group], int]]:
        """Messages between the stages of each shape's pipelines, by their number."""
        numbers, found = dict[tuple[int, Group], int](), list[Ways]()
        alike = dict[object, int]()  # messages know nothing of dimensions that they do not cross
        for place in self.places:
            if PIPELINE not in place.groups:
                continue
            number, group = place.shape, place.groups[PIPELINE]
            if (number, group) in numbers:
                continue
            shape = self.shapes[number]
            most = shape.bandwidth.max(axis=0) * GREATEST
            crossed = [d for d, n in enumerate(group.sizes) if n > 1]
            dims = tuple((shape.cluster.topology.dims[d], most[d]) for d in crossed)
            free = shape.made is not None
            key = (shape.sizes, group, self._network[number] if free else dims)
            if key not in alike:
                alike[key] = len(found)
                found.append(
                    Ways.free(group.n_members, len(shape.sizes))
                    if free
                    else self.groups.hops(shape.cluster, group, most)
                )
            numbers[number, group] = alike[key]
        return found, numbers

    @cached_property
    def _hops(self) -> Longs:
        """The row of the table for the messages from each stage (places, most stages); where there
        are fewer, -1."""
        most = max((g[1].n_members for g in self._pipelines[1]), default=1)
        found = np.full((len(self.places), most), -1, dtype=np.int64)
        alike = dict[bytes, int]()
        for i, place in enumerate(self.places):
            if PIPELINE not in place.groups:
                continue
            number = len(self._ways[0]) + self._pipelines[1][place.shape, place.groups[PIPELINE]]
            for stage in range(place.groups[PIPELINE].n_members):
                row = int(self._table.first[number]) + stage
                table = self._table
                same = b"".join(
                    each[row].tobytes() for each in (table.fixed, table.slope, table.hops)
                )
                found[i, stage] = alike.setdefault(same, row)
        return found

    @cached_property
    def _table(self) -> Table:
        return Table([*self._ways[0], *self._pipelines[0]])

    def _late(self, scale: tuple[float, ...]) -> Table:
        """The table where the latency of each tier is times its ``scale``."""
        if not scale:
            return self._table
        if scale not in self._later:
            shape = next(shape for shape in self.shapes if shape.made is None)
            more = shape.later(scale) - shape.later((1.0,) * len(scale))
            self._later[scale] = self._table.later(more / units.PICOSECONDS)
        return self._later[scale]

    @cached_property
    def _numbers(self) -> dict[str, Longs]:
        """The group of each axis at all places, by its number in the table."""
        axes = dict.fromkeys(axis for place in self.places for axis in place.groups)
        found = {axis: np.full(len(self.places), -1, dtype=np.int64) for axis in axes}
        for number, place in enumerate(self.places):
            network = self._network[place.shape]
            first, own = int(self._table.first[network]), self._ways[1][network]
            for axis, group in place.groups.items():
                found[axis][number] = first + own[group]
        return found

    @cached_property
    def _first_network(self) -> Longs:
        return np.cumsum([0, *(len(shape.cost) for shape in self.shapes)])

    def _at(self, scale: tuple[float, ...]) -> Floats:
        """What the table's columns are multiplied by, for all networks of all shapes."""
        if scale not in self._scaled:
            found = [
                self._table.at(self._ways[0][network], bandwidth)
                for network, shape in zip(self._network, self.shapes, strict=True)
                for bandwidth in shape.scaled(scale)
            ]
            self._scaled[scale] = np.array(found)
        return self._scaled[scale]

    def of_networks(self, values: Floats, spot: Spot) -> Floats:
        """Those of the networks of a spot (M,), of ``values`` of all networks, shape by shape."""
        return values[self._first_network[spot.shape] + spot.network]
