"""DCQCN (Zhu et al., SIGCOMM 2015): cut by the estimated share of marks, recover by a timer."""

from engine.kernels.core.none import NONE
from engine.kernels.packet.agenda import CURRENT, NOW, plan_timer
from engine.kernels.packet.compile import inlined, kernel
from engine.kernels.packet.hosts import set_rate
from engine.kernels.packet.state import KIND_BITS, TIMER_A, TIMER_B, TIMER_C, Run

ALPHA, CUT, RAISE = TIMER_A, TIMER_B, TIMER_C


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    """An ACK that echoes a mark counts as a congestion notification."""
    f = r.flows[flow]
    if r.packets[packet].marked == 0 or f.acked >= f.size:
        return
    f.marked = 1  # seen since the last look at the rate
    if f.notified == 0:
        f.notified = 1
        f.alpha = 1.0
        f.target = f.rate
        now = r.agenda.counts[NOW]
        _start_alpha(r, flow, now)
        keys = r.settings.dcqcn
        cut = now + keys.cut_every + keys.after_alpha
        f.cut_timer = plan_timer(r.agenda, cut, CUT | flow << KIND_BITS)
    else:
        f.marked_alpha = 1  # seen since the last change of alpha


@kernel
def on_timer(r: Run, flow: int, timer: int) -> None:
    f, keys, number = r.flows[flow], r.settings.dcqcn, r.agenda.counts[CURRENT]
    now = r.agenda.counts[NOW]
    if timer == ALPHA:
        if f.alpha_timer == number:
            f.alpha = (1 - keys.gain) * f.alpha + (keys.gain if f.marked_alpha else 0.0)
            f.marked_alpha = 0
            _start_alpha(r, flow, now)
    elif timer == CUT:
        if f.cut_timer == number:
            cut = now + keys.cut_every
            f.cut_timer = plan_timer(r.agenda, cut, CUT | flow << KIND_BITS)
            if f.marked:
                _cut(r, flow, now)
    elif f.raise_timer == number:
        _start_raise(r, flow, now)
        _raise(r, flow)


@inlined
def _start_alpha(r: Run, flow: int, now: int) -> None:
    at = now + r.settings.dcqcn.alpha_every
    r.flows[flow].alpha_timer = plan_timer(r.agenda, at, ALPHA | flow << KIND_BITS)


@inlined
def _start_raise(r: Run, flow: int, now: int) -> None:
    at = now + r.settings.dcqcn.raise_every
    r.flows[flow].raise_timer = plan_timer(r.agenda, at, RAISE | flow << KIND_BITS)


@inlined
def _cut(r: Run, flow: int, now: int) -> None:
    f = r.flows[flow]
    if f.raises:
        f.target = f.rate
    set_rate(r, flow, max(int(f.rate * (1 - f.alpha / 2)), r.settings.dcqcn.least))
    f.raises = 0
    f.marked = 0
    _start_raise(r, flow, now)


@inlined
def _raise(r: Run, flow: int) -> None:
    """Half way to the target, which itself is raised after the first recoveries."""
    f, keys = r.flows[flow], r.settings.dcqcn
    if f.raises >= keys.recoveries:
        step = keys.add if f.raises == keys.recoveries else keys.add_fast
        f.target = min(f.target + step, f.line_rate)
    set_rate(r, flow, f.rate // 2 + f.target // 2)
    f.raises += 1


@inlined
def on_end(r: Run, flow: int) -> None:
    f = r.flows[flow]
    f.alpha_timer = NONE
    f.cut_timer = NONE
    f.raise_timer = NONE
