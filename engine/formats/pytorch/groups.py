"""Process groups of all ranks under numbers, as ASTRA-sim's communicator groups have them."""

from collections.abc import Mapping, Sequence

from engine.formats.pytorch.profile import Profile


class Groups:
    """PyTorch's names are each rank's own; the same ranks are the same group here.

    A group of all ranks has no name and no entry.
    """

    def __init__(self) -> None:
        self.ranks: dict[str, list[int]] = {}
        self._numbers: dict[tuple[int, ...], str] = {}

    def of_rank(
        self, host: Mapping[str, Sequence[int]], profile: Profile, n_traces: int
    ) -> dict[str, str]:
        """Our names of the groups that a rank's traces name."""
        world = profile.world or n_traces
        # The profile lists the ranks also where the host's trace has none, for all.
        given = {**host, **{name: ranks for name, ranks in profile.groups.items() if ranks}}
        return {name: self._name(tuple(ranks), world) for name, ranks in given.items()}

    def _name(self, ranks: tuple[int, ...], world: int) -> str:
        if not ranks or (len(ranks) == world and set(ranks) == set(range(len(ranks)))):
            return ""
        if ranks not in self._numbers:
            number = str(len(self.ranks) + 1)
            self._numbers[ranks], self.ranks[number] = number, list(ranks)
        return self._numbers[ranks]
