"""The messages of a program, for all carriers: phases, routes, tables, folding.

A program is one in which every rank is a class of its own (:func:`lower_by_rank`).  Words, beside
those of :class:`engine.lower.program.Structure`: a *port* leads from a rank into a dimension; a
*line* is the members of a group that differ in one dimension only; a *plan* is what the members of
a line do in a phase, as *strands* of *rounds* (:mod:`engine.collective.rounds`); a *pair* is a
member and one to whom it sends; a *slot* is where a strand's messages from one sender come in.
"""

from dimsweep.engine.kernels.messages.phases import may_suspend
from dimsweep.engine.kernels.messages.program import (
    LinkAccount,
    MessageRun,
    check_network,
    lower_by_rank,
    network_of,
)
