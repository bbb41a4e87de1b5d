"""A collective library's choice of algorithm at other bandwidths, without lowering again.

A library (such as NCCL) chooses an algorithm for each request, by the bandwidths. The choice only
changes the duration of phases: a form (a distinct communication) has the same dimensions, chunks
and kinds of phases for all choices. So the choices determine two tables of a structure (the phases
and their steps), and one column of a third: the phases that a form uses.
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
    """A request to the library, its kind and dimensions, and its first row in the table of uses."""

    request: Request
    kind: CollectiveKind
    dims: tuple[int, ...]
    use_start: int


class _Tables(NamedTuple):
    """The three tables of a structure that depend on the library's choices."""

    uses: p.Table
    phase_steps: p.Table
    steps: p.Table

    def put(self, structure: p.Structure) -> p.Structure:
        return structure._replace(uses=self.uses, phase_steps=self.phase_steps, steps=self.steps)


class Choices:
    """A :class:`engine.lower.program.Chooser` for one library and the R requests of a program."""

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
        """Return the library's choice for each of R requests at P points: shape (P, R), of indices.

        ``bandwidth`` has shape (P, D), in bytes/s.
        """
        chosen = np.zeros((len(bandwidth), len(self._asked)), dtype=np.int64)
        for column, asked in zip(chosen.T, self._asked, strict=True):
            column[:] = self._library.chosen(asked.request, bandwidth[:, asked.dims])
        return chosen

    def apply(self, structure: p.Structure, choices: p.Longs) -> p.Structure:
        """Return ``structure`` with the phases of the given ``choices`` (R,)."""
        key = choices.tobytes()
        if key not in self._made:
            answers = [self._answer(i, way) for i, way in enumerate(choices.tolist())]
            self._made[key] = self._tables(structure, answers)
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return self._made[key].put(structure)

    def relax(self, structure: p.Structure, low: p.Floats, high: p.Floats) -> p.Structure:
        """Return ``structure`` with the minimum phases of all choices that are possible in a box.

        ``low`` and ``high`` (D,) in bytes/s bound the box of bandwidths. No choice that the library
        makes in the box is faster than these phases.
        """
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
        """Return the tables of a structure whose requests have the library's ``answers``."""
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
    """Return an answer whose phases take no longer than the phases of any of ``answers``.

    All ``answers`` have the same number of chunks.
    """
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
    """Return a phase of one step that is no slower than any of ``phases`` at any bandwidth.

    The latency, the bytes and the fixed time are minima, each taken over all phases separately. The
    step has the most messages, since rounding the time of each message gains the most then.
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
