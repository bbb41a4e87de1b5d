"""Which collective library moves the bytes, where that is known: its name and its measurements.

What a library makes of a collective is worked out in :mod:`engine.collective.library`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from dimsweep.engine.kinds import CollectiveKind


@dataclass(frozen=True)
class Nccl:
    """NCCL on GPUs of one kind: ``gpu`` is a name in
    :data:`engine.collective.library.nccl.gpus.GPUS`.  ``algo``, ``proto`` and ``nvls_enable`` are
    the values of NCCL_ALGO, NCCL_PROTO and NCCL_NVLS_ENABLE."""

    gpu: str
    algo: str = ""
    proto: str = ""
    nvls_enable: int = 2  # 0: NCCL does without the NVLink switch's reduction


class Timing(NamedTuple):
    """A measured collective of ``n_bytes`` (the size that nccl-tests prints: the larger of what a
    rank gives and gets) among ``ranks`` GPUs on ``nodes`` nodes; ``duration`` in picoseconds."""

    kind: CollectiveKind
    ranks: int
    nodes: int
    n_bytes: int
    duration: int


@dataclass(frozen=True)
class Timings:
    """What a cluster's own collectives took; ``source`` is where they were read.

    ``bandwidth`` (bytes/s) is that of each dimension's links when they were measured: that of the
    topology unless given.
    """

    timings: tuple[Timing, ...]
    source: str
    bandwidth: tuple[float, ...] = ()
    left_out: str = ""  #: the rows of the source that are no timings, such as "2 rows of broadcast"
