"""A rival of Themis: each chunk goes next where it would be through the earliest.

dimsweep simulate plugins=examples/plugins/earliest.py collective.order=earliest
"""

from typing import Any

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.phase.orders import ORDERS, bytes_on_entry, load_of


@kernel
def earliest(sim: Any, f: int, chunk: int) -> None:
    """Place by place, of the dimensions that are left, the one whose load with this chunk's is the
    least (list scheduling); of equal ones the inner one.  Themis sorts by the loads without it."""
    form, loads, order = sim.s.forms[f], sim.times.loads, sim.times.order
    uses, held = sim.s.uses[form.use_start : form.use_end], bytes_on_entry(sim, f)
    for i in range(len(uses)):
        order[i] = i
    for i in range(len(uses)):
        best, least = i, loads[order[i]] + load_of(sim, uses[order[i]], held)
        for j in range(i + 1, len(uses)):
            load = loads[order[j]] + load_of(sim, uses[order[j]], held)
            if load < least:
                best, least = j, load
        chosen = order[best]
        for j in range(best, i, -1):  # those before it stay in their order
            order[j] = order[j - 1]
        order[i] = chosen
        loads[chosen] = least
        held *= sim.s.phase_steps[uses[chosen].scatter].growth


ORDERS["earliest"] = earliest
