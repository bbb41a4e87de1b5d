"""Tiers that nothing prices."""

from engine import Program
from sweeper.config.compose import Composed


def unpriced_tiers(composed: Composed, program: Program) -> list[str]:
    """A warning if tiers of the topology have no price, so that the whole network has none."""
    config = composed.config
    if program.prices is not None:
        return []
    priced = {name for name, price in config.cost.tiers.items() if price.link is not None}
    missing = [name for name in dict.fromkeys(config.topology.tiers) if name not in priced]
    if not missing:
        return []
    cost, others = composed.choices.get("cost"), ", ".join(sorted(priced)) or "no tier"
    return [
        f"topology.tiers: {', '.join(missing)} without a price in cost={cost}, so nothing is said "
        f"about cost; it prices {others} (cost.tiers.{missing[0]}.link=... is a price)"
    ]
