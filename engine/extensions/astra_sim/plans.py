"""Decomposition of a phase among equivalent members into rounds, for any network speed.

In most phases all concurrent waits of an NPU end at the same time: first the endpoint delays of all
packets in flight, then perhaps their reductions, then their messages.  Such a phase takes the sum
of these, and the terms do not depend on the time of a message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import NamedTuple

from dimsweep.engine.extensions.astra_sim.algorithms import (
    FLEX,
    Chunk,
    Costs,
    Exchange,
    Greedy,
    Phase,
    Planner,
)
from dimsweep.engine.extensions.astra_sim.links import Clock, routes
from dimsweep.engine.extensions.astra_sim.npu import costs_of
from dimsweep.engine.formats.astra_sim import Inputs
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower import program as p

Call = Callable[[], None]


class Message(NamedTuple):
    """A message over ``hops`` of dimension ``dim``; or one to each of ``peers`` so far away."""

    dim: int
    hops: int
    n_bytes: int
    peers: int = 1


class Round(NamedTuple):
    """One round of a phase: a message (or None), then the endpoint delay and reduction in ns."""

    message: Message | None
    delay: int
    reduction: int


def recipe(
    phase: Phase,
    ranks: Sequence[int],
    me: int,
    costs: Costs,
    route: Callable[[int, int], tuple[int, int]],
) -> list[Round] | None:
    """Return the rounds of ``phase`` among ``ranks``, as rank ``me`` sees it.

    None if some packets overtake others.  Raises :class:`DimsweepError` for an algorithm that
    cannot run on this number of ranks.
    """
    port = _Steps(me, route)
    Exchange(port, costs, phase, ranks, done=port.end).start()
    waits = port.follow()
    if waits is None:
        return None
    rounds: list[Round] = []
    for wait in waits:
        if isinstance(wait, Message):
            rounds.append(Round(wait, 0, 0))
        elif not rounds or rounds[-1].delay:
            if not rounds:
                rounds.append(Round(None, wait, 0))
            else:
                rounds[-1] = rounds[-1]._replace(reduction=wait)
        else:
            rounds[-1] = rounds[-1]._replace(delay=wait)
    return rounds


@dataclass
class _Steps:
    """A :class:`Port` of one rank that assumes equal peers: it receives when it sends.

    All waits in flight end together.
    """

    rank: int
    route: Callable[[int, int], tuple[int, int]]
    ended: bool = False
    under_way: list[tuple[int | Message, Call]] = field(default_factory=list)

    def end(self) -> None:
        self.ended = True

    def wait(self, delay: int, call: Call) -> None:
        self.under_way.append((delay, call))

    def exchange(self, target: int, source: int, n_bytes: int, received: Call) -> None:
        self.under_way.append((Message(*self.route(self.rank, target), n_bytes), received))

    def follow(self) -> list[int | Message] | None:
        waits: list[int | Message] = []
        while not self.ended:
            step, self.under_way = self.under_way, []
            if len({what for what, _ in step}) != 1:
                return None
            what = step[0][0]
            waits.append(what._replace(peers=len(step)) if isinstance(what, Message) else what)
            for _, call in step:
                call()
        return waits


PS = 1000  # of a nanosecond, ASTRA-sim's cycle


class NotLoweredError(Exception):
    """Raised for runs that the phase kernel cannot simulate; the text is the reason."""


class Wanted(NamedTuple):
    """A requested collective, over the ``ranks`` of ``group``, or over all ranks."""

    kind: CollectiveKind
    n_bytes: int
    involved: tuple[bool, ...]
    group: str
    ranks: tuple[int, ...]


class Form(NamedTuple):
    """The columns of a FORM row; ``listed_variants`` is 0 for a collective without chunks."""

    chunks: int
    listed_start: int
    listed_length: int
    listed_variants: int


class Plans:
    """Builder of the tables LISTED, PHASE_STEPS and STEP; ``kind`` is the kind of each rank."""

    def __init__(self, inputs: Inputs, kind: Sequence[int]) -> None:
        self._inputs = inputs
        self._are_equivalent = cache(lambda ranks: len({kind[rank] for rank in ranks}) == 1)
        self._route = routes(inputs.network)
        self._costs = {flat: costs_of(inputs, flat=flat) for flat in (False, True)}
        self._known: dict[tuple[object, ...], tuple[int, int]] = {}
        self.listed: list[tuple[int, int, int]] = []
        self.phase_steps: list[tuple[float, float, float, int, int, int]] = []
        self.steps: list[tuple[int, int, int, float, float, int]] = []

    def collectives(self, rank: int, wanted: Sequence[Wanted], n: int) -> dict[Wanted, Form]:
        """Return the form of each collective in ``wanted``; ``rank`` runs ``n`` collectives in all.

        Raises :class:`NotLoweredError` if a collective's phases depend on earlier ones or need
        single messages, and :class:`DimsweepError` if one cannot run.
        """
        forms = {}
        for want in wanted:
            planner = _planner_of(self._inputs, rank)
            before = planner.state
            if want.ranks:
                chunks = list(planner.group_chunks(want.kind, want.n_bytes, want.ranks))
            else:
                chunks = list(planner.chunks(want.kind, want.n_bytes, want.involved))
            if n > 1 and planner.state != before:
                raise NotLoweredError("the queues of a collective depend on those before it")
            forms[want] = self._form(rank, chunks, flat=bool(want.ranks))
        return forms

    def send(self, rank: int, peer: int, n_bytes: int) -> Form:
        """Return the form of a message of ``n_bytes`` from ``rank`` to ``peer``.

        It holds its operator's stream instead of a port.
        """
        message = Message(*self._route(rank, peer), n_bytes)
        start = len(self.listed)
        key = ("send", message)
        if key not in self._known:
            self._known[key] = (
                message.dim,
                self._add([Round(message, 0, 0)], message.dim, p.POINT_TO_POINT),
            )
        dim, number = self._known[key]
        self.listed.append((dim, p.NO_PORT, number))
        return Form(1, start, 1, 1)

    def _form(self, rank: int, chunks: Sequence[Chunk], *, flat: bool) -> Form:
        if not chunks:
            return Form(0, 0, 0, 0)
        start = len(self.listed)
        length = max(len(chunk.phases) for chunk in chunks)
        variants = chunks if len(set(chunks)) > 1 else chunks[:1]
        for chunk in variants:
            for phase, ranks in zip(chunk.phases, chunk.ranks, strict=True):
                dim, number = self._phase(rank, phase, ranks, flat=flat)
                self.listed.append((dim, phase.queue, number))
            missing = length - len(chunk.phases)
            self.listed += [(p.NO_DIM, p.NO_PORT, p.NO_STEPS)] * missing
        return Form(len(chunks), start, length, len(variants))

    def _phase(
        self, rank: int, phase: Phase, ranks: Sequence[int], *, flat: bool
    ) -> tuple[int, int]:
        """Return the dimension of a phase, and the index of its steps in PHASE_STEPS."""
        if phase.algorithm == "doubleBinaryTree" or not self._are_equivalent(ranks):
            raise NotLoweredError("members of a collective are not alike")
        # The dimension and the queue do not matter, the members do.
        key = (phase.kind, phase.algorithm, phase.n_bytes, phase.clockwise, flat, ranks, rank)
        if key not in self._known:
            rounds = recipe(phase, ranks, rank, self._costs[flat], self._route)
            if rounds is None:
                raise NotLoweredError("some packets of a phase go ahead of others")
            dims = {each.message.dim for each in rounds if each.message}
            if len(dims) > 1:
                raise NotLoweredError("a phase crosses more than one dimension")
            dim = dims.pop() if dims else 0
            self._known[key] = dim, self._add(rounds, dim, phase.kind)
        return self._known[key]

    def _add(self, rounds: Sequence[Round], dim: int, kind: int) -> int:
        network, start = self._inputs.network, len(self.steps)
        sent = sum(each.message.n_bytes * each.message.peers for each in rounds if each.message)
        for (message, delay, reduction), equal in groupby(rounds):
            hops, n_bytes = (message.hops, message.n_bytes) if message else (0, 0)
            count = sum(1 for _ in equal)
            messages = 1 if message else 0
            row = (count, hops, delay * PS, float(n_bytes), float(reduction * PS), messages)
            self.steps.append(row)
        share = 1 / network.links[dim]
        self.phase_steps.append((share, 1.0, float(sent), kind, start, len(self.steps)))
        return len(self.phase_steps) - 1


def _planner_of(inputs: Inputs, rank: int) -> Planner:
    """Return the planner of a rank whose collectives do not depend on other ranks' loads."""
    greedy = Greedy(Clock(), inputs.network, flex=inputs.system.inter_dimension == FLEX)
    queues = inputs.options.queues_per_dim
    return Planner(rank, inputs.system, inputs.network, queues, greedy)
