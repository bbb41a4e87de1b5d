"""As much of Ray as the executor uses, in this process and without clocks.

Nodes, workers and trials fail when they are told to, so each fault is the same each time.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dimsweep.sweeper.run.executor.cluster import Node
from dimsweep.sweeper.run.executor.evaluate import Evaluator, Job, Outcome
from dimsweep.sweeper.run.executor.ray import RayExecutor
from dimsweep.sweeper.run.executor.setup import Setup
from dimsweep.sweeper.run.loop import StudyPlan

_SECONDS = 0.1  # that a trial seems to take, so that pieces are small
_PATIENCE = 20  # waits in a row in which nothing can end


class ToyError(Exception):
    """What Ray raises for an actor that is gone."""


class Actor:
    """A worker on a node; it answers its calls in the order in which they came."""

    def __init__(self, ray: "ToyRay", node: str) -> None:
        self.ray, self.node, self.alive = ray, node, True
        self.node_id = SimpleNamespace(remote=lambda: ray.call(self, None))
        self.evaluate = SimpleNamespace(remote=lambda job: ray.call(self, job))


class Call:
    """What an actor is asked for."""

    def __init__(self, actor: Actor, job: Job | None) -> None:
        self.actor, self.job = actor, job


class ToyRay:
    """Ray, and the cluster that it has been joined to.

    ``before`` is told of each call that is about to be answered, and may kill or cut off.
    ``seconds`` is how long a trial seems to take.
    ``hungry`` says for which trials a worker lacks memory: a function of the worker and the trial.
    """

    exceptions = SimpleNamespace(RayError=ToyError, RaySystemError=ToyError)
    cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)
    is_ours, head = True, "127.0.0.1:1"

    def __init__(self, n_nodes: int, draw: random.Random) -> None:
        self.ray = self
        self.nodes = [f"node{i}" for i in range(n_nodes)]
        self.actors: list[Actor] = []
        self.calls: list[Call] = []
        self.jobs: list[tuple[Actor, Job]] = []  # that were begun
        self.seconds = _SECONDS
        self.before: Callable[[Call], None] = lambda call: None
        self.hungry: Callable[[Actor, int], bool] = lambda actor, trial: False
        self._draw, self._idle, self._told = draw, 0, False
        self._gone: list[str] = []
        self._evaluator: Evaluator | None = None
        self._place: Any = None

    # --- what the executor asks of Ray ---

    def remote(self, **_: object) -> Callable[[object], object]:
        return lambda guest: SimpleNamespace(remote=self._start)

    def put(self, value: object) -> object:
        return value

    def kill(self, actor: Actor) -> None:
        actor.alive = False

    def available_resources(self) -> dict[str, float]:
        return {"CPU": 0.0}

    def call(self, actor: Actor, job: Job | None) -> Call:
        self.calls.append(call := Call(actor, job))
        return call

    def wait(
        self, waiting: Sequence[Call], *, num_returns: int, timeout: float
    ) -> tuple[list[Call], list[Call]]:
        """One call that can end: the first of some worker that is not cut off."""
        first = {id(call.actor): call for call in reversed(waiting)}
        able = [call for call in waiting if call is first[id(call.actor)]]
        able = [call for call in able if call.actor.node in self.nodes]
        self._idle = 0 if able else self._idle + 1
        assert self._idle < _PATIENCE, "nothing of what is waited for can ever end"
        return ([self._draw.choice(able)] if able else []), []

    def get(self, call: Call) -> Any:
        self.calls.remove(call)
        self.before(call)
        if not call.actor.alive or call.actor.node not in self.nodes:
            raise ToyError("the actor died")
        if call.job is None:
            return call.actor.node
        self.jobs.append((call.actor, call.job))
        return self._answer(call.actor, call.job), self.seconds * len(call.job.trials)

    # --- what it asks of the cluster ---

    @property
    def cpus(self) -> int:
        return len(self.nodes)

    def find_lost_nodes(self) -> list[Node] | None:
        if self._told and not self._gone:
            return None
        self._told, gone = True, self._gone
        self._gone = []
        return [Node(name, name, 0, 1) for name in gone]

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        self.calls.clear()

    # --- faults ---

    def lose(self, node: str) -> None:
        """A node is gone, and whatever was there never answers; another one comes."""
        self.nodes[self.nodes.index(node)] = f"{node}x"
        self._gone.append(node)

    def _start(self, versions: object, files: object, wanted: object, refers: Any) -> Actor:
        _, _, (cells, schema, _, _) = refers[0]
        self._evaluator = self._evaluator or _Hungry(self, cells, schema)
        taken = {actor.node for actor in self.actors if actor.alive}
        free = [node for node in self.nodes if node not in taken] or self.nodes
        self.actors.append(actor := Actor(self, free[0]))
        return actor

    def _answer(self, actor: Actor, job: Job) -> Outcome:
        assert self._evaluator is not None
        self._place = actor
        return self._evaluator.evaluate(job)

    @property
    def place(self) -> Actor:
        """The worker whose turn it is."""
        return self._place


class _Hungry(Evaluator):
    """Lacks memory where the toy says so."""

    def __init__(self, toy: ToyRay, cells: Any, schema: Any) -> None:
        super().__init__(cells, schema)
        self._toy = toy

    def _run(self, runner: Any, program: Any, trials: Any, named: Any, **fold: Any) -> Any:
        if any(self._toy.hungry(self._toy.place, trial.number) for trial in trials):
            raise MemoryError
        return super()._run(runner, program, trials, named, **fold)


@contextmanager
def toy_executor(plan: StudyPlan, n_nodes: int = 2, seed: int = 0) -> Iterator[tuple[Any, ToyRay]]:
    """The executor of Ray actors on a toy cluster with a worker on each node; and the toy."""
    toy = ToyRay(n_nodes, random.Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dimsweep.sweeper.run.executor.ray.connect", lambda config: toy)
        cells = [cell.cell for cell in plan.cells]
        executor = RayExecutor(Setup(plan.config.executor, cells, plan.schema, lambda text: None))
        try:
            yield executor, toy
        finally:
            executor.close()
