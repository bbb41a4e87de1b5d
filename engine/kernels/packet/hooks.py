"""Hooks of transports: the packet kernel calls ``hooks.on_ack`` and so on at each event.

Dimsweep's transports are compiled together, into one kernel that selects the transport at run time.
A transport of a plug-in is compiled separately, for its own runs: their records have another type
(:mod:`engine.kernels.packet.tables`), which selects its hooks.  Registering one does not recompile
the others.
"""

from functools import cache
from typing import Any, NamedTuple

from numba.extending import overload

from dimsweep.engine.cluster.transports import HOOKS, Transport
from dimsweep.engine.fingerprint import fingerprint
from dimsweep.engine.kernels.packet.state import Run, inlined


@inlined
def _nothing(r: Run, flow: int, which: int) -> None:
    pass


#: What a transport does in a case that does not concern it.
ignore: Any = _nothing

on_start = on_send = on_mark = on_ack = on_timer = on_end = ignore
# Of transports that send again what was lost: TCP's (:class:`engine.kernels.packet.tcp.Tcp`), and,
# but for ``grow``, those that deliver without order (:class:`engine.kernels.packet.rud.Rud`).
grow = shrink = time_out = ignore
OF_TCP = ("grow", "shrink", "time_out")


class TransportGroup(NamedTuple):
    """Transports that are compiled into one kernel."""

    transports: tuple[type[Transport], ...]
    version: str = ""  # of one of a plug-in: its name and the digest of its hooks


_ours = TransportGroup(())
_separate: dict[str, type[Transport]] = {}  # transports of plug-ins, by version


def compile_together(*ours: type[Transport]) -> None:
    """Compile the hooks of the given transports into the functions of this module."""
    known = {hook: _hook_by_type(hook, ours) for hook in (*HOOKS, *OF_TCP)}
    globals().update(known, _ours=TransportGroup(ours))


@cache
def group_of(transport: type[Transport]) -> TransportGroup:
    """Return the group with which a transport is compiled; a plug-in's transport is alone."""
    if transport in _ours.transports:
        return _ours
    own = [getattr(transport, hook, ignore) for hook in (*HOOKS, *OF_TCP)]
    version = "_".join([transport.name, *dict.fromkeys(map(fingerprint, own))])
    _separate[version] = transport
    return TransportGroup((transport,), version)


def _hook_by_type(hook: str, ours: tuple[type[Transport], ...]) -> Any:
    """Return a hook that calls, at compile time, the transport whose type the run's keys have."""
    of_ours = _chain_hooks(hook, ours)

    # Default arguments are part of the digest of a kernel (engine.fingerprint).
    def chosen(r: Run, flow: int, which: int, of_ours: Any = of_ours) -> None:
        """Call the hook in a run without Numba; compiled code uses the function below instead."""
        if "ours" not in (r.keys.dtype.names or ()):
            raise NotImplementedError(
                f"a transport that is compiled by itself, without Numba: {hook}"
            )
        of_ours(r, flow, which)

    @overload(chosen)  # type: ignore[untyped-decorator]
    def _of_type(r: Any, flow: Any, which: Any) -> Any:
        own = of_ours
        for name in r.to[r.to.fields.index("keys")].dtype.fields:
            if name in _separate:
                own = getattr(_separate[name], hook, ignore)

        # A function of its own: inlined into an event, it would slow all events down.
        def called(r: Any, flow: Any, which: Any) -> Any:
            own(r, flow, which)

        return called

    return chosen


def _chain_hooks(hook: str, transports: tuple[type[Transport], ...]) -> Any:
    """Return a function that calls ``hook`` of the run's transport, one of ``transports``."""
    chosen = ignore
    for code, transport in enumerate(transports):
        own = getattr(transport, hook, ignore)
        if own is not ignore:
            chosen = _branch(code, own, chosen)
    return chosen


def _branch(code: int, own: Any, others: Any) -> Any:
    @inlined
    def chosen(r: Run, flow: int, which: int) -> None:
        if r.transport == code:
            own(r, flow, which)
        else:
            others(r, flow, which)

    return chosen
