"""Multi-head latent attention: queries, keys and values come from small latent vectors.

DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1.  A token's hidden features are projected down to
``query_rank`` and ``kv_rank`` features (and ``rope`` features of a key that all heads share), which
are normalised and projected up to the heads.  A head's queries and keys have ``head`` + ``rope``
features, its values ``head``.  Tensor-parallel ranks divide the heads; each projects its own tokens
down, and the latent vectors are gathered.

Only latent vectors are cached, the same ones by every tensor-parallel rank.  A token that is added
does not project those of all tokens up: its queries are brought to the latent vectors' space, meet
them there, and what comes out is projected up (section 2.1.2's absorbed matrices, which DeepSeek's
inference keeps factored).  The weights are the same ones, so as many are read.
"""

from dimsweep.engine.kinds import CollectiveKind as Kind
from dimsweep.engine.workload.graph import ATTENTION_BACKWARD, Attention, Kernel, MatMul
from dimsweep.engine.workload.models.attention import exchanged, heads_and_rows
from dimsweep.engine.workload.models.parallel import AXIS, Region
from dimsweep.engine.workload.models.rank import LayerBlock, Module, Shard
from dimsweep.engine.workload.models.shape import TransformerShape
from dimsweep.engine.workload.models.steps import CollectiveStep, Step, elementwise


def block(model: TransformerShape, r: Region) -> LayerBlock:
    """The attention half of a layer on one rank."""
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
    core, core_back = _core(model, r)
    queries = value * tokens * heads * (model.head + model.rope)
    around, around_back = exchanged((core,), (core_back,), r, _keys(model, r), queries)
    attended = _decoded(model, r, heads) if r.shard.decode else (*key.forward, *around)
    latents = value * r.rows * latent  # bytes of the rank's own tokens
    projected = heads * (2 * (model.head + model.rope) + model.head)  # queries, keys and values
    forward: tuple[Step, ...] = (
        norm, *down.forward, small, *_gather(r, latents), *query.forward,
        *attended, *r.row(out), residual,
    )  # fmt: skip
    backward: tuple[Step, ...] = (
        residual_back, *r.row_backward(out), *around_back, *key.backward,
        *query.backward, *_scatter(r, latents), small_back, *down.backward, norm_back,
    )  # fmt: skip
    selective, norm_again = r.shard.again(Module.CORE), r.shard.again(Module.NORM)
    kept = 4.0 * heads * tokens
    return LayerBlock(
        "attention",
        forward,
        backward,
        again=(norm,) * norm_again + (core,) * selective,
        parameters=_parameters(model, heads, latent),
        activations=(
            (2 - norm_again) * r.part
            + 2 * latents
            + value * tokens * (projected + heads * model.head)
            + kept * (not selective)
        ),
        transient=r.passing + value * tokens * projected + kept + r.part * norm_again,
        cache=_cached(model, r.shard),
    )


def _cached(model: TransformerShape, shard: Shard) -> float:
    """Bytes of the latent vectors, and of the keys that heads share, of the rank's sequences."""
    tokens = shard.batch * model.sequence // shard.context
    return shard.value * tokens * (model.kv_rank + model.rope)


def _decoded(model: TransformerShape, r: Region, heads: int) -> tuple[Kernel, ...]:
    """One query of each sequence and of each of the rank's ``heads`` meets the latent vectors."""
    value, rank, tokens, queries = r.value, model.kv_rank, r.tokens, r.tokens * heads
    shared = rank + model.rope  # features of the cache, which are keys, and values without rope's
    flops = 2.0 * queries * model.sequence * (shared + rank)
    n_bytes = _cached(model, r.shard) + value * queries * (shared + rank)
    size = (shared + rank) // 2
    shape = Attention(queries, 1, model.sequence, size, causal=False)
    return (
        *r.linear("key up", tokens, model.head, rank, heads).forward,
        Kernel("attention", flops, n_bytes, MatMul(queries, 1, size, model.sequence), shape),
        *r.linear("value up", tokens, rank, model.head, heads).forward,
    )


def _parameters(model: TransformerShape, heads: int, latent: int) -> float:
    """Down, up and out; and the norms of the features and of the latent vectors."""
    up = model.query_rank * (model.head + model.rope) + model.kv_rank * 2 * model.head
    weights = model.hidden * latent + heads * up + heads * model.head * model.hidden
    return weights + model.hidden * (2 if model.bias else 1) + model.query_rank + model.kv_rank


def _core(model: TransformerShape, r: Region) -> tuple[Kernel, Kernel]:
    """Scores that never leave the chip, as in :mod:`engine.workload.models.attention`; queries and
    keys have more features than values, and a kernel of their mean has as many operations."""
    heads = r.shard.batch * model.heads // r.shard.tensor
    heads, rows = heads_and_rows(r, heads, r.tokens // r.shard.batch)
    columns = model.sequence
    size = model.head + model.rope // 2
    flops = 4.0 * heads * rows * columns * size * (0.5 if model.causal else 1.0)
    n_bytes = r.value * heads * 2 * size * (rows + columns)
    shape = Attention(heads, rows, columns, size, causal=model.causal)
    product = MatMul(heads, rows, size, columns)
    back = shape._replace(backward=True)
    return (
        Kernel("attention", flops, n_bytes, product, shape),
        Kernel("attention input_grad", ATTENTION_BACKWARD * flops, 2 * n_bytes, product, back),
    )


def _gather(r: Region, n_bytes: float) -> tuple[Step, ...]:
    return (CollectiveStep(Kind.ALL_GATHER, n_bytes, AXIS),) if r.cut else ()


def _scatter(r: Region, n_bytes: float) -> tuple[Step, ...]:
    if r.cut:
        return (CollectiveStep(Kind.REDUCE_SCATTER, n_bytes * r.shard.tensor, AXIS),)
    return (CollectiveStep(Kind.ALL_REDUCE, n_bytes, AXIS),) if r.shard.tensor > 1 else ()


def _keys(model: TransformerShape, r: Region) -> float:
    return r.value * r.tokens * model.heads / r.shard.tensor * (2 * model.head + model.rope)
