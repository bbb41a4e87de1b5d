"""Times under Themis that hang on ties (see engine.rules.fidelity)."""

from dimsweep.engine import Program, units
from dimsweep.engine.rules import ties
from dimsweep.sweeper.config.schema import Config

_MATTERS = 0.01  # of the time


def tied(config: Config, program: Program) -> list[str]:
    """What a run takes where nothing ties, if that is another time."""
    found = None if config.by_message else ties(program)
    if found is None or max(found) / min(found) - 1 < _MATTERS:
        return []
    here, *others = map(units.format_time, found)
    apart = " or ".join(dict.fromkeys(others))
    return [
        f"collective.order=themis ties at these bandwidths: {here}, and {apart} where they differ "
        "in the ninth place; more collective.chunks hang on it less"
    ]
