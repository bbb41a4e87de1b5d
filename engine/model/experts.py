"""A mixture of experts in the place of the feed-forward network.

Lepikhin et al., "GShard" (2020): a router sends each token to ``top_k`` experts; an all-to-all over
the expert-parallel ranks takes it there, and another one brings the results back.  Experts are
taken to be evenly loaded.
"""

from __future__ import annotations

from engine.kinds import CollectiveKind as Kind
from engine.model.parallel import Region
from engine.model.rank import LayerBlock
from engine.model.shape import TransformerShape
from engine.model.steps import CollectiveStep, Step, elementwise, linear


def block(model: TransformerShape, r: Region) -> LayerBlock:
    """The feed-forward half of a layer with experts, on one rank."""
    value, hidden, n = r.value, model.hidden, r.shard.expert
    inner = model.inner // r.shard.tensor
    first = inner * (2 if model.gated else 1)
    sent = r.rows * model.top_k  # tokens that the rank's own tokens are copied to
    come = r.tokens * model.top_k  # tokens that its experts get, from all tensor-parallel ranks
    local = model.experts // n
    each = max(1, come // local)
    norm, norm_back = r.norm("mlp norm")
    residual, residual_back = r.residual("mlp", dropout=model.dropout)
    route, *route_back = linear("router", r.rows, hidden, model.experts, value)
    n_bytes = value * sent * hidden  # that leave the rank for experts
    permute = elementwise("permute", 2 * n_bytes)
    exchange: tuple[Step, ...] = (
        (CollectiveStep(Kind.ALL_TO_ALL, n_bytes, "expert"),) if n > 1 else ()
    )
    gather, scatter = _tensor(r, n_bytes, value * come * hidden)
    one = r.linear("expert 1", each, hidden, first, local)
    two = r.linear("expert 2", each, inner, hidden, local)
    activated = elementwise("activation", value * come * (first + inner))
    activated_back = elementwise("activation input_grad", value * come * (2 * first + inner))
    there: tuple[Step, ...] = (permute, *exchange, *gather)
    back: tuple[Step, ...] = (*scatter, *exchange, permute)
    work: tuple[Step, ...] = (*one.forward, activated, *two.forward)
    forward: tuple[Step, ...] = (norm, route, *there, *work, *back, residual)
    backward: tuple[Step, ...] = (
        residual_back,
        *there,
        *two.backward,
        activated_back,
        *one.backward,
        *back,
        *route_back,
        norm_back,
    )
    norms = hidden * (2 if model.bias else 1)
    return LayerBlock(
        "experts",
        forward,
        backward,
        parameters=hidden * model.experts + norms,
        expert_parameters=local * hidden * (first + inner),
        activations=(
            2 * r.part
            + n_bytes
            + value * come * (first + inner)
            + (r.rows * hidden if model.dropout else 0)
        ),
    )


def _tensor(r: Region, part: float, whole: float) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Every tensor-parallel rank of an expert needs all of its tokens, and holds a part of it."""
    if r.shard.tensor == 1:
        return (), ()
    if r.cut:
        gather = CollectiveStep(Kind.ALL_GATHER, part, "tensor")
        return (gather,), (CollectiveStep(Kind.REDUCE_SCATTER, whole, "tensor"),)
    return (), (CollectiveStep(Kind.ALL_REDUCE, whole, "tensor"),)
