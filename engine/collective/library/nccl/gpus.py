"""Properties of each kind of GPU for NCCL: allowed algorithms and protocols, links, costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from dimsweep.engine.cluster.cluster import RailShares
from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.kinds import CollectiveKind


class Algorithm(StrEnum):
    """An algorithm of NCCL (ring, tree, ...): the pattern of senders and receivers."""

    RING = "ring"
    TREE = "tree"  # double binary trees between nodes, a chain inside
    NVLS = "nvls"  # the NVLink switch reduces and multicasts; trees between nodes
    PAT = "pat"  # logarithmic all-gather and reduce-scatter, with one GPU a node
    DIRECT = "direct"  # sends and receives: all-to-all


class Protocol(StrEnum):
    """A protocol of NCCL (LL, LL128, Simple): the way that a message is handed over."""

    LL = "LL"  # a flag beside every 4 bytes: half of the bandwidth, least latency
    LL128 = "LL128"  # a flag of 8 bytes in every 128
    SIMPLE = "Simple"  # whole pieces, then a flag: all the bandwidth, most latency


class Choice(NamedTuple):
    """An algorithm and a protocol of NCCL, which together run a collective."""

    algorithm: Algorithm
    protocol: Protocol


# --- limits that a user sets ----------------------------------------------------------------------


_FUNCTIONS = {kind.name.replace("_", "").lower(): kind for kind in CollectiveKind}
_UNUSED = ("broadcast", "reduce", "sendrecv")  # functions of NCCL that no simulated collective is
_NVLS, _NVLS_TREE = "nvls", "nvlstree"
# CollNet needs switches that reduce (SHARP), which the model of NCCL does not have.
_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", _NVLS, _NVLS_TREE, "pat")
_PROTOCOLS = tuple(protocol.lower() for protocol in Protocol)


@dataclass(frozen=True)
class Limits:
    """The algorithms and protocols that NCCL may choose from, by collective.

    ``algorithms`` and ``protocols`` are texts in NCCL's syntax: a list such as ``ring,tree``, or
    ``^nvls`` for all but some, and after a semicolon lists for single functions, as in
    ``ring;allreduce:tree,ring``.  An empty text allows all.  Sends and receives have no choice, so
    no limit applies to all-to-alls.

    Raises :class:`DimsweepError` for an unknown word.
    """

    algorithms: str = ""
    protocols: str = ""
    uses_switch: bool = True  # NCCL_NVLS_ENABLE

    def __post_init__(self) -> None:
        _parsed(self.algorithms, _ALGORITHMS, "collective.nccl_algo")
        _parsed(self.protocols, _PROTOCOLS, "collective.nccl_proto")

    def allow(self, kind: CollectiveKind, choice: Choice, nodes: int) -> bool:
        """Return whether NCCL may run a ``kind`` of collective on ``nodes`` nodes by ``choice``."""
        if choice.algorithm is Algorithm.NVLS:
            name = _NVLS if nodes == 1 else _NVLS_TREE
            if not self.uses_switch:
                return False
        else:
            name = choice.algorithm.value
        allowed = _parsed(self.algorithms, _ALGORITHMS, "collective.nccl_algo")[kind]
        protocols = _parsed(self.protocols, _PROTOCOLS, "collective.nccl_proto")[kind]
        return name in allowed and choice.protocol.lower() in protocols

    def refused(self, kind: CollectiveKind, nodes: int) -> DimsweepError:
        """Return the error for a collective that no allowed choice can run."""
        where = "nccl_algo" if self.algorithms else "nccl_proto"
        function = kind.name.replace("_", "").lower()
        return DimsweepError(
            f"the limits leave NCCL no algorithm and protocol for {kind} on {nodes} "
            f"node{'s'[: nodes != 1]}; NCCL itself ends with 'no algorithm/protocol available'",
            where=f"collective.{where}",
            hint=f"a limit for one function leaves the others free: allreduce:tree;{function}:ring",
            code="conflict",
        )


@cache
def _parsed(
    text: str, known: tuple[str, ...], where: str
) -> Mapping[CollectiveKind, frozenset[str]]:
    """Return the words (algorithms or protocols) that ``text`` allows for each collective."""
    found = dict.fromkeys(CollectiveKind, frozenset(known))
    for part in filter(None, text.replace(" ", "").lower().split(";")):
        function, colon, words = part.rpartition(":")
        excluded = words.startswith("^")
        listed = [word.replace("_", "") for word in words.removeprefix("^").split(",")]
        for word in listed:
            if word not in known:
                raise DimsweepError(
                    f"unknown word {word!r} in {text!r}",
                    where=where,
                    hint=suggest_names(word, known),
                    code="unknown-name",
                )
        if colon and function not in (*_FUNCTIONS, *_UNUSED):
            raise DimsweepError(
                f"unknown function {function!r} in {text!r}",
                where=where,
                hint=suggest_names(function, _FUNCTIONS),
                code="unknown-name",
            )
        allowed = frozenset(known) - {*listed} if excluded else frozenset(listed)
        kinds = [_FUNCTIONS[function]] if function in _FUNCTIONS else list(CollectiveKind)
        if function not in _UNUSED:
            found |= dict.fromkeys(kinds, allowed)
    return found


# --- GPUs -----------------------------------------------------------------------------------------
# NCCL on each kind of GPU: a few constants for each kind of link.
#
# The constants of :class:`Cost`, ``own_copy``, ``copies`` and ``crowding`` are fitted to
# measurements by ``python -m benchmarks.nccl_fit`` (docs/nccl.md says to which); all others are
# the hardware's, or from NCCL's own tuning and search (2.29.2, which timed H100, B200 and
# GB200; public source).


LL = Choice(Algorithm.RING, Protocol.LL)
LL128 = Choice(Algorithm.RING, Protocol.LL128)
SIMPLE = Choice(Algorithm.RING, Protocol.SIMPLE)
SWITCH = Choice(Algorithm.NVLS, Protocol.SIMPLE)
DIRECT_LL = Choice(Algorithm.DIRECT, Protocol.LL)
DIRECT = Choice(Algorithm.DIRECT, Protocol.SIMPLE)


class Hardware(StrEnum):
    """The kind of links among the GPUs of a node: NVLink or PCIe."""

    NVLINK = "nvlink"
    PCI = "pci"


class Cost(NamedTuple):
    """Latency and bandwidth of an algorithm and protocol inside a node.

    Sends over NVLink have no hops: they do not wait for one another.
    """

    base: float
    hop: float
    bandwidth: float


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU in nodes of its kind, as NCCL models it.

    ``link`` is the GB/s, in one direction, of a GPU's links to the others of its node; costs and
    limits are for this bandwidth. NCCL counts on ``total`` GB/s of a GPU's links and finds ``bus``
    for its rings, of which it expects the share ``ll128`` of LL128 and ``ll`` GB/s of LL on 1, 2
    and more nodes. Of the switch (NVLS) it expects the share ``nvls`` (0: none), at one of the
    ``speeds`` for each channel, and at most ``nvls_tree`` of a channel on 2 and more nodes;
    ``nvls_channels`` blocks of threads serve it on one and on more nodes. ``own_copy``: a ring also
    copies a member's own shard, as slowly as this share of a step. ``copies`` is the GB/s at which
    the blocks of threads of an all-to-all copy, a member's own bytes included; ``reads`` is whether
    a peer reads the bytes (Ampere) or they are written into its memory. ``tree`` is the largest
    GB/s of a tree's channel on 2 and on more nodes. ``crowding``: by number of GPUs, the shares of
    the bandwidth that remain for a ring and for sends to all others; without an entry, all of it.
    """

    name: str
    hardware: Hardware
    link: float
    bus: float
    ll: tuple[float, float, float]
    costs: Mapping[Choice, Cost]
    own_copy: float
    copies: float = math.inf
    reads: bool = False
    tree: tuple[float, float] = (23.6, 17.8)
    total: float = 0.0
    ll128: float = 0.92
    nvls: float = 0.0
    nvls_tree: tuple[float, float] = (0.0, 0.0)
    nvls_channels: tuple[int, int] = (0, 0)
    speeds: tuple[float, ...] = ()
    crowding: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)  # of the user to NCCL's choice
    rails: RailShares | None = None  # of the user's network, which NCCL's choice does not know

    def crowded(self, ranks: int, algorithm: Algorithm) -> float:
        """Return the fraction of bandwidth that ``algorithm`` gets among ``ranks`` of a node."""
        spanned = [n for n in self.crowding if n <= ranks]
        ring, sends = self.crowding[max(spanned)] if spanned else (1.0, 1.0)
        return sends if algorithm is Algorithm.DIRECT else ring


_A100 = Gpu(
    "a100",
    Hardware.NVLINK,
    link=300,
    bus=240,
    ll=(87.7, 22.5, 19),
    own_copy=0.46,
    copies=339.6,
    reads=True,
    costs={
        LL: Cost(9.2, 0.979, 97.32),
        LL128: Cost(16.7, 1.51, 169.5),
        SIMPLE: Cost(26.2, 5.96, 229.6),
        DIRECT_LL: Cost(11.6, 0.18, 29.63),
        DIRECT: Cost(11.4, 0.0, 200.3),
    },
)
_H100 = Gpu(
    "h100",
    Hardware.NVLINK,
    link=450,
    bus=360,
    ll=(141, 45, 35),
    total=18 * 20.6,
    tree=(41.4, 36),
    nvls=0.85,
    nvls_tree=(57.7, 45.5),
    nvls_channels=(16, 16),
    speeds=(60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    own_copy=0.51,
    copies=541.2,
    costs={
        LL: Cost(5.21, 0.85, 182.4),
        LL128: Cost(12.4, 1.13, 321),
        SIMPLE: Cost(18.2, 1.77, 367.2),
        DIRECT_LL: Cost(6.74, 0.18, 30.68),
        DIRECT: Cost(13.0, 0.0, 286.1),
    },
)
_B200 = Gpu(
    "b200",
    Hardware.NVLINK,
    link=900,
    bus=720,
    ll=(282, 39, 20.4),
    total=18 * 40.1,
    ll128=34.5 / 45,  # of 16 channels
    tree=(42.8, 24),
    nvls=0.74,
    nvls_tree=(96, 43.8),
    nvls_channels=(24, 32),
    speeds=(90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
    own_copy=0.99,
    copies=622.6,
    costs={
        LL: Cost(7.87, 1.32, 347.5),
        LL128: Cost(12.4, 1.13, 638),  # nobody timed it: the H100's steps, and its share of a ring
        SIMPLE: Cost(8.9, 8.89, 839.8),
        DIRECT_LL: Cost(9.04, 0.37, 42.45),
        DIRECT: Cost(16.4, 0.0, 620),
    },
)
_L40S = Gpu(
    "l40s",
    Hardware.PCI,
    link=32,
    bus=24,
    ll=(87.7, 22.5, 19),
    own_copy=0.16,
    crowding={4: (0.236, 0.216), 8: (0.0717, 0.0791)},
    costs={
        LL: Cost(5.33, 1.0, 14.08),
        SIMPLE: Cost(19.9, 0.01, 22.02),
        DIRECT_LL: Cost(8.64, 0.03, 10.34),
        DIRECT: Cost(1.65, 10.6, 21.73),
    },
)

# The H200 has the H100's links; the GB200, B300 and GB300 have the B200's.
GPUS: dict[str, Gpu] = {
    "a100": _A100,
    "h100": _H100,
    "h200": _H100,
    "b200": _B200,
    "gb200": _B200,
    "b300": _B200,
    "gb300": _B200,
    "l40s": _L40S,
}


def gpu_called(name: str) -> Gpu:
    """Return the kind of GPU called ``name``; raises :class:`DimsweepError` for an unknown name."""
    if name not in GPUS:
        raise DimsweepError(
            f"NCCL's behaviour on the GPU {name!r} is unknown",
            where="collective.gpu",
            hint=suggest_names(name, GPUS),
            code="unknown-name",
        )
    return GPUS[name]
