"""Models from their dimensions: parameters, FLOPs and activations against what is published."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import CollectiveKind, DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.engine.workload.graph import Kernel, MatMul
from dimsweep.engine.workload.models import ConvNet, Dlrm, Gnmt, TensorOverlap, Transformer
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    Graphs,
    LayerBlock,
    Module,
    RankModel,
    Recompute,
    Shard,
    Step,
    Task,
    WaitStep,
)
from tests.support.refused import refused

GPT3 = Transformer(12288, 96, 96, 2048, vocabulary=51200)
LLAMA70 = Transformer(
    8192,
    80,
    64,
    8192,
    ffn=28672,
    kv_heads=8,
    vocabulary=128256,
    gated=True,
    bias=False,
    dropout=False,
    tied=False,
    positions=False,
    flash=True,
)
MIXTRAL = dataclasses.replace(
    LLAMA70,
    hidden=6144,
    layers=56,
    heads=48,
    sequence=4096,
    ffn=16384,
    vocabulary=32768,
    experts=8,
)
LATENT = Transformer(
    7168, 61, 128, 4096, ffn=18432, vocabulary=129280, gated=True, bias=False, dropout=False,
    tied=False, positions=False, flash=True, head_size=128, query_rank=1536, kv_rank=512, rope=64,
    experts=256, top_k=8, expert_ffn=2048, shared_experts=1, dense_layers=3,
)  # fmt: skip


def flops_of(steps: Iterable[Step]) -> float:
    return sum(step.flops for step in steps if isinstance(step, Kernel))


def blocks(network: RankModel) -> tuple[LayerBlock, ...]:
    return (*network.front, *network.layers, *network.back)


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        # Their papers, model cards and reference implementations.
        (GPT3, 174.6),
        (LATENT, 671.0),  # DeepSeek-V3
        (
            dataclasses.replace(
                LATENT,
                hidden=5120,
                layers=60,
                ffn=12288,
                vocabulary=102400,
                experts=160,
                top_k=6,
                expert_ffn=1536,
                shared_experts=2,
                dense_layers=1,
            ),
            235.7,  # DeepSeek-V2
        ),
        (Transformer(5120, 40, 40, 2048, vocabulary=51200), 12.86),
        (Transformer(6144, 48, 64, 2048, vocabulary=51200), 22.07),
        (Transformer(20480, 105, 128, 2048, vocabulary=51200), 529.6),
        (Transformer(25600, 128, 160, 2048, vocabulary=51200), 1008.0),
        (LLAMA70, 70.55),
        (
            dataclasses.replace(LLAMA70, hidden=16384, layers=126, heads=128, ffn=53248),
            405.9,
        ),
        (MIXTRAL, 140.6),
        (ConvNet("resnet50"), 0.02556),
        (ConvNet("resnet152"), 0.06019),
        (ConvNet("vgg16"), 0.13836),
        (Transformer(1280, 32, 16, 257, patch=588, classes=1000, causal=False), 0.632),
    ],
)
def test_parameters_are_those_published(model: Transformer | ConvNet, billions: float) -> None:
    assert model.parameters / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "multiply_adds"), [("resnet50", 4.09e9), ("resnet152", 11.5e9), ("vgg16", 15.5e9)]
)
def test_convolutions_cost_what_their_papers_say(name: str, multiply_adds: float) -> None:
    network = ConvNet(name).for_rank(Shard(batch=1))
    assert sum(flops_of(b.forward) for b in blocks(network)) / 2 == pytest.approx(
        multiply_adds, rel=0.01
    )


@pytest.mark.parametrize("model", [GPT3, Transformer(6144, 48, 64, 2048, vocabulary=51200)])
def test_flops_are_those_of_megatrons_formula(model: Transformer) -> None:
    """Narayanan et al. (SC 2021), appendix: 24 B s l h^2 (1 + s/6h + V/16lh), forward alone."""
    h, layers, s, v = model.hidden, model.layers, model.sequence, model.vocabulary
    formula = 24 * s * layers * h**2 * (1 + s / (6 * h)) + 2 * s * h * v
    network = model.for_rank(Shard(batch=1))
    assert sum(flops_of(b.forward) for b in blocks(network)) == pytest.approx(formula)
    assert sum(flops_of(b.backward) for b in blocks(network)) == pytest.approx(2 * formula)


@pytest.mark.parametrize(
    ("shard", "values"),
    [
        # Korthikanti et al. (MLSys 2023), table 2: bytes a layer over s b h.
        (Shard(1), lambda t, core: 34 + core),
        (Shard(1, tensor=8), lambda t, core: 10 + 24 / t + core / t),
        (Shard(1, tensor=8, sequence_parallel=True), lambda t, core: (34 + core) / t),
        (
            Shard(1, tensor=8, sequence_parallel=True, recompute=Recompute.SELECTIVE),
            lambda t, core: 34 / t,
        ),
        (Shard(1, tensor=8, recompute=Recompute.FULL), lambda t, core: 2),
    ],
)
def test_activations_are_those_of_table_2(shard: Shard, values: object) -> None:
    assert callable(values)
    layer = GPT3.for_rank(shard).layers[0]
    core = 5 * GPT3.heads * GPT3.sequence / GPT3.hidden
    per_token = values(shard.tensor, core)
    assert layer.activations == pytest.approx(per_token * GPT3.sequence * GPT3.hidden)


@pytest.mark.parametrize("model", [GPT3, LLAMA70, MIXTRAL])
def test_tensor_parallel_ranks_share_the_work(model: Transformer) -> None:
    one = model.for_rank(Shard(batch=2)).layers[0]
    eight = model.for_rank(Shard(batch=2, tensor=8, sequence_parallel=True)).layers[0]
    for whole, part in ((one.forward, eight.forward), (one.backward, eight.backward)):
        assert 8 * flops_of(part) == pytest.approx(flops_of(whole))


def test_the_backward_pass_costs_twice_the_forward_pass() -> None:
    for model in (GPT3, MIXTRAL, ConvNet("resnet50"), Gnmt(), DLRM):
        for block in blocks(model.for_rank(Shard(batch=4))):
            products = [
                sum(s.flops for s in steps if isinstance(s, Kernel) and s.matmul)
                for steps in (block.forward, block.backward)
            ]
            flash = isinstance(model, Transformer) and model.flash  # which computes scores again
            if not flash:
                assert products[1] == pytest.approx(2 * products[0]), block.name


DLRM = Dlrm((512, 512, 256, 64), (512, 1024, 1024, 512, 1), 64, 1000, 64)


def test_tables_are_divided_and_perceptrons_are_not() -> None:
    whole, part = (DLRM.for_rank(Shard(64, expert=n)).layers[0] for n in (1, 8))
    assert part.expert_parameters * 8 == whole.expert_parameters == 64 * 1000 * 64
    assert part.parameters == whole.parameters


def moved_bytes(blocks: Iterable[LayerBlock], kind: type[Any] = Kernel) -> dict[str, float]:
    """Bytes of the kernels or collectives of all passes, by name or label."""
    moved: dict[str, float] = defaultdict(float)
    for block in blocks:
        for step in (*block.forward, *block.backward):
            if isinstance(step, kind):
                moved[step.name if kind is Kernel else step.label] += step.n_bytes
    return moved


def test_hot_tables_are_divided_among_more_ranks() -> None:
    """Four ranks look up 10 vectors of a sample each: 30 of the third table are in three parts."""
    model = Dlrm((8, 16), (8, 1), 3, (100, 1000, 500), 16, (4, 6, 30))
    (block,) = model.for_rank(Shard(2, expert=4)).layers
    sent = moved_bytes([block], CollectiveStep)["embeddings"] / 2  # forward and backward
    assert sent == 2.0 * 2 * 16 * (1 + 1 + 3)
    assert block.expert_parameters == 1600 * 16 / 4
    rows = min(25, 8) + min(250, 12) + min(125, 60)  # two samples of each of four ranks
    assert block.reached_parameters(1) == rows * 16


def test_one_table_on_several_ranks_sends_one_vector_of_a_sample() -> None:
    (block,) = Dlrm((8, 16), (8, 1), 1, 1000, 16).for_rank(Shard(2, expert=4)).layers
    assert moved_bytes([block], CollectiveStep)["embeddings"] / 2 == 2.0 * 2 * 16


def test_copied_tables_send_nothing_and_are_held_by_all() -> None:
    model = Dlrm((8, 16), (8, 1), 2, (10, 1000), 16, copied_rows=10)
    plain = dataclasses.replace(model, copied_rows=0)
    (one,), (all_divided,) = (each.for_rank(Shard(4, expert=2)).layers for each in (model, plain))
    assert one.parameters - all_divided.parameters == 10 * 16
    assert one.expert_parameters == 1000 * 16 / 2
    assert moved_bytes([one], CollectiveStep)["embeddings"] == 2 * 2.0 * 4 * 16
    everything = dataclasses.replace(model, copied_rows=1000).for_rank(Shard(4, expert=2))
    assert not moved_bytes(everything.layers, CollectiveStep)
    assert model.parameters == plain.parameters


def test_a_cross_layer_has_two_matrices_of_low_rank() -> None:
    model = Dlrm((13, 128), (128, 1), 26, 1000, 128)
    crossed = dataclasses.replace(model, cross_layers=3, cross_rank=512)
    features = 27 * 128
    more = 3 * features * (2 * 512 + 1) + features - (128 + 27 * 13)
    assert crossed.parameters - model.parameters == more
    kernels = [k for k in crossed.for_rank(Shard(4)).layers[0].forward if isinstance(k, Kernel)]
    flops = sum(k.flops for k in kernels if k.name.startswith("cross"))
    assert flops == 3 * 2 * 2 * 4 * features * 512


def test_fused_dlrm_reads_fp32_tables_and_overlaps_the_exchange_of_gradients() -> None:
    plain = Dlrm((8, 16), (8, 4, 1), 2, 1000, 16)
    model = dataclasses.replace(plain, fused=True).for_rank(Shard(4, expert=2))
    moved = moved_bytes((*model.front, *model.layers))
    assert moved["lookup"] == 4 * 2 * 16 * (4 + 2)
    assert not [name for name in moved if name.endswith("activation")]
    assert [block.name for block in (*model.front, *model.layers)] == ["embeddings", "interaction"]
    unfused = moved_bytes(plain.for_rank(Shard(4, expert=2)).layers)
    assert unfused["lookup"] == 4 * 2 * 16 * (2 + 2)
    assert moved["embedding weight_grad"] < unfused["embedding weight_grad"]


LLAMA8 = Transformer(
    4096, 2, 32, 8192, ffn=14336, kv_heads=8, vocabulary=128256, gated=True, bias=False, flash=True
)


@pytest.mark.parametrize(
    ("again", "flops"),
    [
        ({Module.QKV}, 4096 * 6144),
        ({Module.PROJECTION}, 4096 * 4096),
        ({Module.EXPANSION}, 4096 * 2 * 14336),
        ({Module.QKV, Module.EXPANSION}, 4096 * (6144 + 2 * 14336)),
    ],
)
def test_modules_that_maxtext_names_are_computed_again(again: set[Module], flops: int) -> None:
    plain, block = (
        LLAMA8.for_rank(Shard(1, recompute_modules=frozenset(some))).layers[0]
        for some in (set(), again)
    )
    assert sum(k.flops for k in block.again if isinstance(k, Kernel)) == 2 * 8192 * flops
    assert block.activations < plain.activations


def test_experts_are_computed_again_as_a_whole() -> None:
    """The gradients of the router need what the experts made, so all of it is made again."""
    shard = Shard(1, recompute_modules=frozenset({Module.EXPANSION}))
    block = MIXTRAL.for_rank(shard).layers[0]
    plain = MIXTRAL.for_rank(Shard(1)).layers[0]
    names = {k.name for k in block.again if isinstance(k, Kernel)}
    assert {"router", "expert 1", "activation", "expert 2"} <= names
    assert block.activations < plain.activations


def test_dropped_tokens_are_sorted_by_products() -> None:
    """One product sorts, one joins; of joining, both factors have gradients."""
    block = dataclasses.replace(MIXTRAL, capacity=1.25).for_rank(Shard(2)).layers[0]
    n = MIXTRAL.sequence
    each = 2.0 * 2 * (n * 2 * 1.25) * n * MIXTRAL.hidden
    found = [
        [k for k in steps if isinstance(k, Kernel) and k.name == "dispatch"]
        for steps in (block.forward, block.backward)
    ]
    assert [len(kernels) for kernels in found] == [2, 3]
    assert {k.flops for kernels in found for k in kernels} == {each}
    work = sum(k.flops for k in block.forward if isinstance(k, Kernel) and "expert" in k.name)
    plain = MIXTRAL.for_rank(Shard(2)).layers[0].forward
    assert work == 1.25 * sum(
        k.flops for k in plain if isinstance(k, Kernel) and "expert" in k.name
    )


def test_tiles_that_two_experts_share_are_computed_twice() -> None:
    plain, padded = (
        sum(
            k.flops
            for k in MIXTRAL.for_rank(Shard(1, expert_tile=tile)).layers[0].forward
            if isinstance(k, Kernel) and "expert" in k.name
        )
        for tile in (0, 512)
    )
    rows = 2 * MIXTRAL.sequence
    assert padded / plain == pytest.approx(1 + 7 * 512 / rows)


def test_fused_convolutions_move_less() -> None:
    """Norms make 0 and 4 passes inside a block and 3 and 5 at its end; unfused 4 and 5."""
    plain, fused = (
        ConvNet("resnet50", fused=fused).for_rank(Shard(2)).layers[1] for fused in (False, True)
    )
    size = 2.0 * 2 * 56 * 56
    moved = [moved_bytes([block]) for block in (plain, fused)]
    assert moved[0]["1x1 activation"] == 4 * 64 * size
    assert "1x1 activation" not in moved[1]
    assert moved[1]["1x1 activation input_grad"] == 4 * 64 * size
    assert moved[1]["1x1 out activation"] == 3 * 256 * size
    assert moved[1]["1x1 out activation input_grad"] == 5 * 256 * size
    assert fused.activations < plain.activations
    assert fused.parameters == plain.parameters


@pytest.mark.parametrize(
    ("model", "shard", "where"),
    [
        (GPT3, Shard(1, tensor=5), "parallel.tensor"),
        (LLAMA70, Shard(1, tensor=16), "parallel.tensor"),  # 8 key-value heads
        (GPT3, Shard(1, context=3), "parallel.context"),
        (GPT3, Shard(1, expert=2), "parallel.expert"),
        (ConvNet("vgg16"), Shard(1, tensor=2), "parallel.tensor"),
    ],
)
def test_a_degree_that_does_not_divide_is_named(model: object, shard: Shard, where: str) -> None:
    with pytest.raises(DimsweepError) as error:
        model.for_rank(shard)  # type: ignore[attr-defined]
    assert error.value.where == where


@pytest.mark.parametrize(
    ("make", "where", "code"),
    [
        (lambda: Transformer(0, 1, 1, 1), "hidden", "out-of-range"),
        (lambda: Transformer(100, 1, 3, 1), "heads", "mismatch"),
        (lambda: Transformer(96, 1, 4, 1, kv_heads=3), "kv_heads", "mismatch"),
        (lambda: Transformer(96, 1, 4, 1, experts=2, top_k=3), "top_k", "out-of-range"),
        (lambda: ConvNet("resnet51"), "network_name", "unknown-name"),
        (lambda: ConvNet("resnet50", image=200), "image", "mismatch"),
        (lambda: Dlrm((4,), (4, 1), 1, 1, 4), "bottom", "out-of-range"),
        (lambda: Dlrm((4, 8), (4, 1), 1, 1, 4), "bottom", "mismatch"),
        (lambda: Dlrm((4, 8), (8, 1), 2, (5,), 8), "rows", "mismatch"),
        (lambda: Dlrm((4, 8), (8, 1), 2, 0, 8), "rows", "out-of-range"),
        (lambda: Dlrm((4, 8), (8, 1), 2, 5, 8, (1, 0)), "lookups", "out-of-range"),
        (lambda: Gnmt(layers=0), "layers", "out-of-range"),
    ],
)
def test_a_model_that_cannot_be_is_named(make: object, where: str, code: Code) -> None:
    assert callable(make)
    with refused(where, code):
        make()


@pytest.mark.parametrize("narrow", ["int8", "fp8", "fp8_block", "mxfp8", "nvfp4"])
def test_narrow_precision_is_that_of_a_layers_linear_products_alone(narrow: str) -> None:
    wide, slim = (GPT3.for_rank(Shard(batch=1, narrow=n)) for n in ("", narrow))
    named = {"qkv", "projection", "mlp 1", "mlp 2"}
    for block, plain in zip((*slim.layers, *slim.back), (*wide.layers, *wide.back), strict=True):
        kernels = [k for k in (*block.forward, *block.backward) if isinstance(k, Kernel)]
        products = {k for k in kernels if k.precision}
        layer = block.name == "layer"
        whole = {f"{name}{part}" for name in named for part in ("", " input_grad", " weight_grad")}
        assert {k.name for k in products} == (whole if layer else set())
        assert all(k.precision == narrow for k in products)
        casts = [k for k in kernels if k.name.endswith(" cast")]
        assert len(casts) == (8 if layer else 0), "of each input, and of each output's gradient"
        same = [k for k in kernels if k not in products and k not in casts]
        assert same == [
            k
            for k in (*plain.forward, *plain.backward)
            if isinstance(k, Kernel) and (k.name not in whole or not layer)
        ]


def test_overlapped_tensor_parallelism_moves_the_same_bytes_beside_the_products() -> None:
    shard = Shard(batch=1, tensor=8, sequence_parallel=True)
    plain, beside = (
        GPT3.for_rank(dataclasses.replace(shard, overlap_tensor=o)).layers[0]
        for o in (TensorOverlap.NONE, TensorOverlap.PIECES)
    )
    for before, after in ((plain.forward, beside.forward), (plain.backward, beside.backward)):
        sent = [
            sum(s.n_bytes for s in steps if isinstance(s, CollectiveStep) and s.kind is kind)
            for kind in (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)
            for steps in (before, after)
        ]
        assert sent[0] == sent[1] and sent[2] == pytest.approx(sent[3])
        kernels = [[s for s in steps if isinstance(s, Kernel)] for steps in (before, after)]
        work = [(sum(k.flops for k in own), sum(k.n_bytes for k in own)) for own in kernels]
        assert work[0] == pytest.approx(work[1])
        assert len(kernels[0]) == sum(k.launched for k in kernels[1]), "one call issues all pieces"
    pieces = [s.matmul for s in beside.forward if isinstance(s, Kernel) and s.name == "qkv"]
    assert pieces == [MatMul(1, 2048 // 8, 12288, 3 * 12288 // 8)] * 8
    blocking = [s for s in beside.forward if isinstance(s, CollectiveStep) and not s.label]
    whole = 2048 * 12288 * 2
    assert [s.n_bytes for s in blocking] == [whole / 8] * 2, "the last pieces of two results"


def test_without_overlap_no_collective_goes_beside_a_product() -> None:
    shard = Shard(batch=1, tensor=8, overlap_tensor=TensorOverlap.NONE)
    assert not [s for s in GPT3.for_rank(shard).layers[0].backward if isinstance(s, WaitStep)]


@pytest.mark.parametrize(("wide", "share"), [(False, 0.5), (True, 1.0)])
def test_sequence_parallelism_gathers_what_is_cast_already(wide: bool, share: float) -> None:
    shard = Shard(batch=1, tensor=8, sequence_parallel=True)
    plain = GPT3.for_rank(shard).layers[0]
    narrow = GPT3.for_rank(dataclasses.replace(shard, narrow="fp8", wide_gathers=wide)).layers[0]

    def sent(steps: tuple[object, ...], kind: CollectiveKind) -> float:
        return sum(s.n_bytes for s in steps if isinstance(s, CollectiveStep) and s.kind is kind)

    for before, after in ((plain.forward, narrow.forward), (plain.backward, narrow.backward)):
        gathered = sent(before, CollectiveKind.ALL_GATHER)
        assert sent(after, CollectiveKind.ALL_GATHER) == share * gathered
        summed = sent(before, CollectiveKind.REDUCE_SCATTER)
        assert sent(after, CollectiveKind.REDUCE_SCATTER) == summed, "sums are not narrow"


def test_eager_pytorch_runs_copies_and_the_loss_in_memory() -> None:
    """Bytes of nanotron's kernels: 18 values of a token's feature to arrange queries, keys and
    values, one more half of a gated network kept, and 52 bytes of each logit."""
    llama = dataclasses.replace(
        GPT3, hidden=4096, heads=32, head_size=128, ffn=16384, gated=True, flash=True
    )

    def network(**keys: Any) -> RankModel:
        return llama.for_rank(Shard(batch=1, **keys))

    def traffic(block: LayerBlock) -> dict[str, float]:
        steps = (*block.forward, *block.backward)
        return {k.name: k.n_bytes for k in steps if isinstance(k, Kernel)}

    fused, eager = network(), network(eager=True)
    features, logits = llama.sequence * llama.hidden, llama.sequence * llama.vocabulary
    found, before = traffic(eager.layers[0]), traffic(fused.layers[0])
    assert found["arrange"] == found["arrange input_grad"] == 2 * 18 * features
    halves = 2 * 4 * features  # of gate and input, in bytes
    assert found["activation"] - before["activation"] == 2 * halves
    assert found["activation input_grad"] - before["activation input_grad"] == 7 * halves
    assert eager.layers[0].activations - fused.layers[0].activations == halves
    loss = traffic(eager.back[0])
    assert loss["loss"] + loss["loss input_grad"] == 52 * logits
    assert eager.back[0].activations - fused.back[0].activations == (12 - 4) * logits


def test_eager_pytorch_keeps_what_it_gathers() -> None:
    shard = Shard(batch=1, tensor=8, sequence_parallel=True)
    fused, eager = (
        GPT3.for_rank(dataclasses.replace(shard, eager=eager)).layers[0] for eager in (False, True)
    )

    def gathers(steps: Sequence[Step]) -> int:
        return sum(
            isinstance(s, CollectiveStep) and s.kind is CollectiveKind.ALL_GATHER for s in steps
        )

    assert gathers(eager.forward) == gathers(fused.forward) == 2
    assert (gathers(fused.backward), gathers(eager.backward)) == (4, 2)
    whole = 2 * GPT3.sequence * GPT3.hidden
    assert eager.activations - fused.activations == pytest.approx(2 * whole * 7 / 8)


def test_graphs_of_layers_launch_all_kernels_or_those_up_to_the_router() -> None:
    shard = Shard(batch=1, tensor=1, expert=8)
    dense, routed = LATENT.for_rank(shard).launched_by(Graphs.LAYER).layers[::60]
    assert all(k.graphed for k in (*dense.forward, *dense.backward) if isinstance(k, Kernel))
    forward = [step for step in routed.forward if isinstance(step, Kernel)]
    issued = [k.name for k in forward if not k.graphed]
    assert (
        issued[0] == "shared expert 1" and "router" not in issued and "residual" not in issued[:3]
    )
    assert [k.awaited for k in forward if k.graphed][-1]
    late = [k.name for k in routed.backward if isinstance(k, Kernel) and k.graphed]
    assert late[:2] == ["router input_grad", "router weight_grad"]
    for graphs in (Graphs.STEP, Graphs.NONE):  # the plan marks a whole step
        assert LATENT.for_rank(shard).launched_by(graphs) == LATENT.for_rank(shard)


def test_a_token_activates_37_billion_parameters_of_deepseek_v3() -> None:
    """DeepSeek-AI, "DeepSeek-V3" (2024), section 1; the embedding is looked up, not multiplied."""
    network = LATENT.for_rank(Shard(batch=1))
    products = [
        step
        for block in blocks(network)
        for step in block.forward
        if isinstance(step, Kernel) and step.attention is None
    ]
    active = sum(step.flops for step in products) / 2 / LATENT.sequence
    assert active + LATENT.vocabulary * LATENT.hidden == pytest.approx(37.5e9, rel=0.01)


def test_a_further_token_costs_deepseek_v3_a_layer_and_logits() -> None:
    """11.5B parameters that the main model has not (its repository's README_WEIGHTS); Megatron
    counts 260 GFLOP for a token with it, 249.6 without (Megatron-Bridge's tables)."""
    further = dataclasses.replace(LATENT, mtp_layers=1)
    assert further.parameters - LATENT.parameters == pytest.approx(11.5e9, rel=0.02)
    shard = Shard(batch=1)

    def flops(model: Transformer) -> float:
        network = model.for_rank(shard)
        return sum(flops_of((*b.forward, *b.backward)) for b in blocks(network)) / model.sequence

    assert (flops(further) - flops(LATENT)) / 1e9 == pytest.approx(260.0 - 249.6, rel=0.05)
    network = further.for_rank(dataclasses.replace(shard, tensor=2))
    assert [block.name for block in network.back] == ["mtp", "logits", "logits"]
    assert network.tied == LATENT.vocabulary * LATENT.hidden / 2, "who predicts it looks it up"


def test_biases_of_experts_are_weighted_in_memory() -> None:
    """GPT-OSS in Megatron-Core: 28 bytes of each value forward and 40 backward, unless one kernel
    has all experts."""
    model = dataclasses.replace(MIXTRAL, bias=True)

    def traffic(model: Transformer, **keys: bool) -> list[float]:
        layer = model.for_rank(Shard(batch=1, **keys)).layers[0]  # type: ignore[arg-type]
        steps = (*layer.forward, *layer.backward)
        return [k.n_bytes for k in steps if isinstance(k, Kernel) and "expert bias" in k.name]

    values = 2 * model.sequence * model.hidden  # of two experts a token
    assert traffic(model) == [28 * values, 40 * values]
    assert not traffic(MIXTRAL) and not traffic(model, fused_experts=True)


def test_what_activations_of_experts_get_is_limited_in_memory() -> None:
    """GPT-OSS in Megatron-Core: both halves are read and written, and joined; so are gradients,
    beside which each half is read.  Made again with the activation, it is not kept."""
    model = dataclasses.replace(MIXTRAL, clamped=True)

    def layer(model: Transformer, **keys: Any) -> LayerBlock:
        return model.for_rank(Shard(batch=1, **keys)).layers[0]

    def traffic(steps: Sequence[Step]) -> list[float]:
        return [k.n_bytes for k in steps if isinstance(k, Kernel) and k.name.startswith("clamp")]

    given, plain = layer(model), layer(MIXTRAL)
    n_bytes = 2 * 2 * model.sequence * 2 * model.inner  # of two experts a token
    assert traffic(given.forward) == [4 * n_bytes]
    assert traffic(given.backward) == [5 * n_bytes] and not traffic(given.again)
    assert given.activations - plain.activations == n_bytes
    again = layer(model, recompute_modules=frozenset({Module.ACTIVATION}))
    assert traffic(again.again) == [4 * n_bytes]
    assert again.activations == given.activations - n_bytes * 3 / 2
    assert layer(model, fused_experts=True) == layer(MIXTRAL, fused_experts=True)
    assert layer(model, task=Task.PREFILL) == layer(MIXTRAL, task=Task.PREFILL)
    with refused("clamped", "conflict", "experts"):
        dataclasses.replace(MIXTRAL, experts=0, clamped=True)


def attention_of(model: Transformer, layer: int = 0, **keys: Any) -> Kernel:
    steps = model.for_rank(Shard(batch=1, **keys)).layers[layer].forward
    (kernel,) = (step for step in steps if isinstance(step, Kernel) and step.name == "attention")
    return kernel


@given(window=st.integers(1, 4096), context=st.sampled_from([1, 2, 4]))
def test_a_window_leaves_each_query_the_keys_in_it(window: int, context: int) -> None:
    """Pairs of queries and keys, counted by lines of a triangle as without a window: half the
    square, less what lies before the window.  Whoever looks their time up sees as many queries
    in shorter sequences."""
    whole = attention_of(MIXTRAL, context=context)
    kernel = attention_of(dataclasses.replace(MIXTRAL, window=window), context=context)
    length = MIXTRAL.sequence
    pairs = length**2 / 2 - (length - window) ** 2 / 2
    assert kernel.flops / whole.flops == pytest.approx(pairs / (length**2 / 2))
    assert kernel.n_bytes == whole.n_bytes, "every key is in some query's window"
    looked_up, given = kernel.attention, whole.attention
    assert looked_up is not None and given is not None and looked_up.causal
    assert looked_up.heads * looked_up.rows == pytest.approx(given.heads * given.rows)
    assert looked_up.columns == pytest.approx(2 * pairs / length, abs=0.5)


def test_windows_leave_out_layers_by_their_pattern() -> None:
    """GPT-OSS: 128 tokens in the first layer, all in the second; Mistral: a window in every one."""
    model = dataclasses.replace(MIXTRAL, window=128, window_pattern=2)
    cut, whole, *_ = (attention_of(model, layer) for layer in range(4))
    assert whole == attention_of(MIXTRAL) and cut.flops < whole.flops / 15
    layers = model.for_rank(Shard(batch=1)).layers
    assert layers == (layers[0], layers[1]) * (model.layers // 2)
    every = dataclasses.replace(model, window_pattern=0).for_rank(Shard(batch=1)).layers
    assert every == (layers[0],) * model.layers
    dense = dataclasses.replace(model, dense_layers=3).for_rank(Shard(batch=1)).layers
    assert len(set(map(id, dense))) == 4 and dense[4:] == layers[4:]
    assert dataclasses.replace(MIXTRAL, window=4096).for_rank(Shard(1)) == MIXTRAL.for_rank(
        Shard(1)
    )


def test_a_window_limits_what_is_kept_for_the_next_token() -> None:
    model = dataclasses.replace(MIXTRAL, window=128, window_pattern=2)
    cut, whole = model.for_rank(Shard(batch=1, task=Task.DECODE)).layers[:2]
    assert cut.cache * 32 == whole.cache > 0
    seen = [attention_of(model, layer, task=Task.DECODE).flops for layer in (0, 1)]
    assert seen[0] * 32 == seen[1]


@pytest.mark.parametrize(("model", "key"), [(GPT3, "flash"), (LATENT, "kv_rank")])
def test_a_window_needs_kernels_that_skip_what_is_outside(model: Transformer, key: str) -> None:
    with refused("window", "conflict", key):
        dataclasses.replace(model, window=128)


def test_the_busiest_expert_makes_all_wait() -> None:
    shard = Shard(batch=1, expert=8)
    even = LATENT.for_rank(shard).layers[-1]
    uneven = dataclasses.replace(LATENT, imbalance=1.5).for_rank(shard).layers[-1]

    def exchanged(block: LayerBlock) -> float:
        return sum(
            step.n_bytes
            for step in block.forward
            if isinstance(step, CollectiveStep) and step.kind is CollectiveKind.ALL_TO_ALL
        )

    assert exchanged(uneven) == pytest.approx(1.5 * exchanged(even))
    experts = [
        sum(
            step.flops
            for step in block.forward
            if isinstance(step, Kernel) and step.name.startswith("expert")
        )
        for block in (even, uneven)
    ]
    assert experts[1] == pytest.approx(1.5 * experts[0], rel=1e-3)


def test_latent_attention_needs_latent_queries() -> None:
    with refused("kv_rank", "conflict", "query_rank"):
        dataclasses.replace(LATENT, query_rank=0)
