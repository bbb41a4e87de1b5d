"""A lowered workload: the flat arrays that the event kernels read, at one point of a sweep."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.collective.algorithms import Chosen
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind, NamedInt
from dimsweep.engine.network.fabric import Auto
from dimsweep.engine.records import Table as Table
from dimsweep.engine.records import record
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.workload.graph import Workload

Ints = NDArray[np.int32]
Indices = NDArray[np.uint32]  # unsigned, so that compiled code need not look for negative ones
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
_A = TypeVar("_A", Floats, Longs)

# The kind of a form is a CollectiveKind, or this for a message.
POINT_TO_POINT = len(CollectiveKind)


class NodeKind(NamedInt):
    """The kind of an operator, as a number in the node table."""

    COMPUTE = 0
    COLLECTIVE = 1
    SEND = 2
    RECEIVE = 3
    ACCESS = 4  # of remote memory
    CHAIN = 5  # operators that run as one (see engine.kernels.phase.chains)
    HOST = 6  # work of the host: the NPU neither computes nor communicates


class Lookahead(NamedInt):
    """How far a class may run ahead of the others while a node is ready or runs.

    FULL: no other class depends on the node. UNTIL_END: others depend on its end. NONE: the node
    waits for other classes, so its class keeps step with them.
    """

    FULL = 0
    UNTIL_END = 1
    NONE = 2


class StreamOrder(NamedInt):
    """The order in which an idle stream starts its ready operators."""

    ARRIVAL = 0  # the one that became ready first
    KEY = 1  # the one with the lowest key


# Sentinels.
NO_STREAM = NO_FLOW = NO_TALLY = NO_NODE = NO_STEPS = NO_PORT = NO_DIM = NOT_LISTED = NO_FORM = -1
NO_SERVICE = NO_ENTRANCE = -1


NODE = record(
    kind="i4",  # a NodeKind
    cls="i4",
    stream="i4",  # class * n_streams + stream, -1 for a receive
    key="i4",  # order among nodes that become ready at the same time
    flow="i4",  # -1 for compute
    waits="i4",  # number of operators it waits for
    next_start="i4",  # its successors, in Structure.following
    next_end="i4",
    tally="i4",  # row of the communication tally, -1 for compute; of a chain, its number
    lookahead="i4",  # a Lookahead
    service="i4",  # of an access whose servers other classes use, too; or NO_SERVICE
    duration="i8",  # of compute or an access, ps; with a service, at least
    memory="i8",  # the part of it that memory bandwidth limits
)
FLOW = record(
    form="i4",
    key="i4",  # order among flows whose chunks move at the same time
    receiver="i4",  # the receive node, -1 for a collective
    member_start="i4",  # in Structure.members
    member_end="i4",
    chunk_start="i4",
    chunk_end="i4",
    entry_start="i4",  # queue entries: chunk * members + member
)
MEMBER = record(cls="u4", node="u4")
FORM = record(
    kind="i4",
    chunks="i4",
    priority="i4",
    use_start="i4",  # its dimensions, in Structure.uses
    use_end="i4",
    listed_start="i4",  # its phases in Structure.listed, or NOT_LISTED
    listed_length="i4",  # phases of a variant; one variant, or one a chunk
    listed_variants="i4",
    n_bytes="f8",  # a chunk's, on entry
)
USE = record(
    dim="i4",
    scatter="i4",  # PHASE_STEPS of the reduce-scatter, the all-to-all or the crossing
    gather="i4",  # PHASE_STEPS of the all-gather
    fused="i4",  # PHASE_STEPS of the fused all-reduce, NO_STEPS if there is none
    entrance="i4",  # of a message's target there, on which others' come, or NO_ENTRANCE
)
LISTED = record(
    dim="i4",  # NO_DIM after a variant's last phase
    port="i4",  # of the class, or NO_PORT: the phase holds its operator's stream
    steps="i4",  # its PHASE_STEPS
)
PHASE_STEPS = record(
    share="f8",  # of an NPU's bandwidth, that the steps use
    growth="f8",  # bytes held after the phase, relative to those before
    bytes_sent="f8",  # bytes sent in the phase, relative to those before
    kind="i4",  # a CollectiveKind (ALL_REDUCE: fused), or POINT_TO_POINT
    step_start="i4",  # in Structure.steps
    step_end="i4",
)
STEP = record(
    count="i8",
    hops="i8",
    fixed="i8",  # ps beside the endpoint delay
    n_bytes="f8",  # fraction of the bytes held on entry
    reduce="f8",
    messages="i8",  # that the bytes are sent in, one after another
)
CHAIN = record(start="i4", end="i4")  # its links, in Structure.links
LINK = record(
    form="i4",  # of a collective over one dimension, or NO_FORM: a computation
    stream="i4",  # of the class
    port="i4",  # of the class; -1 for a computation
    before_start="i4",  # the links that it waits for, in Structure.links_before
    before_end="i4",
    tally="i4",
    duration="i8",  # of a computation, ps
    memory="i8",  # the part of it that memory bandwidth limits
)
# How an access is served: its bytes take, per share of its servers, ``own`` ps or longer, and then
# its latency passes.
SERVICE = record(
    latency="i8",  # ps
    own="f8",  # ps
    most="f8",  # ps of all of it, if all users of its servers access them at once
    use_start="i4",  # its demands on servers, in Structure.server_uses
    use_end="i4",
)
SERVER_USE = np.dtype(
    [
        ("server", "i4"),
        ("npus", "i4"),  # of the class, that the server serves
        ("alone", "f8"),  # ps for one of them, if the server served it alone
    ]
)


class Shape(NamedTuple):
    """The sizes and scalar settings of a structure, as plain numbers.

    A tuple with a member of an enumeration would cost Numba half a millisecond of typing at each
    call.
    """

    n_classes: int
    n_dims: int
    n_streams: int  # of a class; the first one computes
    n_timed: int  # the first of them, which time what they run; the others wait for their flows
    n_tallies: int
    queue: int  # a QueueOrder: which waiting chunk a port serves next
    order: int  # a DimensionOrder: the baseline, 0, or one that each chunk has of its own
    endpoint_delay: int  # ps a step
    reduce_time: float  # ps a byte, 0 where reductions are hidden
    n_ports: int  # of a class: as many into each dimension, dimension 0 first
    places: int = 1  # chunks that a port serves at once
    stream_order: int = int(StreamOrder.ARRIVAL)


class Structure(NamedTuple):
    """The tables of a run that do not depend on bandwidth, latency or prices.

    Words: a *class* is a set of equivalent ranks; a *stream* runs one operator of its class at a
    time (stream 0 computes, the others communicate or access memory); a *port* leads from a class
    into a dimension: a queue, and places for the chunks that it serves; a *node* is an operator on
    a class; a *flow* is a collective or point-to-point transfer, shared by the nodes of its member
    classes; flows of equal work share a *form*, which is timed once; *phase steps* are the parts of
    a phase. The phases of a form follow from the dimensions that it uses and the order of
    dimensions, or are listed one by one. Tables are record arrays: the compiled kernels take them
    by the table, not by the column.
    """

    shape: Shape
    nodes: Table  # NODE
    following: Indices
    flows: Table  # FLOW
    members: Table  # MEMBER
    forms: Table  # FORM
    uses: Table  # USE
    listed: Table  # LISTED
    phase_steps: Table  # PHASE_STEPS
    steps: Table  # STEP
    chains: Table = np.zeros(0, dtype=CHAIN)
    links: Table = np.zeros(0, dtype=LINK)
    links_before: Indices = np.zeros(0, dtype=np.uint32)
    services: Table = np.zeros(0, dtype=SERVICE)
    server_uses: Table = np.zeros(0, dtype=SERVER_USE)


@dataclass(frozen=True)
class Names:
    """The names of a :class:`Structure`'s nodes, streams, dimensions and tallies, for reports."""

    node: Sequence[str]
    stream: tuple[str, ...]  # of the streams after the first
    dims: tuple[str, ...]
    tally: tuple[str, ...]
    class_count: tuple[int, ...]  # ranks in each class
    class_first: tuple[int, ...]  # lowest rank of each class
    flow_group: tuple[str, ...]  # of each collective flow, "" for point to point


class Witness(Protocol):
    """A second simulator, for points that the phase kernel cannot simulate.

    These are points at which simultaneous events are TIED, and all points of a program without
    nodes.
    """

    def __call__(self, bandwidth: Floats, latency: Longs) -> tuple[Longs, Longs]:
        """Simulate one point: return each class's end, and its compute time, in ps; (C,) each."""


class Entrances(Protocol):
    """Entry points of the compiled phase kernel (see engine.kernels.phase.batch)."""

    @property
    def run_points(self) -> Callable[..., None]:
        """Function that simulates a structure at several points (bandwidths and latencies)."""

    @property
    def time_phases(self) -> Callable[..., float]:
        """Function that times a structure's phases at one point."""

    @property
    def add_phases(self) -> Callable[..., None]:
        """Function that adds the critical path's seconds, by phase, to the row of each label."""


def _no_choices() -> Longs:
    return np.zeros(0, dtype=np.int64)


class Chooser(Protocol):
    """The choices of a collective library for R forms of a program, at given bandwidths."""

    def choose(self, bandwidth: Floats) -> Longs:
        """Return the index of the choice for each form, (P, R), at bandwidths (P, D) in bytes/s."""

    def apply(self, structure: Structure, choices: Longs) -> Structure:
        """Return ``structure`` with the phases of the ``choices`` (R,)."""

    def relax(self, structure: Structure, low: Floats, high: Floats) -> Structure:
        """Return ``structure`` with phases no slower than any choice's in a box of bandwidths.

        The box is between ``low`` and ``high``, (D,) each, in bytes/s.
        """


# An access that goes through the I/O controllers of an interconnect; one a node.
ACCESS = np.dtype(
    [
        ("node", "i4"),
        ("group", "i4"),  # whose members share it, in Communication.groups; or NOT_SHARED
        ("n_bytes", "f8"),
        ("store", "?"),  # or load
    ],
    align=True,
)
NOT_SHARED = -1
NO_ACCESSES = np.zeros(0, dtype=ACCESS)


@dataclass(frozen=True)
class Communication:
    """A program's topology, network and groups, for kernels that simulate ranks and messages.

    The phase kernel does not need them: it reads tables of phases.
    """

    topology: Topology
    network: NetworkModel
    groups: Mapping[str, Group]
    algorithms: tuple[Chosen, ...]
    accesses: NDArray[np.void]  # ACCESS, in the order of their nodes
    shares_ports: bool = False

    @property
    def by_network(self) -> tuple[str, ...]:
        """Names of the chosen algorithms that only kernels with links can simulate."""
        return tuple(each.others.name for each in self.algorithms if each.others.by_network)

    def closes_ring(self, group: Group, dim: int) -> bool:
        """Return whether the members of a group form a ring in dimension ``dim``."""
        fabrics = self.network.fabrics
        fabric = fabrics[dim] if fabrics else Auto()
        return fabric.closes_ring(self.topology.dims[dim], group.sizes[dim], group.strides[dim])


@dataclass(frozen=True)
class Program:
    """A structure at one point: bandwidth (bytes/s), latency (ps a hop) and prices.

    :meth:`rebind` returns the program at another point, without lowering again. ``workload`` and
    ``cluster`` are kept for reports; kernels do not read them. If a library of collectives chooses
    algorithms by the bandwidths, ``chosen`` (R,) are its choices at this point; the structure has
    the phases of these choices.
    """

    structure: Structure
    names: Names
    bandwidth: Floats  # (D,)
    latency: Longs  # (D,)
    prices: Prices | None
    communication: Communication
    workload: Workload
    cluster: Cluster
    witness: Witness | None = None
    entrances: Entrances | None = field(
        default=None, repr=False, compare=False
    )  # whose rules it is by
    chooser: Chooser | None = field(default=None, repr=False, compare=False)
    chosen: Longs = field(default_factory=_no_choices, compare=False)

    @classmethod
    def build(
        cls,
        cluster: Cluster,
        structure: Structure,
        names: Names,
        workload: Workload,
        *,
        algorithms: tuple[Chosen, ...] = (),
        accesses: Table = NO_ACCESSES,
        chooser: Chooser | None = None,
    ) -> "Program":
        """Build the program at the bandwidths, latencies and prices of ``cluster``.

        ``algorithms`` and ``accesses`` serve kernels that simulate ranks one by one (see
        :class:`Communication`).
        """
        dims = cluster.topology.dims
        bandwidth = check_bandwidth([dim.bandwidth for dim in dims], len(dims))
        latency = check_latency([dim.latency for dim in dims], len(dims))
        communication = Communication(
            cluster.topology,
            cluster.network,
            workload.groups,
            algorithms,
            accesses,
            workload.shares_ports,
        )
        point = bandwidth, latency, cluster.prices
        program = cls(structure, names, *point, communication, workload, cluster)
        if chooser is None:
            return program
        (chosen,) = chooser.choose(bandwidth[None])
        return dataclasses.replace(program, chooser=chooser, chosen=chosen)

    @property
    def n_npus(self) -> int:
        """Number of NPUs."""
        return sum(self.names.class_count)

    def rebind(
        self,
        *,
        bandwidth: Sequence[float] | Floats | None = None,
        latency: Sequence[int] | Longs | None = None,
        prices: Prices | None = None,
    ) -> "Program":
        """Return the program at another point; arguments that are not given keep their values.

        A library of collectives chooses its algorithms again. ``bandwidth`` (D,) is in bytes/s,
        ``latency`` (D,) in ps a hop.
        """
        changes: dict[str, object] = {}
        if bandwidth is not None:
            changes["bandwidth"] = _single_point(
                check_bandwidth(bandwidth, self.structure.shape.n_dims)
            )
        if latency is not None:
            changes["latency"] = _single_point(check_latency(latency, self.structure.shape.n_dims))
        if prices is not None:
            changes["prices"] = prices
        moved = dataclasses.replace(self, **changes)  # type: ignore[arg-type]
        if moved.chooser is None:
            return moved
        return moved._with_choice(moved.chooser, moved.chooser.choose(moved.bandwidth[None])[0])

    def group_by_choice(self, bandwidth: Floats) -> list[tuple["Program", Longs]]:
        """Group points (P, D) by the library's choices, and return the program for each group.

        Each program comes with the indices of its points.
        """
        if self.chooser is None:
            return [(self, np.arange(len(bandwidth)))]
        distinct, group = np.unique(self.chooser.choose(bandwidth), axis=0, return_inverse=True)
        group = group.reshape(-1)
        return [
            (self._with_choice(self.chooser, chosen), np.flatnonzero(group == number))
            for number, chosen in enumerate(distinct)
        ]

    def _with_choice(self, chooser: Chooser, chosen: Longs) -> "Program":
        if np.array_equal(chosen, self.chosen):
            return self
        made = chooser.apply(self.structure, chosen)
        return dataclasses.replace(self, structure=made, chosen=chosen)


def starts(lengths: Iterable[int]) -> Ints:
    """Return the starts of consecutive ranges of the given ``lengths``, and the end of the last."""
    each = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int32)
    start = np.zeros(len(each) + 1, dtype=np.int32)
    np.cumsum(each, out=start[1:])
    return start


def lay_out(table: Table, **lengths: NDArray[np.integer]) -> None:
    """Write into ``table`` the range of rows of another table that belongs to each row.

    The ranges are consecutive. ``lengths`` gives their lengths by NAME; the columns are
    ``NAME_start`` and, if it exists, ``NAME_end``.
    """
    for name, each in lengths.items():
        ends = np.cumsum(each)
        table[f"{name}_start"] = ends - each
        if f"{name}_end" in (table.dtype.names or ()):
            table[f"{name}_end"] = ends


def check_bandwidth(values: ArrayLike, n_dims: int) -> Floats:
    """Return ``values`` as float64 of shape (..., n_dims); raise unless positive and finite."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    _check_shape(array, n_dims, "bandwidth")
    if not (np.isfinite(array) & (array > 0)).all():
        problem = "each bandwidth must be more than zero and finite"
        raise DimsweepError(problem, where="bandwidth", code="out-of-range")
    return array


def check_latency(values: ArrayLike, n_dims: int) -> Longs:
    """Return ``values`` as int64 picoseconds of shape (..., n_dims); raise if any is negative."""
    array = np.ascontiguousarray(values, dtype=np.int64)
    _check_shape(array, n_dims, "latency")
    if (array < 0).any():
        raise DimsweepError("each latency must be 0 or more", where="latency", code="out-of-range")
    return array


def _single_point(array: _A) -> _A:
    if array.ndim != 1:
        problem = f"a program has one point, not an array of shape {array.shape}"
        raise DimsweepError(problem, hint="use run_batch for several points", code="mismatch")
    return array


def _check_shape(array: NDArray[np.generic], n_dims: int, key: str) -> None:
    if array.ndim == 0 or array.shape[-1] != n_dims:
        problem = f"{array.shape} values for {n_dims} dimensions"
        raise DimsweepError(problem, where=key, code="mismatch")
