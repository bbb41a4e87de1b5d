"""Checks of one design without a search: settings without effect, unbalanced dimensions."""

from dimsweep.engine.rules.balance import (
    Exchange,
    Pair,
    find_latency_bound_exchange,
    list_crossed_pairs,
    simulate_balanced_times,
)
from dimsweep.engine.rules.effects import (
    KernelInputs,
    crosses_dimensions,
    describe_unmeasured,
    has_equal_inputs,
    is_measured,
    list_silent_dimensions,
    maximum_lone_chunks,
    queue_matters,
)
from dimsweep.engine.rules.fidelity import (
    SEEN,
    Observation,
    PlanKind,
    TieEffect,
    classify_plan,
    measure_ties,
)
