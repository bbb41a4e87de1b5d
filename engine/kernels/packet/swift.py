"""Swift (Kumar et al., SIGCOMM 2020): a window that holds the round-trip time at a target."""

from engine.kernels.packet.agenda import NOW
from engine.kernels.packet.compile import inlined
from engine.kernels.packet.state import Run


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    """Widen the window below the target; above it narrow it, once a round trip."""
    f, k, keys = r.flows[flow], r.packets[packet], r.settings.swift
    now = r.agenda.counts[NOW]
    rtt = now - k.stamp
    if f.packets_allowed == 0:
        f.packets_allowed = f.window / r.settings.payload  # packets
    target = _target(r, flow)
    if rtt < target:
        f.packets_allowed += keys.add / f.packets_allowed if f.packets_allowed >= 1 else keys.add
    elif now - f.last_cut >= rtt:
        f.packets_allowed *= max(1 - keys.beta * (rtt - target) / rtt, 1 - keys.most_cut)
        f.last_cut = now  # the last cut
    f.packets_allowed = min(max(f.packets_allowed, keys.least), f.window / r.settings.payload)
    _apply(r, flow, rtt)


@inlined
def _target(r: Run, flow: int) -> float:
    """Longer for longer ways, and for narrow windows, which are a sign of many flows."""
    f, keys = r.flows[flow], r.settings.swift
    narrow, wide = keys.narrow**-0.5, keys.wide**-0.5
    scale = keys.flow_range / (narrow - wide)
    more = min(max(scale * (f.packets_allowed**-0.5 - wide), 0.0), float(keys.flow_range))
    return f.round_trip + keys.base + more


@inlined
def _apply(r: Run, flow: int, rtt: int) -> None:
    """Below one packet the window becomes a pace: one packet now and then."""
    f, payload = r.flows[flow], r.settings.payload
    if f.packets_allowed >= 1:
        f.allowed = int(f.packets_allowed * payload)
        f.rate = f.line_rate
        return
    f.allowed = 1  # what is under way stops the next packet
    f.rate = min(max(int(f.packets_allowed * payload * 8 * r.settings.ticks / rtt), 1), f.line_rate)
