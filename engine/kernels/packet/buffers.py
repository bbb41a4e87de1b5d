"""A switch's shared buffer: ingress thresholds, headroom, and when to pause who sends.

What arrives counts at the port by which it came in.  Behind a reserve it takes from the buffer that
all ports share, up to a dynamic threshold, the free share / 2^shift (Choudhury and Hahne, 1998);
what comes on top while the pause travels goes into the port's headroom.  A switch that does not
pause drops what would wait at a port whose queue is as long as that threshold, or trims it
(``ports``); it has no reserves.
"""

from dimsweep.engine.kernels.packet.compile import inlined
from dimsweep.engine.kernels.packet.state import Run


@inlined
def threshold(r: Run, port: int) -> int:
    """Bytes beyond its reserve that may arrive by this port before it pauses the other end."""
    switch = r.switches[r.ports[port].switch]
    return (switch.shared - switch.used) >> r.ports[port].shift


@inlined
def has_room(r: Run, port: int, size: int) -> bool:
    """Whether a packet may wait at ``port`` of a switch that drops: its queue is not too long."""
    switch, p = r.switches[r.ports[port].switch], r.ports[port]
    free = switch.shared - switch.used
    if p.egress + size > p.room:
        return False
    return size <= free and p.egress < (free >> p.shift if p.shift >= 0 else free << -p.shift)


@inlined
def _beyond_reserve(r: Run, port: int) -> int:
    return max(r.ports[port].ingress - r.settings.reserve, 0)


@inlined
def admits(r: Run, port: int, size: int) -> bool:
    """Whether a packet that came in by ``port`` finds room."""
    p = r.ports[port]
    return p.over + size <= p.headroom or _beyond_reserve(r, port) + size <= threshold(r, port)


@inlined
def admit(r: Run, port: int, size: int) -> None:
    p = r.ports[port]
    beyond = p.ingress + size - r.settings.reserve
    if beyond <= 0:
        p.ingress += size
    elif beyond > threshold(r, port):
        p.over += size
    else:
        p.ingress += size
        r.switches[p.switch].used += min(size, beyond)


@inlined
def release(r: Run, port: int, size: int) -> None:
    """A packet that came in by ``port`` leaves the switch."""
    p = r.ports[port]
    from_over = min(p.over, size)
    from_shared = min(size - from_over, _beyond_reserve(r, port))
    p.over -= from_over
    p.ingress -= size - from_over
    r.switches[p.switch].used -= from_shared


@inlined
def must_pause(r: Run, port: int) -> bool:
    p = r.ports[port]
    return p.pausing == 0 and (p.over > 0 or _beyond_reserve(r, port) >= threshold(r, port))


@inlined
def may_resume(r: Run, port: int) -> bool:
    p = r.ports[port]
    if p.pausing == 0 or p.over > 0:
        return False
    beyond = _beyond_reserve(r, port)
    return beyond == 0 or beyond + r.settings.resume_below <= threshold(r, port)
