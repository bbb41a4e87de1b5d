"""By how much a simulation of every message may give another time (see engine.rules.fidelity)."""

from dimsweep.engine import Program
from dimsweep.engine.rules import SEEN, Kind, kind_of
from dimsweep.sweeper.config.schema import Config

_MATTERS = 0.01  # of the time
_SHARES = "parts of dimensions whose NPUs share links"
_WHAT = {
    Kind(stages=True, shares=True): f"messages between stages, on {_SHARES}",
    Kind(stages=True, shares=False): "messages between stages",
    Kind(stages=False, shares=True): f"groups on {_SHARES}",
}


def apart(config: Config, program: Program, *, searched: bool) -> list[str]:
    """How far phases and messages were apart on plans of the program's kind, where that was more
    than a percent and every message is not simulated anyway."""
    kind = None if config.by_message or config.recheck.rungs else kind_of(program)
    if kind is None or max(SEEN[kind].most, -SEEN[kind].least) < _MATTERS:
        return []
    seen = SEEN[kind]
    fix = "recheck.top=3" if searched else "fidelity=message"
    return [
        f"{_WHAT[kind]}: on {seen.plans - seen.equal} of {seen.plans} random plans of this kind "
        "and up to 32 NPUs the time message by message was another than by phases, "
        f"{seen.least:+.1%} to {seen.most:+.1%}; {fix} simulates every message of this one"
    ]
