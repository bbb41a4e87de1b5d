"""What follows from a design without searching: what cannot matter, and what is unbalanced."""

from dimsweep.engine.rules.balance import Exchange, Pair, mostly_hops, provisioning, worth
from dimsweep.engine.rules.effects import (
    Told,
    alike,
    beyond_measurements,
    crosses_dimensions,
    is_measured,
    lone_chunks,
    queue_matters,
    silent_dimensions,
)
from dimsweep.engine.rules.fidelity import SEEN, Kind, Seen, Tied, kind_of, ties
