"""What is known of NCCL on each kind of GPU: a few constants for each kind of link.

The constants of :class:`Cost`, ``own_copy`` and ``crowding`` are fitted to measurements by
``python -m benchmarks.nccl_fit`` (docs/nccl.md says to which); all others are the hardware's, or
those of NCCL's own tuning (NCCL 2.30, public source).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from engine.collective.library.nccl.choice import Algorithm, Choice, Protocol
from engine.errors import DimsweepError, suggestion

LL = Choice(Algorithm.RING, Protocol.LL)
LL128 = Choice(Algorithm.RING, Protocol.LL128)
SIMPLE = Choice(Algorithm.RING, Protocol.SIMPLE)
NVLS = Choice(Algorithm.NVLS, Protocol.SIMPLE)
DIRECT_LL = Choice(Algorithm.DIRECT, Protocol.LL)
DIRECT = Choice(Algorithm.DIRECT, Protocol.SIMPLE)


class Hardware(StrEnum):
    """The links among the GPUs of a node."""

    NVLINK = "nvlink"
    PCI = "pci"


class Cost(NamedTuple):
    """What a choice costs inside a node: ``base`` us once, ``hop`` us a step, and the GB/s at which
    a GPU sends."""

    base: float
    hop: float
    bandwidth: float


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU in nodes of its kind, as NCCL sees it.

    ``link`` is the GB/s, in one direction, of a GPU's links to the others of its node; the costs
    and limits here are those at this bandwidth.  ``bus`` is the GB/s that NCCL finds for a ring,
    ``ll`` what it believes of LL on 1, 2 and more nodes, ``nvls`` the share of ``bus`` that it
    expects of the switch (0: none), ``nvls_tree`` its GB/s limit on 2 and more nodes.
    ``own_copy``: beside its steps a ring copies a member's own shard, as slowly as this share of a
    step.  ``crowding``: the share of the bandwidth that is left where a ring spans so many GPUs,
    unless all of it is.
    """

    name: str
    hardware: Hardware
    link: float
    bus: float
    ll: tuple[float, float, float]
    costs: Mapping[Choice, Cost]
    own_copy: float
    nvls: float = 0.0
    nvls_tree: tuple[float, float] = (0.0, 0.0)
    crowding: Mapping[int, float] = field(default_factory=dict)

    def crowded(self, ranks: int) -> float:
        """The share of the bandwidth that a ring of ``ranks`` GPUs of a node has."""
        spanned = [n for n in self.crowding if n <= ranks]
        return self.crowding[max(spanned)] if spanned else 1.0


_A100 = Gpu(
    "a100",
    Hardware.NVLINK,
    link=300,
    bus=240,
    ll=(87.7, 22.5, 19),
    own_copy=0.47,
    costs={
        LL: Cost(9.22, 0.97, 97.5),
        LL128: Cost(16.7, 1.5, 169.6),
        SIMPLE: Cost(26.1, 5.97, 231),
        DIRECT_LL: Cost(11.6, 0.18, 29.3),
        DIRECT: Cost(11.4, 3.73, 213),
    },
)
_H100 = Gpu(
    "h100",
    Hardware.NVLINK,
    link=450,
    bus=360,
    ll=(141, 45, 35),
    nvls=0.85,
    nvls_tree=(923, 728),
    own_copy=0.28,
    costs={
        LL: Cost(5.11, 0.81, 157.6),
        LL128: Cost(11.7, 1.1, 306),
        SIMPLE: Cost(18.3, 1.77, 334.6),
        NVLS: Cost(3.86, 6.02, 286.5),
        DIRECT_LL: Cost(6.74, 0.18, 29.6),
        DIRECT: Cost(13.0, 0.01, 327),
    },
)
_B200 = Gpu(
    "b200",
    Hardware.NVLINK,
    link=900,
    bus=720,
    ll=(282, 39, 20.4),
    nvls=0.74,
    nvls_tree=(1536, 1280),
    own_copy=0.96,
    costs={
        LL: Cost(8.01, 1.27, 341.4),
        LL128: Cost(11.0, 2.13, 224),
        SIMPLE: Cost(8.75, 8.73, 833),
        NVLS: Cost(44.7, 3.27, 544.7),
        DIRECT_LL: Cost(9.04, 0.37, 42.2),
        DIRECT: Cost(14.7, 0.7, 618.7),
    },
)
_L40S = Gpu(
    "l40s",
    Hardware.PCI,
    link=32,
    bus=24,
    ll=(87.7, 22.5, 19),
    own_copy=0.13,
    crowding={4: 0.229, 8: 0.073},
    costs={
        LL: Cost(5.33, 1.0, 13.9),
        SIMPLE: Cost(20.5, 0.01, 21.85),
        DIRECT_LL: Cost(8.64, 0.03, 10.7),
        DIRECT: Cost(1.65, 10.6, 22.7),
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
    """The kind of GPU; raises :class:`DimsweepError` for one of which nothing is known."""
    if name not in GPUS:
        raise DimsweepError(
            f"nothing is known of NCCL on a GPU called {name!r}",
            where="collective.gpu",
            hint=suggestion(name, GPUS),
        )
    return GPUS[name]
