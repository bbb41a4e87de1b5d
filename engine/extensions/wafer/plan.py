"""What a wafer makes of ranks and their groups: where they are, and who reduces for them when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dimsweep.engine.extensions.wafer.tree import Tree

Line = tuple[int, ...]  # ranks, or NPUs, that run a collective together


@dataclass(frozen=True)
class WaferPlan:
    """``places`` are the NPUs of the ranks.

    Lines that run at once are a set; of each set, ``rounds`` are the lines that pass the switches
    at once, with the switches that reduce for them, by their NPUs: the rounds of a set take turns.
    Lines in ``decomposed`` go around rings, as messages from NPU to NPU.
    """

    places: Sequence[int]
    rounds: tuple[tuple[Mapping[frozenset[int], Tree], ...], ...]
    decomposed: frozenset[frozenset[int]] = frozenset()

    @property
    def n_rounds(self) -> int:
        """The most rounds of any set."""
        return max(map(len, self.rounds), default=1)

    @property
    def serialised(self) -> int:
        """How many lines wait for others of their set."""
        return sum(len(later) for rounds in self.rounds for later in rounds[1:])

    @property
    def moved(self) -> int:
        """How many ranks are not at the NPU of their number."""
        return sum(rank != npu for rank, npu in enumerate(self.places))


def at(lines: Sequence[Line], places: Sequence[int]) -> list[Line]:
    """The NPUs of lines of ranks."""
    return sorted(tuple(places[rank] for rank in line) for line in lines)
