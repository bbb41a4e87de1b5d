"""The messages of a program, for all carriers: phases, routes, tables, folding.

In these programs every rank is a separate class (:func:`lower_by_rank`).  Terms, in addition to
those of :class:`engine.lower.program.Structure`:

- A *port* leads from a rank into a dimension.
- A *line* is the set of members of a group that differ in one dimension only.
- A *plan* says what each member of a line sends, receives and reduces in a phase, as *strands*
  (concurrent sequences) of *rounds* (:mod:`engine.collective.rounds`).
- A *pair* is a member and a peer that it sends to.
- A *slot* of a strand receives the messages from one sender.
"""

from dimsweep.engine.kernels.messages.phases import may_suspend
from dimsweep.engine.kernels.messages.program import (
    LinkAccount,
    MessageRun,
    check_network,
    lower_by_rank,
    network_of,
)
