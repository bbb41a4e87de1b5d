"""Placements of plans on the networks of a space, and the bounds on their communication times.

A placement assigns the parallel axes to the dimensions of a network. Plans of equal degrees share
placements and communication.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine import DimsweepError, Group, units
from dimsweep.engine.bound import (
    BETWEEN,
    PASSES,
    STAGES,
    BoundTable,
    CellClasses,
    CellCommunication,
    CommunicationBounds,
    GroupBounds,
    bound_by_cuts,
)
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.plan import EXPERT_REPLICAS, REPLICAS, DeviceMesh, add_plan_groups
from dimsweep.sweeper.questions.networks.shapes import Floats, Shape
from dimsweep.sweeper.space.plans import Degrees, PlanRow, Refusals

Longs = NDArray[np.int64]
PlacementKey = tuple[Degrees, int, int]
PIPELINE = "pipeline"
MAX_TIER_FACTOR = 2.0  # largest factor of a network's bandwidths
# Cached properties of all places, which are computed anew when places are added.
_DERIVED = (
    "_ways",
    "_pipelines",
    "_hops",
    "_table",
    "_first_equal_row",
    "_group_numbers",
    "_class_codes",
)


class Place(NamedTuple):
    """A placement of parallel degrees on the dimensions of a shape."""

    #: number of the shape
    shape: int
    #: order of the axes
    order: tuple[str, ...]
    #: groups by name
    groups: Mapping[str, Group]


class TierFactors(NamedTuple):
    """Factors that multiply the bandwidths and latencies of tiers; empty for 1.

    No bandwidth is multiplied by more than MAX_TIER_FACTOR.
    """

    bandwidth: tuple[float, ...] = ()
    latency: tuple[float, ...] = ()

    @property
    def slowdown(self) -> float:
        """Lower bound on the factor by which the time of any path changes."""
        return min(1 / max(*self.bandwidth, 1.0, 1.0), *self.latency, 1.0, 1.0)


@dataclass(frozen=True)
class Candidates:
    """The M pairs of a placement and a network on which plans of equal degrees can run.

    Each is given by its numbers, of shape (M,).
    """

    place: Longs
    shape: Longs
    network: Longs

    def __len__(self) -> int:
        return len(self.place)


UNCHANGED_TIERS = TierFactors()


@dataclass
class Places:
    """All placements of plans on ``shapes``; ``refused`` counts infeasible placements by reason."""

    shapes: Sequence[Shape]
    orders: Sequence[tuple[str, ...]]
    refused: Refusals
    all: list[Place] = field(default_factory=list)
    _groups: GroupBounds = field(default_factory=GroupBounds)
    _candidates: dict[PlacementKey, Candidates] = field(default_factory=dict)
    _scaled: dict[tuple[float, ...], Floats] = field(default_factory=dict)
    _delayed_tables: dict[tuple[float, ...], BoundTable] = field(default_factory=dict)
    _meshes: dict[tuple[object, ...], DeviceMesh | DimsweepError] = field(default_factory=dict)
    _classes: dict[PlacementKey, tuple[Longs, Mapping[str, CellClasses]]] = field(
        default_factory=dict
    )
    _reaches: dict[TierFactors, dict[PlacementKey, CellCommunication]] = field(default_factory=dict)

    def add(self, rows: Sequence[PlanRow]) -> None:
        """Add the placements of the plans ``rows``."""
        n = len(self.all)
        for row in rows:
            if (alike := self.placement_key(row)) not in self._candidates:
                self._candidates[alike] = self._find_candidates(row)
        if len(self.all) > n:
            for name in _DERIVED:
                self.__dict__.pop(name, None)
            self._scaled, self._delayed_tables, self._reaches = {}, {}, {}

    def candidates(self, row: PlanRow) -> Candidates:
        return self._candidates[self.placement_key(row)]

    def placement_key(self, row: PlanRow) -> PlacementKey:
        """Return a key that is equal for plans with the same placements and networks."""
        own, remote = self._memories
        return row.degrees, bisect_left(own, row.memory), bisect_left(remote, row.remote)

    @cached_property
    def _memories(self) -> tuple[list[float], list[float]]:
        """Distinct sizes of NPU memory, and of remote memory, of the shapes (bytes, sorted)."""
        own, remote = {each.memory for each in self.shapes}, {each.remote for each in self.shapes}
        return sorted(own), sorted(remote)

    def _find_candidates(self, row: PlanRow) -> Candidates:
        """Return the distinct placements of a plan's degrees on all shapes, with their networks."""
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
                if isinstance(mesh, DimsweepError):
                    self.refused.add("places do not fit the network", mesh, "", len(shape.cost))
                    continue
                groups = {name: g for name, g in mesh.groups.items() if g.n_members > 1}
                key = tuple(sorted((name, g.sizes, g.strides) for name, g in groups.items()))
                if key in known:
                    continue
                known.add(key)
                own = np.arange(len(shape.cost))
                columns.append((np.full_like(own, len(self.all)), np.full_like(own, number), own))
                self.all.append(Place(number, order, groups))
        if not columns:
            return Candidates(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
        return Candidates(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _mesh(
        self, row: PlanRow, shape: Shape, order: tuple[str, ...]
    ) -> DeviceMesh | DimsweepError:
        """Return a plan's device mesh with axes in ``order``, or the error if it does not fit."""
        symmetric = shape.cluster.symmetric_dims
        key = (row.degrees, shape.sizes, symmetric, order)
        if key not in self._meshes:
            degrees = dict(zip(AXES, row.degrees, strict=True))
            try:
                wanted = {axis: degrees[axis] for axis in order}
                mesh = DeviceMesh.place(wanted, shape.sizes, symmetric)
                self._meshes[key] = add_plan_groups(row.plan, mesh)
            except DimsweepError as error:
                self._meshes[key] = error
        return self._meshes[key]

    def reach(self, row: PlanRow, moved: TierFactors) -> CellCommunication:
        """Return the communication of a plan's cells, with tiers changed by factors ``moved``."""
        if moved not in self._reaches:
            self._reaches = {
                UNCHANGED_TIERS: self._reaches.get(UNCHANGED_TIERS, {}),
                moved: {},
            }  # one race at a time
        found, alike = self._reaches[moved], self.placement_key(row)
        if alike not in found:
            candidates, p = self._candidates[alike], row.degrees[AXES.index(PIPELINE)]
            network, classes = self._classify_cells(alike)
            found[alike] = CellCommunication(
                n=len(candidates),
                table=self._delay_table(moved.latency),
                groups=self._group_numbers,
                hops=self._hops[:, :p] if p > 1 else None,
                factors=self._bandwidth_factors(moved.bandwidth),
                place=candidates.place,
                network=network,
                classes=classes,
                is_sequential=self.shapes[0].cluster.collectives.streams == 1,
            )
        return found[alike]

    def _classify_cells(self, alike: PlacementKey) -> tuple[Longs, Mapping[str, CellClasses]]:
        """Return the network of each cell of the plans with key ``alike``, and the cells' classes.

        Cells of one class have equal communication, whatever the factors of the tiers.
        """
        if alike not in self._classes:
            candidates, found = self._candidates[alike], dict[str, CellClasses]()
            network = self.networks(candidates)
            for name, (codes, crossed) in self._class_codes.items():
                own, ports = (
                    codes[candidates.place],
                    np.where(crossed[candidates.place], self._ports[network], 0),
                )
                for column in ports.T:
                    own = CellClasses.from_codes(
                        own * (1 + int(column.max(initial=0))) + column
                    ).number
                found[name] = CellClasses.from_codes(own)
            self._classes[alike] = network, found
        return self._classes[alike]

    @cached_property
    def _class_codes(self) -> dict[str, tuple[Longs, NDArray[np.bool_]]]:
        """Equivalence classes of placements, for each group of axes that a bound uses together.

        Each has numbers (places,), equal for placements with equal communication at equal
        bandwidths, and a mask (places, D) of the dimensions whose bandwidths matter.
        """
        passes = {axis for axis in self._group_numbers if axis not in BETWEEN}
        axes = {PASSES: passes, STAGES: {PIPELINE, *passes}}
        axes |= {axis: {axis} for axis in (PIPELINE, REPLICAS, EXPERT_REPLICAS)}
        return {name: self._classify_needs(own) for name, own in axes.items()}

    def _classify_needs(self, axes: Collection[str]) -> tuple[Longs, NDArray[np.bool_]]:
        n_dims = self._ports.shape[1]
        known, numbers = dict[object, int](), np.zeros(len(self.all), dtype=np.int64)
        crossed = np.zeros((len(self.all), n_dims), dtype=bool)
        own = [self._group_numbers[axis] for axis in sorted(axes) if axis in self._group_numbers]
        hops = self._hops.T if PIPELINE in axes else ()
        rows = np.array([*own, *hops]).reshape(-1, len(self.all)).T
        for number, place in enumerate(self.all):
            is_made = (
                self.shapes[place.shape].generator is not None
            )  # whose bandwidths are never moved
            key = rows[number].tobytes(), is_made
            numbers[number] = known.setdefault(key, len(known))
            for group in (place.groups[axis] for axis in axes if axis in place.groups):
                crossed[number, : len(group.sizes)] |= np.array(group.sizes) > 1
        return numbers, crossed

    @cached_property
    def _ports(self) -> Longs:
        """Rank, from 1, of a network's bandwidth among all in a dimension (networks, D)."""
        n_dims = max(len(shape.sizes) for shape in self.shapes)
        found = np.zeros((int(self._first_network[-1]), n_dims), dtype=np.int64)
        for first, shape in zip(self._first_network.tolist(), self.shapes, strict=False):
            for d, own in enumerate(shape.bandwidth.T):
                values = np.unique(
                    np.concatenate([s.bandwidth[:, d] for s in self.shapes if d < len(s.sizes)])
                )
                found[first : first + len(own), d] = 1 + np.searchsorted(values, own)
        return found

    @cached_property
    def _ways(self) -> tuple[list[CommunicationBounds], list[dict[Group, int]]]:
        """Bounds on the collectives of all groups on each distinct network.

        The second list has, for each network, the number of each group among its bounds.
        """
        first = {number: i for i, number in reversed([*enumerate(self._network)])}
        numbers: list[dict[Group, int]] = [{} for _ in first]
        for place in self.all:
            own = numbers[self._network[place.shape]]
            for group in place.groups.values():
                own.setdefault(group, len(own))
        ways = []
        for number, own in enumerate(numbers):
            shape = self.shapes[first[number]]
            if shape.generator is not None:
                ways.append(bound_by_cuts(shape.cluster, list(own)))
                continue
            most = shape.bandwidth.max(axis=0) * MAX_TIER_FACTOR
            ways.append(self._groups.bound_collectives(shape.cluster, list(own), most))
        return ways, numbers

    @cached_property
    def _network(self) -> list[int]:
        """Number of each shape's network; shapes with one cluster share a number."""
        numbers = dict[int, int]()
        return [numbers.setdefault(id(shape.cluster), len(numbers)) for shape in self.shapes]

    @cached_property
    def _pipelines(self) -> tuple[list[CommunicationBounds], dict[tuple[int, Group], int]]:
        """Bounds on messages between pipeline stages, and their numbers by (shape, group)."""
        numbers, found = dict[tuple[int, Group], int](), list[CommunicationBounds]()
        alike = dict[object, int]()  # messages depend only on the dimensions that they cross
        for place in self.all:
            if PIPELINE not in place.groups:
                continue
            number, group = place.shape, place.groups[PIPELINE]
            if (number, group) in numbers:
                continue
            shape = self.shapes[number]
            most = shape.bandwidth.max(axis=0) * MAX_TIER_FACTOR
            crossed = [d for d, n in enumerate(group.sizes) if n > 1]
            dims = tuple((shape.cluster.topology.dims[d], most[d]) for d in crossed)
            free = shape.generator is not None
            key = (shape.sizes, group, self._network[number] if free else dims)
            if key not in alike:
                alike[key] = len(found)
                found.append(
                    CommunicationBounds.zero(group.n_members, len(shape.sizes))
                    if free
                    else self._groups.bound_messages(shape.cluster, group, most)
                )
            numbers[number, group] = alike[key]
        return found, numbers

    @cached_property
    def _hops(self) -> Longs:
        """Row of the bound table for messages from a stage (places, stages); -1 if none."""
        most = max((g[1].n_members for g in self._pipelines[1]), default=1)
        found = np.full((len(self.all), most), -1, dtype=np.int64)
        for i, place in enumerate(self.all):
            if PIPELINE not in place.groups:
                continue
            number = len(self._ways[0]) + self._pipelines[1][place.shape, place.groups[PIPELINE]]
            first, n = int(self._table.first[number]), place.groups[PIPELINE].n_members
            found[i, :n] = self._first_equal_row[first : first + n]
        return found

    @cached_property
    def _first_equal_row(self) -> Longs:
        return self._table.equivalent_groups()

    @cached_property
    def _table(self) -> BoundTable:
        return BoundTable([*self._ways[0], *self._pipelines[0]])

    def _delay_table(self, scale: tuple[float, ...]) -> BoundTable:
        """Return the bound table with the latency of each tier multiplied by its ``scale``."""
        if not scale:
            return self._table
        if scale not in self._delayed_tables:
            shape = next(shape for shape in self.shapes if shape.generator is None)
            more = shape.scale_latencies(scale) - shape.scale_latencies((1.0,) * len(scale))
            self._delayed_tables[scale] = self._table.with_latency(more / units.PICOSECONDS)
        return self._delayed_tables[scale]

    @cached_property
    def _group_numbers(self) -> dict[str, Longs]:
        """Row of each axis' group in the bound table (places,); -1 without the axis."""
        axes = dict.fromkeys(axis for place in self.all for axis in place.groups)
        found = {axis: np.full(len(self.all), -1, dtype=np.int64) for axis in axes}
        for number, place in enumerate(self.all):
            network = self._network[place.shape]
            first, own = int(self._table.first[network]), self._ways[1][network]
            for axis, group in place.groups.items():
                found[axis][number] = self._first_equal_row[first + own[group]]
        return found

    @cached_property
    def _first_network(self) -> Longs:
        return np.cumsum([0, *(len(shape.cost) for shape in self.shapes)])

    def _bandwidth_factors(self, scale: tuple[float, ...]) -> Floats:
        """Return the factors of the bound table's columns for all networks of all shapes.

        ``scale`` multiplies the bandwidth of each tier.
        """
        if scale not in self._scaled:
            found = [
                self._table.column_factors(self._ways[0][network], bandwidth)
                for network, shape in zip(self._network, self.shapes, strict=True)
                for bandwidth in shape.scale_bandwidths(scale)
            ]
            self._scaled[scale] = np.array(found)
        return self._scaled[scale]

    def select_networks(self, values: Floats, candidates: Candidates) -> Floats:
        """Return the ``values`` of the candidates' networks (M,).

        ``values`` (networks,) has a value for each network, shape by shape.
        """
        return values[self.networks(candidates)]

    def networks(self, candidates: Candidates) -> Longs:
        """Return the numbers (M,) of the candidates' networks, counted shape by shape."""
        return self._first_network[candidates.shape] + candidates.network
