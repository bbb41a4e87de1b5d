"""Decoding Mixtral and DeepSeek-V3: FLOPs, bytes, caches and times against arithmetic from their
published dimensions, which is written out here and shares nothing with the model's."""

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveModel,
    Compute,
    Npu,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.workload.graph import Kernel
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.models.feed_forward import count_reached_experts
from dimsweep.engine.workload.models.model import Shard, Task
from dimsweep.engine.workload.models.shape import Region
from dimsweep.engine.workload.plan import DeviceMesh, Serving, serving

_PLAIN = {
    "gated": True, "bias": False, "dropout": False, "tied": False, "positions": False,
    "flash": True, "sequence": 4096,
}  # fmt: skip
MIXTRAL = Transformer(
    hidden=6144, layers=56, heads=48, kv_heads=8, ffn=16384, vocabulary=32768, experts=8, **_PLAIN
)
DEEPSEEK = Transformer(
    hidden=7168, layers=61, heads=128, head_size=128, ffn=18432, vocabulary=129280, query_rank=1536,
    kv_rank=512, rope=64, experts=256, top_k=8, expert_ffn=2048, shared_experts=1, dense_layers=3,
    **_PLAIN,
)  # fmt: skip
S = 4096
BANDWIDTH, PEAK = 3.35e12, 989e12  # of an H100 by its data sheet
Product = tuple[float, float, float, float]  # how many, rows, features in and out


def served(model: Transformer, batch: int, *, decode: bool = True, **degrees: int) -> Workload:
    ranks = 1
    for degree in degrees.values():
        ranks *= degree
    mesh = DeviceMesh.place(degrees, (ranks,))
    each = batch // mesh.degree("expert")
    return serving(model, Serving(batch=batch, micro_batch=each, decode=decode), mesh)


def kernels(workload: Workload) -> list[Kernel]:
    works = [o.work for o in workload.graphs[0]]
    return [k for work in works if isinstance(work, Compute) for k in work.kernels]


def flops(products: list[Product]) -> float:
    return sum(2 * n * m * k * w for n, m, k, w in products)


def n_bytes(products: list[Product]) -> float:
    """In 16 bits: both factors are read once, the result is written once."""
    return sum(2 * n * (m * k + k * w + m * w) for n, m, k, w in products)


def shared_out(copies: float, of: int, chosen: int, tokens: int, local: int) -> tuple[float, float]:
    """Experts that are reached, and rows of each."""
    n = local * (1 - ((of - chosen) / of) ** tokens)
    return n, copies / n


def mixtral(b: int, t: int, e: int = 1) -> tuple[list[Product], tuple[float, float]]:
    """Products of a rank of ``t`` tensor- and ``e`` expert-parallel ones that adds a token to each
    of its ``b`` sequences; and FLOPs and bytes of the attention."""
    n, rows = shared_out(2 * b, 8, 2, b * e, 8 // e)
    layer = [
        (1, b, 6144, (48 + 2 * 8) * 128 / t),
        (1, b, 48 * 128 / t, 6144),
        (1, b, 6144, 8),  # the router
        (n, rows, 6144, 2 * 16384 / t),
        (n, rows, 16384 / t, 6144),
    ]
    attention_flops = 2 * 2 * b * (48 / t) * 128 * S
    attention_bytes = 2 * b * (2 * (8 / t) * 128 * S + 2 * (48 / t) * 128)
    return layer * 56 + [(1, b, 6144, 32768 / t)], (56 * attention_flops, 56 * attention_bytes)


def deepseek(b: int, t: int, e: int = 1) -> tuple[list[Product], tuple[float, float]]:
    """As :func:`mixtral`; the attention is absorbed: queries and results of a head have 512
    features, and all heads read one latent vector of 512 and one key of 64 of each token."""
    heads = 128 / t
    n, rows = shared_out(8 * b, 256, 8, b * e, 256 // e)
    attention = [
        (1, b, 7168, 1536 + 512 + 64),
        (1, b, 1536, heads * (128 + 64)),
        (heads, b, 128, 512),
        (heads, b, 512, 128),
        (1, b, heads * 128, 7168),
    ]
    dense = [(1, b, 7168, 2 * 18432 / t), (1, b, 18432 / t, 7168)]
    experts = [
        (1, b, 7168, 256),
        (n, rows, 7168, 2 * 2048 / t),
        (n, rows, 2048 / t, 7168),
        (1, b, 7168, 2 * 2048 / t),
        (1, b, 2048 / t, 7168),
    ]
    met = 2 * b * heads * S * (512 + 64) + 2 * b * heads * S * 512
    read = 2 * (b * S * (512 + 64) + b * heads * (512 + 64) + b * heads * 512)
    products = attention * 61 + dense * 3 + experts * 58 + [(1, b, 7168, 129280 / t)]
    return products, (61 * met, 61 * read)


MODELS = pytest.mark.parametrize(
    ("model", "formula"), [(MIXTRAL, mixtral), (DEEPSEEK, deepseek)], ids=["mixtral", "deepseek"]
)


@MODELS
@pytest.mark.parametrize(("t", "e"), [(1, 1), (8, 1), (1, 8), (2, 4)])
@pytest.mark.parametrize("b", [1, 7, 8, 64])
def test_a_token_costs_what_the_dimensions_say(model, formula, b: int, t: int, e: int) -> None:
    ours = kernels(served(model, b * e, tensor=t, expert=e))
    products, (met, read) = formula(b, t, e)
    multiplied = [k for k in ours if k.matmul is not None]
    assert sum(k.flops for k in multiplied) == pytest.approx(flops(products) + met, rel=1e-9)
    assert sum(k.n_bytes for k in multiplied) == pytest.approx(n_bytes(products) + read, rel=1e-9)
    rest = sum(k.n_bytes for k in ours if k.matmul is None)
    assert rest < 0.05 * (n_bytes(products) + read), "norms, residuals and the like are small"


@MODELS
@pytest.mark.parametrize("b", [1, 8, 32])
def test_a_step_lasts_as_long_as_its_bytes_take(model, formula, b: int) -> None:
    """On one NPU that every kernel loads fully; decoding is bound by memory."""
    topology = Topology.build("Switch(1)", bandwidth=[1e11], latency=[0])
    npu = Npu(flops=PEAK, memory_bandwidth=BANDWIDTH)
    time = simulate(served(model, b), Cluster(topology, npu, CollectiveModel())).time
    products, (met, read) = formula(b, 1)
    least = sum(
        max(n_bytes([product]) / BANDWIDTH, flops([product]) / PEAK) for product in products
    ) + max(read / BANDWIDTH, met / PEAK)
    assert least < time < 1.02 * least


def test_few_tokens_read_few_experts() -> None:
    """Mixtral reads 2 of its 8 experts for a token, DeepSeek-V3 8 of its 256."""
    for model, times in ((MIXTRAL, 4), (DEEPSEEK, 32)):
        experts = model.layers - model.dense_layers
        all_of_them = experts * model.experts * 3 * model.hidden * model.expert_inner * 2.0
        ours = kernels(served(model, 1))
        read = sum(k.n_bytes for k in ours if k.name.startswith("expert"))
        assert read == pytest.approx(all_of_them / times, rel=1e-3)
    one, eight = (simulated_bytes(DEEPSEEK, b) for b in (1, 8))
    assert eight > 3 * one, "57 experts in the place of 8"


def simulated_bytes(model: Transformer, batch: int) -> float:
    return sum(k.n_bytes for k in kernels(served(model, batch)))


@pytest.mark.parametrize("batch", [1, 3, 7, 13])
def test_no_token_is_dropped(batch: int) -> None:
    """7 tokens of Mixtral are 14 rows for experts, however many experts there are."""
    ours = [k for k in kernels(served(MIXTRAL, batch)) if k.name.startswith("expert")]
    assert sum(k.flops for k in ours) == pytest.approx(
        56 * 2 * (2 * batch) * 3 * 6144 * 16384, rel=1e-9
    )


@pytest.mark.parametrize(("tensor", "gigabytes"), [(1, 4.6), (8, 4.6)])
def test_latent_vectors_are_cached_and_not_keys(tensor: int, gigabytes: float) -> None:
    """DeepSeek-V3's 61 layers keep 512 + 64 values of a token, on every tensor-parallel rank."""
    need = served(DEEPSEEK, 16, tensor=tensor).footprint
    assert need is not None
    assert need.activations == 16 * S * 61 * (512 + 64) * 2
    assert need.activations == pytest.approx(gigabytes * 1e9, rel=0.01)
    prompt = kernels(served(DEEPSEEK, 16, decode=False, tensor=tensor))
    assert sum(k.n_bytes for k in prompt if k.name == "cache") == need.activations


def test_keys_and_values_are_divided_among_tensor_parallel_ranks() -> None:
    for tensor in (1, 8):
        need = served(MIXTRAL, 16, tensor=tensor).footprint
        assert need is not None
        assert need.activations == 16 * S * 56 * 2 * (8 / tensor) * 128 * 2


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_prompt_has_the_logits_of_its_last_token(sequence_parallel: bool) -> None:
    mesh = DeviceMesh.place({"tensor": 8}, (8,))
    plan = Serving(batch=4, micro_batch=2, sequence_parallel=sequence_parallel)
    workload = serving(MIXTRAL, plan, mesh)
    ours = [k for k in kernels(workload) if k.name == "logits"]
    assert [k.flops for k in ours] == [2 * 2 * 6144 * 32768 / 8] * 2
    works = [o.work for o in workload.graphs[0] if isinstance(o.work, Collective)]
    handed_out = [w for w in works if w.n_bytes == 2 * 2 * 6144 / 8]
    assert len(handed_out) == 2 * sequence_parallel, "by the rank that has the sequence's end"


def tokens_of(n_experts: int, top_k: int, tokens: int, source: random.Random) -> int:
    chosen = set()
    for _ in range(tokens):
        chosen |= set(source.sample(range(n_experts), top_k))
    return len(chosen)


@pytest.mark.parametrize(("n_experts", "top_k", "tokens"), [(8, 2, 3), (256, 8, 16), (64, 6, 40)])
def test_experts_reached_are_those_that_dice_reach(n_experts, top_k, tokens) -> None:
    model = dataclasses.replace(MIXTRAL, experts=n_experts, top_k=top_k)
    r = Region(Shard(tokens, task=Task.DECODE), tokens, model.hidden)
    source = random.Random(1)
    mean = sum(tokens_of(n_experts, top_k, tokens, source) for _ in range(2000)) / 2000
    assert count_reached_experts(model, r) == pytest.approx(mean, rel=0.01)


@given(
    top_k=st.integers(1, 8),
    local=st.integers(1, 32),
    expert=st.sampled_from([1, 2, 8]),
    tokens=st.integers(1, 5000),
    imbalance=st.floats(1.0, 3.0),
)
def test_rows_are_shared_out(top_k, local, expert, tokens, imbalance) -> None:
    """Experts that are reached are no more than there are, nor than rows come; all rows come."""
    experts = local * expert
    top_k = min(top_k, experts)
    model = dataclasses.replace(MIXTRAL, experts=experts, top_k=top_k, imbalance=imbalance)
    shard = Shard(tokens, expert=expert, task=Task.DECODE)
    steps = model.for_rank(shard).layers[0].forward
    first = next(s for s in steps if isinstance(s, Kernel) and s.name == "expert 1")
    shape = first.matmul
    assert shape is not None
    assert 0 < shape.products <= local
    assert shape.m >= 1 - 1e-9
    assert shape.products * shape.m == pytest.approx(tokens * top_k * imbalance)
    more = Region(dataclasses.replace(shard, batch=tokens + 1), tokens + 1, model.hidden)
    assert count_reached_experts(model, more) >= shape.products
