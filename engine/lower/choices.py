"""What a library of collectives chooses at other bandwidths, without lowering anything again.

A choice says how long phases last, and nothing else: a form has the same dimensions, the same
chunks and the same kinds of phases, whatever is chosen.  So two tables of a structure follow from
the choices (the phases and their steps), and a column of a third: which phases a form uses.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.collective.library import Answer, Library, Phases, Request
from engine.collective.steps import PhaseSteps, Step
from engine.kinds import CollectiveKind
from engine.lower import program as p
from engine.lower.forms import Forms, Interned, TypedSteps, told_uses
from engine.lower.tables import phase_tables

_KEPT = 256  # vectors of choices, whose tables are kept


class _Asked(NamedTuple):
    """A form that a library was asked for, and where its uses begin in their table."""

    request: Request
    kind: CollectiveKind
    dims: tuple[int, ...]
    use_start: int


class Choices:
    """See :class:`engine.lower.program.Chooser`."""

    def __init__(self, library: Library, forms: Forms) -> None:
        self._library, self._asked, use_start = library, list[_Asked](), 0
        for form in forms.forms:
            if form.request is not None:
                dims = tuple(use.dim for use in form.uses)
                asked = _Asked(form.request, CollectiveKind(form.kind), dims, use_start)
                self._asked.append(asked)
            use_start += len(form.uses)
        self._phases = list(forms.phase_steps)
        self._answers: dict[tuple[int, int], Answer] = {}
        self._made: OrderedDict[bytes, dict[str, p.Table]] = OrderedDict()

    def at(self, bandwidth: p.Floats) -> p.Longs:
        chosen = np.zeros((len(bandwidth), len(self._asked)), dtype=np.int64)
        for column, asked in zip(chosen.T, self._asked, strict=True):
            column[:] = self._library.chosen(asked.request, bandwidth[:, asked.dims])
        return chosen

    def made(self, structure: p.Structure, choices: p.Longs) -> p.Structure:
        key = choices.tobytes()
        if key not in self._made:
            answers = [self._answer(i, way) for i, way in enumerate(choices.tolist())]
            self._made[key] = self._tables(structure, answers)
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return structure._replace(**self._made[key])

    def least(self, structure: p.Structure, low: p.Floats, high: p.Floats) -> p.Structure:
        answers = []
        for i, asked in enumerate(self._asked):
            dims = list(asked.dims)
            ways = self._library.possible(asked.request, low[dims], high[dims])
            answers.append(_least([self._answer(i, way) for way in ways]))
        return structure._replace(**self._tables(structure, answers))

    def _answer(self, i: int, way: int) -> Answer:
        if (i, way) not in self._answers:
            self._answers[i, way] = self._library.answer(self._asked[i].request, way)
        return self._answers[i, way]

    def _tables(self, structure: p.Structure, answers: Sequence[Answer]) -> dict[str, p.Table]:
        """The tables of a structure that follow from the answers."""
        phases, uses = Interned[TypedSteps](), structure.uses.copy()
        for phase in self._phases:
            phases(phase)
        for asked, answer in zip(self._asked, answers, strict=True):
            told = told_uses(asked.dims, asked.kind, answer.phases, phases)
            uses[asked.use_start : asked.use_start + len(told)] = np.array(list(told), dtype=p.USE)
        return {"uses": uses, **phase_tables(list(phases))}


def _least(answers: Sequence[Answer]) -> Answer:
    """An answer that asks for no more than any of these; they have the same chunks."""
    if len(answers) == 1:
        return answers[0]
    each_dimension = zip(*(answer.phases for answer in answers), strict=True)
    return Answer(
        answers[0].chunks,
        tuple(Phases(*map(_least_phase, *phases)) for phases in each_dimension),
    )


def _least_phase(*phases: PhaseSteps | None) -> PhaseSteps | None:
    """One step of all the bandwidth, whose latencies and bytes are the least of all the ``phases``,
    each by itself.  What it may gain by rounding is the most."""
    known = [phase for phase in phases if phase is not None]
    if not known:
        return None
    step = Step(
        1,
        hops=min(sum(step.count * step.hops for step in phase.steps) for phase in known),
        bytes_fraction=min(
            sum(step.count * step.bytes_fraction for step in phase.steps) / phase.share
            for phase in known
        ),
        messages=max(sum(step.count * step.messages for step in phase.steps) for phase in known),
        fixed=min(sum(step.count * step.fixed for step in phase.steps) for phase in known),
    )
    return PhaseSteps((step,), 1.0, known[0].growth, known[0].bytes_sent)
