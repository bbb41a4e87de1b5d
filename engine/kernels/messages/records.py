"""Record types of messages and plans, shared by the compiled and the SimPy kernel.

:mod:`engine.kernels.messages` explains the terms.  Record types of the state of a run, such as a
message in flight, are in :mod:`engine.kernels.network.state`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dimsweep.engine.lower import program
from dimsweep.engine.lower.program import Ints, Table
from dimsweep.engine.records import list_fields, record

ROUTE = record(
    start="i4",
    end="i4",
    limits="i4",  # where the links end, at a point, that may limit a flow; they are the first
    room="i8",  # the least at a far end on its way; -1 without limit
    way="i8",  # latencies, at a point
)
# A flow of the program, its form, and its messages.
FLOW = record(
    **list_fields(program.FLOW),
    **list_fields(program.FORM),
    n_members="i4",
    phase="i4",  # its phases in State.phases, from here on
    n_phases="i4",  # of a chunk
    variants="i4",  # one, or one a chunk
    group="i4",  # its number; NONE from point to point
    gather="i4",  # its counts of who has come in State.gathered, from here on
    route="i4",  # from point to point
    precedence="i4",  # of lower ones go first
    arrived="i4",  # members
)
WAY = record(route="i4", strand="i4", slot="i4")  # of a pair, on a line
MEMBER_PLAN = record(
    strands="i4",  # its strands in Plans.strands, from here ...
    n_strands="i4",
    n_slots="i4",
    open="i4",
    pairs="i4",  # its pairs among those of the plan, from here on
    asked="i4",  # 1 if messages wait until they are asked for
)
PLAN_STRAND = record(start="i4", end="i4")  # its rounds
ROUND = record(
    reduce="f8",
    receive="i4",  # slots, in Plans.receives, from here ...
    receive_end="i4",
    send="i4",  # in Plans.sends
    send_end="i4",
)
SEND = record(fraction="f8", pair="i4")
LINE = record(start="i4", size="i4")  # its ranks, in Plans.line_ranks
LINE_PLAN = record(
    members="i4",  # its MEMBER_PLANs, from here on
    ways="i4",  # its WAYs, from here on
    reductions="i4",  # its REDUCTIONs, from here ...
    reductions_end="i4",
)
PLACE = record(line="i4", coordinate="i4")  # of a rank in a group's dimension
REDUCTION = record(
    risen="i8",  # how late the latest of its sources is
    launch="i4",  # what the sources send in State.launches, from here ...
    launch_end="i4",
    n_messages="i4",
    phase="i4",  # that it is of, in State.phases; members may be done with it before all
    entry="i4",
    missing="i4",  # targets that have not got theirs
    n_targets="i4",
    turn="i4",  # whose rounds it waits for, or NONE
    round="i4",
    line="i4",  # among those that take turns
    next="i4",  # that waits, too
)
# A message over one link that others set off (see engine.kernels.messages.routes): of a reduction
# by switches, or a piece from or to an I/O controller.
LAUNCH = record(
    up="f8",  # what sources send, a share of what a member holds
    down="f8",  # what targets receive, as a share of the same
    way="i8",  # latencies of all the way, for a target
    copies="i4",  # targets for whom it is; 0 on the way up
    parts="i4",  # in which it goes side by side
    hop="i4",
    stored="i4",  # whether all of it must have come before it reaches its gate
    gate="i4",  # to which it goes, or NONE
    port="i4",  # of the source, or NONE
    # Its port; of a piece the place, among the members or behind them, of who gets it; or NONE.
    target="i4",
    reduction="i4",  # that it is of, or NONE
    train="i4",  # the train of the part, or NONE
)
GATE = record(
    tail="i8",  # the latest of what has begun to come
    expected="i4",
    arrived="i4",
    launch="i4",  # what it launches then, from here ...
    launch_end="i4",
)
# What goes through an interconnect's I/O controllers (see engine.kernels.messages.routes).
TRANSFER = record(
    n_bytes="f8",  # of a piece
    missing="i8",  # pieces that the controllers have not got
    member="i4",  # its IO_MEMBERs, from here ...
    member_end="i4",
    arrived="i4",  # of them
    train="i4",  # its TRAINs, from here ...
    train_end="i4",
    store="i4",
    n_pieces="i8",
    n_messages="i8",
)
IO_MEMBER = record(
    late="i8",  # latency before its last piece
    missing="i8",  # pieces
    transfer="i4",
    node="i4",
)
TRAIN = record(
    launch="i4",  # the LAUNCHes that begin a piece, from here ...
    launch_end="i4",
    pieces="i4",
    ends="i4",  # that a piece goes to
    left="i4",  # pieces to begin
    missing="i4",  # ends that have not got the present piece
    transfer="i4",  # under way
)


class Plans(NamedTuple):
    """Tables of the plans (messages of each member of each line), and of the ranks on lines."""

    members: Table  # MEMBER_PLAN
    strands: Table  # PLAN_STRAND
    rounds: Table  # ROUND
    receives: Ints
    sends: Table  # SEND
    line_plans: Table  # (lines, kinds) of LINE_PLAN
    ways: Table  # WAY
    places: Table  # (groups, D + 1, R) of PLACE; the last: in the whole group
    lines: Table  # LINE
    line_ranks: Ints


class Io(NamedTuple):
    """Tables of the loads and stores through an interconnect's I/O controllers."""

    transfers: Table  # TRANSFER
    members: Table  # IO_MEMBER
    trains: Table  # TRAIN


def named_records(rows: Sequence[Mapping[str, object]], dtype: np.dtype[np.void]) -> Table:
    """Return rows (dicts) as records of ``dtype``; fields that the rows lack are zero."""
    table = np.zeros(len(rows), dtype=dtype)
    for name in rows[0] if rows else ():
        table[name] = [row[name] for row in rows]
    return table
