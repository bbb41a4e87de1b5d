"""Keys of network dimensions and their growth with nodes, of remote memory, and of collectives."""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict

import dimsweep.engine
from dimsweep.engine import (
    ORDERS,
    CollectiveModel,
    DimensionOrder,
    DimsweepError,
    RemoteMemory,
    naming_place,
    suggest_names,
)
from dimsweep.engine.cluster import MEMORIES, Nccl, RailShares, Timings
from dimsweep.engine.formats import GIVE, read_nccl_tests
from dimsweep.engine.formats.astra_sim import read_topology
from dimsweep.engine.topology import parse_shape
from dimsweep.sweeper.part import (
    Bandwidths,
    CountKey,
    FileName,
    Part,
    Times,
    ValueParser,
    WholeNumber,
    expand_per_dimension,
    list_parser,
    member_parser,
    mirror,
    to_plain,
)
from dimsweep.sweeper.places import find_file

_NEAR = 2  # sizes to propose below and above an impossible one


class Growth(Part):
    """How a machine's network grows with its number of nodes.

    The dimensions within a node stay; the next dimension connects the nodes.  A torus grows by
    cubes, and its sides are as nearly equal as possible.
    """

    node: CountKey  # NPUs of a node
    most: CountKey | None = None  # maximum number of nodes
    cube: CountKey | None = None  # NPUs along a side of a torus's cube
    within: tuple[CountKey, ...] | None = None  # maximum NPUs along each side of a torus

    def shape(self, shape: str, nodes: int) -> str:
        """Return ``shape`` (such as "Ring(8)_Switch(4)") grown or shrunk to ``nodes`` nodes.

        Raises :class:`DimsweepError` for an impossible number of nodes.
        """
        if nodes < 1:
            raise DimsweepError(f"{nodes}; it must be 1 or more", code="out-of-range")
        if self.most is not None and nodes > self.most:
            problem = f"{nodes:,}; this machine has {self.most:,} nodes or fewer"
            raise DimsweepError(problem, code="out-of-range")
        if self.cube is not None and self.within is not None:
            return self._torus(nodes, self.cube, self.within)
        blocks, inside, n = parse_shape(shape), 1, 0
        while n < len(blocks) and inside < self.node:
            inside, n = inside * blocks[n][1], n + 1
        if inside != self.node or n != len(blocks) - 1:
            raise DimsweepError(
                f"{shape} is not one dimension of nodes with {self.node} NPUs",
                hint="leave nodes out, and give the size in topology.shape",
                code="mismatch",
            )
        return re.sub(r"\(\d+\)$", f"({nodes})", shape.strip())

    def _torus(self, nodes: int, cube: int, within: tuple[int, ...]) -> str:
        per_cube = cube ** len(within)
        cubes, rest = divmod(nodes * self.node, per_cube)
        sides = list(_factor_sides(cubes, [most // cube for most in within])) if not rest else []
        if sides:
            best = min(sides, key=lambda side: (max(side), -min(side)))
            return "_".join(f"Ring({cube * side})" for side in best)
        most = self.most or math.prod(within) // self.node
        known = [
            n * per_cube // self.node
            for n in range(1, most * self.node // per_cube + 1)
            if any(_factor_sides(n, [each // cube for each in within]))
        ]
        near = [n for n in known if n < nodes][-_NEAR:] + [n for n in known if n > nodes][:_NEAR]
        cube_shape, limits = " x ".join([str(cube)] * len(within)), " x ".join(map(str, within))
        raise DimsweepError(
            f"{nodes:,} nodes of {self.node} NPUs do not form a torus of {cube_shape} cubes within "
            f"{limits} NPUs",
            hint=f"nearest possible: {', '.join(f'{n:,}' for n in near)}",
            code="mismatch",
        )


def _factor_sides(number: int, most: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield ascending sides of a torus with the product ``number``, up to the maxima ``most``."""

    def go(left: int, least: int, rest: list[int]) -> Iterator[tuple[int, ...]]:
        if not rest:
            if left == 1:
                yield ()
            return
        for side in range(least, rest[0] + 1):
            if left % side == 0:
                for others in go(left // side, side, rest[1:]):
                    yield side, *others

    return go(number, 1, most)


class Topology(Part):
    """The network's dimensions: blocks, sizes, bandwidths and latencies."""

    #: Dimensions from the innermost to the outermost, such as Ring(4)_Switch(8).
    shape: str | None = None
    #: Bandwidth per NPU, one value for all dimensions or a list.
    bandwidth: Bandwidths | None = None
    #: Latency per hop, one value for all dimensions or a list.
    latency: Times | None = None
    #: ASTRA-sim network.yml that gives shape, bandwidth and latency instead.
    file: FileName | None = None
    #: Price tier of each dimension.
    tiers: tuple[str, ...] = ()
    #: Machines with this network, by the names that npu.machines and cost.machines use.
    machines: tuple[str, ...] = ()
    #: Growth of the network with `nodes`.
    grows: Growth | None = None
    #: Kind of links of each dimension, as named in conf/parts.yaml.
    links: tuple[str, ...] = ()

    def build(self) -> dimsweep.engine.Topology:
        """Return the engine's topology; raises :class:`DimsweepError` naming the wrong key."""
        if self.file is not None:
            with naming_place("file"):
                return read_topology(find_file(self.file), list(self.tiers))
        for name in ("shape", "bandwidth", "latency"):
            if getattr(self, name) is None:
                problem = "this key needs a value"
                raise DimsweepError(problem, where=name, hint=GIVE, code="missing")
        assert self.shape is not None
        assert self.bandwidth is not None
        assert self.latency is not None
        n = len(parse_shape(self.shape))
        self._check_lists(n)
        return dimsweep.engine.Topology.build(
            self.shape,
            bandwidth=list(expand_per_dimension(self.bandwidth, n, "bandwidth")),
            latency=list(expand_per_dimension(self.latency, n, "latency")),
            tiers=list(self.tiers),
        )

    def _check_lists(self, n: int) -> None:
        """Raise :class:`DimsweepError` for lists that do not have one value per dimension, ``n``.

        If only the shape of a preset is replaced, the lists of the preset have the wrong length.
        The hint then has adapted lists.
        """
        lists = {k: getattr(self, k) for k in ("bandwidth", "latency", "tiers")}
        lists = {k: v for k, v in lists.items() if isinstance(v, tuple) and v and len(v) != n}
        if not lists:
            return
        text = self.plain()
        fitting = {k: [*text[k], *[text[k][-1]] * n][:n] for k in lists}
        example = " ".join(f"'topology.{k}=[{', '.join(v)}]'" for k, v in fitting.items())
        first, size = next((k, len(v)) for k, v in lists.items())
        raise DimsweepError(
            f"{size} value{'s'[: size != 1]} for {n} dimension{'s'[: n != 1]}",
            where=first,
            hint=f"give one value for all, or a list of {n}, such as {example}",
            code="mismatch",
        )


@cache
def _plugin_memory_keys(memory: Any) -> type[Part]:
    """Return the keys of a plug-in's kind of memory that the built-in kinds lack."""
    return mirror(memory, without=Memory.model_fields)


class _MemoryKind(Part):
    #: Name in :data:`engine.cluster.MEMORIES`, whose class has some of the other keys.
    kind: str = "npu"


class Memory(
    mirror(  # type: ignore[misc]
        *(each for each in MEMORIES.values() if each.__module__ == RemoteMemory.__module__),
        unset=None,
        base=_MemoryKind,
    )
):
    """Remote memory, beyond an NPU's HBM: the settings of all kinds of :class:`RemoteMemory`.

    If no key is given, there is no such memory.  Keys that the chosen kind lacks must stay null.  A
    plug-in's kind of memory adds the keys of its class.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[Any, ValueParser(lambda value: value)]]

    @classmethod
    def _extra_part(cls, value: Mapping[str, Any]) -> type[Part] | None:
        kind = value.get("kind")
        memory: Any = MEMORIES.get(kind) if isinstance(kind, str) else None
        return None if memory is None else _plugin_memory_keys(memory)

    def build(self) -> dimsweep.engine.RemoteMemory | None:
        """Return the remote memory as the engine's object, or None without keys.

        Raises :class:`DimsweepError` for a missing key, or for a key that the kind lacks.
        """
        given = {name: value for name, value in self if name != "kind" and value is not None}
        if not given:
            return None
        if self.kind not in MEMORIES:
            raise DimsweepError(
                f"unknown kind of memory {self.kind!r}",
                where="kind",
                hint=suggest_names(self.kind, MEMORIES),
                code="unknown-name",
            )
        known = {field.name for field in dataclasses.fields(MEMORIES[self.kind])}
        for name in given:
            if name not in known:
                raise DimsweepError(
                    f"a memory of kind {self.kind!r} has no key {name}",
                    where=name,
                    hint=f"set {name} to null, or choose another kind; keys of {self.kind}: "
                    f"{', '.join(sorted(known))}",
                    code="unknown-key",
                )
        if self.bandwidth is None:
            raise DimsweepError(
                f"the memory has {', '.join(given)}, but no bandwidth",
                where="bandwidth",
                hint="give one, such as 25 GB/s; memory=none removes the memory",
                code="missing",
            )
        return MEMORIES[self.kind](**given)


_NCCL = ("nccl_algo", "nccl_proto", "nccl_nvls_enable", "nccl_rails")


_Rails = mirror(RailShares)


def _parse_rails(value: Any) -> RailShares:
    if isinstance(value, RailShares):
        return value
    return RailShares(**dict(_Rails.from_plain(value)))


_Names = Annotated[str | tuple[str, ...], ValueParser(list_parser(str), takes="name, or a list")]


class Collective(
    mirror(  # type: ignore[misc]
        CollectiveModel,
        without=("algorithms", "all_to_all", "library", "timings"),
        order=Annotated[
            DimensionOrder, ValueParser(member_parser(DimensionOrder, ORDERS), choices=ORDERS)
        ],
    )
):
    """How collectives run: the settings of :class:`CollectiveModel`, algorithms by name."""

    #: Algorithm of each dimension, one for all or a list; auto: the block's topology-aware one.
    algorithms: _Names = "auto"
    #: Algorithm of all-to-alls in each dimension, one for all or a list; auto: the block's own.
    all_to_all: _Names = "auto"
    #: Collective library: nccl, which needs the kind of `gpu`.
    library: str | None = None
    #: Kind of GPU whose times the library uses.
    gpu: str | None = None
    #: File of measured times: output of nccl-tests, or CSV with the columns op, gpus, nodes, bytes,
    #: time_us.
    measured: FileName | None = None
    #: Bandwidths of the dimensions' links during the measurement; times scale from them to other
    #: bandwidths. By default topology.bandwidth.
    measured_bandwidth: Bandwidths | None = None
    #: NCCL_ALGO, in NCCL's syntax: ring,tree or ^nvls or allreduce:tree.
    nccl_algo: str = ""
    #: NCCL_PROTO, in NCCL's syntax: LL,LL128,Simple.
    nccl_proto: str = ""
    #: NCCL_NVLS_ENABLE: 0 is off, 1 on, 2 where the hardware has it.
    nccl_nvls_enable: WholeNumber = 2
    #: Shares of a rail's bandwidth that collectives between nodes reach: pairs of nodes and share
    #: for `all_reduce`, and for `all_gather` and all others, such as [[2, 0.9], [4, 0.4]]. By
    #: default 0.96 on any number of nodes, as on InfiniBand.
    nccl_rails: (
        Annotated[
            RailShares,
            ValueParser(_parse_rails, lambda a: to_plain(vars(a)), takes="mapping"),
        ]
        | None
    ) = None

    def build(self, n_dims: int) -> CollectiveModel:
        """Return the engine's model of collectives for ``n_dims`` dimensions.

        Reads the file ``measured`` if it is given.
        """
        settings = self.settings(CollectiveModel)
        for name in ("algorithms", "all_to_all"):
            settings[name] = expand_per_dimension(settings[name], n_dims, name)
        settings |= {"library": self._library(), "timings": self._timings(n_dims)}
        return CollectiveModel(**settings)

    def _timings(self, n_dims: int) -> Timings | None:
        if self.measured is None:
            if self.measured_bandwidth is not None:
                raise DimsweepError(
                    "it needs a file of measurements",
                    where="measured_bandwidth",
                    hint="add collective.measured=FILE, measured on links of these bandwidths",
                    code="missing",
                )
            return None
        with naming_place("measured"):
            timings = read_nccl_tests(find_file(self.measured))
        if self.measured_bandwidth is None:
            return timings
        then = expand_per_dimension(self.measured_bandwidth, n_dims, "measured_bandwidth")
        return dataclasses.replace(timings, bandwidth=then)

    def _library(self) -> Nccl | None:
        if self.library is None:
            self._check_no_nccl()
            return None
        if self.library != "nccl":
            raise DimsweepError(
                f"unknown collective library {self.library!r}",
                where="library",
                hint=suggest_names(self.library, ["nccl"]),
                code="unknown-name",
            )
        if self.gpu is None:
            raise DimsweepError(
                "NCCL's times depend on the kind of GPU, which is not given",
                where="gpu",
                hint="give collective.gpu, such as h100, or npu.kernels",
                code="missing",
            )
        if self.nccl_nvls_enable not in (0, 1, 2):
            raise DimsweepError(
                f"{self.nccl_nvls_enable}; it must be 0, 1 or 2",
                where="nccl_nvls_enable",
                code="out-of-range",
            )
        limits = (self.nccl_algo, self.nccl_proto, self.nccl_nvls_enable)
        return Nccl(self.gpu, *limits, self.nccl_rails)

    def _check_no_nccl(self) -> None:
        """Raise :class:`DimsweepError` if a setting of NCCL is given without NCCL as library."""
        for name in _NCCL:
            if getattr(self, name) != type(self).model_fields[name].default:
                problem, hint = "it is a setting of NCCL, which does not run", "add collective=nccl"
                raise DimsweepError(problem, where=name, hint=hint, code="conflict")
