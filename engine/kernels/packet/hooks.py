"""Which transport's case it is: kernels call ``hooks.on_ack`` and so on.

The transports of ours are compiled together, into one kernel that asks whose case it is when it
runs.  Another one, of a plug-in, is compiled by itself, for runs of its own: their records are of
another type (:mod:`engine.kernels.packet.tables`), which says whose hooks are called.  What is
compiled for ours stays as it is, whatever else is registered.
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
nothing: Any = _nothing

on_start = on_send = on_mark = on_ack = on_timer = on_end = nothing
# Of transports that send again what was lost: TCP's (:class:`engine.kernels.packet.tcp.Tcp`), and,
# but for ``grow``, those that deliver without order (:class:`engine.kernels.packet.rud.Rud`).
grow = shrink = time_out = nothing
OF_TCP = ("grow", "shrink", "time_out")


class Together(NamedTuple):
    """Transports that are compiled into one kernel."""

    transports: tuple[type[Transport], ...]
    version: str = ""  # of one of a plug-in: its name and the digest of its hooks


_ours = Together(())
_alone: dict[str, type[Transport]] = {}  # those of plug-ins, by their versions


def compile_together(*ours: type[Transport]) -> None:
    """Have the hooks of all these stand for the names of this module."""
    known = {hook: _by_type(hook, ours) for hook in (*HOOKS, *OF_TCP)}
    globals().update(known, _ours=Together(ours))


@cache
def together_with(transport: type[Transport]) -> Together:
    """With which others a transport is compiled: ours with ours, and each other one alone."""
    if transport in _ours.transports:
        return _ours
    own = [getattr(transport, hook, nothing) for hook in (*HOOKS, *OF_TCP)]
    version = "_".join([transport.name, *dict.fromkeys(map(fingerprint, own))])
    _alone[version] = transport
    return Together((transport,), version)


def _by_type(hook: str, ours: tuple[type[Transport], ...]) -> Any:
    """A hook of whichever transport the type of a run's keys says it has."""
    of_ours = _unrolled(hook, ours)

    # What a kernel is made of is told by defaults (engine.fingerprint): of ours, and by the type.
    def chosen(r: Run, flow: int, which: int, of_ours: Any = of_ours) -> None:
        """Run uncompiled; the compiler takes the function below for this name."""
        if "ours" not in (r.keys.dtype.names or ()):
            raise NotImplementedError(
                f"a transport that is compiled by itself, without Numba: {hook}"
            )
        of_ours(r, flow, which)

    @overload(chosen)  # type: ignore[untyped-decorator]
    def _of_type(r: Any, flow: Any, which: Any) -> Any:
        own = of_ours
        for name in r.to[r.to.fields.index("keys")].dtype.fields:
            if name in _alone:
                own = getattr(_alone[name], hook, nothing)

        # A function of its own: inlined into an event, it would slow all events down.
        def called(r: Any, flow: Any, which: Any) -> Any:
            own(r, flow, which)

        return called

    return chosen


def _unrolled(hook: str, transports: tuple[type[Transport], ...]) -> Any:
    """A function that asks which of these transports the run has, and does what that does."""
    chosen = nothing
    for code, transport in enumerate(transports):
        own = getattr(transport, hook, nothing)
        if own is not nothing:
            chosen = _either(code, own, chosen)
    return chosen


def _either(code: int, own: Any, others: Any) -> Any:
    @inlined
    def chosen(r: Run, flow: int, which: int) -> None:
        if r.transport == code:
            own(r, flow, which)
        else:
            others(r, flow, which)

    return chosen
