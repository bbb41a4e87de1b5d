"""Turns of lines that cannot pass a wafer's switches at once.

See :mod:`engine.kernels.reference.turns`.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.queue import append, take_behind
from dimsweep.engine.kernels.network.state import State


@kernel
def ask_turn(st: State, number: int) -> None:
    """A reduction asks for its turn; :func:`next_in_turn` says whose it is."""
    append(st.turns[st.reductions[number].turn], st.reductions, number)


@kernel
def begin_round(st: State, number: int) -> bool:
    """Whoever has asked longest chooses the next round, if none is under way; whether so."""
    turn = st.turns[number]
    if turn.under_way > 0:
        return False
    if turn.head != NONE:
        turn.round = st.reductions[turn.head].round
        turn.passing += 1
    return True


@kernel
def next_in_turn(st: State, number: int, begins: bool) -> int:
    """The next reduction that passes now, or NONE; while others wait, none of a line that has had
    its turn."""
    turn = st.turns[number]
    at, others = turn.head + 0, False
    while at != NONE:
        others = others or st.reductions[at].round != turn.round
        at = st.reductions[at].next + 0
    return _take(st, number, others and not begins)


@kernel
def _take(st: State, number: int, once: bool) -> int:
    turn, before = st.turns[number], NONE
    at = turn.head + 0
    while at != NONE:
        asked = st.reductions[at]
        again = once and st.passed[asked.line] == turn.passing
        if asked.round == turn.round and not again:
            take_behind(turn, st.reductions, before, at)
            turn.under_way += 1
            st.passed[asked.line] = turn.passing
            return at
        before = at
        at = asked.next + 0
    return NONE
