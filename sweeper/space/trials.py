"""Trials, which have a bandwidth split and values of other keys, and tables of trials."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

# The entry of a what-if's setting that is not a key of the configuration: its name and origin.
MARK = "what_if"


class Setting(Mapping[str, Any]):
    """Values of configuration keys; two settings are equal if their ``text`` is."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        # Sorted, so that a key comes before the keys below it.
        self._values = dict(sorted((values or {}).items()))
        self.text = json.dumps(self._values)  # the order of keys within a value may count

    @property
    def keys_only(self) -> "Setting":
        """The setting without the entry ``MARK``, which is not a configuration key."""
        return self.without(MARK) if MARK in self else self

    def without(self, *names: str) -> "Setting":
        """Return the setting without the keys ``names``."""
        return Setting({name: value for name, value in self.items() if name not in names})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Setting) else self._values == other

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Trial:
    """A design that a search tries, with its number and its origin."""

    number: int  #: number within its search
    origin: str  #: the sampler, or the reason, that proposed it
    bandwidth: tuple[float, ...] | None  #: split (bytes/s); None: the config's own
    parameters: Setting = field(default_factory=Setting)  #: values of keys, given as any mapping

    def __post_init__(self) -> None:
        if not isinstance(self.parameters, Setting):
            object.__setattr__(self, "parameters", Setting(self.parameters))

    @property
    def design(self) -> tuple[tuple[float, ...] | None, Setting]:
        """The design to simulate, without number and origin."""
        return self.bandwidth, self.parameters


def trial_to_plain(trial: Trial) -> dict[str, Any]:
    """Return a trial as plain data, for JSON."""
    return {**vars(trial), "parameters": dict(trial.parameters)}


def trial_from_plain(node: Mapping[str, Any]) -> Trial:
    """Return the trial described by plain data of :func:`trial_to_plain`."""
    split = node["bandwidth"]
    return Trial(**{**node, "bandwidth": None if split is None else tuple(split)})


@dataclass(frozen=True, eq=False)
class Trials(Sequence[Trial]):
    """A table of N trials, stored by column; a large search needs no object for each trial."""

    number: Integers  #: (N,)
    origin: NDArray[np.object_]  #: (N,)
    bandwidth: Floats | None  #: (N, D) in bytes/s
    setting: Integers  #: (N,) index into ``settings``
    settings: tuple[Setting, ...]  #: distinct values of config keys

    @classmethod
    def from_list(cls, trials: Sequence[Trial]) -> Self:
        """Return a table of ``trials``, all with a split or all without.

        A table is returned unchanged.
        """
        if isinstance(trials, cls):
            return trials
        splits = [trial.bandwidth for trial in trials if trial.bandwidth is not None]
        return cls.build(
            np.array([trial.number for trial in trials], dtype=np.int64),
            [trial.origin for trial in trials],
            np.array(splits) if splits else None,
            [trial.parameters for trial in trials],
        )

    @classmethod
    def build(
        cls,
        number: Integers,
        origin: str | Sequence[str],
        bandwidth: Floats | None,
        parameters: Sequence[Setting] = (),
    ) -> Self:
        """Return a table from its columns.

        ``parameters`` has a setting for each trial, or is empty.
        """
        origins = np.empty(len(number), dtype=object)
        origins[:] = origin
        place = {own: i for i, own in enumerate(dict.fromkeys(parameters or [Setting()]))}
        setting = np.array([place[own] for own in parameters], dtype=np.int64)
        if not len(parameters):
            setting = np.zeros(len(number), dtype=np.int64)
        return cls(number, origins, bandwidth, setting, tuple(place))

    @classmethod
    def concatenate(cls, first: Self, last: Self) -> Self:
        """Return the rows of two tables in one table."""
        if not (len(first) and len(last)):
            return first if len(first) else last
        split = None
        if first.bandwidth is not None and last.bandwidth is not None:
            split = np.concatenate([first.bandwidth, last.bandwidth])
        return cls(
            np.concatenate([first.number, last.number]),
            np.concatenate([first.origin, last.origin]),
            split,
            np.concatenate([first.setting, last.setting + len(first.settings)]),
            first.settings + last.settings,
        )

    def __len__(self) -> int:
        return len(self.number)

    @overload
    def __getitem__(self, index: int) -> Trial: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> "Trial | Trials":
        if isinstance(index, slice):
            return self.take(index)
        split = None if self.bandwidth is None else tuple(self.bandwidth[index].tolist())
        parameters = self.settings[self.setting[index]]
        return Trial(int(self.number[index]), self.origin[index], split, parameters)

    def __iter__(self) -> Iterator[Trial]:
        return (self[i] for i in range(len(self)))

    def take(self, rows: slice | Sequence[int] | NDArray[Any]) -> Self:
        """Return the trials at the positions ``rows``, which may be a mask."""
        used, setting = np.unique(self.setting[rows], return_inverse=True)
        return replace(
            self,
            number=self.number[rows],
            origin=self.origin[rows],
            bandwidth=None if self.bandwidth is None else self.bandwidth[rows],
            setting=setting,
            settings=tuple(self.settings[i] for i in used),
        )

    @property
    def n_designs(self) -> int:
        """Number of different designs among the trials."""
        split = np.empty((len(self), 0)) if self.bandwidth is None else self.bandwidth
        return len(np.unique(np.column_stack([split, self.setting]), axis=0))

    def renumber(self, first: int, origin: str) -> Self:
        """Return the trials with ``first`` added to their numbers, and with another origin."""
        origins = np.full(len(self), origin, dtype=object)
        return replace(self, number=self.number + first, origin=origins)
