"""Limits that a user sets to NCCL's choice: NCCL_ALGO, NCCL_PROTO and NCCL_NVLS_ENABLE."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from dimsweep.engine.collective.library.nccl.choice import Algorithm, Choice, Protocol
from dimsweep.engine.errors import DimsweepError, suggestion
from dimsweep.engine.kinds import CollectiveKind

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
        """Return whether NCCL may run a collective on ``nodes`` nodes by ``choice``."""
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
        """Return the error of a collective that no allowed choice can run."""
        where = "nccl_algo" if self.algorithms else "nccl_proto"
        function = kind.name.replace("_", "").lower()
        return DimsweepError(
            f"NCCL has no algorithm and protocol left for an {kind} on {nodes} "
            f"node{'s'[: nodes != 1]}; NCCL itself ends with 'no algorithm/protocol available'",
            where=f"collective.{where}",
            hint=f"a limit for one function leaves the others free: allreduce:tree;{function}:ring",
        )


@cache
def _parsed(
    text: str, known: tuple[str, ...], where: str
) -> Mapping[CollectiveKind, frozenset[str]]:
    """Return the allowed words of each collective."""
    found = dict.fromkeys(CollectiveKind, frozenset(known))
    for part in filter(None, text.replace(" ", "").lower().split(";")):
        function, colon, words = part.rpartition(":")
        excluded = words.startswith("^")
        listed = [word.replace("_", "") for word in words.removeprefix("^").split(",")]
        for word in listed:
            if word not in known:
                raise DimsweepError(
                    f"unknown word {word!r} in {text!r}", where=where, hint=suggestion(word, known)
                )
        if colon and function not in (*_FUNCTIONS, *_UNUSED):
            raise DimsweepError(
                f"unknown function {function!r} in {text!r}",
                where=where,
                hint=suggestion(function, _FUNCTIONS),
            )
        allowed = frozenset(known) - {*listed} if excluded else frozenset(listed)
        kinds = [_FUNCTIONS[function]] if function in _FUNCTIONS else list(CollectiveKind)
        if function not in _UNUSED:
            found |= dict.fromkeys(kinds, allowed)
    return found
