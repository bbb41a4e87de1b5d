"""A library's choices at other bandwidths, without lowering a workload again.

A choice only changes the duration of phases: a form has the same dimensions, chunks and kinds of
phases for all choices.  So two tables of a structure follow from the choices (the phases and their
steps), and one column of a third: the phases that a form uses.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.collective.library import Answer, Library, Phases, Request
from dimsweep.engine.collective.steps import PhaseSteps, Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower import program as p
from dimsweep.engine.lower.forms import Forms, Interned, TypedSteps, answer_uses
from dimsweep.engine.lower.tables import phase_tables

_KEPT = 256  # vectors of choices, whose tables are kept


class _Asked(NamedTuple):
    """A form that a library runs, and the start of its uses in their table."""

    request: Request
    kind: CollectiveKind
    dims: tuple[int, ...]
    use_start: int


class _Tables(NamedTuple):
    """The tables of a structure that depend on the library's choices."""

    uses: p.Table
    phase_steps: p.Table
    steps: p.Table

    def put(self, structure: p.Structure) -> p.Structure:
        return structure._replace(uses=self.uses, phase_steps=self.phase_steps, steps=self.steps)


class Choices:
    """Choices of a library (see :class:`engine.lower.program.Chooser`)."""

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
        self._made: OrderedDict[bytes, _Tables] = OrderedDict()

    def choose(self, bandwidth: p.Floats) -> p.Longs:
        """Return the choices (P, R) at these bandwidths."""
        chosen = np.zeros((len(bandwidth), len(self._asked)), dtype=np.int64)
        for column, asked in zip(chosen.T, self._asked, strict=True):
            column[:] = self._library.chosen(asked.request, bandwidth[:, asked.dims])
        return chosen

    def apply(self, structure: p.Structure, choices: p.Longs) -> p.Structure:
        """Return the structure with these choices."""
        key = choices.tobytes()
        if key not in self._made:
            answers = [self._answer(i, way) for i, way in enumerate(choices.tolist())]
            self._made[key] = self._tables(structure, answers)
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return self._made[key].put(structure)

    def relax(self, structure: p.Structure, low: p.Floats, high: p.Floats) -> p.Structure:
        """Return the structure with the least request of all possible choices."""
        answers = []
        for i, asked in enumerate(self._asked):
            dims = list(asked.dims)
            ways = self._library.possible(asked.request, low[dims], high[dims])
            answers.append(_minimum_answer([self._answer(i, way) for way in ways]))
        return self._tables(structure, answers).put(structure)

    def _answer(self, i: int, way: int) -> Answer:
        if (i, way) not in self._answers:
            self._answers[i, way] = self._library.answer(self._asked[i].request, way)
        return self._answers[i, way]

    def _tables(self, structure: p.Structure, answers: Sequence[Answer]) -> _Tables:
        """Return the tables of a structure that follow from the answers."""
        phases, uses = Interned[TypedSteps](), structure.uses.copy()
        for phase in self._phases:
            phases(phase)
        for asked, answer in zip(self._asked, answers, strict=True):
            found = answer_uses(asked.dims, asked.kind, answer.phases, phases)
            uses[asked.use_start : asked.use_start + len(found)] = np.array(
                list(found), dtype=p.USE
            )
        return _Tables(uses, *phase_tables(list(phases)))


def _minimum_answer(answers: Sequence[Answer]) -> Answer:
    """Return an answer that requests no more than any of these; all have the same chunks."""
    if len(answers) == 1:
        return answers[0]
    each_dimension = zip(*(answer.phases for answer in answers), strict=True)
    return Answer(answers[0].chunks, tuple(map(_minimum_phases, each_dimension)))


def _minimum_phases(answers: Sequence[Phases]) -> Phases:
    scatter, gather, fused = (
        [phase for phase in phases if phase is not None] for phases in zip(*answers, strict=True)
    )
    return Phases(
        _minimum_phase(scatter),
        _minimum_phase(gather) if gather else None,
        _minimum_phase(fused) if fused else None,
    )


def _minimum_phase(phases: Sequence[PhaseSteps]) -> PhaseSteps:
    """Return one step with the least latencies and bytes of the ``phases``, at full bandwidth.

    Each is the least by itself, and rounding gains the most.
    """

    def summed(name: str) -> list[Any]:
        return [sum(step.count * getattr(step, name) for step in phase.steps) for phase in phases]

    size = [n / phase.share for n, phase in zip(summed("bytes_fraction"), phases, strict=True)]
    step = Step(
        1,
        min(summed("hops")),
        min(size),
        messages=max(summed("messages")),
        fixed=min(summed("fixed")),
    )
    return PhaseSteps((step,), 1.0, phases[0].growth, phases[0].bytes_sent)
