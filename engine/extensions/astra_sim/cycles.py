"""The result of a run: every rank's cycles."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Times(NamedTuple):
    """Of a rank, ns: when it finished, how long its GPU computed, how long it communicated, and
    what ASTRA-sim does not call exposed."""

    finished: int
    gpu: int
    communication: int
    hidden: int


@dataclass(frozen=True)
class Cycles:
    """``kind[r]`` is the kind of rank r, and one rank of each kind was simulated."""

    kind: tuple[int, ...]
    of_kind: tuple[Times, ...]
    compiled: bool  # phase by phase in the compiled kernel, or message by message in Python

    @property
    def n_kinds(self) -> int:
        """How many kinds of ranks there are."""
        return len(self.of_kind)

    @cached_property
    def cycles(self) -> tuple[int, ...]:
        """When each rank finished (ns)."""
        return tuple(self.of_kind[kind].finished for kind in self.kind)

    @cached_property
    def exposed(self) -> tuple[int, ...]:
        """Of each rank, what ASTRA-sim calls exposed: that minus what its GPU computed, or, where
        nodes are only replayed, minus all that the CPU did not do."""
        return tuple(self.of_kind[k].finished - self.of_kind[k].hidden for k in self.kind)

    @cached_property
    def gpu(self) -> tuple[int, ...]:
        """ns in which each rank's GPU computed."""
        return tuple(self.of_kind[kind].gpu for kind in self.kind)

    @cached_property
    def communication(self) -> tuple[int, ...]:
        """ns in which each rank communicated anything."""
        return tuple(self.of_kind[kind].communication for kind in self.kind)

    @property
    def how(self) -> str:
        """What was simulated."""
        ranks = "one rank of each kind" if self.n_kinds < len(self.kind) else "every rank"
        return f"{ranks}, {'phase by phase, compiled' if self.compiled else 'message by message'}"
