"""What follows from a design without searching: what cannot matter, and what is unbalanced."""

from dimsweep.engine.rules.alike import Told, alike
from dimsweep.engine.rules.between import SEEN, Kind, Seen, kind_of
from dimsweep.engine.rules.effects import (
    crosses_dimensions,
    is_measured,
    lone_chunks,
    queue_matters,
    silent_dimensions,
)
from dimsweep.engine.rules.hops import Exchange, mostly_hops
from dimsweep.engine.rules.measured import beyond_measurements
from dimsweep.engine.rules.provisioning import Pair, provisioning, worth
from dimsweep.engine.rules.ties import Tied, ties
