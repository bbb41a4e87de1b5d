"""Placement of the parallel axes of a plan (tensor, data, ...) on the network dimensions."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeGuard

from dimsweep.engine.errors import DimsweepError, InfeasibleError, prefixing_errors, suggest_names
from dimsweep.engine.topology.coordinates import Group

AXES = ("tensor", "context", "expert", "pipeline", "data")  # of the models' parallel plans
REST = "rest"  # an axis that takes whatever the others leave
OUTERMOST = "pipeline"  # outside of the rest, if it is named after it
NO_ROOM = "does not fit"  # said of a degree
_Axis = int | str | Sequence[int]


def place(
    axes: Mapping[str, _Axis],
    sizes: Sequence[int],
    known: Collection[str] | None = None,
) -> dict[str, Group]:
    """Return a process group for each parallel axis, the first axis innermost.

    Parameters
    ----------
    axes
        For each axis one of: its degree, which is placed on the innermost free part of the network;
        its size in every dimension; or ``"rest"``, all ranks that the other axes leave.
    sizes
        Number of NPUs in each dimension.
    known
        The valid names of axes. None: any name is valid.

    Raises
    ------
    DimsweepError
        For an unknown axis or an invalid degree.
    InfeasibleError
        If an axis does not divide the free part of the network, or the axes do not fill it.

    Notes
    -----
    ``"rest"`` is placed outside the other axes wherever it is named, since an override adds its
    axis after those of a file. A pipeline named after it is outermost (Megatron-LM's order,
    tp-cp-ep-dp-pp), unless only some axes are given by their sizes. Axes may share a dimension: the
    members of the later axis are further apart.
    """
    for name in axes:
        if known is not None and name not in known:
            problem, hint = f"unknown axis {name!r} of a plan", suggest_names(name, known)
            raise DimsweepError(problem, where=name, hint=hint, code="unknown-name")
    taken = [1] * len(sizes)
    groups = {}
    for name, axis in _resolve_rest(axes, sizes):
        room = [n // t for n, t in zip(sizes, taken, strict=True)]
        with prefixing_errors(name):
            _check_product(axes, sizes, axis, room)
            split = _split_degree(axis, room)
        groups[name] = Group(sizes=tuple(split), strides=tuple(taken))
        taken = [t * p for t, p in zip(taken, split, strict=True)]
    if axes and math.prod(taken) != math.prod(sizes):
        degrees = " x ".join(f"{name} {group.n_members}" for name, group in groups.items())
        raise InfeasibleError(
            f"{degrees} = {math.prod(taken)} ranks, but the cluster has {math.prod(sizes)} NPUs",
            hint=f"let one axis take the remaining ranks: {list(axes)[-1]}: {REST}",
        )
    return groups


def join_groups(groups: Sequence[Group]) -> Group:
    """Return one group that contains the members of all ``groups``, one group for each axis.

    Raises :class:`DimsweepError` if the members are not evenly spaced in some dimension.
    """
    sizes, strides = [], []
    for d in range(len(groups[0].sizes)):
        parts = sorted((g.strides[d], g.sizes[d]) for g in groups if g.sizes[d] > 1)
        stride, size = parts[0] if parts else (groups[0].strides[d], 1)
        for step, more in parts[1:]:
            if step != stride * size:
                problem = f"another axis is between them in dimension {d}"
                raise DimsweepError(problem, code="conflict")
            size *= more
        sizes.append(size)
        strides.append(stride)
    return Group(tuple(sizes), tuple(strides))


def _resolve_rest(axes: Mapping[str, _Axis], sizes: Sequence[int]) -> list[tuple[str, _Axis]]:
    """Return the axes in the order of placement, with the degree of "rest" in place of the word.

    "rest" comes before a pipeline. If the other axes do not divide the ranks, "rest" stays last and
    the axis that does not fit raises the error.
    """
    last = sorted(axes.items(), key=lambda entry: entry[1] == REST)
    name, names = last[-1][0] if last else "", [*axes]
    if OUTERMOST not in names or axes[name] != REST or names.index(name) > names.index(OUTERMOST):
        return last
    others = [axis for _, axis in last[:-1]]
    own = [[*axis] if isinstance(axis, (list, tuple)) else [axis] for axis in others]
    whole = [*sizes] if len(own[0]) == len(sizes) else [math.prod(sizes)]
    if not all(_is_whole_number(p) and p > 0 for each in own for p in each):
        return last
    if any(len(each) != len(whole) for each in own):
        return last
    pairs = [*zip(whole, map(math.prod, zip(*own, strict=True)), strict=True)]
    if any(n % taken for n, taken in pairs):
        return last
    left = [n // taken for n, taken in pairs]
    inside = [entry for entry in last[:-1] if entry[0] != OUTERMOST]
    return [*inside, (name, left if len(left) > 1 else left[0]), (OUTERMOST, axes[OUTERMOST])]


def _split_degree(axis: _Axis, room: list[int]) -> list[int]:
    if axis == REST:
        return room
    if _is_whole_number(axis):
        return _place_innermost(axis, room)
    if not isinstance(axis, (list, tuple)) or not all(map(_is_whole_number, axis)):
        raise DimsweepError(
            f"{axis!r} is not a degree",
            hint=f"a whole number, one for each dimension, or {REST!r}",
            code="wrong-type",
        )
    if len(axis) != len(room):
        raise DimsweepError(f"{len(axis)} sizes for {len(room)} dimensions", code="mismatch")
    for d, (p, r) in enumerate(zip(axis, room, strict=True)):
        if p < 1 or r % p:
            raise InfeasibleError(
                f"{p} does not fit dimension {d}, where {r} NPUs are left", where=f"[{d}]"
            )
    return list(axis)


def _is_whole_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _place_innermost(degree: int, room: list[int]) -> list[int]:
    if degree < 1:
        raise DimsweepError(f"{degree}; it must be 1 or more", code="out-of-range")
    split, left = [], degree
    for r in room:
        split.append(math.gcd(left, r))
        left //= split[-1]
    if left > 1:
        raise InfeasibleError(
            f"a degree of {degree} {NO_ROOM}: the dimensions have room for {room}",
            hint=suggested_degrees(degree, room),
        )
    return split


def suggested_degrees(
    degree: int, room: Sequence[int], runs: Callable[[int], bool] = lambda degree: True
) -> str:
    """Return a hint: the nearest valid degrees below and above ``degree``, and the rule for them.

    Valid degrees fit ``room``, the free sizes of the dimensions, and ``runs`` returns true for
    them.
    """
    fitting = _list_fitting(room)
    below = next((d for d in reversed(fitting) if d < degree and runs(d)), None)
    above = next((d for d in fitting if degree < d < 2 * degree and runs(d)), None)
    near = " or ".join(str(d) for d in (below, above) if d is not None)
    rule = "factors of a degree divide the dimensions from the innermost outwards"
    return f"{near} would: {rule}" if near else rule


def _check_product(
    axes: Mapping[str, _Axis], sizes: Sequence[int], axis: _Axis, room: Sequence[int]
) -> None:
    """Raise :class:`InfeasibleError` if the product of all degrees does not divide the NPUs.

    An ``axis`` that fits ``room``, the free sizes of the dimensions, is not checked.
    """
    degrees = {
        name: degree for name, degree in axes.items() if _is_whole_number(degree) and degree > 1
    }
    n, ranks = math.prod(sizes), math.prod(degrees.values())
    if not _is_whole_number(axis) or len(degrees) < 2 or n % ranks == 0 or _fits(axis, room):
        return
    raise InfeasibleError(
        " x ".join(f"{name} {degree}" for name, degree in degrees.items())
        + f" = {ranks:,} ranks, but the cluster has {n:,} NPUs",
        hint="the product of all degrees must divide the number of NPUs",
    )


def _list_fitting(room: Sequence[int]) -> list[int]:
    found = {1}
    for r in room:
        own = [p for p in range(1, math.isqrt(r) + 1) if r % p == 0]
        found = {degree * p for degree in found for q in own for p in (q, r // q)}
    return sorted(degree for degree in found if _fits(degree, room))


def _fits(degree: int, room: Sequence[int]) -> bool:
    """Return whether ``degree`` is a product of divisors of the free sizes ``room``."""
    left = degree
    for r in room:
        left //= math.gcd(left, r)
    return left == 1
