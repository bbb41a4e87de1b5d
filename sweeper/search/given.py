"""No search: the one design of each cell of a grid, or of a space with one split."""

from collections.abc import Sequence

from sweeper.search.sampler import AskedAgain, Task
from sweeper.space.trials import Trial


class Given(AskedAgain):
    """Proposes the first trials, and no other."""

    learns_from_slopes = False
    prefetch = 1
    batch = None

    def __init__(self, task: Task) -> None:
        self._trials = list(task.first)

    def ask(self, n: int) -> list[Trial]:
        trials, self._trials = self._trials[:n], self._trials[n:]
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Nothing to learn."""
