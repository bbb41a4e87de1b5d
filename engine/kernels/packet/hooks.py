"""Which transport's case it is: each hook, unrolled over all transports that are registered.

Kernels call ``hooks.on_ack`` and so on: what these names stand for when the kernel is compiled is
part of the digest by which compiled code is kept.
"""

import inspect
from typing import Any

from dimsweep.engine.cluster.transports import HOOKS, TRANSPORTS, Transport
from dimsweep.engine.kernels.packet.compile import inlined, kernel
from dimsweep.engine.kernels.packet.state import Run


@inlined
def _nothing(r: Run, flow: int, which: int) -> None:
    pass


#: What a transport does in a case that does not concern it.
nothing: Any = _nothing

on_start = on_send = on_mark = on_ack = on_timer = on_end = nothing
# Of transports that speak TCP's segments (:class:`engine.kernels.packet.tcp.Tcp`).
grow = shrink = time_out = nothing
_OF_TCP = ("grow", "shrink", "time_out")


def register(*transports: type[Transport]) -> None:
    """Make transports known by their names, to configurations as to the kernel.

    Raises :class:`TypeError` for one that leaves a case or a question open, and
    :class:`ValueError` for a name that another one has.
    """
    for transport in transports:
        _check(transport)
        TRANSPORTS[transport.name] = transport


def _check(transport: type[Transport]) -> None:
    transport()  # Python refuses one that leaves a case open
    if "__dataclass_fields__" not in vars(transport):
        raise TypeError(f"{transport.__name__} is no frozen dataclass, whose fields are its keys")
    asked = [name for name in inspect.get_annotations(Transport) if not hasattr(transport, name)]
    if asked:
        raise TypeError(f"{transport.__name__} does not say its {', '.join(asked)}")
    if TRANSPORTS.get(transport.name, transport) is not transport or transport.name == "tcp":
        raise ValueError(f"there is a transport {transport.name!r} already")


def _unroll() -> None:
    globals().update({hook: _unrolled(hook) for hook in (*HOOKS, *_OF_TCP)})


TRANSPORTS.changed = _unroll


def _unrolled(hook: str) -> Any:
    """A function that asks which transport the run has, and does what that does."""
    chosen = nothing
    for code, transport in enumerate(TRANSPORTS.values()):
        own = getattr(transport, hook, nothing)
        if own is not nothing:
            chosen = _either(code, own, chosen)
    return chosen if chosen is nothing else _called(chosen)


def _called(hook: Any) -> Any:
    """As a function of its own: inlined into an event, it would slow all events down."""

    @kernel
    def called(r: Run, flow: int, which: int) -> None:
        hook(r, flow, which)

    return called


def _either(code: int, own: Any, others: Any) -> Any:
    @inlined
    def chosen(r: Run, flow: int, which: int) -> None:
        if r.transport == code:
            own(r, flow, which)
        else:
            others(r, flow, which)

    return chosen
