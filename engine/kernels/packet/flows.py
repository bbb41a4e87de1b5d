"""Flows between hosts: one by one, or many of them as columns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.cluster.transports import Transport
from engine.errors import DimsweepError
from engine.lower.program import Longs

_LARGEST = (1 << 63) - 1

Way = tuple[tuple[int, ...], tuple[int, ...]]  # the nodes that data pass, and those of their ACKs
Ways = tuple[Way, ...]  # that packets take in turn


class Flow(NamedTuple):
    """``size`` bytes that a host sends to another one.

    It starts ``start`` ticks after the last of the flows ``after`` has arrived (see
    ``Settings.after_arrival``), or after the beginning.  ``way`` are the nodes that its data pass,
    ``way_back`` those that its ACKs pass, hosts included; packets take the ways (and ways back) of
    ``sprayed``, too, all in turn.  ``window`` bytes may be under way (``None``: any number).
    Higher ``priority`` goes first (see ``Settings.priorities``).
    ``round_trip`` is the ticks that HPCC smooths over, to which Swift adds what may queue, and
    after three of which TCP's timer first runs out, as of a connection that knows its round trip
    from its handshake (RFC 6298, 2.2; 0: not known).
    """

    size: int
    way: tuple[int, ...]
    way_back: tuple[int, ...]
    start: int = 0
    after: tuple[int, ...] = ()
    window: int | None = None
    round_trip: int = 0
    sprayed: Ways = ()
    priority: int = 0


class FlowColumns(NamedTuple):
    """Many flows, an array of int64 for each field of :class:`Flow`.

    Flow i takes ``ways[way[i]]``; a window of 0 is none.  It waits for the flows
    ``after[after_from[i] : after_from[i + 1]]``.  :func:`flow_columns` makes them.
    """

    sizes: Longs
    ways: Sequence[Ways]
    way: Longs
    starts: Longs
    windows: Longs
    round_trips: Longs
    after: Longs
    after_from: Longs
    priorities: Longs


def flow_columns(
    sizes: ArrayLike,
    ways: Sequence[Ways],
    way: ArrayLike,
    *,
    starts: ArrayLike = 0,
    windows: ArrayLike = 0,
    round_trips: ArrayLike = 0,
    after: ArrayLike = (),
    after_from: ArrayLike = 0,
    priorities: ArrayLike = 0,
) -> FlowColumns:
    """Columns of flows; a single number stands for all flows.  Units as in :class:`Flow`.

    Raises :class:`DimsweepError` for numbers that are no int64, or columns of another length.
    """
    long = _long("sizes", sizes)
    n = len(long) if long.ndim else 1
    given = {"way": way, "starts": starts, "windows": windows, "round_trips": round_trips}
    given["priorities"] = priorities
    columns = {name: _column(name, values, n) for name, values in given.items()}
    found = FlowColumns(
        _column("sizes", sizes, n),
        ways,
        after=np.atleast_1d(_long("after", after)),
        after_from=_column("after_from", after_from, n + 1),
        **columns,
    )
    bad_way = (found.way < 0) | (found.way >= len(ways))
    if bad_way.any():
        raise DimsweepError(f"there is no way {found.way[bad_way][0]}", where="way")
    ends = found.after_from
    if ends[0] != 0 or ends[-1] != len(found.after) or (np.diff(ends) < 0).any():
        raise DimsweepError("it must rise from 0 to the length of after", where="after_from")
    return found


def columns_of(flows: Sequence[Flow]) -> FlowColumns:
    """The same flows as columns; raises :class:`DimsweepError` for numbers that are no int64."""
    for i, flow in enumerate(flows):
        if flow.window is not None and flow.window <= 0:
            raise DimsweepError(f"a window of {flow.window} bytes", where=f"flow {i}")
    numbers: dict[Ways, int] = {}
    way = [
        numbers.setdefault(((flow.way, flow.way_back), *flow.sprayed), len(numbers))
        for flow in flows
    ]
    return flow_columns(
        [flow.size for flow in flows],
        tuple(numbers),
        way,
        starts=[flow.start for flow in flows],
        windows=[flow.window or 0 for flow in flows],
        round_trips=[flow.round_trip for flow in flows],
        after=[other for flow in flows for other in flow.after],
        after_from=np.cumsum([0, *(len(flow.after) for flow in flows)]),
        priorities=[flow.priority for flow in flows],
    )


def check_flows(flows: FlowColumns, n_before: int, at: int, now: int) -> None:
    """Raises :class:`DimsweepError` naming the first flow that cannot be simulated.

    There are ``n_before`` flows already, for which these may wait as for one another.  Their
    beginning is the tick ``at``, and the present one is ``now``.
    """
    check_start(at, now)
    check_sizes(flows.sizes, n_before)
    n = n_before + len(flows.sizes)
    _refuse(flows.starts < 0, n_before, "it starts before the beginning")
    _refuse(flows.windows < 0, n_before, "its window has no bytes")
    waits = np.repeat(np.arange(n_before, n), np.diff(flows.after_from))
    wrong = (flows.after < 0) | (flows.after >= n) | (flows.after == waits)
    if wrong.any():
        told = f"it waits for flow {flows.after[wrong][0]}, which there is not"
        raise DimsweepError(told, where=f"flow {waits[wrong][0]}")


def check_start(at: int, now: int) -> None:
    """Raises :class:`DimsweepError` for flows that are to start before the present tick."""
    if at < now:
        raise DimsweepError(f"flows are to start from tick {at} on, but it is {now}", where="at")


def check_sizes(sizes: Longs, n_before: int) -> None:
    """Raises :class:`DimsweepError` for a flow without bytes."""
    _refuse(sizes <= 0, n_before, "it has no bytes")


def check_segments(payload: int, sizes: Longs, n_before: int) -> None:
    """Raises :class:`DimsweepError` for a flow of more segments than TCP's tables count."""
    too_many = sizes // payload >= 1 << 31
    _refuse(too_many, n_before, "it is more segments than TCP counts here")


def check_priorities(n: int, flows: FlowColumns, n_before: int) -> None:
    """Raises :class:`DimsweepError` for a flow of none of ``n`` priorities."""
    wrong = (flows.priorities < 0) | (flows.priorities >= n)
    hint = "Settings.priorities of a packet network"
    _refuse(wrong, n_before, f"its priority is none of {n}, counted from 0", hint)


def check_windows(transport: Transport, rates: Longs, flows: FlowColumns, n_before: int) -> None:
    """Raises :class:`DimsweepError` for windows that are missing or too large to compute with.

    ``rates`` (bits a second) are those of the hosts' links by which the flows leave.
    """
    too_large = flows.windows > _LARGEST // rates
    _refuse(too_large, n_before, "its window times its link's rate is more than an int64 holds")
    if transport.needs_window:
        missing = (flows.windows == 0) | (flows.round_trips <= 0)
        hint = "window in bytes (the bandwidth-delay product), round_trip in ticks"
        _refuse(
            missing, n_before, f"{transport.name} needs the flow's window and its round trip", hint
        )


def _long(name: str, values: ArrayLike) -> Longs:
    try:
        return np.asarray(values, np.int64)
    except OverflowError as error:
        hint = f"whole numbers up to {_LARGEST}"
        raise DimsweepError("a number is too large", where=name, hint=hint) from error


def _column(name: str, values: ArrayLike, n: int) -> Longs:
    column = _long(name, values)
    if column.shape not in ((), (n,)):
        raise DimsweepError(f"it has the shape {column.shape}, not ({n},)", where=name)
    whole = column if column.ndim else np.broadcast_to(column, (n,))
    # Of one kind: for each other one the kernels would be compiled anew.
    return np.require(whole, requirements=["C", "W"])


def _refuse(wrong: NDArray[np.bool_], n_before: int, why: str, hint: str = "") -> None:
    if wrong.any():
        raise DimsweepError(why, where=f"flow {n_before + int(wrong.argmax())}", hint=hint)
