"""Self-attention: projections, scores, and what the backward pass keeps or computes again."""

from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.graph import ATTENTION_BACKWARD, Attention, Kernel, MatMul
from dimsweep.engine.workload.models.parallel import Region
from dimsweep.engine.workload.models.rank import ContextExchange, LayerBlock, Module, Shard
from dimsweep.engine.workload.models.shape import TransformerShape
from dimsweep.engine.workload.models.steps import (
    CollectiveStep,
    Step,
    WaitStep,
    elementwise,
    product,
)

# --- context parallelism --------------------------------------------------------------------------
# Context parallelism: how a rank's queries meet the keys and values of the whole sequence.
#
# Grattafiori et al., "The Llama 3 herd of models" (2024), section 3.3.2, gather all keys and
# values; Liu et al., "Ring attention" (2023), pass them round while the scores are computed;
# Jacobs et al., "DeepSpeed Ulysses" (2023), hand each rank some heads of all tokens.


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


# --- self-attention -------------------------------------------------------------------------------


def block(model: TransformerShape, r: Region) -> LayerBlock:
    """The attention half of a layer on one rank."""
    t, value, tokens = r.shard.tensor, r.value, r.tokens
    queries = model.heads * model.head // t
    projected = (model.heads + 2 * model.kv) * model.head // t
    norm, norm_back = r.norm("attention norm")
    residual, residual_back = r.residual("attention", dropout=model.dropout, bias=model.bias)
    into = r.linear("qkv", tokens, model.hidden, projected)
    out = r.linear("projection", tokens, queries, model.hidden)
    core, core_back, core_kept, core_gradients = _core(model, r)
    around, around_back = exchanged(core, core_back, r, _keys(model, r), value * tokens * queries)
    forward: tuple[Step, ...] = (
        norm,
        *r.column(into),
        *around,
        *r.row(out),
        residual,
    )
    backward: tuple[Step, ...] = (
        residual_back,
        *r.row_backward(out),
        *around_back,
        *r.column_backward(into),
        norm_back,
    )
    biases = projected + model.hidden if model.bias else 0
    norms = model.hidden * (2 if model.bias else 1)
    selective, norm_again = r.shard.again(Module.CORE), r.shard.again(Module.NORM)
    gradients = max(value * tokens * (projected + queries), core_gradients)
    return LayerBlock(
        "attention",
        forward,
        backward,
        again=(norm,) * norm_again + core * selective + out.forward * r.shard.again(Module.LINEAR),
        parameters=model.hidden * (projected + queries) + biases + norms,
        activations=(
            (2 - norm_again) * r.part
            + value * tokens * (projected + queries)
            + (r.rows * model.hidden if model.dropout else 0)
            + (0 if selective else core_kept)
        ),
        transient=r.passing + gradients + core_kept * selective + r.part * norm_again,
        cache=_cached(model, r.shard),
    )


def _cached(model: TransformerShape, shard: Shard) -> float:
    """Bytes of the keys and values of the rank's sequences, of its heads."""
    heads = model.kv / shard.tensor
    return shard.value * shard.batch * _seen(model) / shard.context * 2 * heads * model.head


def _seen(model: TransformerShape) -> int:
    """The tokens that the last one of a sequence sees."""
    return min(model.window or model.sequence, model.sequence)


def _decoded(model: TransformerShape, r: Region) -> Kernel:
    """One query of each sequence and head, which meets all of the cache."""
    heads, size = r.shard.batch * model.heads // r.shard.tensor, model.head
    seen = _seen(model)
    flops = 4.0 * heads * seen * size
    n_bytes = _cached(model, r.shard) + 2 * r.value * heads * size
    shape = Attention(heads, 1, seen, size, causal=False)
    return Kernel("attention", flops, n_bytes, MatMul(heads, 1, size, seen), shape)


def _keys(model: TransformerShape, r: Region) -> float:
    """Bytes of the rank's keys and values."""
    return r.value * r.tokens * 2 * model.kv * model.head / r.shard.tensor


def _core(
    model: TransformerShape, r: Region
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...], float, float]:
    """Scores, softmax and the weighted values: forward, backward, bytes kept between, and bytes of
    the largest gradients in the backward pass."""
    shard, value, size = r.shard, r.value, model.head
    if shard.decode:
        return (_decoded(model, r),), (), 0.0, 0.0
    heads = shard.batch * model.heads // shard.tensor
    rows = r.tokens // shard.batch  # of queries; all keys of the sequence
    heads, rows = heads_and_rows(r, heads, rows)
    columns = model.sequence
    if model.flash:
        return _fused(model, r, heads, rows)
    scores = float(heads * rows * columns)
    mask = scores if model.dropout else 0.0
    dropout = (elementwise("attention dropout", 2 * value * scores + mask),) * model.dropout
    dropout_back = (
        elementwise("attention dropout input_grad", 2 * value * scores + mask),
    ) * model.dropout
    # Kernels that mask scores on their way through the softmax take 16 bits only (Megatron-LM,
    # fused_softmax.py); wider ones are masked in memory, and so are their gradients.
    masked = (elementwise("mask", 2 * value * scores),) * (value > 2)
    masked_back = (elementwise("mask input_grad", 2 * value * scores),) * (value > 2)
    forward = (
        product("scores", heads, rows, size, columns, value),
        *masked,
        elementwise("softmax", 2 * value * scores),
        *dropout,
        product("values", heads, rows, columns, size, value),
    )
    backward = (
        product("values input_grad", heads, rows, size, columns, value),
        product("values weight_grad", heads, columns, rows, size, value),
        *dropout_back,
        elementwise("softmax input_grad", 3 * value * scores),
        *masked_back,
        product("scores input_grad", heads, rows, columns, size, value),
        product("scores weight_grad", heads, columns, rows, size, value),
    )
    kept = value * scores * (2 if model.dropout else 1) + mask
    return forward, backward, kept, 2 * value * scores


def _fused(
    model: TransformerShape, r: Region, heads: float, rows: int
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...], float, float]:
    """Scores that never leave the chip (Dao et al., FlashAttention, 2022): the backward pass
    computes them again, so it has five products to the forward pass's two.

    A window of w of s tokens leaves each query w (1 - w / 2s) keys in the mean, as many as whole
    sequences of w (2 - w / s) would: the blocks that kernels skip are those outside of these.
    """
    value, columns, size = r.value, model.sequence, model.head
    shared = heads * model.kv // model.heads
    n_bytes = value * size * (2 * heads * rows + 2 * shared * columns)
    kept = 4.0 * heads * rows  # a log-sum of each row
    met = columns * (0.5 if model.causal else 1.0)
    if (window := _seen(model)) < columns:
        met = window * (1 - 0.5 * window / columns)
        whole = round(2 * met)
        heads, rows, columns = heads * rows / whole, whole, whole
    flops = 4.0 * heads * rows * met * size
    shape = Attention(heads, rows, columns, size, model.causal)
    product_of = MatMul(heads, rows, size, columns)
    forward = Kernel("attention", flops, n_bytes, product_of, shape)
    backward = Kernel(
        "attention input_grad",
        ATTENTION_BACKWARD * flops,
        2 * n_bytes,
        product_of,
        shape._replace(backward=True),
    )
    return (forward,), (backward,), kept, 2 * n_bytes
