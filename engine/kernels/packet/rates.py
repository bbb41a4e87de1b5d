"""What a transport may do to its sender: set a flow's rate, and start its timers."""

from dimsweep.engine.kernels.core.agenda import passed, plan, plan_timer
from dimsweep.engine.kernels.packet.compile import inlined
from dimsweep.engine.kernels.packet.ports import time_to_send
from dimsweep.engine.kernels.packet.state import KIND_BITS, TIMER, TIMERS, WAKE, Run


@inlined
def set_rate(r: Run, flow: int, rate: int) -> None:
    """A queue pair's rate, at most its link's, and with it what its window allows."""
    f = r.flows[flow]
    f.rate = min(rate, f.line_rate)
    if f.window > 0 and r.settings.vary_window:
        f.allowed = max(f.window * f.rate // f.line_rate, 1)


@inlined
def change_rate(r: Run, flow: int, rate: int) -> None:
    """A new rate moves the time at which the queue pair may send again, and the card's alarm."""
    f = r.flows[flow]
    f.next_at += time_to_send(r, f.last_size, rate) - time_to_send(r, f.last_size, f.rate)
    set_rate(r, flow, rate)
    p = r.ports[f.port]
    waits = p.wake_number >= 0 and not passed(r.agenda, p.wake_time, p.wake_number)
    if waits and f.next_at < p.wake_time:
        p.wake_time = max(f.next_at, r.agenda.counts[0].now)
        p.wake_number = plan(r.agenda, p.wake_time, WAKE | f.port << KIND_BITS)


@inlined
def start_timer(r: Run, flow: int, timer: int, at: int) -> None:
    """Have a flow's timer run out at a tick, and no earlier; ``timer`` is 0, 1 or 2."""
    number = plan_timer(r.agenda, at, TIMER + timer | flow << KIND_BITS)
    r.timers[TIMERS * flow + timer] = number
