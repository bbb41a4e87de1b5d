"""The attention half of a transformer layer: its kernels, collectives, activations and cache."""

from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.graph import ATTENTION_BACKWARD, Attention, Kernel, MatMul
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    ContextExchange,
    LayerBlock,
    Module,
    Shard,
    Step,
    WaitStep,
    elementwise,
    product,
)
from dimsweep.engine.workload.models.shape import AXIS, Region, TransformerShape

# --- context parallelism --------------------------------------------------------------------------
# Context parallelism: the exchange that gives a rank's queries all keys and values.
#
# Grattafiori et al., "The Llama 3 herd of models" (2024), section 3.3.2, gather all keys and
# values; Liu et al., "Ring attention" (2023), pass them round while the scores are computed;
# Jacobs et al., "DeepSpeed Ulysses" (2023), hand each rank some heads of all tokens.


_CONTEXT = "context"
_RING, _RING_BACK = "keys round", "gradients round"


def heads_and_rows(r: Region, heads: int, rows: int) -> tuple[int, int]:
    """Return the number of heads, and of queries for each head, whose scores one rank computes."""
    if r.shard.context_exchange is ContextExchange.ALL_TO_ALL:
        return heads // r.shard.context, rows * r.shard.context
    return heads, rows


def add_exchange(
    core: tuple[Step, ...],
    core_back: tuple[Step, ...],
    r: Region,
    keys: float,
    queries: float,
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the steps of attention, forward and backward, with context parallelism's collectives.

    ``core`` and ``core_back`` are the steps without them. ``keys`` are the bytes of the rank's keys
    and values, ``queries`` the bytes of its queries, and of its results.
    """
    n = r.shard.context
    if n == 1:
        return core, core_back
    if r.shard.context_exchange is ContextExchange.ALL_TO_ALL:
        there = CollectiveStep(Kind.ALL_TO_ALL, keys + queries, _CONTEXT)
        back = CollectiveStep(Kind.ALL_TO_ALL, queries, _CONTEXT)
        return (there, *core, back), (back, *core_back, there)
    if r.shard.context_exchange is ContextExchange.RING:
        gather = CollectiveStep(Kind.ALL_GATHER, keys, _CONTEXT, _RING)
        again = CollectiveStep(Kind.ALL_GATHER, keys, _CONTEXT, _RING_BACK)
        scatter = CollectiveStep(Kind.REDUCE_SCATTER, keys * n, _CONTEXT, _RING_BACK)
        return (gather, *core, WaitStep(_RING)), (again, scatter, *core_back, WaitStep(_RING_BACK))
    gather = CollectiveStep(Kind.ALL_GATHER, keys, _CONTEXT)
    return (gather, *core), (*core_back, CollectiveStep(Kind.REDUCE_SCATTER, keys * n, _CONTEXT))


# --- self-attention -------------------------------------------------------------------------------


def attention_block(model: TransformerShape, r: Region) -> LayerBlock:
    """Return the attention half of a layer (projections, scores, residual) as one rank runs it."""
    t, value, tokens = r.shard.tensor, r.value, r.tokens
    queries = model.heads * model.head // t
    projected = (model.heads + 2 * model.kv) * model.head // t
    norm, norm_back = r.norm("attention norm")
    residual, residual_back = r.residual("attention", dropout=model.dropout, bias=model.bias)
    into = r.linear("qkv", tokens, model.hidden, projected)
    out = r.linear("projection", tokens, queries, model.hidden)
    core, core_back, core_kept, core_gradients = _build_core(model, r)
    keys = value * tokens * 2 * model.kv * model.head / t  # bytes of the rank's keys and values
    core, core_back = _add_copies(core, core_back, r, value * tokens * queries, keys)
    around, around_back = add_exchange(core, core_back, r, keys, value * tokens * queries)
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
    selective, norm_again = r.shard.recomputes(Module.CORE), r.shard.recomputes(Module.NORM)
    qkv_again = r.shard.recomputes(Module.QKV)
    gradients = max(value * tokens * (projected + queries), core_gradients)
    return LayerBlock(
        "attention",
        forward,
        backward,
        again=(norm,) * norm_again
        + r.column(into) * qkv_again
        + core * selective
        + out.forward * r.shard.recomputes(Module.LINEAR)
        + r.row(out) * r.shard.recomputes(Module.PROJECTION),
        parameters=model.hidden * (projected + queries) + biases + norms,
        activations=(
            r.part_bytes
            + r.kept_bytes
            - norm_again * r.part_bytes
            + value * tokens * (projected * (not qkv_again) + queries)
            + (r.rows * model.hidden if model.dropout else 0)
            + (0 if selective else core_kept)
        ),
        transient=(
            r.buffer_bytes
            + gradients
            + core_kept * selective
            + r.part_bytes * norm_again
            + value * tokens * projected * qkv_again
        ),
        cache=_cache_bytes(model, r.shard),
    )


def _add_copies(
    core: tuple[Kernel, ...],
    core_back: tuple[Kernel, ...],
    r: Region,
    queries: float,
    keys: float,
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Add the copies by which eager PyTorch rearranges queries, keys and values.

    All are transposed; keys and values are joined and transposed again; queries are rotated into
    a copy, keys in place (``_forward_training`` of nanotron's ``models/llama.py``).
    """
    if not r.shard.eager:
        return core, core_back
    copies = elementwise("arrange", 2 * (queries + keys) + 4 * keys + 2 * queries + keys)
    return (copies, *core), (*core_back, copies._replace(name="arrange input_grad"))


def _cache_bytes(model: TransformerShape, shard: Shard) -> float:
    """Return the bytes of one layer's cached keys and values, for a rank's sequences and heads."""
    heads = model.kv / shard.tensor
    return (
        shard.value
        * shard.batch
        * _count_seen_tokens(model)
        / shard.context
        * 2
        * heads
        * model.head
    )


def _count_seen_tokens(model: TransformerShape) -> int:
    """Return the number of tokens that a sequence's last token attends to."""
    return min(model.window or model.sequence, model.sequence)


def _decode_kernel(model: TransformerShape, r: Region) -> Kernel:
    """Return the kernel in which each sequence's new query attends to all cached tokens."""
    heads, size = r.shard.batch * model.heads // r.shard.tensor, model.head
    seen = _count_seen_tokens(model)
    flops = 4.0 * heads * seen * size
    n_bytes = _cache_bytes(model, r.shard) + 2 * r.value * heads * size
    return _fused_kernels(flops, n_bytes, Attention(heads, 1, seen, size, causal=False))[0]


def _build_core(
    model: TransformerShape, r: Region
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...], float, float]:
    """Return the kernels of scores, softmax and values, forward and backward, and two byte counts.

    The first counts the bytes that are kept for the backward pass, the second the bytes of
    gradients.
    """
    shard, value, size = r.shard, r.value, model.head
    if shard.decode:
        return (_decode_kernel(model, r),), (), 0.0, 0.0
    heads = shard.batch * model.heads // shard.tensor
    rows = r.tokens // shard.batch  # of queries; all keys of the sequence
    heads, rows = heads_and_rows(r, heads, rows)
    columns = model.sequence
    if model.flash:
        return _build_fused(model, r, heads, rows)
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


def _build_fused(
    model: TransformerShape, r: Region, heads: float, rows: int
) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...], float, float]:
    """Return :func:`_build_core` of attention whose scores stay on the chip (FlashAttention).

    Dao et al., 2022: the backward pass computes the scores again, with five products instead of the
    forward pass's two. With a window of w of s tokens, a query attends to w (1 - w / 2s) keys on
    average, as many as in whole sequences of w (2 - w / s) tokens; kernels skip the blocks outside.
    """
    value, columns, size = r.value, model.sequence, model.head
    shared = heads * model.kv // model.heads
    n_bytes = value * size * (2 * heads * rows + 2 * shared * columns)
    kept = 4.0 * heads * rows  # a log-sum of each row
    met = columns * (0.5 if model.causal else 1.0)
    if (window := _count_seen_tokens(model)) < columns:
        met = window * (1 - 0.5 * window / columns)
        whole = round(2 * met)
        heads, rows, columns = heads * rows / whole, whole, whole
    flops = 4.0 * heads * rows * met * size
    forward, backward = _fused_kernels(
        flops, n_bytes, Attention(heads, rows, columns, size, model.causal)
    )
    return (forward,), (backward,), kept, 2 * n_bytes


def _fused_kernels(flops: float, n_bytes: float, shape: Attention) -> tuple[Kernel, Kernel]:
    """Return the forward and the backward kernel of attention whose scores stay on the chip."""
    products = MatMul(shape.heads, shape.rows, shape.size, shape.columns)
    return (
        Kernel("attention", flops, n_bytes, products, shape),
        Kernel(
            "attention input_grad",
            ATTENTION_BACKWARD * flops,
            2 * n_bytes,
            products,
            shape._replace(backward=True),
        ),
    )


# --- multi-head latent attention ------------------------------------------------------------------
# Queries, keys and values come from small latent vectors.
#
# DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1.  A token's hidden features are projected down to
# ``query_rank`` and ``kv_rank`` features (and ``rope`` features of a key that all heads share),
# which are normalised and projected up to the heads.  A head's queries and keys have ``head`` +
# ``rope`` features, its values ``head``.  Tensor-parallel ranks divide the heads; each projects its
# own tokens down, and the latent vectors are gathered.
#
# Only latent vectors are cached, and every tensor-parallel rank caches the same ones.  A new token
# does not project all cached vectors up: its queries are projected into their space instead, and
# the result is projected up (section 2.1.2's absorbed matrices, which DeepSeek's inference keeps
# factored).  The same weights are read in both cases.


def latent_attention_block(model: TransformerShape, r: Region) -> LayerBlock:
    """Return the multi-head latent attention half of a layer as one rank runs it."""
    value, tokens, t = r.value, r.tokens, r.shard.tensor
    heads, latent = model.heads // t, model.query_rank + model.kv_rank + model.rope
    norm, norm_back = r.norm("attention norm")
    residual, residual_back = r.residual("attention", dropout=model.dropout, bias=model.bias)
    down = r.linear("latent down", r.rows, model.hidden, latent)
    small = elementwise("latent norm", 2 * value * r.rows * latent)
    small_back = elementwise("latent norm input_grad", 3 * value * r.rows * latent)
    query = r.linear("query up", tokens, model.query_rank, heads * (model.head + model.rope))
    key = r.linear("key value up", tokens, model.kv_rank, heads * 2 * model.head)
    out = r.linear("projection", tokens, heads * model.head, model.hidden)
    core, core_back = _latent_core(model, r)
    queries = value * tokens * heads * (model.head + model.rope)
    keys = value * tokens * model.heads / t * (2 * model.head + model.rope)
    around, around_back = add_exchange((core,), (core_back,), r, keys, queries)
    attended = (
        _latent_decode_kernels(model, r, heads) if r.shard.decode else (*key.forward, *around)
    )
    latents = value * r.rows * latent  # bytes of the rank's own tokens
    gather: tuple[Step, ...] = ()
    scatter = r.reduce(latents)
    if r.is_divided:
        gather = (CollectiveStep(Kind.ALL_GATHER, latents, AXIS),)
        scatter = (CollectiveStep(Kind.REDUCE_SCATTER, latents * t, AXIS),)
    projected = heads * (2 * (model.head + model.rope) + model.head)  # queries, keys and values
    forward: tuple[Step, ...] = (
        norm, *down.forward, small, *gather, *query.forward,
        *attended, *r.row(out), residual,
    )  # fmt: skip
    backward: tuple[Step, ...] = (
        residual_back, *r.row_backward(out), *around_back, *key.backward,
        *query.backward, *scatter, small_back, *down.backward, norm_back,
    )  # fmt: skip
    selective, norm_again = r.shard.recomputes(Module.CORE), r.shard.recomputes(Module.NORM)
    qkv_again = r.shard.recomputes(Module.QKV)
    kept = 4.0 * heads * tokens
    return LayerBlock(
        "attention",
        forward,
        backward,
        again=(norm,) * norm_again
        + (*down.forward, small, *gather, *query.forward, *key.forward) * qkv_again
        + (core,) * selective
        + r.row(out) * r.shard.recomputes(Module.PROJECTION),
        parameters=(
            model.hidden * latent
            + heads
            * (model.query_rank * (model.head + model.rope) + model.kv_rank * 2 * model.head)
            + heads * model.head * model.hidden
            + model.hidden * (2 if model.bias else 1)
            + model.query_rank
            + model.kv_rank
        ),
        activations=(
            (2 - norm_again) * r.part_bytes
            + 2 * latents * (not qkv_again)
            + value * tokens * (projected * (not qkv_again) + heads * model.head)
            + kept * (not selective)
        ),
        transient=r.buffer_bytes + value * tokens * projected + kept + r.part_bytes * norm_again,
        cache=_latent_cache_bytes(model, r.shard),
    )


def _latent_cache_bytes(model: TransformerShape, shard: Shard) -> float:
    """Return the bytes of one layer's cached latent vectors and shared keys on a rank."""
    tokens = shard.batch * model.sequence // shard.context
    return shard.value * tokens * (model.kv_rank + model.rope)


def _latent_decode_kernels(model: TransformerShape, r: Region, heads: int) -> tuple[Kernel, ...]:
    """Return the kernels in which each sequence's new query attends to cached latent vectors."""
    value, rank, tokens, queries = r.value, model.kv_rank, r.tokens, r.tokens * heads
    shared = rank + model.rope  # features of the cache, which are keys, and values without rope's
    flops = 2.0 * queries * model.sequence * (shared + rank)
    n_bytes = _latent_cache_bytes(model, r.shard) + value * queries * (shared + rank)
    size = (shared + rank) // 2
    shape = Attention(queries, 1, model.sequence, size, causal=False)
    attended, _ = _fused_kernels(flops, n_bytes, shape)
    return (
        *r.linear("key up", tokens, model.head, rank, heads).forward,
        attended,
        *r.linear("value up", tokens, rank, model.head, heads).forward,
    )


def _latent_core(model: TransformerShape, r: Region) -> tuple[Kernel, Kernel]:
    """Return the forward and backward kernel of latent attention, whose scores stay on the chip.

    Queries and keys have more features than values; a kernel with the mean number of features has
    as many operations.
    """
    heads = r.shard.batch * model.heads // r.shard.tensor
    heads, rows = heads_and_rows(r, heads, r.tokens // r.shard.batch)
    columns = model.sequence
    size = model.head + model.rope // 2
    flops = 4.0 * heads * rows * columns * size * (0.5 if model.causal else 1.0)
    n_bytes = r.value * heads * 2 * size * (rows + columns)
    return _fused_kernels(flops, n_bytes, Attention(heads, rows, columns, size, model.causal))
