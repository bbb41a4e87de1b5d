"""Gradients that are exchanged in buckets which are too small for the network."""

from dimsweep.engine import Program, units
from dimsweep.engine.rules import mostly_hops
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model


def small_buckets(config: Config, program: Program) -> list[str]:
    """Told where a bucket's hops last longer than its bytes, and there are several buckets."""
    workload = config.workload
    if not isinstance(workload, Model) or workload.plan.zero == 3:  # which exchanges blocks
        return []
    found = mostly_hops(program)
    if found is None:
        return []
    hops, of_bytes = units.format_time(found.hops), units.format_time(found.bytes)
    one = units.format_bytes(found.n_bytes)
    enough = units.format_bytes(found.n_bytes * found.hops / found.bytes)
    return [
        f"{found.group}: the hops of a bucket of {one} last {hops}, its bytes {of_bytes}; "
        f"plan.bucket={enough} has as much of both (plan.stack={workload.plan.stack} sets it)"
    ]
