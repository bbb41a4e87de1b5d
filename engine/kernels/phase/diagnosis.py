"""Why a run could not finish: who waits for what."""

from collections.abc import Mapping, Sequence

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.none import DONE, QUEUED, RUNNING
from dimsweep.engine.lower.program import NodeKind, Program

_SHOWN = 8


def explain_stuck(
    program: Program, states: Sequence[int], runs: Mapping[int, int]
) -> DimsweepError:
    """An error that names the ranks and operators that wait, and what each waits for.

    ``states`` are those of the nodes, as the phase kernel numbers them; ``runs`` maps a
    stream to the node that it runs.
    """
    s, names = program.structure, program.names
    behind, reasons = _behind(program, states), []
    for node, node_state in enumerate(states):
        if node_state not in (QUEUED, RUNNING) and node not in behind:
            continue  # done, or behind another that is named
        rank = f"rank {names.class_first[s.nodes[node]['cls']]}"
        if node_state == RUNNING:
            reason = _running_reason(program, states, node)
        elif node in behind:
            reason = f"its turn behind {names.node[behind[node]]!r}"
        else:
            holder = runs[int(s.nodes[node]["stream"])]
            reason = f"its stream, held by {names.node[holder]!r}"
        reasons.append(f"{rank}: {names.node[node]!r} waits for {reason}")
    done = sum(state == DONE for state in states)
    more = f"\n  ... and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return DimsweepError(
        f"deadlock: {done} of {len(names.node)} operators finished, then nothing could go on\n  "
        + "\n  ".join(reasons[:_SHOWN])
        + more,
        where="workload",
    )


def _behind(program: Program, states: Sequence[int]) -> dict[int, int]:
    """Who waits for nothing but what is before it on its stream, which waits for something else."""
    nodes, following = program.structure.nodes, program.structure.following
    before = np.repeat(np.arange(len(nodes)), nodes["next_end"] - nodes["next_start"])
    waits = np.asarray(states)[before] != DONE
    before, after = before[waits], following[waits]
    alike = nodes["stream"][before] == nodes["stream"][after]
    only = ~np.isin(after, after[~alike]) & (nodes["kind"][after] == NodeKind.COLLECTIVE)
    first = only & ~np.isin(before, after[only])
    return dict(zip(after[first].tolist(), before[first].tolist(), strict=True))


def _running_reason(program: Program, states: Sequence[int], node: int) -> str:
    s, names = program.structure, program.names
    flow = s.flows[s.nodes[node]["flow"]]
    members = s.members[flow["member_start"] : flow["member_end"]]
    if s.nodes[node]["kind"] == NodeKind.RECEIVE:
        return f"the send {names.node[members[0]['node']]!r}"
    absent = [
        f"rank {names.class_first[member['cls']]}"
        for member in members
        if states[member["node"]] not in (RUNNING, DONE)
    ]
    if s.nodes[node]["kind"] == NodeKind.COLLECTIVE and absent:
        return f"{', '.join(absent[:4])} to join"
    return "its transfer"
