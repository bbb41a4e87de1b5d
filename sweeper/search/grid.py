"""Every point of a space, one after the other."""

import itertools
from collections import deque
from collections.abc import Iterator

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.search.blocks import BlindSampler
from dimsweep.sweeper.search.sampler import Task, refuse_options
from dimsweep.sweeper.space.trials import Floats, Setting, Trials

_Point = tuple[Setting, Floats]  # values of keys, and some splits for them


class GridSampler(BlindSampler):
    """Every combination of the values of the searched keys, the last key's fastest, and for each of
    these every split on the grid of its step, in ascending order of the bandwidths.

    None is made before it is asked for, so a grid of any size starts at once.  Where there is
    nothing to search, the first trials are all there is.
    """

    def __init__(self, task: Task) -> None:
        if task.space.n_unit:
            refuse_options(task)
        super().__init__(task)
        self._points = _points(task) if task.space.n_unit else iter(())

    def _drawn(self, n: int, first: int) -> Trials:
        settings, splits = list[Setting](), [np.empty((0, 0))]
        for setting, split in self._taken(n):
            splits.append(split)
            settings += [setting] * len(split)
        split = np.concatenate(splits[1:] or splits)
        bandwidth = split if split.shape[1] else None
        numbers = np.arange(first, first + len(split))
        return Trials.build(numbers, "grid", bandwidth, settings if any(settings) else ())

    def _taken(self, n: int) -> Iterator[_Point]:
        """The next ``n`` points, or as many as there are."""
        while n and (point := next(self._points, None)) is not None:
            setting, split = point
            now, later = split[:n], split[n:]
            if len(later):
                self._points = itertools.chain([(setting, later)], self._points)
            n -= len(now)
            yield setting, now

    def _skip(self, n: int) -> None:
        deque(self._taken(n), maxlen=0)


def grid_size(task: Task, limit: int) -> int:
    """The trials of a grid, or ``limit`` if there are more."""
    n = len(task.first)
    for _, split in _points(task):
        if n >= limit:
            break
        n += len(split)
    return min(n, limit)


def _points(task: Task) -> Iterator[_Point]:
    """Values of keys, and splits (P, D) for them; with no columns where splits are not searched."""
    keys = task.space.parameters
    values = []
    for name, parameter in keys.items():
        found = parameter.all_values()
        if found is None:
            raise DimsweepError(
                "a grid needs a step for each range, and no logarithm",
                where=f"space.parameters.{name}",
                hint="give a step, or values",
            )
        values.append(found)
    for combination in itertools.product(*values):
        setting = Setting(dict(zip(keys, combination, strict=True)))
        if task.space.split is None:
            yield setting, np.empty((1, 0))
        else:
            yield from ((setting, split) for split in task.space.split.all())
