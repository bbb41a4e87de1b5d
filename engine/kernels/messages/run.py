"""What a run by rank tells, whoever carried its messages, and why one cannot finish."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.errors import DimsweepError
from engine.kernels.carriers import Traffic
from engine.kernels.messages.links import LinkAccount
from engine.kernels.phase.batch import Measures, outcome_error
from engine.kernels.phase.diagnosis import explain_stuck
from engine.kernels.phase.state import DONE, FINISHED, QUEUED, RUNNING, TOO_LONG, WAITING
from engine.lower.program import Program
from engine.network.graph import Network
from engine.network.wafer import WaferPlan

__all__ = [
    "DONE",
    "FINISHED",
    "QUEUED",
    "RUNNING",
    "WAITING",
    "Measures",
    "MessageRun",
    "OperatorSpan",
    "PhaseSpan",
    "Traffic",
    "reducing_error",
    "stuck_error",
    "too_long_error",
]


class OperatorSpan(NamedTuple):
    """When a node of the program ran (ps)."""

    start: int
    end: int


class PhaseSpan(NamedTuple):
    """When a rank's port was busy with a phase (ps)."""

    rank: int
    dim: int
    start: int
    end: int
    name: str


@dataclasses.dataclass(frozen=True)
class MessageRun:
    """One point simulated message by message; the classes of ``program`` are its ranks."""

    program: Program
    network: Network
    measures: Measures
    links: tuple[LinkAccount, ...]
    operators: tuple[OperatorSpan, ...]
    phases: tuple[PhaseSpan, ...]
    n_messages: int
    plan: WaferPlan | None  # of ranks and groups on a wafer
    traffic: Traffic | None  # of messages that were carried as flows or packets
    recorded: bool
    n_simulated: int | None = None  # ranks, if others are alike; None: all


def stuck_error(
    program: Program, states: Sequence[int], runs: Mapping[int, int], blocked: Sequence[str]
) -> DimsweepError:
    """Why a run could not finish: links that stand still for ever, each with the message that it
    holds, are named in ``blocked``; else see :func:`explain_stuck`."""
    if not blocked:
        return explain_stuck(program, states, runs)
    return blocked_error(blocked)


def blocked_error(blocked: Sequence[str]) -> DimsweepError:
    """Links that stand still for ever, each with the message that it holds."""
    more = f"\n  ... and {len(blocked) - 8} more links" if len(blocked) > 8 else ""
    return DimsweepError(
        "deadlock: buffers are full in a circle; these links stand still\n  "
        + "\n  ".join(blocked[:8])
        + more,
        where="network.buffer",
        hint="larger buffers, none, or another routing",
    )


def too_long_error() -> DimsweepError:
    """Why what lasts longer than a run may is not simulated."""
    return outcome_error(TOO_LONG)


def reducing_error() -> DimsweepError:
    """Why nobody carries a reduction by a switch."""
    return DimsweepError(
        "switches that reduce take whole messages",
        where="fidelity",
        hint="fidelity=message, or collective.algorithms=auto on switches that do not reduce",
    )
