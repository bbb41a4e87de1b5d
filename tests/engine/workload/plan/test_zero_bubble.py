"""ZB-H1 and DualPipe: backward passes in two parts, whose second fills the bubbles."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Cluster, Npu, Topology, simulate
from dimsweep.engine.workload.graph import Send
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import (
    DeviceMesh,
    ParallelPlan,
    Schedule,
    training,
    training_footprint,
)
from dimsweep.engine.workload.plan.schedule import Action, Part, actions, pair_actions
from tests.support.refused import refused

MODEL = Transformer(64, 8, 8, 32)  # nothing before and after the layers


def order(stage: int, n_stages: int, n: int) -> tuple[Action, ...]:
    return actions(Schedule.ZB_H1, stage=stage, n_stages=n_stages, n_chunks=1, n_micro_batches=n)


@given(st.integers(1, 8), st.integers(1, 20))
def test_every_part_runs_once_in_its_order_and_all_stages_keep_as_much(p: int, n: int) -> None:
    """1F1B's first stage keeps as many micro-batches as there are stages; here all of them do."""
    for stage in range(p):
        found = order(stage, p, n)
        place = {action: i for i, action in enumerate(found)}
        assert len(found) == len(place) == 3 * n
        flight = worst = 0
        for action in found:
            flight += 1 if not action.backward else -action.ends
            worst = max(worst, flight)
        assert worst == min(n, p)
        for m in range(n):
            forward, *back = (
                Action(False, m, 0),
                *(Action(True, m, 0, part) for part in list(Part)[1:]),
            )
            assert place[forward] < place[back[0]] < place[back[1]]


def makespan(schedule: Schedule, p: int, n: int, f: float, b: float, w: float) -> float:
    """When the last stage ends, messages taking no time; what runs at the same time ends at the
    same time, and takes as long as one after the other."""
    orders = [
        list(
            pair_actions(
                actions(schedule, stage=stage, n_stages=p, n_chunks=1, n_micro_batches=n),
                overlap=schedule.both_ways,
            )
        )
        for stage in range(p)
    ]
    lasts = {Part.WHOLE: b + w, Part.INPUTS: b, Part.WEIGHTS: w}
    done: dict[tuple[bool, int, int, int], float] = {}
    clock, left = [0.0] * p, sum(map(len, orders))
    while left:
        for stage in range(p):
            while orders[stage]:
                step = [a for a in orders[stage][0] if a.part is not Part.WEIGHTS]
                sources = [stage + (1 if a.backward ^ a.chunk else -1) for a in step]
                needs = [
                    (a.backward, source, a.micro_batch, a.chunk)
                    for a, source in zip(step, sources, strict=True)
                    if 0 <= source < p
                ]
                if not all(need in done for need in needs):
                    break
                ready = max((done[need] for need in needs), default=0.0)
                took = sum(lasts[a.part] if a.backward else f for a in orders[stage].pop(0))
                clock[stage] = max(clock[stage], ready) + took
                for a in step:
                    done[a.backward, stage, a.micro_batch, a.chunk] = clock[stage]
                left -= 1
    return max(clock)


@given(st.integers(1, 8), st.integers(0, 12), st.integers(1, 9), st.integers(1, 9), st.floats(0, 1))
def test_the_bubble_is_that_of_the_paper(p: int, more: int, f: int, b: int, share: float) -> None:
    """(p - 1) (f + b - w), where weights' gradients take no longer than the other parts, and 1F1B's
    (p - 1) (f + b + w); DeepSeek-V3's report has them in its table 2, with B = b + w."""
    w, n = share * min(f, b), p + more
    assert makespan(Schedule.ONE_F_ONE_B, p, n, f, b, w) == pytest.approx((n + p - 1) * (f + b + w))
    assert makespan(Schedule.ZB_H1, p, n, f, b, w) == pytest.approx(
        n * (f + b + w) + (p - 1) * (f + b - w)
    )


def seconds(schedule: Schedule, p: int, n: int) -> float:
    where = DeviceMesh.place({"pipeline": p, "data": "rest"}, (p,))
    workload = training(MODEL, ParallelPlan(batch=n, schedule=schedule), where)
    topology = Topology.build(f"Switch({p})", bandwidth=[1e18], latency=[0])
    return simulate(workload, Cluster(topology, npu=Npu(312e12, 2039e9))).time


def test_a_simulated_iteration_saves_twice_the_weights_gradients_of_each_bubble() -> None:
    """2 (p - 1) w, and w is a stage's: half as long on twice as many stages, whatever the batch."""
    saved = {
        (p, n): seconds(Schedule.ONE_F_ONE_B, p, n) - seconds(Schedule.ZB_H1, p, n)
        for p, n in ((2, 8), (4, 8), (4, 12))
    }
    assert saved[2, 8] > 0
    assert saved[4, 8] == pytest.approx(1.5 * saved[2, 8], rel=0.02)
    assert saved[4, 12] == pytest.approx(saved[4, 8], rel=1e-6)
    assert seconds(Schedule.ZB_H1, 1, 4) == pytest.approx(seconds(Schedule.ONE_F_ONE_B, 1, 4))


def test_the_fullest_stage_holds_what_it_does_in_1f1b() -> None:
    where = DeviceMesh.place({"pipeline": 4, "data": "rest"}, (4,))
    plan = ParallelPlan(batch=8)
    usual, zero = (
        training_footprint(MODEL, dataclasses.replace(plan, schedule=schedule), where)
        for schedule in (Schedule.ONE_F_ONE_B, Schedule.ZB_H1)
    )
    assert zero.activations == usual.activations


@pytest.mark.parametrize("schedule", [Schedule.ZB_H1, Schedule.DUALPIPE])
@pytest.mark.parametrize("keys", [{"interleave": 2}, {"zero": 2}, {"weight_streaming": True}])
def test_what_is_not_known_of_it_is_refused(schedule: Schedule, keys: dict[str, int]) -> None:
    with refused(next(iter(keys)), "infeasible", schedule):
        ParallelPlan(batch=8, schedule=schedule, **keys)  # type: ignore[arg-type]


@given(st.integers(1, 5), st.integers(0, 4), st.integers(1, 9), st.floats(0.1, 1))
def test_the_bubble_of_dualpipe_is_that_of_its_table(
    half: int, more: int, f: int, share: float
) -> None:
    """(p / 2 - 1) (f&b + b - 3 w) of the repository's page, where b is a whole backward pass; with
    parts as long as a forward pass or shorter, and passes that share nothing."""
    p, n, w = 2 * half, 4 * half + 2 * more, share * f
    bubble = (half - 1) * (f + 2 * (f + w) - 3 * w)
    took = makespan(Schedule.DUALPIPE, p, n, f, f, w)
    assert took == pytest.approx(n * (2 * f + w) + bubble)


@given(st.integers(1, 5), st.integers(0, 4))
def test_a_stage_of_dualpipe_runs_both_ways(half: int, more: int) -> None:
    """It keeps the activations of a pass more than there are stages."""
    p, n = 2 * half, 4 * half + 2 * more
    for stage in range(p):
        found = actions(Schedule.DUALPIPE, stage=stage, n_stages=p, n_chunks=1, n_micro_batches=n)
        flight = worst = 0
        for action in found:
            flight += 1 if not action.backward else -action.ends
            worst = max(worst, flight)
        assert worst <= p + 1
        for chunk in range(2):
            own = [action for action in found if action.chunk == chunk]
            assert sum(not action.backward for action in own) == n // 2
            assert sorted(a.micro_batch for a in own if a.ends) == list(range(n // 2))


def test_a_simulated_dualpipe_has_less_of_a_bubble_and_twice_the_weights() -> None:
    where = DeviceMesh.place({"pipeline": 4, "data": "rest"}, (4,))
    usual, dual = (
        training_footprint(MODEL, ParallelPlan(batch=8, schedule=schedule), where)
        for schedule in (Schedule.ONE_F_ONE_B, Schedule.DUALPIPE)
    )
    assert dual.weights == 2 * usual.weights
    assert dual.activations <= usual.activations * 5 / 4
    assert seconds(Schedule.DUALPIPE, 4, 8) < seconds(Schedule.ONE_F_ONE_B, 4, 8)


def test_two_stages_of_dualpipe_with_the_same_layers_exchange_their_gradients() -> None:
    """All of them, or of two replicas that divide them a half, since the other half is elsewhere;
    beside a message for each pass of every boundary."""
    where = DeviceMesh.place({"pipeline": 4, "data": 2}, (4, 2))
    for zero, share in ((0, 1), (1, 2)):
        plan = ParallelPlan(batch=16, schedule=Schedule.DUALPIPE, zero=zero)
        for stage, graph in enumerate(training(MODEL, plan, where).graphs):
            sent = [o.work.n_bytes for o in graph if isinstance(o.work, Send)]
            assert len(sent) == 2 * 8 - 8 * (stage in (0, 3)) + 1
            assert sent[-1] == 2.0 * MODEL.parameters / 4 * 2 / share


def test_a_pipeline_that_cannot_be_entered_from_both_ends_is_refused() -> None:
    where = DeviceMesh.place({"pipeline": 4, "data": "rest"}, (4,))
    with refused("", "infeasible", "4 stages"):
        training(MODEL, ParallelPlan(batch=6, schedule=Schedule.DUALPIPE), where)
