"""Process groups of all ranks under numbers, as ASTRA-sim's communicator groups have them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.pytorch.profile import Profile

_MOST = 1 << 20  # ranks, which are listed


class Groups:
    """PyTorch's names are each rank's own, and ranks make groups in the same order: the first group
    of some ranks is the first of these ranks everywhere, and the second another one.

    The first group of all ranks, the default one, has no name and no entry.
    """

    def __init__(self) -> None:
        self.ranks: dict[str, list[int]] = {}
        self._numbers: dict[tuple[tuple[int, ...], int], str] = {}

    def of_rank(
        self, host: Mapping[str, Sequence[int]], profile: Profile, n_traces: int
    ) -> dict[str, str]:
        """Our names of the groups that a rank's traces name."""
        world = profile.world or n_traces
        if not 0 < world <= _MOST:
            raise DimsweepError(f"world_size {world} is no number of ranks", hint=f"1 to {_MOST:,}")
        everyone = tuple(range(world))
        # The profile lists the ranks also where the host's trace has none, for all.
        given = {**host, **{name: ranks for name, ranks in profile.groups.items() if ranks}}
        made: Counter[tuple[int, ...]] = Counter()  # by their ranks
        names = {}
        for name, listed in given.items():
            ranks = tuple(sorted(listed)) or everyone
            names[name] = self._name(ranks, made[ranks], is_default=ranks == everyone)
            made[ranks] += 1
        return names

    def _name(self, ranks: tuple[int, ...], number: int, *, is_default: bool) -> str:
        """Our name of the group of these ranks that was made after ``number`` others of them."""
        if is_default and number == 0:
            return ""
        if (ranks, number) not in self._numbers:
            ours = str(len(self.ranks) + 1)
            self._numbers[ranks, number], self.ranks[ours] = ours, list(ranks)
        return self._numbers[ranks, number]
