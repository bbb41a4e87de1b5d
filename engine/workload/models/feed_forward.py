"""The feed-forward half of a transformer layer: a dense network, or a mixture of experts."""

from collections.abc import Iterator

from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    LayerBlock,
    Module,
    Step,
    Task,
    elementwise,
    linear,
    product,
)
from dimsweep.engine.workload.models.shape import Region, TransformerShape

# --- dense ----------------------------------------------------------------------------------------
# Two matrices, or three when gated.


def dense_block(model: TransformerShape, r: Region) -> LayerBlock:
    """Return the feed-forward half of a layer without experts, as one rank runs it."""
    value, tokens, inner = r.value, r.tokens, model.inner // r.shard.tensor
    first = inner * (2 if model.gated else 1)
    norm, norm_back = r.norm("mlp norm")
    residual, residual_back = r.residual("mlp", dropout=model.dropout, bias=model.bias)
    network, network_back, activated, kept = _build_network(model, r, inner, "mlp", "activation")
    biases = first + model.hidden if model.bias else 0
    norms = model.hidden * (2 if model.bias else 1)
    norm_again, act_again = r.shard.recomputes(Module.NORM), r.shard.recomputes(Module.ACTIVATION)
    half_again = model.gated and r.shard.recomputes(Module.LINEAR)
    half = r.linear("mlp 1 half", tokens, model.hidden, inner).forward * half_again
    whole_again = r.shard.recomputes(Module.EXPANSION)
    whole = r.column(r.linear("mlp 1", tokens, model.hidden, first)) * whole_again
    made_again = r.part_bytes * (norm_again + r.shard.recomputes(Module.PROJECTION))
    made_again += value * tokens * (inner * (act_again + half_again) + first * whole_again)
    return LayerBlock(
        "mlp",
        (norm, *network, residual),
        (residual_back, *network_back, norm_back),
        again=(norm,) * norm_again + half + whole + (activated,) * act_again,
        parameters=model.hidden * (first + inner) + biases + norms,
        activations=(
            r.part_bytes
            + r.kept_bytes
            + kept
            + (r.rows * model.hidden if model.dropout else 0)
            - made_again
        ),
        transient=r.buffer_bytes + kept + made_again,
    )


def _build_network(
    model: TransformerShape, r: Region, inner: int, name: str, activation: str
) -> tuple[tuple[Step, ...], tuple[Step, ...], Kernel, float]:
    """Return the steps of a two-layer network with ``inner`` features between its layers.

    They are the forward steps and the backward steps. The activation's kernel follows, and the
    number of bytes that are kept for the backward pass.
    """
    first = inner * (2 if model.gated else 1)
    one = r.linear(f"{name} 1", r.tokens, model.hidden, first)
    two = r.linear(f"{name} 2", r.tokens, inner, model.hidden)
    kept = r.value * r.tokens * (first + inner)
    traffic, traffic_back = kept, kept + r.value * r.tokens * first
    if r.shard.eager and model.gated:
        # silu(gate) is written, kept, and read by the product with the other half; autograd reads
        # both halves' gradients and joins them.
        half = r.value * r.tokens * inner
        kept, traffic, traffic_back = kept + half, traffic + 2 * half, traffic_back + 7 * half
    activated = elementwise(activation, traffic)
    activated_back = elementwise(f"{activation} input_grad", traffic_back)
    forward = (*r.column(one), activated, *r.row(two))
    return (
        forward,
        (*r.row_backward(two), activated_back, *r.column_backward(one)),
        activated,
        kept,
    )


# --- experts --------------------------------------------------------------------------------------
# A mixture of experts replaces the feed-forward network.
#
# Lepikhin et al., "GShard" (2020): a router sends each token to ``top_k`` experts; an all-to-all
# over the expert-parallel ranks takes it there, and another one brings the results back.  The
# busiest rank gets ``imbalance`` times the mean number of tokens, and all wait for it.
#
# With uniformly chosen experts, a token misses one of E with probability 1 - ``top_k`` / E, so n
# tokens reach E (1 - (1 - ``top_k`` / E)^n) experts in expectation: two of Mixtral's eight for a
# single token, all of them for thousands.  Weights of the others are not read.


_FP32 = 4.0  # bytes


def expert_block(model: TransformerShape, r: Region) -> LayerBlock:
    """Return the feed-forward half of a layer with experts, as one rank runs it."""
    value, hidden, n = r.value, model.hidden, r.shard.expert
    inner = model.expert_inner // _expert_divisor(r)
    first = inner * (2 if model.gated else 1)
    sent = r.rows * model.top_k  # tokens that the rank's own tokens are copied to
    # Tokens that its experts get, from all ranks that cut them.
    come = _tokens_per_expert_share(r) * model.top_k * (model.capacity or model.imbalance)
    local = model.experts // n
    norm, norm_back = r.norm("mlp norm")
    residual, residual_back = r.residual("mlp", dropout=model.dropout, bias=model.bias)
    route, *route_back = linear("router", r.rows, hidden, model.experts, value)
    # The host needs the number of tokens of each expert before it can issue further kernels.
    route = route._replace(awaited=True)
    n_bytes = value * sent * hidden  # that leave the rank for experts
    there, back = _exchange(model, r, n_bytes, value * come * hidden)
    out, _ = _exchange(
        model, r, _sent_value_bytes(r) * sent * hidden, _sent_value_bytes(r) * come * hidden
    )
    work, work_back, activated = _expert_work(model, r, come)
    shared: tuple[Step, ...] = ()
    shared_back: tuple[Step, ...] = ()
    shared_kept = shared_parameters = 0.0
    if model.shared_experts:
        width = model.shared_experts * model.expert_inner
        shared, shared_back, _, shared_kept = _build_network(
            model, r, width // r.shard.tensor, "shared expert", "shared activation"
        )
        shared_parameters = hidden * (width / r.shard.tensor) * (3 if model.gated else 2)
    if model.capacity:  # the router's gradient is a product with all results of experts
        there = (there[0], *there)
    forward: tuple[Step, ...] = (norm, route, *shared, *out, *work, *back, residual)
    backward = (residual_back, *there, *work_back, *back, *shared_back, *route_back, norm_back)
    norms = hidden * (2 if model.bias else 1)
    norm_again, act_again = r.shard.recomputes(Module.NORM), r.shard.recomputes(Module.ACTIVATION)
    # The input of the activation is kept with its output, and both are recomputed together.
    limited = value * come * first * _has_clamp_kernels(model, r)
    whole_again = r.shard.recomputes(Module.EXPANSION)
    made_again = r.part_bytes * norm_again
    made_again += value * come * (first + inner) * whole_again
    made_again += (value * come * inner * (not whole_again) + limited) * act_again
    return LayerBlock(
        "experts",
        forward,
        backward,
        again=(norm,) * norm_again
        + (activated * act_again if not whole_again else (route, *shared, *out, *work, *back)),
        parameters=hidden * model.experts + norms + shared_parameters,
        expert_parameters=local * (hidden * (first + inner) + (first + hidden) * model.bias),
        activations=(
            2 * r.part_bytes
            + n_bytes
            + value * come * (first + inner)
            + limited
            + shared_kept * (not whole_again)
            + (r.rows * hidden if model.dropout else 0)
            - made_again
        ),
        transient=r.buffer_bytes + value * come * (first + inner) + made_again,
        # The gradients of one expert's weights, and the buffers of both all-to-alls.
        gradient_buffer=value * hidden * (first + inner) + (4 * n_bytes if n > 1 else 0),
    )


def _sent_value_bytes(r: Region) -> float:
    """Return the bytes of each value sent to experts; results and gradients may be wider."""
    return r.value if r.shard.dispatch_value is None else r.shard.dispatch_value


def _expert_divisor(r: Region) -> int:
    """Return the number of ranks among which each expert's weights are divided."""
    return 1 if r.shard.whole_experts else r.shard.tensor


def _tokens_per_expert_share(r: Region) -> int:
    """Return the tokens that a rank, or the ranks that divide an expert, send to all experts."""
    return r.tokens if _expert_divisor(r) > 1 else r.rows


def count_reached_experts(model: TransformerShape, r: Region) -> float:
    """Return the expected number of this rank's experts that receive at least one token."""
    missed = (1 - model.top_k / model.experts) ** (_tokens_per_expert_share(r) * r.shard.expert)
    return model.experts // r.shard.expert * (1 - missed)


def _exchange(
    model: TransformerShape, r: Region, n_bytes: float, whole: float
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the steps that send tokens to the experts, and the steps that return results.

    ``n_bytes`` are the bytes that a rank sends, ``whole`` the bytes that its experts receive. Each
    rank sorts its tokens by expert. Tokens from several ranks are sorted again if the rank has
    several experts.
    """
    permute = elementwise("permute", 2 * n_bytes)
    if model.capacity:
        taken = round(
            model.sequence * model.top_k * model.capacity
        )  # of a sequence, by all experts
        permute = product(
            "dispatch", r.rows / model.sequence, taken, model.sequence, model.hidden, r.value
        )
    gather, scatter = _gather_tokens(r, n_bytes, whole)
    there = tuple(_list_all_to_alls(model, r, n_bytes * model.imbalance))
    again = 1 < r.shard.expert < model.experts
    sort = (elementwise("sort", 2 * whole),) * again
    return (permute, *there, *gather, *sort), (*sort, *scatter, *there[::-1], permute)


def _list_all_to_alls(model: TransformerShape, r: Region, n_bytes: float) -> Iterator[Step]:
    """Yield the all-to-alls that send tokens to the experts' ranks, or first to their nodes.

    A router may be limited to a number of nodes (DeepSeek-V3's node-limited routing). Within a
    node, a token is then sent once to each rank that has experts for it, instead of to each expert.
    """
    n, ranks, each = r.shard.expert_nodes, r.shard.expert, n_bytes / model.top_k
    copies = _count_copies(ranks, model.top_k) if r.shard.experts_by_node else model.top_k
    if n > 1:
        met = min(_count_copies(n, model.top_k), r.shard.nodes_a_token or n)
        yield CollectiveStep(Kind.ALL_TO_ALL, each * met, "expert_nodes")
        if ranks > n:
            yield CollectiveStep(Kind.ALL_TO_ALL, each * copies, "expert_neighbours")
    elif ranks > 1:
        axis = "expert_ranks" if r.shard.whole_experts else "expert"
        yield CollectiveStep(Kind.ALL_TO_ALL, each * copies, axis)


def _count_copies(places: int, experts: int) -> float:
    """Return the expected number of ``places`` that hold some of a token's random ``experts``."""
    return places * (1 - (1 - 1 / places) ** experts)


def _expert_work(
    model: TransformerShape, r: Region, come: float
) -> tuple[tuple[Step, ...], tuple[Step, ...], tuple[Kernel, ...]]:
    """Return the local experts' steps, forward and backward, and the activation's kernels.

    ``come`` is the number of tokens that the rank's experts receive.
    """
    value, inner = r.value, model.expert_inner // _expert_divisor(r)
    first, met = inner * (2 if model.gated else 1), count_reached_experts(model, r)
    # As many tiles as rows fill, and one more for each expert but the first.
    each = (come + r.shard.expert_tile * (met - 1)) / met
    one = r.linear("expert 1", each, model.hidden, first, met)
    two = r.linear("expert 2", each, inner, model.hidden, met)
    activated = elementwise("activation", value * come * (first + inner))
    activated_back = elementwise("activation input_grad", value * come * (2 * first + inner))
    biased, biased_back = _bias_kernels(model, r, come)
    clamp, clamp_back = _clamp_kernels(model, r, value * come * first)
    act, act_back = (*clamp, activated), (activated_back, *clamp_back)
    forward = (*one.forward, *act, *two.forward, *biased)
    return forward, (*biased_back, *two.backward, *act_back, *one.backward), act


def _has_clamp_kernels(model: TransformerShape, r: Region) -> bool:
    """Return whether separate kernels clamp the activations' inputs."""
    return model.clamped and not r.shard.fused_experts and r.shard.task is Task.TRAINING


def _clamp_kernels(
    model: TransformerShape, r: Region, n_bytes: float
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Return the kernels that clamp the activations' inputs of ``n_bytes``, forward and backward.

    Megatron-Core clamps each half and joins them before its fused activation
    (``weighted_bias_quick_geglu_impl`` of ``fusions/fused_bias_geglu.py``): all is read and written
    twice. Autograd clamps the gradient of each half, for which it reads the gradient and the half,
    and joins them.
    """
    if not _has_clamp_kernels(model, r):
        return (), ()
    return (elementwise("clamp", 4 * n_bytes),), (elementwise("clamp input_grad", 5 * n_bytes),)


def _bias_kernels(
    model: TransformerShape, r: Region, come: float
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Return the kernels that add each expert's second bias, forward and backward.

    The bias is weighted like its ``come`` tokens. No product adds it. Megatron-Core multiplies and
    adds in fp32, expert by expert, joins the experts' tokens, and casts them (``_apply_bias`` of
    ``transformer/moe/experts.py``): four fp32 values are written and three read, and a token's
    value is read and written. Autograd casts the gradient there and back, and multiplies it once
    for the bias and once for the weight; both products are summed up.
    """
    if not model.bias or r.shard.fused_experts or r.shard.task is not Task.TRAINING:
        return (), ()
    values, value = come * model.hidden, r.value
    forward = elementwise("expert bias", (6 * _FP32 + 2 * value) * values)
    backward = elementwise("expert bias input_grad", (8 * _FP32 + 4 * value) * values)
    return (forward,), (backward,)


def _gather_tokens(
    r: Region, part: float, whole: float
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the collectives of ranks that divide an expert: to gather tokens, and to sum results.

    ``part`` are the bytes of one rank's tokens, ``whole`` the bytes of all results.
    """
    if _expert_divisor(r) == 1:
        return (), ()
    if r.is_divided:
        gather = CollectiveStep(Kind.ALL_GATHER, part, "tensor")
        return (gather,), (CollectiveStep(Kind.REDUCE_SCATTER, whole, "tensor"),)
    return (), (CollectiveStep(Kind.ALL_REDUCE, whole, "tensor"),)
