"""Tiers, switches and whole parts that nothing prices."""

from collections.abc import Sequence

from dimsweep.engine import Program
from dimsweep.sweeper.config.compose import Composed


def unpriced_tiers(composed: Composed, program: Program) -> list[str]:
    """A warning if tiers of the topology, or parts of it, have no price, so that the whole network
    has none; and the first thing that it is."""
    config, cluster = composed.config, program.cluster
    by_tier = bool(config.cost.tiers and config.topology.tiers)
    if config.cost.parts or (by_tier and (cluster.network.graph is not None or config.other_npus)):
        bill = config.bought(cluster.topology, cluster.network).bill()
        return _missing(composed, bill.missing)
    if program.prices is not None:
        return _unpriced_switches(composed, program)
    priced = {name for name, price in config.cost.tiers.items() if price.link is not None}
    missing = [name for name in dict.fromkeys(config.topology.tiers) if name not in priced]
    if not missing:
        return []
    cost, others = composed.choices.get("cost"), ", ".join(sorted(priced)) or "no tier"
    return [
        f"topology.tiers: {', '.join(missing)} without a price in cost={cost}, so nothing is said "
        f"about cost; it prices {others} (cost.tiers.{missing[0]}.link=... is a price)"
    ]


def _missing(composed: Composed, missing: Sequence[str]) -> list[str]:
    """That something of a bill has no price, which and how it gets one."""
    if not missing:
        return []
    more = f", and {len(missing) - 1} more (dimsweep bill shows all)" if len(missing) > 1 else ""
    cost = composed.choices.get("cost")
    return [f"cost={cost}: {missing[0]}{more}; so nothing is said about cost"]


def _unpriced_switches(composed: Composed, program: Program) -> list[str]:
    """Dimensions with switches in tiers that price links alone."""
    tiers, cost = composed.config.cost.tiers, composed.choices.get("cost")
    return [
        f"cost.tiers.{dim.tier} has no price of a switch in cost={cost}, so those of dimension "
        f"{name} cost nothing (cost.tiers.{dim.tier}.switch=... is a price)"
        for name, dim in zip(program.names.dims, program.cluster.topology.dims, strict=True)
        if "switch" in dim.block.parts and dim.size > 1 and tiers[dim.tier].switch is None
    ]
