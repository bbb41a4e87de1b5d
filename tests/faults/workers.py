"""Faults of nodes, workers and trials, under the executors; the cluster is a toy."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from dimsweep import load
from dimsweep.engine import Runner
from dimsweep.sweeper.ledger.rows import FAILED, LOST
from dimsweep.sweeper.run.loop import Progress, StudyPlan
from tests.faults.promise import against
from tests.support.studies import SMALL, planned, run
from tests.support.toy_ray import Actor, Call, ToyRay, toy_executor

_STUDY = (*SMALL, "search=random", "search.batch=20")
_TRIALS = 40


def _swept(
    plan: StudyPlan, harm: Callable[[ToyRay], None], seed: int = 0
) -> tuple[ToyRay, Progress]:
    """Sweep on a toy cluster, to which ``harm`` is done."""
    with toy_executor(plan, seed=seed) as (executor, toy):
        harm(toy)
        return toy, run(plan, executor)


def _numbers(call: Call) -> set[int]:
    return set() if call.job is None else set(call.job.trials.number.tolist())


def _undisturbed(scratch: Path) -> StudyPlan:
    plan = planned(_STUDY, scratch / "whole")
    run(plan)
    return plan


def _states(plan: StudyPlan) -> dict[int, str]:
    """The trials that are not complete."""
    rows = load(plan.folder)
    rows = rows.filter(pc.not_equal(rows["state"], "complete"))
    return dict(zip(rows["trial"].to_pylist(), rows["state"].to_pylist(), strict=True))


# --- 7. trials ---------------------------------------------------------------------------------


@against(7)
def a_worker_lacks_memory_for_a_trial(scratch: Path) -> None:
    """The other worker has it."""
    whole = load(_undisturbed(scratch).folder)
    for seed in range(4):
        plan, first = planned(_STUDY, scratch / f"hungry{seed}"), dict[int, Actor]()

        def harm(toy: ToyRay) -> None:
            def hungry(actor: Actor, trial: int) -> bool:
                return trial in (13, 27) and first.setdefault(trial, actor) is actor  # noqa: B023

            toy.hungry = hungry

        toy, progress = _swept(plan, harm, seed)
        assert progress.lost == 0 and len(first) == 2
        assert load(plan.folder).equals(whole)
        for file in plan.folder.glob("part-*"):  # nor has a row said so meanwhile
            assert LOST.encode() not in file.read_bytes()
        for trial, actor in first.items():
            tried = [(who, job) for who, job in toy.jobs if trial in job.trials.number.tolist()]
            assert len(tried) == 2 and tried[1][0] is not actor
            assert len(tried[1][1].trials) == 1, "alone, so that it takes no other with it"


@against(7)
def no_worker_has_memory_for_a_trial(scratch: Path) -> None:
    """Its row says so, the others are there, and the next sweep mends it."""
    whole = load(_undisturbed(scratch).folder)
    plan = planned(_STUDY, scratch / "hungry")

    def harm(toy: ToyRay) -> None:
        toy.hungry = lambda actor, trial: trial == 13

    toy, progress = _swept(plan, harm)
    assert progress.lost == 1 and _states(plan) == {13: LOST}
    assert sum(13 in job.trials.number.tolist() for _, job in toy.jobs) == 2
    toy, progress = _swept(plan, lambda toy: None)
    assert [job.trials.number.tolist() for _, job in toy.jobs] == [[13]]
    assert progress.lost == 0 and load(plan.folder).equals(whole)


def _failing(error: Exception, at: float, times: int) -> Callable[..., object]:
    batch, left = Runner.batch, iter(range(times))

    def simulate(runner: Runner, bandwidth: object, latency: object = None) -> object:
        if (bandwidth[:, 0] == at).any() and next(left, None) is not None:  # type: ignore[index]
            raise error
        return batch(runner, bandwidth, latency)  # type: ignore[arg-type]

    return simulate


@against(7)
def memory_or_a_file_fails_in_this_process(scratch: Path) -> None:
    rows = load(_undisturbed(scratch).folder)
    at = rows["bandwidth_0_GBps"][13].as_py() * 1e9
    for i, error in enumerate((MemoryError(), OSError(116, "Stale file handle"))):
        plan = planned(_STUDY, scratch / f"s{i}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Runner, "batch", _failing(error, at, times=2))  # in a batch, and alone
            assert run(plan).lost == 0 and load(plan.folder).equals(rows)
        again = planned(_STUDY, scratch / f"again{i}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Runner, "batch", _failing(error, at, times=100))
            assert run(again).lost == 1 and _states(again) == {13: LOST}
        assert run(again).lost == 0 and load(again.folder).equals(rows)


@against(7)
def a_trial_fails_by_itself(scratch: Path) -> None:
    rows = load(_undisturbed(scratch).folder)
    at = rows["bandwidth_0_GBps"][13].as_py() * 1e9
    plan = planned(_STUDY, scratch / "s")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "batch", _failing(RuntimeError("boom"), at, times=100))
        assert run(plan).failed == 1 and _states(plan) == {13: FAILED}
    toy, progress = _swept(plan, lambda toy: None)
    assert not toy.jobs and progress.failed == 1, "it would fail again"
    assert run(plan, retry_failed=True).failed == 0 and load(plan.folder).equals(rows)


# --- 8. nodes and workers -----------------------------------------------------------------------


def _each_job_once(toy: ToyRay, but: set[int] = frozenset()) -> None:  # type: ignore[assignment]
    """No trial was begun twice, but for those."""
    begun = [n for _, job in toy.jobs for n in job.trials.number.tolist() if n not in but]
    assert len(begun) == len(set(begun)), sorted(begun)


@against(8)
def a_node_is_lost_with_pieces_in_flight(scratch: Path) -> None:
    whole = load(_undisturbed(scratch).folder)
    held = 0
    for seed in range(12):
        plan = planned(_STUDY, scratch / f"s{seed}")
        with toy_executor(plan, seed=seed) as (executor, toy):
            answered = iter(range(100))

            def before(call: Call) -> None:
                nonlocal held
                if call.job is not None and next(answered) == seed % 6 + 2:  # noqa: B023
                    other = next(node for node in toy.nodes if node != call.actor.node)
                    mine = [each for each in toy.calls if each.actor.node == other]
                    held += sum(each.job is not None for each in mine)
                    toy.lose(other)

            toy.before = before
            progress = run(plan, executor)
        assert progress.lost == 0 and load(plan.folder).equals(whole)
        _each_job_once(toy)
    assert held >= 12, "no node was lost with work of its own"


@against(8)
def a_worker_dies_over_a_piece_with_another_waiting(scratch: Path) -> None:
    """What it worked on is tried again trial by trial; what waited is no worse for it."""
    whole = load(_undisturbed(scratch).folder)
    waited = 0
    for seed in range(8):
        plan, died = planned(_STUDY, scratch / f"s{seed}"), set[int]()
        with toy_executor(plan, seed=seed) as (executor, toy):

            def before(call: Call) -> None:
                nonlocal waited
                if len(_numbers(call)) > 1 and not died:  # noqa: B023
                    died.update(_numbers(call))  # noqa: B023
                    waited += sum(each.actor is call.actor for each in toy.calls)
                    call.actor.alive = False

            toy.before = before
            progress = run(plan, executor)
            assert executor.n_workers == 2 and executor.n_nodes == 2
        assert died and progress.lost == 0 and load(plan.folder).equals(whole)
        _each_job_once(toy)
        own = [job for _, job in toy.jobs if died & set(job.trials.number.tolist())]
        assert all(len(job.trials) == 1 for job in own) and len(own) == len(died)
        working = {actor.node for actor, _ in toy.jobs[-8:]}
        assert working == {"node0", "node1"}, "a dead worker has a successor, who works"
    assert waited >= 4


@against(8)
def a_trial_kills_every_worker(scratch: Path) -> None:
    plan = planned(_STUDY, scratch / "s")
    whole = load(_undisturbed(scratch).folder)

    def harm(toy: ToyRay) -> None:
        def before(call: Call) -> None:
            if 13 in _numbers(call):
                call.actor.alive = False

        toy.before = before

    for _ in range(2):  # the next sweep tries it again
        toy, progress = _swept(plan, harm)
        assert progress.lost == 1 and progress.failed == 1 and _states(plan) == {13: LOST}
        _each_job_once(toy)
    assert not toy.jobs and len(toy.actors) > 3
    run(plan)
    assert load(plan.folder).equals(whole)


@against(8)
def the_last_node_is_lost_and_another_joins(scratch: Path) -> None:
    plan = planned(_STUDY, scratch / "s")
    with toy_executor(plan, n_nodes=1) as (executor, toy):
        answered = iter(range(100))

        def before(call: Call) -> None:
            if call.job is not None and next(answered) == 5:
                toy.lose(toy.nodes[0])

        toy.before = before
        progress = run(plan, executor)
    assert progress.lost == 0
    assert load(plan.folder).equals(load(_undisturbed(scratch).folder))
