"""Conversion between ranks, coordinates in the network dimensions, and process groups.

Coordinates are mixed radix, dimension 0 the fastest.  ``sizes`` are the sizes of the D dimensions;
N is their product.  A group has ``p`` members, ``stride`` coordinates apart, in each dimension (see
:class:`Group`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]
Coordinates = NDArray[np.int64]
Offset = tuple[int, ...]  # how much further on in each dimension, modulo its size


def coordinates_of(rank: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the coordinates of one rank."""
    place = []
    for n in sizes:
        rank, digit = divmod(rank, n)
        place.append(digit)
    return tuple(place)


def all_coordinates(sizes: Sequence[int]) -> Coordinates:
    """Return the coordinates of every rank, shape (N, D)."""
    ranks = np.arange(math.prod(sizes))
    return np.stack(np.unravel_index(ranks, tuple(sizes), order="F"), axis=1)


def ranks_at(coordinates: Coordinates, sizes: Sequence[int]) -> Ranks:
    """Return the ranks at ``coordinates`` of shape (..., D)."""
    steps = np.concatenate(([1], np.cumprod(sizes)[:-1]))
    return (coordinates * steps).sum(axis=-1)


def line(rank: int, sizes: Sequence[int], dim: int) -> range:
    """Return the ranks that differ from ``rank`` at most in dimension ``dim``, in order."""
    step = math.prod(sizes[:dim])
    first = rank - rank // step % sizes[dim] * step
    return range(first, first + sizes[dim] * step, step)


def lines(sizes: Sequence[int], dim: int) -> Iterator[range]:
    """Yield :func:`line` for every set of ranks along a dimension, in order of first ranks."""
    step = math.prod(sizes[:dim])
    for start in range(0, math.prod(sizes), step * sizes[dim]):
        for first in range(start, start + step):
            yield line(first, sizes, dim)


def offset_between(here: int, there: int, sizes: Sequence[int]) -> Offset:
    """Return the coordinate steps, modulo the sizes, from rank ``here`` to rank ``there``."""
    places = zip(coordinates_of(here, sizes), coordinates_of(there, sizes), sizes, strict=True)
    return tuple((b - a) % n for a, b, n in places)


def wrap_offset(offset: Sequence[int], sizes: Sequence[int]) -> Offset:
    """Return the offset with each component reduced modulo the size of its dimension."""
    return tuple(o % n for o, n in zip(offset, sizes, strict=True))


def reverse_offset(offset: Sequence[int], sizes: Sequence[int]) -> Offset:
    """Return the offset in the opposite direction, modulo the sizes."""
    return tuple(-o % n for o, n in zip(offset, sizes, strict=True))


def ranks_at_offset(offset: Sequence[int], sizes: Sequence[int]) -> Ranks:
    """Return, for every rank, the rank that is ``offset`` coordinates away from it, shape (N,)."""
    return ranks_at((all_coordinates(sizes) + np.asarray(offset)) % np.asarray(sizes), sizes)


# --- groups -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """The shape of process groups: ``sizes[d]`` members in dimension d, ``strides[d]`` apart.

    The members of one group form a sub-mesh.  Every rank is in exactly one group of this shape.  A
    size of 1 means that the members have equal coordinates in that dimension.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def n_members(self) -> int:
        """Number of members."""
        return math.prod(self.sizes)


def members_along(group: Group, rank: int, sizes: Sequence[int], dim: int) -> range:
    """Return the members of a rank's group that differ from it at most in dimension ``dim``."""
    p, stride = group.sizes[dim], group.strides[dim]
    whole = line(rank, sizes, dim)
    place = whole.index(rank)
    first = place - place // stride % p * stride
    return whole[first : first + p * stride : stride]


def member_numbers(group: Group, at: Coordinates) -> NDArray[np.int64]:
    """Return the number within its group of the rank at each of the coordinates ``at``."""
    return ranks_at(at // np.asarray(group.strides) % np.asarray(group.sizes), group.sizes)


def first_members(group: Group, sizes: Sequence[int]) -> Ranks:
    """Return, for every rank, the lowest rank of its group, shape (N,)."""
    return ranks_at(_corners(group, sizes), sizes)


def group_members(group: Group, sizes: Sequence[int]) -> Ranks:
    """Return, for every rank, the P members of its group, shape (N, P)."""
    steps = all_coordinates(group.sizes) * np.asarray(group.strides)
    return ranks_at(_corners(group, sizes)[:, None, :] + steps[None, :, :], sizes)


def _corners(group: Group, sizes: Sequence[int]) -> Coordinates:
    """Return, for every rank, the coordinates of the first member of its group, shape (N, D)."""
    here = all_coordinates(sizes)
    span = np.asarray(group.sizes) * np.asarray(group.strides)
    return here - here % span + here % np.asarray(group.strides)
