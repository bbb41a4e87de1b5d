"""Dimensions that are not provisioned for one another (see engine.rules.balance)."""

import math

from dimsweep.engine import Program, units
from dimsweep.engine.rules import Pair, provisioning, worth

_ENOUGH = 1.1  # within ten per cent of just enough
_HARDLY = 0.01  # of an iteration: what is worth no more is not told


def verdict(provision: float) -> str:
    """What the outer dimension of a pair is, given how many times just enough it has."""
    if 1 / _ENOUGH <= provision <= _ENOUGH:
        return "just enough"
    return "over-provisioned" if provision > 1 else "under-provisioned"


def badly_provisioned(program: Program) -> list[str]:
    """For each group the pair of dimensions that is furthest from just enough, if that matters: an
    under-provisioned dimension whose bandwidth would make the iteration shorter, or an
    over-provisioned one that could have less at no loss.

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
    if not worst:
        return []
    pairs = list(worst.values())
    told = zip(pairs, worth(program, pairs).tolist(), strict=True)
    return [_told(pair, program, times) for pair, times in told if _matters(pair, program, times)]


def _distance(pair: Pair, program: Program) -> float:
    return abs(math.log(pair.provision(program.bandwidth)))


def _matters(pair: Pair, program: Program, times: float) -> bool:
    if pair.provision(program.bandwidth) > 1:
        return times < 1 + _HARDLY
    return times < 1 - _HARDLY


def _told(pair: Pair, program: Program, times: float) -> str:
    provision, dims = pair.provision(program.bandwidth), program.names.dims
    enough = units.format_bandwidth(round(pair.enough(program.bandwidth), -5))
    if provision > 1:
        longer = f"{times - 1:.1%} longer" if times > 1.0005 else "no longer"
        return (
            f"{pair.group}: dimension {dims[pair.outer]} is over-provisioned {provision:.3g} times "
            f"for what {dims[pair.inner]} feeds it: with {enough} an iteration would take {longer};"
            " collective.order=themis uses it"
        )
    return (
        f"{pair.group}: dimension {dims[pair.outer]} is under-provisioned {1 / provision:.3g} "
        f"times for {dims[pair.inner]}, in any order of dimensions: with {enough} an iteration "
        f"would take {1 - times:.1%} less"
    )
