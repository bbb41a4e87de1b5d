"""The longest path through a program's operators, as a convex model of the time."""

from dataclasses import dataclass

import numpy as np

from dimsweep.engine.bound.closed_form import demand_of
from dimsweep.engine.bound.items import Items, items_of
from dimsweep.engine.lower.program import Floats, Ints, Program


@dataclass(frozen=True)
class PathForm:
    """A :class:`ConvexModel`: every flow lasts as long as the greatest of its form's pieces.

    ``forms`` holds the pieces (n, D + R + 1) of each form; ``sums`` (R, D) is the model's.
    """

    items: Items
    forms: tuple[Floats, ...]
    sums: Floats

    def pieces(self, reciprocal: Floats) -> Floats:
        """The longest path (1, D + R + 1)."""
        forms, seconds = self.greatest(reciprocal)
        return self.sum_of(self.items.longest(self.durations(seconds)), forms)[None]

    def greatest(self, reciprocal: Floats) -> tuple[Floats, Floats]:
        """Each form's greatest piece (F, D + R + 1), and its seconds (F,)."""
        at = np.append(reciprocal, 1.0)
        rows = np.zeros((len(self.forms), len(at)))
        for form, pieces in enumerate(self.forms):
            rows[form] = pieces[(pieces @ at).argmax()]
        return rows, rows @ at

    def durations(self, seconds: Floats) -> Floats:
        """How long each item lasts, (N,), given the seconds of each form."""
        kind = self.items.kind
        return self.items.fixed + np.where(kind >= 0, np.append(seconds, 0.0)[kind], 0.0)

    def sum_of(self, path: Ints, forms: Floats) -> Floats:
        """The piece (D + R + 1,) of some items, given each form's."""
        kind = self.items.kind[path]
        piece: Floats = np.bincount(kind[kind >= 0], minlength=len(forms)) @ forms
        piece[-1] += self.items.fixed[path].sum()
        return piece


def overlap_form(program: Program) -> PathForm:
    """LIBRA's closed form where operators overlap: sums and maxima as the graph says.

    A collective lasts max_d a_kd / b_d, as in :func:`closed_form`, and whatever does not wait for
    one another takes place side by side at full speed.  Without overlap it is the closed form.
    Raises :class:`DimsweepError` when operators wait in a circle.
    """
    n_dims = program.structure.shape.n_dims
    demand = demand_of(program)
    forms = tuple(np.hstack([np.diag(row), np.zeros((n_dims, 1))]) for row in demand)
    return PathForm(items_of(program.structure), forms, np.zeros((0, n_dims)))
