"""Orders in which the chunks of a collective visit its dimensions; each order is a kernel.

``ORDERS[name] = choose`` registers one.  ``choose(sim, f, chunk)`` is called for each chunk of form
``f`` in turn.  It writes into ``sim.times.order`` a permutation of the form's uses (its dimensions,
see ``sim.s.forms[f]``) for a reduce-scatter; an all-gather visits them in reverse.
``sim.times.loads`` (ps per used dimension) and the previous chunk's order are kept from chunk to
chunk; they start as zeros and the baseline order.
"""

from typing import Any

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.fingerprint import fingerprint
from dimsweep.engine.kernels.phase.phase_time import ALMOST_ONE
from dimsweep.engine.kinds import ORDERS, CollectiveKind, DimensionOrder
from dimsweep.engine.units import PICOSECONDS


@kernel
def load_of(sim: Any, use: Any, held: float) -> float:
    """Return the transfer time (ps) of a reduce-scatter of ``held`` bytes in dimension ``use``."""
    chosen, fraction = sim.s.phase_steps[use.scatter], 0.0
    for step in sim.s.steps[chosen.step_start : chosen.step_end]:
        fraction += step.count * step.n_bytes
    return fraction * held * PICOSECONDS / (sim.times.bandwidth[use.dim] * chosen.share)


@inlined
def bytes_on_entry(sim: Any, f: int) -> float:
    """Return the bytes with which a chunk of form ``f`` enters its reduce-scatter.

    An all-gather is scheduled as the reduce-scatter that it reverses.
    """
    s, form = sim.s, sim.s.forms[f]
    held = form.n_bytes
    if form.kind == CollectiveKind.ALL_GATHER:
        for use in s.uses[form.use_start : form.use_end]:
            held *= s.phase_steps[use.gather].growth
    return held


@kernel
def themis(sim: Any, f: int, chunk: int) -> None:
    """Order the dimensions of a chunk by load, least loaded first (Themis, ISCA 2022).

    Latencies do not count as load, because they keep no port busy.  While loads differ by less than
    the time of a sixteenth of the chunk on the least loaded dimension, the baseline order is kept.
    Of equal loads (up to rounding) the inner dimension goes first.
    """
    s, form, loads, order = sim.s, sim.s.forms[f], sim.times.loads, sim.times.order
    uses, held = s.uses[form.use_start : form.use_end], bytes_on_entry(sim, f)
    n = len(uses)
    for i in range(n):  # insertion sort, stable
        j = i
        while j > 0 and loads[order[j - 1]] * ALMOST_ONE > loads[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    threshold = load_of(sim, uses[order[0]], held / 16)
    if (
        loads[order[n - 1]] / ALMOST_ONE - loads[order[0]] < threshold
    ):  # rounding errors are of loads
        for i in range(n):
            order[i] = i
    for i in range(n):
        use = uses[order[i]]
        loads[order[i]] += load_of(sim, use, held)
        held *= s.phase_steps[use.scatter].growth


_numbers: dict[tuple[str, str], DimensionOrder] = {}  # by the name and the digest of an order
_choosers: dict[int, Any] = {}  # by these numbers


def choice_function(order: int) -> Any:
    """Return the compiled function for an order's number; Themis's if it is unknown."""
    return _choosers.get(order, themis)


def _number_orders() -> None:
    """Assign a number to each order of a plug-in, and reuse it on a new registration."""
    for name, own in ORDERS.items():
        if own is None or own is themis:
            continue
        if name != name.lower():
            problem = f"the name {name!r} has upper-case letters; use lower case"
            raise DimsweepError(problem, where="order")
        known = name, fingerprint(own)
        if known in _numbers:
            DimensionOrder.restore(_numbers[known])
        else:
            _numbers[known] = DimensionOrder.create(name)
            _choosers[int(_numbers[known])] = own


ORDERS["themis"] = themis
ORDERS.changed = _number_orders
