"""Dimensions that are not provisioned for one another (see engine.provisioning)."""

import math

from dimsweep.engine import Program, units
from dimsweep.engine.rules import Pair, provisioning

_ENOUGH = 1.1  # within ten per cent of just enough


def verdict(provision: float) -> str:
    """What the outer dimension of a pair is, given how many times just enough it has."""
    if 1 / _ENOUGH <= provision <= _ENOUGH:
        return "just enough"
    return "over-provisioned" if provision > 1 else "under-provisioned"


def badly_provisioned(program: Program) -> list[str]:
    """For each group the pair of dimensions that is furthest from just enough, if any is far.

    An over-provisioned dimension is none under Themis, which gives it chunks of its own.
    """
    if program.communication.network.graph is not None:
        return []  # its links are not as wide as the dimensions say
    worst: dict[str, Pair] = {}
    own_orders = program.structure.shape.order > 0
    for pair in provisioning(program):
        provision = pair.provision(program.bandwidth)
        if verdict(provision) == "just enough" or (own_orders and provision > 1):
            continue
        known = worst.get(pair.group)
        if known is None or _distance(pair, program) > _distance(known, program):
            worst[pair.group] = pair
    return [_told(pair, program) for pair in worst.values()]


def _distance(pair: Pair, program: Program) -> float:
    return abs(math.log(pair.provision(program.bandwidth)))


def _told(pair: Pair, program: Program) -> str:
    provision, dims = pair.provision(program.bandwidth), program.names.dims
    enough = units.format_bandwidth(round(program.bandwidth[pair.outer] / provision, -5))
    if provision > 1:
        return (
            f"{pair.group}: dimension {dims[pair.outer]} is over-provisioned {provision:.3g} times "
            f"for what {dims[pair.inner]} feeds it; {enough} would do, or collective.order=themis"
        )
    most = units.format_bandwidth(round(program.bandwidth[pair.inner] * provision, -5))
    return (
        f"{pair.group}: dimension {dims[pair.outer]} is under-provisioned {1 / provision:.3g} "
        f"times for {dims[pair.inner]}, in any order of dimensions; give it {enough}, or the other "
        f"{most}"
    )
