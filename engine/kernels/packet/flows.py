"""Flows between hosts, and the columns that they are checked as."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Longs

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


class Columns(NamedTuple):
    """Flows as arrays of int64, one for each field of :class:`Flow`.

    Flow i takes ``ways[way[i]]``; a window of 0 is none.  It waits for the flows
    ``after[after_from[i] : after_from[i + 1]]``.
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


def columns_of(flows: Sequence[Flow]) -> Columns:
    """Flows as columns; raises :class:`DimsweepError` for numbers that are no int64."""
    for i, flow in enumerate(flows):
        if flow.window is not None and flow.window <= 0:
            raise DimsweepError(f"a window of {flow.window} bytes", where=f"flow {i}")
    numbers: dict[Ways, int] = {}
    way = [
        numbers.setdefault(((flow.way, flow.way_back), *flow.sprayed), len(numbers))
        for flow in flows
    ]
    return Columns(
        sizes=_longs("sizes", (flow.size for flow in flows)),
        ways=tuple(numbers),
        way=_longs("way", way),
        starts=_longs("starts", (flow.start for flow in flows)),
        windows=_longs("windows", (flow.window or 0 for flow in flows)),
        round_trips=_longs("round_trips", (flow.round_trip for flow in flows)),
        after=_longs("after", (other for flow in flows for other in flow.after)),
        after_from=np.cumsum([0, *(len(flow.after) for flow in flows)]),
        priorities=_longs("priorities", (flow.priority for flow in flows)),
    )


def check_flows(flows: Columns, n_before: int, at: int, now: int, n_priorities: int) -> None:
    """Raises :class:`DimsweepError` naming the first flow that cannot be simulated.

    There are ``n_before`` flows already, for which these may wait as for one another.  Their
    beginning is the tick ``at``, and the present one is ``now``.
    """
    check_sizes(flows.sizes, n_before, at, now)
    n = n_before + len(flows.sizes)
    _refuse(flows.starts < 0, n_before, "it starts before the beginning")
    _refuse(flows.windows < 0, n_before, "its window has no bytes")
    waits = np.repeat(np.arange(n_before, n), np.diff(flows.after_from))
    wrong = (flows.after < 0) | (flows.after >= n) | (flows.after == waits)
    if wrong.any():
        told = f"it waits for flow {flows.after[wrong][0]}, which there is not"
        raise DimsweepError(told, where=f"flow {waits[wrong][0]}")
    wrong = (flows.priorities < 0) | (flows.priorities >= n_priorities)
    hint = "Settings.priorities of a packet network"
    _refuse(wrong, n_before, f"its priority is none of {n_priorities}, counted from 0", hint)


def check_sizes(sizes: Longs, n_before: int, at: int, now: int) -> None:
    """Raises :class:`DimsweepError` for a flow without bytes, or that would have started."""
    if at < now:
        raise DimsweepError(f"flows are to start from tick {at} on, but it is {now}", where="at")
    _refuse(sizes <= 0, n_before, "it has no bytes")


def check_segments(payload: int, sizes: Longs, n_before: int) -> None:
    """Raises :class:`DimsweepError` for a flow of more segments than TCP's tables count."""
    too_many = sizes // payload >= 1 << 31
    _refuse(too_many, n_before, "it is more segments than TCP counts here")


def check_windows(transport: Transport, rates: Longs, flows: Columns, n_before: int) -> None:
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


def _longs(name: str, values: Iterable[int]) -> Longs:
    try:
        return np.array([*values], np.int64)
    except OverflowError as error:
        hint = f"whole numbers up to {_LARGEST}"
        raise DimsweepError("a number is too large", where=name, hint=hint) from error


def _refuse(wrong: NDArray[np.bool_], n_before: int, why: str, hint: str = "") -> None:
    if wrong.any():
        raise DimsweepError(why, where=f"flow {n_before + int(wrong.argmax())}", hint=hint)
