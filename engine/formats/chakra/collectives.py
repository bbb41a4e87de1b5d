"""What each of Chakra's types of collectives is simulated as: a native one, and its bytes.

The native model has four kinds, which its algorithms run in every dimension.  Each other type is
the one that its members' ports carry as much for.  With ``s`` comm_size and ``p`` members:

==================== ========================== ================================================
type                 simulated as               why
==================== ========================== ================================================
BROADCAST            all-gather of s/(p-1)      A pipelined chain sends every byte through every
                                                port once: s/b, and the algorithm's steps.
REDUCE               reduce-scatter of sp/(p-1) The same backwards; a member reduces s.
GATHER               all-gather of s            The root receives s(p-1).
SCATTER              all-gather of s/p          The same backwards; s is all that the root has.
REDUCE_SCATTER_BLOCK reduce-scatter of s        It is one, with equal blocks.
BARRIER              all-reduce of nothing      Latency alone; PyTorch's barrier over NCCL is an
                                                all-reduce of one element.
==================== ========================== ================================================

Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and
experience" (2007), give s/b as the least time of a broadcast and of a reduction, s(p-1)/(pb) as
that of gathering and scattering s bytes in all, and the pairs that mirror each other.  NCCL's
broadcast and reduction are pipelined chains, for which nccl-tests reckons s/b.  (The scatter and
all-gather of Thakur, Rabenseifner and Gropp, 2005, take up to twice as long.)  Where the root is
does not matter: all members take part for as long as it does.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.node import KINDS
from dimsweep.engine.formats.chakra.trace import CollectiveType
from dimsweep.engine.kinds import CollectiveKind


class Meaning(NamedTuple):
    """A native collective, and what a member holds on entry, given ``s`` and ``p`` (2 or more)."""

    kind: CollectiveKind
    held: Callable[[float, int], float]


def _itself(s: float, p: int) -> float:
    return s


_MEANINGS: Mapping[CollectiveType, Meaning] = {
    **{CollectiveType(number): Meaning(kind, _itself) for number, kind in KINDS.items()},
    CollectiveType.BROADCAST: Meaning(CollectiveKind.ALL_GATHER, lambda s, p: s / (p - 1)),
    CollectiveType.REDUCE: Meaning(CollectiveKind.REDUCE_SCATTER, lambda s, p: s * p / (p - 1)),
    CollectiveType.GATHER: Meaning(CollectiveKind.ALL_GATHER, _itself),
    CollectiveType.SCATTER: Meaning(CollectiveKind.ALL_GATHER, lambda s, p: s / p),
    CollectiveType.REDUCE_SCATTER_BLOCK: Meaning(CollectiveKind.REDUCE_SCATTER, _itself),
    CollectiveType.BARRIER: Meaning(CollectiveKind.ALL_REDUCE, lambda s, p: 0.0),
}
assert set(_MEANINGS) == set(CollectiveType)


def simulated_as(collective: int, size: float, members: int) -> tuple[CollectiveKind, float]:
    """The native collective, and the bytes that a member holds on entry, of a ``comm_type`` with a
    ``comm_size`` among ``members``.  Raises :class:`DimsweepError` for an unknown type."""
    if collective not in tuple(CollectiveType):
        known = ", ".join(f"{kind.value} ({kind.name})" for kind in CollectiveType)
        raise DimsweepError(f"comm_type {collective} is no type of collective", hint=known)
    meaning = _MEANINGS[CollectiveType(collective)]
    return meaning.kind, meaning.held(size, members) if members > 1 else size
