"""Parallel plans: what each stage runs, what it sends, and how long the pipeline takes."""

import dataclasses
import itertools
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimsweepError,
    InfeasibleError,
    NetworkModel,
    Npu,
    Receive,
    Send,
    Topology,
    Workload,
    lower,
    simulate,
)
from dimsweep.engine.network import Mesh
from dimsweep.engine.workload import Kernel
from dimsweep.engine.workload.models import (
    ContextExchange,
    Graphs,
    Module,
    Recompute,
    TensorOverlap,
    Transformer,
)
from dimsweep.engine.workload.plan import (
    DeviceMesh,
    GradientExchange,
    ParallelPlan,
    Schedule,
    Serving,
    Stack,
    serving,
    training,
    training_footprint,
)
from dimsweep.engine.workload.plan.plan import Held
from dimsweep.engine.workload.plan.schedule import Action, actions
from dimsweep.engine.workload.plan.training import optimizer_bytes
from tests.support.examples import examples
from tests.support.refused import refused

SMALL = Transformer(64, 8, 8, 32, vocabulary=128)
EXPERTS = Transformer(
    64, 8, 8, 32, vocabulary=128, experts=4, flash=True, dropout=False, bias=False
)  # fmt: skip
LATENT = dataclasses.replace(
    EXPERTS, gated=True, kv_rank=16, query_rank=24, rope=4, shared_experts=1, expert_ffn=32,
    dense_layers=2,
)  # fmt: skip
A100 = Npu(312e12, 2039e9)


def mesh(sizes: tuple[int, ...], **degrees: int | str) -> DeviceMesh:
    return DeviceMesh.place({**degrees, "data": "rest"}, sizes)


def cluster(
    sizes: tuple[int, ...], bandwidth: float = 1e10, latency: int = 1000, npu: Npu = A100
) -> Cluster:
    shape = "_".join(f"Switch({n})" for n in sizes)
    topology = Topology.build(
        shape, bandwidth=[bandwidth] * len(sizes), latency=[latency] * len(sizes)
    )
    return Cluster(topology, npu, CollectiveModel(chunks=2))


# --- schedules ----------------------------------------------------------------------------------


# Schedules of whole backward passes; test_zero_bubble.py has the other one.
WHOLE = (Schedule.GPIPE, Schedule.ONE_F_ONE_B)


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, int]:
    n_stages = draw(st.integers(1, 6))
    n_chunks = draw(st.integers(1, 3)) if n_stages > 1 else 1
    rounds = draw(st.integers(1, 4))
    n = rounds * n_stages if n_chunks > 1 else draw(st.integers(1, 12))
    return {"n_stages": n_stages, "n_chunks": n_chunks, "n_micro_batches": n}


@given(pipelines(), st.sampled_from(WHOLE))
def test_every_pass_runs_once_and_backward_after_forward(
    pipeline: dict[str, int], schedule: Schedule
) -> None:
    for stage in range(pipeline["n_stages"]):
        order = actions(schedule, stage=stage, **pipeline)
        every = {
            Action(backward, m, c)
            for backward in (False, True)
            for m in range(pipeline["n_micro_batches"])
            for c in range(pipeline["n_chunks"])
        }
        assert len(order) == len(every)
        assert set(order) == every
        place_of = {action: i for i, action in enumerate(order)}
        assert all(place_of[a._replace(backward=False)] <= i for a, i in place_of.items())


@given(st.integers(1, 8), st.integers(1, 20))
def test_one_f_one_b_bounds_what_is_in_flight(n_stages: int, n: int) -> None:
    for stage in range(n_stages):
        order = actions(
            Schedule.ONE_F_ONE_B, stage=stage, n_stages=n_stages, n_chunks=1, n_micro_batches=n
        )
        flight = worst = 0
        for action in order:
            flight += -1 if action.backward else 1
            worst = max(worst, flight)
        assert worst == min(n, n_stages - stage)


@pytest.mark.parametrize("schedule", WHOLE)
@pytest.mark.parametrize(("p", "v", "n"), [(1, 1, 5), (4, 1, 8), (4, 2, 8), (2, 4, 6)])
def test_the_bubble_is_that_of_the_formula(schedule: Schedule, p: int, v: int, n: int) -> None:
    """Without communication an iteration takes n (f + b) and a bubble of (p - 1) (f + b) / v, where
    f and b are a stage's whole passes (Narayanan et al., SC 2021)."""
    model = Transformer(64, 8, 8, 32)  # nothing before and after the layers
    time = _compute_only(model, p, v, n, schedule)
    optimizer = _optimizer(model) / p
    two = _compute_only(model, 1, 1, 2, schedule) / p  # of one there is no sum of gradients
    whole = (two - optimizer) / 2  # a stage's, both ways
    chunks = 1 if schedule is Schedule.GPIPE and v > 1 else v
    expected = (n + (p - 1) / chunks) * whole + optimizer
    if schedule is Schedule.GPIPE and v > 1:
        assert time <= expected * 1.0001  # GPipe's chunks overlap as far as they can
    else:
        assert time == pytest.approx(expected, rel=1e-4)


def _compute_only(model: Transformer, p: int, v: int, n: int, schedule: Schedule) -> float:
    plan = ParallelPlan(batch=n, schedule=schedule, interleave=v)
    workload = training(model, plan, mesh((p,), pipeline=p))
    return simulate(workload, cluster((p,), bandwidth=1e18, latency=0)).time


def _optimizer(model: Transformer) -> float:
    return model.parameters * optimizer_bytes(ParallelPlan(batch=1)) / 2039e9


# --- what is computed and sent ------------------------------------------------------------------


def collective_bytes(workload: Workload, group: str) -> dict[CollectiveKind, float]:
    """By kind, of all stages' ranks together."""
    totals: dict[CollectiveKind, float] = {}
    for graph in workload.graphs:
        for operator in graph:
            work = operator.work
            if isinstance(work, Collective) and work.group == group:
                totals[work.kind] = totals.get(work.kind, 0.0) + work.n_bytes
    return totals


def flops(workload: Workload) -> float:
    return sum(
        kernel.flops
        for graph in workload.graphs
        for operator in graph
        if isinstance(operator.work, Compute)
        for kernel in operator.work.kernels
    )


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_zero_moves_what_its_paper_says(zero: int) -> None:
    """Psi parameters: reduce-scatter and all-gather move Psi each, and stage 3 one all-gather more
    (Rajbhandari et al., 2020, section 7), for every micro-batch from stage 2 and 3 on."""
    n_micro, n = 2, 4
    plan = ParallelPlan(batch=n_micro * n, zero=zero, bucket=1e4)
    moved = collective_bytes(training(SMALL, plan, mesh((n,))), "replicas")
    psi = 2.0 * SMALL.parameters
    if zero == 0:
        assert moved == {CollectiveKind.ALL_REDUCE: pytest.approx(psi)}
        return
    times = n_micro if zero >= 2 else 1
    assert moved[CollectiveKind.REDUCE_SCATTER] == pytest.approx(psi * times)
    gathers = 2 * n_micro if zero == 3 else 1
    assert moved[CollectiveKind.ALL_GATHER] == pytest.approx(psi / n * gathers)


def test_whole_sums_are_reduced_by_all_though_each_updates_its_part() -> None:
    plan = ParallelPlan(batch=4, zero=1, whole_sums=True)
    moved = collective_bytes(training(SMALL, plan, mesh((4,))), "replicas")
    psi = 2.0 * SMALL.parameters
    assert moved == pytest.approx(
        {CollectiveKind.ALL_REDUCE: psi, CollectiveKind.ALL_GATHER: psi / 4}
    )
    with refused("whole_sums", "infeasible"):
        ParallelPlan(batch=4, zero=2, whole_sums=True)


def test_divided_weights_gradients_go_block_by_block() -> None:
    """FSDP exchanges the gradients of a block while the next block runs, whatever the bucket."""
    plan = ParallelPlan(batch=4, zero=3, bucket=1e12)
    (graph,) = training(SMALL, plan, mesh((4,))).graphs
    sums = [o for o in graph if getattr(o.work, "kind", None) is CollectiveKind.REDUCE_SCATTER]
    assert len(sums) == SMALL.layers + 2  # the embedding and the logits are blocks, too


@pytest.mark.parametrize("overlap_gradients", [True, False])
@pytest.mark.parametrize("zero", [1, 3])
def test_groups_of_neighbours_divide_and_sum_up_with_their_copies(
    zero: int, overlap_gradients: bool
) -> None:
    """Two nodes of four: each node divides the weights, and gathers them without the network."""
    sizes, psi = (4, 2), 2.0 * SMALL.parameters
    plan = ParallelPlan(batch=8, zero=zero, shard_ranks=4, overlap_gradients=overlap_gradients)
    workload = training(SMALL, plan, mesh(sizes))
    assert workload.groups["shards"].sizes == (4, 1)
    assert workload.groups["copies"].sizes == (1, 2)
    moved = {group: collective_bytes(workload, group) for group in ("shards", "copies", "replicas")}
    gathers = 2 if zero == 3 else 1
    assert moved["shards"] == {
        CollectiveKind.REDUCE_SCATTER: pytest.approx(psi),
        CollectiveKind.ALL_GATHER: pytest.approx(psi / 4 * gathers),
    }
    assert moved["copies"] == {CollectiveKind.ALL_REDUCE: pytest.approx(psi / 4)}
    assert not moved["replicas"]
    whole = training(SMALL, dataclasses.replace(plan, shard_ranks=0), mesh(sizes))
    assert workload.footprint is not None
    assert whole.footprint is not None
    assert workload.footprint.optimizer == pytest.approx(2 * whole.footprint.optimizer)
    where = cluster(sizes)
    assert simulate(workload, where).time_ps == simulate(workload, where, fold=False).time_ps
    with refused("plan.shard_ranks", "infeasible", "3"):
        training(SMALL, dataclasses.replace(plan, shard_ranks=3), mesh(sizes))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # What DeepSpeed 0.6 allocates, in bytes a parameter: a bucket, and the gradients that are
        # joined at the update; with sums in fp32 the gradients as they come.
        ({"zero": 0}, 2 + 8),
        ({"zero": 1}, 2 + (2 + 4) / 4),
        ({"zero": 1, "gradient_value": 4.0}, 4 + 2),
        ({"zero": 0, "value": 4.0, "gradient_value": 4.0}, 4),
    ],
)
def test_deepspeed_holds_flat_buffers(keys: dict[str, Any], expected: float) -> None:
    plans = [ParallelPlan(16, stack=stack, **keys) for stack in (Stack.DEEPSPEED, Stack.MEGATRON)]
    ours, megatron = (training_footprint(SMALL, plan, mesh((4,))) for plan in plans)
    n, largest = ours.weights / plans[0].value, 0.0
    if plans[0].gradient_value > plans[0].value:
        largest = 4 * 12.25 * 64**2  # that of a layer's weights, in fp32
    assert megatron.buffers == 0
    assert ours.total - megatron.total == ours.buffers
    assert ours.buffers == pytest.approx(expected * n + largest, rel=0.01)


@pytest.mark.parametrize(("ranks", "k"), [(2, 8), (4, 8), (8, 8), (8, 2), (16, 1)])
def test_a_token_goes_once_to_each_rank_of_a_node(ranks: int, k: int) -> None:
    model = dataclasses.replace(UNTIED, experts=16, top_k=k)
    placed = DeviceMesh.place({"expert": ranks}, (ranks,))

    def sent(*, by_node: bool) -> float:
        plan = ParallelPlan(batch=ranks, experts_by_node=by_node)
        workload = training(model, plan, placed)
        return collective_bytes(workload, "expert")[CollectiveKind.ALL_TO_ALL]

    copies = ranks * (1 - (1 - 1 / ranks) ** k)
    assert sent(by_node=True) == pytest.approx(sent(by_node=False) * copies / k)
    assert copies <= min(ranks, k)


def test_eager_pytorch_holds_the_gradients_of_all_weights() -> None:
    plans = [ParallelPlan(16, eager=eager) for eager in (False, True)]
    fused, eager = (training_footprint(UNTIED, plan, mesh((4,))) for plan in plans)
    assert eager.buffers - fused.buffers == eager.weights
    assert eager.activations > fused.activations


def test_a_bucket_of_deepspeed_has_half_a_billion_gradients() -> None:
    held = Held(2e9, 1e8, 5e8, is_cut=True, value=2.0, gradient=2.0)
    assert Stack.DEEPSPEED.flat_buffers(held) == 1e9 + 6 * 5e8
    assert Stack.FSDP.flat_buffers(held) == 0


def _buckets(stack: Stack, kind: CollectiveKind, **keys: object) -> list[list[int]]:
    """Parameters that the replicas exchange at once, for each of two stages."""
    plan = ParallelPlan(batch=16, micro_batch=1, zero=1, stack=stack, **keys)  # type: ignore[arg-type]
    model = dataclasses.replace(SMALL, hidden=1024, vocabulary=8192, tied=False)
    graphs = training(model, plan, mesh((4, 2), pipeline=2)).graphs
    each = 2 * (4 if kind is CollectiveKind.ALL_GATHER else 1) ** -1
    works = [[getattr(o, "work", None) for o in graph] for graph in graphs]
    return [
        [round(w.n_bytes / each) for w in own if isinstance(w, Collective) and w.kind is kind]
        for own in works
    ]


@pytest.mark.parametrize("kind", [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER])
def test_every_stack_has_its_own_buckets(kind: CollectiveKind) -> None:
    """A layer has 12.6 million parameters, the embedding 8.4, and each of two chunks of a stage two
    layers: Megatron-Core cuts its first stage's first chunk only, and that at 40 million."""
    ahead = kind is CollectiveKind.ALL_GATHER

    def buckets(stack: Stack, interleave: int) -> list[list[int]]:
        return _buckets(stack, kind, interleave=interleave, overlap_parameters=ahead)

    assert [len(own) for own in buckets(Stack.NEMO, 2)] == [2, 2], "a chunk at once"
    assert [len(own) for own in buckets(Stack.NEMO, 1)] == [5, 5], "a layer at once"
    assert [len(own) for own in buckets(Stack.MEGATRON, 2)] == [2, 2]
    assert [len(own) for own in buckets(Stack.MEGATRON, 1)] == [2, 1]
    assert [len(own) for own in buckets(Stack.DEEPSPEED, 1)] == [1, 1]
    assert [len(own) for own in buckets(Stack.FSDP, 1)] == [5, 5]
    sums = {sum(map(sum, buckets(stack, 1))) for stack in Stack}
    assert len(sums) == 1, "all of them exchange all parameters"


@pytest.mark.parametrize(("replicas", "parameters"), [(8, 40e6), (448, 448e6)])
def test_megatron_cores_buckets_grow_with_the_replicas(replicas: int, parameters: float) -> None:
    first = {"gradient": 2.0, "replicas": replicas, "chunks": 2}
    assert Stack.MEGATRON.bucket(**first, first=True) == parameters
    assert Stack.MEGATRON.bucket(**first, first=False) == math.inf


def test_weights_are_gathered_beside_the_forward_pass() -> None:
    """On a slow network the gathers of a pipeline's chunks hide behind the micro-batches, and their
    bytes are those of the precision that they are gathered in."""
    slow = cluster((4, 2), bandwidth=1e8)
    plan = ParallelPlan(batch=32, zero=1, interleave=2, stack=Stack.NEMO)

    def run(**keys: object) -> tuple[float, float]:
        own = dataclasses.replace(plan, **keys)
        workload = training(UNTIED, own, mesh((4, 2), pipeline=2))
        moved = collective_bytes(workload, "replicas")[CollectiveKind.ALL_GATHER]
        return simulate(workload, slow).time, moved

    after, whole = run()
    beside, same = run(overlap_parameters=True)
    narrow, half = run(overlap_parameters=True, gathered_value=1.0)
    assert same == pytest.approx(whole)
    assert half == pytest.approx(whole / 2)
    assert narrow < beside < after
    with refused("overlap_parameters", "infeasible"):
        dataclasses.replace(plan, zero=3, overlap_parameters=True)


def test_buckets_do_not_change_what_is_summed_up() -> None:
    totals = set()
    for bucket in (1e3, 1e5, 1e9):
        workload = training(SMALL, ParallelPlan(batch=4, bucket=bucket), mesh((4,)))
        totals.add(round(collective_bytes(workload, "replicas")[CollectiveKind.ALL_REDUCE]))
    assert totals == {2 * SMALL.parameters}


def test_gradients_go_beside_the_backward_pass() -> None:
    slow = cluster((4,), bandwidth=1e8)
    times = [
        simulate(
            training(SMALL, ParallelPlan(batch=4, bucket=1e5, overlap_gradients=o), mesh((4,))),
            slow,
        )
        for o in (True, False)
    ]
    assert times[0].time < times[1].time
    # Kernels between two buckets are one operator, which is rounded to a picosecond.
    assert times[0].compute == pytest.approx(times[1].compute, rel=1e-6)


@pytest.mark.parametrize("zero", [0, 2])
@pytest.mark.parametrize("interleave", [1, 2])
def test_an_exchange_after_the_backward_pass_holds_up_no_other_stage(
    zero: int, interleave: int
) -> None:
    """A stage sends its last gradient before it exchanges, so exchanges of stages overlap: the
    iteration is longer than without replicas by little more than one stage's."""
    stages, n = 4, 2
    model = dataclasses.replace(SMALL, vocabulary=0)
    plan = ParallelPlan(
        batch=4, zero=zero, interleave=interleave, overlap_gradients=False, bucket=1e9
    )
    where = cluster((stages, n), bandwidth=1e8, latency=0)
    with_replicas = dataclasses.replace(plan, batch=plan.batch * n)
    both = training(model, with_replicas, mesh((stages, n), pipeline=stages))
    alone = training(model, plan, mesh((stages,), pipeline=stages))
    extra = simulate(both, where).time - simulate(alone, cluster((stages,), 1e8, 0)).time
    collectives = [o for o in both.graphs[0] if isinstance(o.work, Collective)]
    exchange = sum(o.work.n_bytes for o in collectives) / n / 1e8 * (1 if zero else 2)
    assert 0 < extra < 1.3 * exchange


@pytest.mark.parametrize("overlap_gradients", [True, False])
@pytest.mark.parametrize("model", [SMALL, EXPERTS])
def test_buckets_split_what_is_larger(model: Transformer, overlap_gradients: bool) -> None:
    bucket = 3e3
    plan = ParallelPlan(batch=8, bucket=bucket, overlap_gradients=overlap_gradients)
    workload = training(model, plan, mesh((8,), expert=4 if model.experts else 1))
    (graph,) = workload.graphs
    for group in ("replicas", "expert_replicas"):
        sizes = [
            o.work.n_bytes
            for o in graph
            if isinstance(o.work, Collective) and o.work.group == group
        ]
        assert all(n == bucket for n in sizes[:-1])
        assert all(0 < n <= bucket for n in sizes)
        assert bool(sizes) == (group == "replicas" or bool(model.experts))


def test_parameter_servers_push_and_pull() -> None:
    plan = ParallelPlan(batch=4, gradient_exchange=GradientExchange.PARAMETER_SERVER)
    moved = collective_bytes(training(SMALL, plan, mesh((4,))), "replicas")
    assert moved[CollectiveKind.ALL_TO_ALL] == pytest.approx(2 * SMALL.parameters)
    assert moved[CollectiveKind.ALL_GATHER] == pytest.approx(2 * SMALL.parameters / 4)


@pytest.mark.parametrize("recompute", Recompute)
def test_recomputation_costs_flops_and_saves_memory(recompute: Recompute) -> None:
    none = training(SMALL, ParallelPlan(batch=4), mesh((4,)))
    some = training(SMALL, ParallelPlan(batch=4, recompute=recompute), mesh((4,)))
    assert none.footprint is not None
    assert some.footprint is not None
    layers = dataclasses.replace(SMALL, vocabulary=0)
    forward = flops(training(layers, ParallelPlan(batch=4), mesh((4,)))) / 3
    core = 4.0 * SMALL.heads * SMALL.sequence**2 * SMALL.head * SMALL.layers
    again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: core, Recompute.FULL: forward}[recompute]
    assert flops(some) - flops(none) == pytest.approx(again)
    if recompute is not Recompute.NONE:
        assert some.footprint.activations < none.footprint.activations


@pytest.mark.parametrize("model", [SMALL, EXPERTS])
@pytest.mark.parametrize("module", [Module.CORE, Module.NORM, Module.ACTIVATION])
def test_a_module_that_is_computed_again_is_not_kept(model: Transformer, module: Module) -> None:
    placed = mesh((4,), tensor=2)
    plan = ParallelPlan(batch=2, sequence_parallel=True)
    less = dataclasses.replace(plan, recompute_modules=frozenset({module}))
    kept, again = training(model, plan, placed), training(model, less, placed)
    assert kept.footprint is not None
    assert again.footprint is not None
    tokens = 2.0 * model.sequence * model.layers / 2
    copies = model.top_k if model.experts else 1
    expected = {
        Module.NORM: 2 * tokens * model.hidden,
        Module.ACTIVATION: tokens * model.inner * copies,
    }
    difference = kept.footprint.activations - again.footprint.activations
    assert difference > 0
    if module in expected:
        assert difference == pytest.approx(expected[module])
    assert traffic(again) > traffic(kept)


def test_every_second_linear_layer_is_computed_again() -> None:
    model = dataclasses.replace(SMALL, gated=True)
    plan = ParallelPlan(batch=4)
    less = dataclasses.replace(plan, recompute_modules=frozenset({Module.LINEAR}))
    kept, again = (training(model, each, mesh((4,))) for each in (plan, less))
    assert kept.footprint is not None and again.footprint is not None
    values = model.sequence * model.layers * model.inner
    assert kept.footprint.activations - again.footprint.activations == pytest.approx(2.0 * values)
    features = model.hidden + model.inner
    products = 2.0 * model.sequence * model.layers * model.hidden * features
    assert flops(again) - flops(kept) == pytest.approx(products)


def traffic(workload: Workload) -> float:
    """Bytes to and from memory of all kernels."""
    return sum(
        kernel.n_bytes
        for graph in workload.graphs
        for operator in graph
        if isinstance(operator.work, Compute)
        for kernel in operator.work.kernels
    )


@pytest.mark.parametrize("model", [SMALL, EXPERTS, LATENT])
def test_a_plan_divides_the_work_but_does_not_change_it(model: Transformer) -> None:
    """FLOPs of all ranks together, whatever the plan."""
    layers = dataclasses.replace(model, vocabulary=0)
    plan = ParallelPlan(batch=8, sequence_parallel=True)  # else every rank runs the whole router
    whole = flops(training(layers, plan, mesh((1,))))
    for degrees in ({"tensor": 4}, {"pipeline": 4}, {"tensor": 2, "pipeline": 2}, {"context": 2}):
        placed = mesh((8,), **degrees)
        workload = training(layers, plan, placed)
        ranks = 8 // placed.degree("pipeline")
        assert flops(workload) * ranks == pytest.approx(whole), degrees


@pytest.mark.parametrize("model", [SMALL, LATENT])
def test_context_parallel_ranks_share_keys_in_three_ways(model: Transformer) -> None:
    """A ring passes keys once more, in the backward pass, and hides them behind the scores."""
    model, n = dataclasses.replace(model, sequence=256, vocabulary=0), 4
    placed, where = mesh((n,), context=n), cluster((n,), bandwidth=1e12, latency=0)
    plan = ParallelPlan(batch=1)
    runs, sent = {}, {}
    for way in ContextExchange:
        workload = training(model, dataclasses.replace(plan, context_exchange=way), placed)
        runs[way], sent[way] = simulate(workload, where), collective_bytes(workload, "context")
        assert flops(workload) == pytest.approx(flops(training(model, plan, placed)))
    gather, scatter = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
    assert sent[ContextExchange.RING][scatter] == sent[ContextExchange.GATHER][scatter]
    assert sent[ContextExchange.RING][gather] == 2 * sent[ContextExchange.GATHER][gather]
    assert set(sent[ContextExchange.ALL_TO_ALL]) == {CollectiveKind.ALL_TO_ALL}
    assert runs[ContextExchange.RING].time < runs[ContextExchange.GATHER].time
    whole = ParallelPlan(batch=1, context_exchange=ContextExchange.ALL_TO_ALL)
    with refused("", "infeasible"):
        training(model, whole, mesh((16,), context=16))


def test_experts_are_reached_by_all_to_all_and_summed_among_their_own_replicas() -> None:
    placed = mesh((8,), expert=4)
    workload = training(EXPERTS, ParallelPlan(batch=8), placed)
    moved = collective_bytes(workload, "expert")
    tokens = EXPERTS.sequence * EXPERTS.top_k * EXPERTS.hidden * 2.0
    assert moved == {CollectiveKind.ALL_TO_ALL: pytest.approx(4 * tokens * EXPERTS.layers)}
    expert = 2.0 * EXPERTS.layers * 2 * EXPERTS.hidden * EXPERTS.inner  # one of 4 on each rank
    summed = collective_bytes(workload, "expert_replicas")
    assert summed == {CollectiveKind.ALL_REDUCE: pytest.approx(expert)}


@pytest.mark.parametrize("model", [EXPERTS, LATENT])
def test_whole_experts_are_divided_among_tensor_parallel_ranks_too(model: Transformer) -> None:
    sizes, placed = (4, 2), mesh((4, 2), tensor=2, expert=2)
    plan = ParallelPlan(batch=8, sequence_parallel=True, whole_experts=True)
    workload = training(model, plan, placed)
    cut = training(model, dataclasses.replace(plan, whole_experts=False), placed)
    assert workload.groups["expert_ranks"].sizes == (4, 1)  # all in a node
    assert flops(workload) == pytest.approx(flops(cut))
    own, others = workload.footprint, cut.footprint
    assert own is not None
    assert others is not None
    assert own.weights == pytest.approx(others.weights)  # twice as few experts, twice as large
    assert not collective_bytes(workload, "expert")
    # Each rank sends its own tokens only, and gathers none of them for a part of an expert.
    moved = collective_bytes(workload, "expert_ranks")[CollectiveKind.ALL_TO_ALL]
    assert moved == collective_bytes(cut, "expert")[CollectiveKind.ALL_TO_ALL]
    assert sum(collective_bytes(workload, "tensor").values()) < sum(
        collective_bytes(cut, "tensor").values()
    )
    where = cluster(sizes)
    assert simulate(workload, where).time_ps == simulate(workload, where, fold=False).time_ps
    with refused("whole_experts", "infeasible"):
        dataclasses.replace(plan, sequence_parallel=False)


def test_stages_send_each_micro_batch_forward_and_back() -> None:
    plan = ParallelPlan(batch=8, interleave=2)
    workload = training(dataclasses.replace(SMALL, tied=False), plan, mesh((4,), pipeline=4))
    sent = [
        Counter(o.work.stream for o in graph if isinstance(o.work, Send))
        for graph in workload.graphs
    ]
    assert sent[1] == {"pipeline forward": 16, "pipeline backward": 16}
    assert sent[0] == {"pipeline forward": 16, "pipeline backward": 8}
    assert sent[3] == {"pipeline forward": 8, "pipeline backward": 16}


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("task", ["training", "prefill"])
def test_tensor_parallel_ranks_share_a_message_between_stages(
    task: str, sequence_parallel: bool
) -> None:
    """Activations of s tokens, h features and 2 bytes: each of t ranks sends 2 s b h / t of them.
    Under sequence parallelism these are its own tokens; else all ranks hold the same, and the
    receivers gather the parts."""
    s, b, h, t, n = 2048, 1, 1024, 8, 2
    model = Transformer(h, 2, 8, s)
    placed = mesh((t, 2), tensor=t, pipeline=2)
    if task == "training":
        plan = ParallelPlan(batch=n, micro_batch=b, sequence_parallel=sequence_parallel)
        workload = training(model, plan, placed)
    else:
        serve = Serving(batch=n, micro_batch=b, sequence_parallel=sequence_parallel)
        workload = serving(model, serve, placed)
    sent = [o.work.n_bytes for g in workload.graphs for o in g if isinstance(o.work, Send)]
    directions = 2 if task == "training" else 1
    assert sent == [2 * s * b * h / t] * (n * directions)
    gathers = [
        o.work.n_bytes
        for graph in workload.graphs
        for before, o in itertools.pairwise(graph)
        if isinstance(before.work, Receive) and isinstance(o.work, Collective)
    ]
    assert gathers == ([] if sequence_parallel else sent)


# --- folding and placement ----------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> tuple[Transformer, ParallelPlan, DeviceMesh, tuple[int, ...]]:
    sizes = draw(st.sampled_from([(8,), (4, 4), (2, 2, 4), (4, 2, 2)]))
    names = draw(st.permutations(["tensor", "pipeline"]))
    degrees = {name: draw(st.sampled_from([1, 2, 4])) for name in names}
    if math.prod(degrees.values()) > math.prod(sizes):
        degrees = dict.fromkeys(names, 2)
    placed = mesh(sizes, **degrees)
    schedule = draw(st.sampled_from(Schedule))
    if degrees["pipeline"] == 1 and schedule.both_ways:
        schedule = Schedule.ZB_H1
    whole, beside = not schedule.cuts_backward, schedule is not Schedule.ZB_H1
    interleave = draw(st.sampled_from([1, 2])) if degrees["pipeline"] > 1 and whole else 1
    n_micro = degrees["pipeline"] * (2 if schedule.both_ways else draw(st.integers(1, 2)))
    plan = ParallelPlan(
        batch=n_micro * placed.degree("data"),
        schedule=schedule,
        interleave=interleave,
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(Recompute)),
        overlap_tensor=draw(st.sampled_from(TensorOverlap)),
        overlap_experts=draw(st.booleans()) and beside,
        zero=draw(st.integers(0, 3 if whole else 1)),
        bucket=draw(st.sampled_from([1e4, 1e9])),
    )
    return draw(st.sampled_from([SMALL, EXPERTS, LATENT])), plan, placed, sizes


@examples(15)
@given(plans())
def test_stages_fold_to_the_same_time(
    drawn: tuple[Transformer, ParallelPlan, DeviceMesh, tuple[int, ...]],
) -> None:
    model, plan, placed, sizes = drawn
    workload = training(model, plan, placed)
    where = cluster(sizes)
    folded = simulate(workload, where)
    assert folded.program.structure.shape.n_classes == placed.degree("pipeline")
    assert folded.time_ps == simulate(workload, where, fold=False).time_ps


def test_a_stage_may_lie_across_dimensions() -> None:
    """Four stages, two in each of two dimensions: offsets carry from one to the other."""
    sizes = (2, 2, 2)
    placed = mesh(sizes, pipeline=[2, 2, 1])  # type: ignore[arg-type]
    workload = training(SMALL, ParallelPlan(batch=8), placed)
    assert placed.hop(1, 2) == (-1, 1, 0)
    where = cluster(sizes)
    assert simulate(workload, where).time_ps == simulate(workload, where, fold=False).time_ps


def test_a_million_npus_are_as_many_classes_as_stages() -> None:
    sizes = (8, 8, 16384)
    placed = mesh(sizes, tensor=8, pipeline=8)
    program = lower(training(SMALL, ParallelPlan(batch=2**20 // 64 * 8), placed), cluster(sizes))
    assert program.names.class_count == (2**17,) * 8
    assert program.names.class_first == tuple(range(0, 64, 8))


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "degrees", "where"),
    [
        (ParallelPlan(batch=7), {}, "plan.batch"),
        (ParallelPlan(batch=8, micro_batch=3), {}, "plan.batch"),
        (ParallelPlan(batch=16, interleave=6), {"pipeline": 2}, "plan.interleave"),
        (ParallelPlan(batch=16, stage_layers=(5, 4)), {"pipeline": 2}, "plan.stage_layers"),
        (ParallelPlan(batch=16, stage_layers=(8,)), {"pipeline": 2}, "plan.stage_layers"),
        (ParallelPlan(batch=16, stage_layers=(9, -1)), {"pipeline": 2}, "plan.stage_layers"),
        (ParallelPlan(batch=20, interleave=2), {"pipeline": 2}, "plan.interleave"),
        (ParallelPlan(batch=8, interleave=2), {}, "plan.interleave"),
        (ParallelPlan(batch=8), {"tensor": 16}, "parallel.tensor"),
    ],
)
def test_a_plan_that_does_not_divide_is_infeasible(
    plan: ParallelPlan, degrees: dict[str, int], where: str
) -> None:
    with pytest.raises(DimsweepError) as error:
        training(SMALL, plan, mesh((8,), **degrees))
    assert isinstance(error.value, InfeasibleError) or where == "plan.stage_layers"
    assert error.value.where == where


@pytest.mark.parametrize(("batch", "named"), [(19, "16 and 24"), (7, "8")])
def test_the_next_batches_that_divide_are_named(batch: int, named: str) -> None:
    with refused("plan.batch", "infeasible", named):
        training(SMALL, ParallelPlan(batch=batch), mesh((8,)))


def test_unknown_axes_are_refused() -> None:
    with refused("model", "unknown-name", "'model'"):
        DeviceMesh.place({"model": 2, "data": "rest"}, (8,))


def test_replicas_must_lie_side_by_side() -> None:
    with refused("", "conflict", "expert, data"):
        mesh((16,), expert=2, pipeline=2)


@pytest.mark.parametrize("order", list(itertools.permutations(("context", "pipeline", "data"))))
@pytest.mark.parametrize("sizes", [(2, 8), (16,), (4, 4)])
def test_axes_come_in_any_order_where_it_has_no_effect(
    order: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    """In a dimension where every NPU is as far from all others, ranks may change places."""
    degrees = {"tensor": 2, **dict.fromkeys(order, 2)}
    placed = DeviceMesh.place(degrees, sizes, cluster(sizes).symmetric_dims)
    assert all(placed.degree(axis) == 2 for axis in degrees)
    assert placed.degree("replicas") == 4
    workload = training(SMALL, ParallelPlan(batch=8), placed)
    folded = simulate(workload, cluster(sizes))
    assert folded.time_ps == simulate(workload, cluster(sizes), fold=False).time_ps
    if sizes == (16,):
        usual = {"tensor": 2, "context": 2, "data": 2, "pipeline": 2}
        same = training(SMALL, ParallelPlan(batch=8), DeviceMesh.place(usual, sizes))
        assert folded.time_ps == simulate(same, cluster(sizes)).time_ps


def test_places_on_a_ring_and_on_wired_networks_have_an_effect() -> None:
    ring = Cluster(Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9] * 2, latency=[0] * 2))
    assert ring.symmetric_dims == (False, True)
    wired = dataclasses.replace(ring, network=NetworkModel(fabrics=(Mesh(), Mesh())))
    assert wired.symmetric_dims == (False, False)


# --- uneven stages ------------------------------------------------------------------------------


def layers_of(workload: Workload) -> list[int]:
    """Layers of each stage, by its forward passes of the attention."""
    n_micro = workload_batch(workload)
    return [
        sum(
            kernel.name == "scores" and operator.name.startswith("F")
            for operator in graph
            if isinstance(operator.work, Compute)
            for kernel in operator.work.kernels
        )
        // n_micro
        for graph in workload.graphs
    ]


def workload_batch(workload: Workload) -> int:
    """Micro-batches of each stage."""
    return len({o.name.split(".")[0] for o in workload.graphs[0] if o.name.startswith("F")})


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (8, 4, [2, 2, 2, 2]),  # what stands before and after them comes beside
        (6, 4, [1, 2, 2, 1]),  # takes the place of a layer
        (8, 3, [2, 4, 2]),  # and so it does where nothing divides: 10 blocks as 3, 4 and 3
        (9, 4, [2, 3, 3, 1]),
    ],
)
def test_stages_are_as_even_as_can_be(layers: int, stages: int, expected: list[int]) -> None:
    model = dataclasses.replace(SMALL, layers=layers)
    workload = training(model, ParallelPlan(batch=6), mesh((stages,), pipeline=stages))
    assert layers_of(workload) == expected
    simulate(workload, cluster((stages,)))


def test_stages_may_be_told_their_layers() -> None:
    plan = ParallelPlan(batch=6, stage_layers=(1, 4, 3))
    workload = training(SMALL, plan, mesh((3,), pipeline=3))
    assert layers_of(workload) == [1, 4, 3]
    slowest = simulate(workload, cluster((3,))).time
    even = dataclasses.replace(plan, stage_layers=())
    assert simulate(training(SMALL, even, mesh((3,), pipeline=3)), cluster((3,))).time <= slowest


def test_over_capacity_is_infeasible_with_the_numbers() -> None:
    workload = training(SMALL, ParallelPlan(batch=8), mesh((8,)))
    assert workload.footprint is not None
    need = workload.footprint.total
    lower(workload, cluster((8,), npu=dataclasses.replace(A100, memory=need)))
    with refused("", "infeasible", "weights"):
        lower(workload, cluster((8,), npu=dataclasses.replace(A100, memory=need * 0.99)))


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_zero_cuts_memory_as_its_paper_says(zero: int) -> None:
    """16 bytes a parameter, of which stage 1 cuts 12, stage 2 14, and stage 3 all (figure 1)."""
    n, psi = 8, SMALL.parameters
    memory = training(SMALL, ParallelPlan(batch=n, zero=zero), mesh((n,))).footprint
    assert memory is not None
    state = memory.weights + memory.gradients + memory.optimizer
    cut = {0: 0, 1: 12, 2: 14, 3: 16}[zero]
    assert state == pytest.approx(psi * (16 - cut + cut / n))


@pytest.mark.parametrize("interleave", [1, 2, 8])
def test_llama_3_trains_in_the_memory_that_it_trained_in(interleave: int) -> None:
    """405B on 8,192 H100: tensor 8, pipeline 16, data 64, 32 sequences of 8,192 tokens a replica
    (Grattafiori et al., 2024, table 4, at half its size)."""
    model = Transformer(
        16384, 126, 128, 8192, ffn=53248, kv_heads=8, vocabulary=128256, gated=True, bias=False,
        dropout=False, tied=False, positions=False, flash=True,
    )  # fmt: skip
    plan = ParallelPlan(
        batch=64 * 32,
        interleave=interleave,
        sequence_parallel=True,
        zero=1,
        recompute_modules=frozenset({Module.NORM, Module.ACTIVATION}),
    )
    placed = mesh((8, 1024), tensor=8, pipeline=16)
    assert training_footprint(model, plan, placed).total < 80e9


# --- serving ------------------------------------------------------------------------------------


def test_a_prompt_costs_a_forward_pass_and_a_token_reads_all_weights() -> None:
    model = dataclasses.replace(SMALL, flash=True, dropout=False)
    placed = mesh((2,), tensor=2)
    prompt = serving(model, Serving(batch=1), placed)
    train = training(model, ParallelPlan(batch=1), placed)
    logits = 2 * (model.sequence - 1) * model.hidden * model.vocabulary / 2  # of all but the last
    forward = flops(train) / 3 - logits
    assert flops(prompt) == pytest.approx(forward, rel=0.02)  # flash computes scores again
    token = serving(model, Serving(batch=1, decode=True), placed)
    assert flops(token) < flops(prompt) / 16
    read = sum(
        k.n_bytes for o in token.graphs[0] if isinstance(o.work, Compute) for k in o.work.kernels
    )
    assert read > 2.0 * model.parameters / 2 * 0.9


@pytest.mark.parametrize("decode", [False, True])
def test_serving_in_stages_folds(decode: bool) -> None:
    workload = serving(SMALL, Serving(batch=8, decode=decode), mesh((2, 4), tensor=2, pipeline=4))
    where = cluster((2, 4))
    assert simulate(workload, where).time_ps == simulate(workload, where, fold=False).time_ps


UNTIED = dataclasses.replace(SMALL, tied=False)


def _summed(batch: int, zero: int, gradient_value: float, *, fused: bool) -> tuple[float, float]:
    """Bytes that sums of gradients take by kernels of their own, and of products of gradients."""
    plan = ParallelPlan(batch=batch, zero=zero, gradient_value=gradient_value, fused_sums=fused)
    (graph,) = training(UNTIED, plan, mesh((4,))).graphs
    kernels = [k for o in graph if isinstance(o.work, Compute) for k in o.work.kernels]
    products = [k.n_bytes for k in kernels if k.matmul and k.matmul.transposed]
    return sum(k.n_bytes for k in kernels if k.name == "sum of gradients"), sum(products)


@pytest.mark.parametrize(("gradient_value", "each"), [(2.0, 6.0), (4.0, 10.0)])
def test_gradients_of_several_micro_batches_are_added_up(
    gradient_value: float, each: float
) -> None:
    assert _summed(4, 0, gradient_value, fused=False)[0] == 0, "one has nothing to add to"
    own = _summed(12, 0, gradient_value, fused=False)[0]
    assert own == pytest.approx(3 * UNTIED.parameters * each)
    assert _summed(12, 3, gradient_value, fused=False)[0] == 0, "what is divided goes at once"


@pytest.mark.parametrize(("gradient_value", "more"), [(2.0, 2.0), (4.0, 6.0)])
def test_products_add_gradients_up_by_themselves(gradient_value: float, more: float) -> None:
    """A fused sum is read and written in the place of the product's result, 2 or 4 bytes; only
    what no product finds, norms, biases and the embedding, has a kernel for it."""
    own, products = _summed(12, 0, gradient_value, fused=True)
    apart, plain = _summed(12, 0, gradient_value, fused=False)
    each = 2 + 2 * gradient_value
    in_products = (apart - own) / each
    assert products - plain == pytest.approx(more * in_products)
    weights = UNTIED.layers * 12 * UNTIED.hidden**2 + UNTIED.vocabulary * UNTIED.hidden
    assert in_products == pytest.approx(3 * weights)


def test_tokens_go_to_few_nodes_in_few_bytes() -> None:
    """Of eight nodes, two experts lie on 1.875 in the mean; limited to one, tokens cross the
    network once; in fp8 they take half of the bytes on the way there, and all of them back."""
    model = dataclasses.replace(UNTIED, experts=16, top_k=2)
    placed = DeviceMesh.place({"expert": 16, "data": 1}, (2, 8))

    def sent(**keys: object) -> float:
        plan = ParallelPlan(batch=16, experts_by_node=True, **keys)  # type: ignore[arg-type]
        workload = training(model, plan, placed)
        return collective_bytes(workload, "expert_nodes")[CollectiveKind.ALL_TO_ALL]

    whole = sent()
    assert sent(nodes_a_token=1) == pytest.approx(whole / 1.875)
    assert sent(dispatch_value=1.0) == pytest.approx(whole * 7 / 8), "one of four ways"
    with refused("nodes_a_token", "infeasible"):
        ParallelPlan(batch=1, nodes_a_token=4)


def test_sums_of_experts_are_not_hidden_behind_their_products() -> None:
    """Transformer Engine's products of experts come one after another, each ending with its sum;
    one kernel of all of them hides it as any large product does."""
    model = dataclasses.replace(UNTIED, experts=8, top_k=2, bias=False)

    def kernels(**keys: bool) -> list[Kernel]:
        plan = ParallelPlan(batch=8, **keys)  # type: ignore[arg-type]
        (graph,) = training(model, plan, mesh((4,))).graphs
        return [k for o in graph if isinstance(o.work, Compute) for k in o.work.kernels]

    apart = [k for k in kernels() if k.name == "expert 1 weight_grad sum"]
    assert len(apart) == 2 * model.layers
    assert not any(k.launched for k in apart), "a part of the product"
    assert apart[0].n_bytes == pytest.approx(2 * 8 * 4 * model.hidden**2, rel=1e-3)
    fused = kernels(fused_experts=True)
    assert not [k for k in fused if k.name.endswith("weight_grad sum")]
    assert sum(k.n_bytes for k in fused) == pytest.approx(sum(k.n_bytes for k in kernels()))


def _with_experts(**keys: object) -> Workload:
    model = dataclasses.replace(SMALL, experts=8, top_k=2)
    plan = ParallelPlan(batch=32, sequence_parallel=True, **keys)  # type: ignore[arg-type]
    placed = DeviceMesh.place({"expert": 4, "pipeline": 2}, (2, 4))
    return training(model, plan, placed)


def test_a_token_goes_once_to_each_node_and_is_copied_there() -> None:
    def sent(axis: str, **keys: object) -> float:
        works = [o.work for o in _with_experts(**keys).graphs[0]]
        found = {w.n_bytes for w in works if isinstance(w, Collective) and w.group == axis}
        (n_bytes,) = found
        return n_bytes

    # Two experts of a token lie on 2 (1 - (1/2)^2) of two nodes, and on 4 (1 - (3/4)^2) of four
    # ranks.
    direct = sent("expert")
    copies = 4 * (1 - (3 / 4) ** 2)
    neighbours = sent("expert_neighbours", experts_by_node=True)
    assert neighbours == pytest.approx(direct * copies / 2)
    assert sent("expert_nodes", experts_by_node=True) == pytest.approx(direct * 1.5 / 2)


def test_exchanges_of_experts_hide_beside_another_micro_batch() -> None:
    slow = cluster((2, 4), bandwidth=1e9, npu=Npu(flops=1e12, memory_bandwidth=1e11))
    plain, beside = (simulate(_with_experts(overlap_experts=o), slow) for o in (False, True))
    assert beside.compute == plain.compute
    assert beside.time < 0.9 * plain.time


def test_overlapped_passes_hold_one_more_micro_batch() -> None:
    def held(overlap: bool) -> float:
        footprint = _with_experts(overlap_experts=overlap).footprint
        assert footprint is not None
        return footprint.activations

    assert held(True) == pytest.approx(1.5 * held(False)), "three in the place of two"


def test_blocking_messages_are_waited_for() -> None:
    def waits(blocking: bool) -> bool:
        plan = ParallelPlan(batch=8, blocking_messages=blocking)
        placed = DeviceMesh.place({"tensor": 2, "pipeline": 2, "data": 2}, (2, 4))
        graph = training(SMALL, plan, placed).graphs[0]
        (first, *_) = (i for i, o in enumerate(graph) if isinstance(o.work, Send))
        return any(first in o.after for o in graph)

    assert waits(True) and not waits(False)


@pytest.mark.parametrize("keys", [{}, {"zero": 1, "overlap_parameters": True}, {"zero": 3}])
def test_what_is_not_overlapped_is_waited_for(keys: dict[str, int]) -> None:
    """In proportion, where NPUs are slow and would hide everything; whatever moves is the same."""
    where = cluster((4,), bandwidth=1e9, npu=Npu(flops=3e10, memory_bandwidth=1e11))

    def run(overlap: float) -> tuple[float, dict[CollectiveKind, float]]:
        plan = ParallelPlan(batch=8, overlap=overlap, bucket=1e5, **keys)  # type: ignore[arg-type]
        workload = training(SMALL, plan, mesh((4,)))
        return simulate(workload, where).time, collective_bytes(workload, "replicas")

    (whole, moved), (most, _), (half, also), (least, _) = map(run, (1.0, 0.9, 0.5, 0.1))
    assert also == {kind: pytest.approx(n_bytes) for kind, n_bytes in moved.items()}
    assert whole < most < half < least
    assert (least - half) / (half - most) == pytest.approx(1, rel=0.3)
    assert (most - whole) / (half - most) == pytest.approx(1 / 4, rel=0.3)


def test_a_pipeline_waits_for_a_share_of_its_exchange_once() -> None:
    """Not in each chunk of each stage, one stage after the other, and each time with the latency of
    a long ring: the first hundredth costs one, and no more than that adds up."""
    latency, model = 20_000_000, dataclasses.replace(SMALL, layers=16)
    npu = Npu(flops=3e10, memory_bandwidth=1e11)
    where = cluster((4, 8), bandwidth=1e9, latency=latency, npu=npu)

    def run(overlap: float) -> float:
        plan = ParallelPlan(batch=64, overlap=overlap, zero=1, interleave=4, stack=Stack.NEMO)
        own = dataclasses.replace(plan, overlap_parameters=True)
        return simulate(training(model, own, mesh((4, 8), pipeline=4)), where).time

    whole, first, some, more = map(run, (1.0, 0.99, 0.9, 0.8))
    assert whole < first < some < more
    assert first - whole < 0.03 * whole, "14 % where each chunk of each stage waits for it"


# --- keys without an effect ----------------------------------------------------------------------

IDLE_KEYS: list[dict[str, Any]] = [
    *({"zero": stage} for stage in (1, 2, 3)),
    {"zero": 3, "shard_ranks": 4},
    {"zero": 1, "whole_sums": True},
    {"zero": 2, "overlap_parameters": True},
    {"zero": 3, "memory_collectives": True},
    {"gradient_exchange": GradientExchange.PARAMETER_SERVER},
]


@pytest.mark.parametrize("keys", IDLE_KEYS, ids=str)
@pytest.mark.parametrize("stack", [Stack.DDP, Stack.DEEPSPEED])
def test_without_replicas_zero_is_the_same_program(keys: dict[str, Any], stack: Stack) -> None:
    """DeepSpeed's optimizer for ZeRO keeps other buffers, as measured."""
    alone = mesh((8,), tensor=4, pipeline=2)
    plain, other = (
        training(SMALL, ParallelPlan(batch=8, stack=stack, **own), alone) for own in ({}, keys)
    )
    assert [*map(list, other.graphs)] == [*map(list, plain.graphs)]
    if stack is Stack.DDP:
        assert other.footprint == plain.footprint


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_among_single_ranks_is_no_zero(stage: int) -> None:
    plain, other = (
        training(SMALL, ParallelPlan(batch=16, **own), mesh((8,), tensor=4))
        for own in ({}, {"zero": stage, "shard_ranks": 1})
    )
    assert [*map(list, other.graphs)] == [*map(list, plain.graphs)]
    assert other.footprint == plain.footprint


def test_a_graph_of_the_step_launches_all_kernels_and_one_of_layers_only_theirs() -> None:
    def graphed(graphs: Graphs) -> dict[str, bool]:
        plan = ParallelPlan(4, graphs=graphs, fused_sums=False)
        workload = training(SMALL, plan, mesh((2,)))
        works = [work for work in workload.works() if isinstance(work, Compute)]
        return {kernel.name: kernel.graphed for work in works for kernel in work.kernels}

    assert all(graphed(Graphs.STEP).values()) and not any(graphed(Graphs.NONE).values())
    layers = graphed(Graphs.LAYER)
    assert layers["mlp 1"] and layers["mlp 1 weight_grad"]
    assert not any(layers[name] for name in ("logits", "optimizer", "sum of gradients"))


def test_a_graph_of_the_step_launches_a_decode() -> None:
    for graphs in Graphs:
        decode = Serving(4, decode=True, graphs=graphs)
        works = serving(SMALL, decode, mesh((1,))).works()
        kernels = [k for work in works if isinstance(work, Compute) for k in work.kernels]
        assert all(kernel.graphed for kernel in kernels) is (graphs is Graphs.STEP)
        assert any(kernel.graphed for kernel in kernels) is (graphs is not Graphs.NONE)
