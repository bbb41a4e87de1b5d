"""DCQCN (Zhu et al., SIGCOMM 2015): cut by the estimated share of marks, recover by a timer."""

from engine.kernels.packet.agenda import CURRENT, NOW, plan_timer
from engine.kernels.packet.compile import inlined, kernel
from engine.kernels.packet.hosts import set_rate
from engine.kernels.packet.state import KIND_BITS, NONE, TIMER_A, TIMER_B, TIMER_C, Run


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    """An ACK that echoes a mark counts as a congestion notification."""
    f = r.flows[flow]
    if r.packets[packet].marked == 0 or f.acked >= f.size:
        return
    f.j = 1  # seen since the last look at the rate
    if f.k == 0:
        f.k = 1
        f.a = 1.0
        f.target = f.rate
        now = r.agenda.counts[NOW]
        _start_alpha(r, flow, now)
        keys = r.settings.dcqcn
        cut = now + keys.cut_every + keys.after_alpha
        f.timer_b = plan_timer(r.agenda, cut, TIMER_B | flow << KIND_BITS)
    else:
        f.i = 1  # seen since the last change of alpha


@kernel
def on_timer(r: Run, flow: int, timer: int) -> None:
    f, keys, number = r.flows[flow], r.settings.dcqcn, r.agenda.counts[CURRENT]
    now = r.agenda.counts[NOW]
    if timer == TIMER_A:
        if f.timer_a == number:
            f.a = (1 - keys.gain) * f.a + (keys.gain if f.i else 0.0)
            f.i = 0
            _start_alpha(r, flow, now)
    elif timer == TIMER_B:
        if f.timer_b == number:
            cut = now + keys.cut_every
            f.timer_b = plan_timer(r.agenda, cut, TIMER_B | flow << KIND_BITS)
            if f.j:
                _cut(r, flow, now)
    elif f.timer_c == number:
        _start_raise(r, flow, now)
        _raise(r, flow)


@inlined
def _start_alpha(r: Run, flow: int, now: int) -> None:
    at = now + r.settings.dcqcn.alpha_every
    r.flows[flow].timer_a = plan_timer(r.agenda, at, TIMER_A | flow << KIND_BITS)


@inlined
def _start_raise(r: Run, flow: int, now: int) -> None:
    at = now + r.settings.dcqcn.raise_every
    r.flows[flow].timer_c = plan_timer(r.agenda, at, TIMER_C | flow << KIND_BITS)


@inlined
def _cut(r: Run, flow: int, now: int) -> None:
    f = r.flows[flow]
    if f.stage:
        f.target = f.rate
    set_rate(r, flow, max(int(f.rate * (1 - f.a / 2)), r.settings.dcqcn.least))
    f.stage = 0
    f.j = 0
    _start_raise(r, flow, now)


@inlined
def _raise(r: Run, flow: int) -> None:
    """Half way to the target, which itself is raised after the first recoveries."""
    f, keys = r.flows[flow], r.settings.dcqcn
    if f.stage >= keys.recoveries:
        step = keys.add if f.stage == keys.recoveries else keys.add_fast
        f.target = min(f.target + step, f.line_rate)
    set_rate(r, flow, f.rate // 2 + f.target // 2)
    f.stage += 1


@inlined
def on_end(r: Run, flow: int) -> None:
    f = r.flows[flow]
    f.timer_a = NONE
    f.timer_b = NONE
    f.timer_c = NONE
