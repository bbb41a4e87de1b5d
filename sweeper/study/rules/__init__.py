"""Design rules: what is odd about a design, told before it is simulated.

A warning is one line of text.  It stops nothing; each says what to change.
"""

from collections.abc import Collection, Iterable

from dimsweep.engine import Program
from dimsweep.engine.rules import beyond_measurements
from dimsweep.sweeper.config.compose import Composed
from dimsweep.sweeper.study.rules.axes import kept_axes
from dimsweep.sweeper.study.rules.between import apart
from dimsweep.sweeper.study.rules.buckets import small_buckets
from dimsweep.sweeper.study.rules.idle import idle_keys
from dimsweep.sweeper.study.rules.knobs import idle_knobs
from dimsweep.sweeper.study.rules.machines import unlike_parts
from dimsweep.sweeper.study.rules.memory import tight_memory
from dimsweep.sweeper.study.rules.packet_file import without_effect
from dimsweep.sweeper.study.rules.peak import uncalibrated
from dimsweep.sweeper.study.rules.prices import unpriced_tiers
from dimsweep.sweeper.study.rules.provision import badly_provisioned, verdict
from dimsweep.sweeper.study.rules.quantities import odd_quantities
from dimsweep.sweeper.study.rules.radix import radices
from dimsweep.sweeper.study.rules.routing import first_ways
from dimsweep.sweeper.study.rules.ties import tied


def design_warnings(
    composed: Composed, program: Program, turned: Collection[str], *, searched: bool
) -> list[str]:
    """What the rules find in a composed configuration, whose program is ``program``; beside
    :func:`idle_keys`, which costs more.

    ``turned`` are the keys that the user varies or has set for this run; ``searched`` says that the
    bandwidths of the config are not those that will be simulated.
    """
    config = composed.config
    found = kept_axes(composed)
    found += unlike_parts(composed, priced=program.prices is not None)
    found += unpriced_tiers(composed, program)
    found += odd_quantities(config, program, searched=searched)
    found += radices(config, program)
    found += first_ways(config, program)
    found += without_effect(composed)
    found += uncalibrated(config, program)
    found += tight_memory(config, program)
    found += beyond_measurements(program)
    found += apart(config, program, searched=searched)
    found += idle_knobs(config, program, turned, searched=searched)
    if searched:
        return found
    found += small_buckets(config, program)
    return found + tied(config, program) + badly_provisioned(program)


def once(warnings: Iterable[list[str]]) -> list[str]:
    """The warnings of several cells, each once, with the number of cells that it is for."""
    cells = list(warnings)
    texts = dict.fromkeys(text for cell in cells for text in cell)
    counted = {text: sum(text in cell for cell in cells) for text in texts}
    return [
        text if n == len(cells) else f"{text} (in {n} of {len(cells)} cells)"
        for text, n in counted.items()
    ]
