"""The search space of a study as plain Python data, for a caller's own search."""

import json
from dataclasses import dataclass, field
from typing import Any, Self

from dimsweep.sweeper.part import expand_per_dimension
from dimsweep.sweeper.space.design import coordinate_names
from dimsweep.sweeper.space.space import Parameter, Range, Space
from dimsweep.sweeper.study.cell import CellPlan


@dataclass(frozen=True)
class Axis:
    """One searched number or choice of a design.

    A key of the configuration takes one of ``choices``, or a number from ``low`` to ``high`` in
    ``unit``, on a grid of ``step`` or of whole numbers (``integer``). With ``log`` it is better
    searched by its logarithm.  A coordinate of the split, ``split_0`` and so on, is from 0 to 1.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    choices: tuple[Any, ...] | None = None
    step: float | None = None
    log: bool = False
    integer: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Splits:
    """The bandwidths that a design may have, in bytes/s per dimension, innermost first.

    Each of ``dims`` is between ``minimum`` and ``maximum``, on a grid of ``step``.  If given, they
    add up to a ``total``, cost ``cost`` (USD, fixed parts included), or have a ``bisection``, and
    they obey ``constraints``, texts from the study.  With ``parts``, each is the bandwidth of a
    part that is sold.
    """

    dims: tuple[str, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...] | None
    step: float
    total: float | None
    cost: float | None
    bisection: float | None
    constraints: tuple[str, ...]
    parts: bool


@dataclass(frozen=True)
class SearchSpace:
    """The search space of a study.

    A design is a mapping with a value for each of ``axes``.  Instead of the coordinates of its
    split it may have ``bandwidth``, one for each dimension of ``splits``, as bytes/s or texts such
    as "100 GB/s".  Any coordinates make a valid split, and every valid split has coordinates.
    """

    axes: tuple[Axis, ...]
    splits: Splits | None
    _space: Space = field(repr=False)

    @classmethod
    def from_cell(cls, cell: CellPlan, dims: tuple[str, ...]) -> Self:
        """Return the space of a cell's search over dimensions with these names."""
        space = cell.space
        axes = [Axis(name) for name in coordinate_names(space)]
        axes += [_axis(name, parameter) for name, parameter in space.parameters.items()]
        return cls(tuple(axes), _splits(cell, dims), space)

    def optuna(self) -> dict[str, Any]:
        """Return the axes as Optuna's distributions, for Optuna's ``ask``.

        The parameters of the trials that it returns are a design.
        """
        from dimsweep.sweeper.search.optuna_sampler import build_distribution, unit_distribution

        keys = self._space.parameters.items()
        return {
            **{name: unit_distribution() for name in coordinate_names(self._space)},
            **{name: build_distribution(parameter, _plain) for name, parameter in keys},
        }


def _axis(name: str, parameter: Parameter) -> Axis:
    if isinstance(parameter, Range):
        return Axis(name, **vars(parameter))
    return Axis(name, 0, len(parameter.values) - 1, choices=parameter.values)


def _splits(cell: CellPlan, dims: tuple[str, ...]) -> Splits | None:
    split = cell.config.space.bandwidth
    if cell.space.split is None:
        return None
    most = None if split.max is None else expand_per_dimension(split.max, len(dims), "max")
    return Splits(
        dims=dims,
        minimum=tuple(map(float, expand_per_dimension(split.min, len(dims), "min"))),
        maximum=None if most is None else tuple(map(float, most)),
        step=float(split.step),
        total=_float(split.total),
        cost=_float(split.cost),
        bisection=_float(split.bisection),
        constraints=split.constraints,
        parts=split.parts,
    )


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _plain(value: Any) -> Any:
    """Return a value that Optuna accepts: its own types unchanged, others as JSON."""
    return value if isinstance(value, str | int | float | None) else json.dumps(value)
