"""Context parallelism: how a rank's queries meet the keys and values of the whole sequence.

Grattafiori et al., "The Llama 3 herd of models" (2024), section 3.3.2, gather all keys and values;
Liu et al., "Ring attention" (2023), pass them round while the scores are computed; Jacobs et al.,
"DeepSpeed Ulysses" (2023), hand each rank some heads of all tokens.
"""

from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.models.parallel import Region
from dimsweep.engine.workload.models.rank import ContextExchange
from dimsweep.engine.workload.models.steps import CollectiveStep, Step, WaitStep

AXIS = "context"
_RING, _RING_BACK = "keys round", "gradients round"


def heads_and_rows(r: Region, heads: int, rows: int) -> tuple[int, int]:
    """Heads, and queries of each, whose scores a rank computes."""
    if r.shard.context_exchange is ContextExchange.ALL_TO_ALL:
        return heads // r.shard.context, rows * r.shard.context
    return heads, rows


def exchanged(
    core: tuple[Step, ...],
    core_back: tuple[Step, ...],
    r: Region,
    keys: float,
    queries: float,
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The core of the attention with what is exchanged around it: forward and backward.

    ``keys`` and ``queries`` are the bytes of the rank's own keys and values, and of its queries,
    which are as many as those of its results.
    """
    n = r.shard.context
    if n == 1:
        return core, core_back
    if r.shard.context_exchange is ContextExchange.ALL_TO_ALL:
        there = CollectiveStep(Kind.ALL_TO_ALL, keys + queries, AXIS)
        back = CollectiveStep(Kind.ALL_TO_ALL, queries, AXIS)
        return (there, *core, back), (back, *core_back, there)
    if r.shard.context_exchange is ContextExchange.RING:
        gather = CollectiveStep(Kind.ALL_GATHER, keys, AXIS, _RING)
        again = CollectiveStep(Kind.ALL_GATHER, keys, AXIS, _RING_BACK)
        scatter = CollectiveStep(Kind.REDUCE_SCATTER, keys * n, AXIS, _RING_BACK)
        return (gather, *core, WaitStep(_RING)), (again, scatter, *core_back, WaitStep(_RING_BACK))
    gather = CollectiveStep(Kind.ALL_GATHER, keys, AXIS)
    return (gather, *core), (*core_back, CollectiveStep(Kind.REDUCE_SCATTER, keys * n, AXIS))
