"""Transports: how a sender's rate answers to acknowledgements, one file each."""

from engine.kernels.packet import dcqcn, dctcp, hpcc, swift, timely
from engine.kernels.packet.compile import inlined, kernel
from engine.kernels.packet.settings import Transport
from engine.kernels.packet.state import Run


@kernel
def on_ack(r: Run, flow: int, packet: int) -> None:
    """The sender of ``flow`` has received an ACK."""
    which = r.settings.transport
    if which == Transport.DCQCN:
        dcqcn.on_ack(r, flow, packet)
    elif which == Transport.DCTCP:
        dctcp.on_ack(r, flow, packet)
    elif which == Transport.TIMELY:
        timely.on_ack(r, flow, packet)
    elif which == Transport.HPCC:
        hpcc.on_ack(r, flow, packet)
    elif which == Transport.SWIFT:
        swift.on_ack(r, flow, packet)


@inlined
def on_timer(r: Run, flow: int, timer: int) -> None:
    """A timer of the sender of ``flow`` has run out."""
    if r.settings.transport == Transport.DCQCN:
        dcqcn.on_timer(r, flow, timer)


@inlined
def on_end(r: Run, flow: int) -> None:
    """The sender of ``flow`` knows that all has arrived."""
    if r.settings.transport == Transport.DCQCN:
        dcqcn.on_end(r, flow)
