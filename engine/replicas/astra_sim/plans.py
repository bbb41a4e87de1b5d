"""Collectives of one rank after another as tables: plans, their chunks, steps and recipes.

Which queues a collective's chunks take depends on the collectives that the rank issued before, by
the state of its queue allocator.  So each collective is planned for every state that can be met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.formats.astra_sim.inputs import Inputs
from engine.replicas.astra_sim.algorithms import ALL_GATHER, REDUCE_SCATTER
from engine.replicas.astra_sim.chunks import Chunk, Phase, Planner, State
from engine.replicas.astra_sim.clock import Clock
from engine.replicas.astra_sim.delays import routes
from engine.replicas.astra_sim.greedy import FLEX, Greedy
from engine.replicas.astra_sim.npu import costs_of, largest
from engine.replicas.astra_sim.profile import Profiles
from engine.replicas.astra_sim.recipe import Message, Recipe, recipe
from engine.replicas.astra_sim.tables import LONGEST

_MOST_STATES = 64


class NotLoweredError(Exception):
    """Why a run must be interpreted."""


class Form(NamedTuple):
    """A collective: over ``ranks``, the group of that ``group`` name, or over all ranks."""

    kind: str
    n_bytes: int
    involved: tuple[bool, ...]
    group: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Origin:
    """What a plan was made of: ``form``, on ``rank`` in ``state``.

    ``in_order``: its chunks may start in another order when it follows on another collective, and
    differ; so it must not.
    """

    rank: int
    form: Form
    state: State
    in_order: bool


class Question(NamedTuple):
    """A phase whose duration no recipe tells."""

    recipe: int
    phase: Phase
    ranks: Sequence[int]
    rank: int
    flat: bool


def chunks_of(planner: Planner, form: Form) -> list[Chunk]:
    if form.ranks:
        return list(planner.group_chunks(form.kind, form.n_bytes, form.ranks))
    return list(planner.chunks(form.kind, form.n_bytes, form.involved))


def planner_of(inputs: Inputs, rank: int, clock: Clock) -> Planner:
    """Of a rank whose collectives no other rank's loads change."""
    greedy = Greedy(clock, inputs.network, flex=inputs.system.inter_dimension == FLEX)
    queues = inputs.options.queues_per_dim
    return Planner(rank, inputs.system, inputs.network, queues, greedy)


class PlanTables:
    """Rows of the tables, rank by rank."""

    def __init__(self, inputs: Inputs, profiles: Profiles) -> None:
        self._inputs, self._profiles = inputs, profiles
        self._route = routes(inputs.network)
        self._costs = {flat: costs_of(inputs, flat=flat) for flat in (False, True)}
        self._by_size = inputs.system.intra_dimension == "SCF"
        self._known: dict[tuple[object, ...], int] = {}
        self.origins: list[Origin] = []
        self.questions: list[Question] = []
        self.plans: list[tuple[int, int, int, int]] = []
        self.chunks: list[tuple[int, int]] = []
        self.steps: list[tuple[int, int, bool, int]] = []
        self.recipes: list[tuple[int, int, int]] = []
        self.terms: list[tuple[int, int, int, float]] = []
        self.n_ticks = 0

    def add_rank(self, rank: int, forms: Sequence[Form], n: int) -> dict[Form, int]:
        """The first plan of each of ``forms``, of which the rank issues ``n``; that for state s is
        s plans further.

        Raises :class:`NotLoweredError` when these are too many or a phase needs single messages,
        and :class:`DimsweepError` when a collective cannot be run.
        """
        planner = planner_of(self._inputs, rank, Clock())
        states = {planner.state: 0}
        planned: dict[Form, list[tuple[list[Chunk], State]]] = {form: [] for form in forms}
        todo = [planner.state]
        for state in todo:
            for form in forms:
                planner.state = state
                planned[form].append((chunks_of(planner, form), planner.state))
                if n > 1 and planner.state not in states:
                    states[planner.state] = len(states)
                    todo.append(planner.state)
            if len(states) > _MOST_STATES:
                raise NotLoweredError("queues are taken in too many ways")
        first = {}
        for form, plans in planned.items():
            first[form] = len(self.plans)
            for (chunks, after), state in zip(plans, states, strict=True):
                self._add_plan(rank, form, chunks, states.get(after, 0))
                in_order = n > 1 and any(chunk.phases != chunks[0].phases for chunk in chunks)
                if in_order and self._by_size:
                    raise NotLoweredError("unlike chunks may start in another order")
                self.origins.append(Origin(rank, form, state, in_order))
        return first

    def is_empty(self, plan: int) -> bool:
        """Whether it has no chunks: a group of one, or nothing to send."""
        start, end, _, _ = self.plans[plan]
        return start == end

    def send(self, rank: int, peer: int, n_bytes: int) -> int:
        """The recipe of a message."""
        message = (*self._route(rank, peer), n_bytes)
        return self._recipe_number(message, lambda: Recipe(0, ((message, 1),)))

    def _add_plan(self, rank: int, form: Form, chunks: Sequence[Chunk], after: int) -> None:
        start, n_ticks = len(self.chunks), self.n_ticks
        rows: dict[Chunk, tuple[int, int]] = {}  # equal chunks share their steps
        for chunk in chunks:
            if chunk not in rows:
                begin = len(self.steps)
                self.steps += self._steps_of(rank, chunk, flat=bool(form.ranks))
                rows[chunk] = (begin, len(self.steps))
            self.chunks.append(rows[chunk])
            self.n_ticks += len(chunk.phases)
        self.plans.append((start, len(self.chunks), n_ticks, after))

    def _steps_of(self, rank: int, chunk: Chunk, *, flat: bool) -> list[tuple[int, int, bool, int]]:
        steps = []
        for at, (phase, ranks) in enumerate(zip(chunk.phases, chunk.ranks, strict=True)):
            if not self._profiles.apply(phase, ranks):
                raise NotLoweredError("members of a collective are not alike")
            # The last but one goes to the end of its queue.
            sorts = self._by_size and phase.kind in (REDUCE_SCATTER, ALL_GATHER)
            sorts = sorts and len(chunk.phases) - at != 2
            if largest(phase) > LONGEST:
                raise NotLoweredError("a collective is very large")
            number = self._phase_recipe(rank, phase, ranks, flat=flat)
            steps.append((phase.queue, number, sorts, largest(phase)))
        return steps

    def _phase_recipe(self, rank: int, phase: Phase, ranks: Sequence[int], *, flat: bool) -> int:
        def found() -> Recipe | None:
            return recipe(phase, ranks, rank, self._costs[flat], self._route)

        # The dimension and the queue do not matter, the members do.
        key = (phase.kind, phase.algorithm, phase.n_bytes, phase.clockwise, flat, ranks, rank)
        n = len(self.recipes)
        number = self._recipe_number(key, found)
        if number == n and self.recipes[n][1] < 0:
            self.questions.append(Question(n, phase, ranks, rank, flat))
        return number

    def _recipe_number(self, key: tuple[object, ...], found: Callable[[], Recipe | None]) -> int:
        if key not in self._known:
            self._known[key] = len(self.recipes)
            new, start = found(), len(self.terms)
            if new is None:
                self.recipes.append((0, -1, -1))
            else:
                self.terms += [_term(message, n) for message, n in new.messages]
                self.recipes.append((new.fixed, start, len(self.terms)))
        return self._known[key]


def _term(message: Message, count: int) -> tuple[int, int, int, float]:
    dim, hops, n_bytes = message
    return dim, hops, count, float(n_bytes)
