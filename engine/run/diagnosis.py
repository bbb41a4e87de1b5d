"""Why a run could not finish: who waits for what."""

from __future__ import annotations

from engine.errors import DimsweepError
from engine.lower.program import COLLECTIVE, RECEIVE, Program
from engine.run.phase import DONE, QUEUED, RUNNING, State

_SHOWN = 8


def explain_stuck(program: Program, state: State) -> DimsweepError:
    """An error that names the ranks and operators that wait, and what each waits for."""
    s, names = program.structure, program.names
    reasons = []
    for node, node_state in enumerate(state.nodes["state"]):
        if node_state not in (QUEUED, RUNNING):
            continue  # done, or behind another that is named
        rank = f"rank {names.class_first[s.nodes[node]['cls']]}"
        if node_state == RUNNING:
            reason = _running_reason(program, state, node)
        else:
            holder = state.units[s.nodes[node]["unit"]]["node"]
            reason = f"its stream, held by {names.node[holder]!r}"
        reasons.append(f"{rank}: {names.node[node]!r} waits for {reason}")
    done = int(state.counts[-1])
    more = f"\n  ... and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return DimsweepError(
        f"deadlock: {done} of {len(names.node)} operators finished, then nothing could go on\n  "
        + "\n  ".join(reasons[:_SHOWN])
        + more,
        where="workload",
    )


def _running_reason(program: Program, state: State, node: int) -> str:
    s, names = program.structure, program.names
    flow = s.flows[s.nodes[node]["flow"]]
    members = s.members[flow["member_start"] : flow["member_end"]]
    if s.nodes[node]["kind"] == RECEIVE:
        return f"the send {names.node[members[0]['node']]!r}"
    absent = [
        f"rank {names.class_first[member['cls']]}"
        for member in members
        if state.nodes[member["node"]]["state"] not in (RUNNING, DONE)
    ]
    if s.nodes[node]["kind"] == COLLECTIVE and absent:
        return f"{', '.join(absent[:4])} to join"
    return "its transfer"
