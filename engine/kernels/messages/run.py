"""What a run by rank tells, whoever carried its messages, and why one cannot finish."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.wafer import WaferPlan
from dimsweep.engine.kernels.carriers import Traffic as Traffic
from dimsweep.engine.kernels.phase.batch import outcome_error
from dimsweep.engine.kernels.phase.diagnosis import explain_stuck
from dimsweep.engine.kernels.phase.measures import Measures as Measures
from dimsweep.engine.kernels.phase.phase_time import whole
from dimsweep.engine.kernels.phase.state import FINISHED, TOO_LONG
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.units import PICOSECONDS


class Span(NamedTuple):
    """When a message held a link (ps), and what it belonged to."""

    start: int
    end: int
    name: str


class LinkAccount(NamedTuple):
    """What a link did.

    ``busy`` is the ps in which messages held it, ``utilisation`` the bytes over what its bandwidth
    could have carried in the whole time, ``longest_queue`` how many messages waited for it at once,
    or, where they share it, were on it beside another.
    """

    link: Link
    n_bytes: float
    busy: int
    utilisation: float
    longest_queue: int
    spans: tuple[Span, ...]  # empty unless recorded

    @classmethod
    def by(
        cls, end: int, link: Link, n_bytes: float, busy: int, longest: int, spans: Iterable[Span]
    ) -> "LinkAccount":
        """What a link did by ``end`` (ps)."""
        used = n_bytes / (link.bandwidth * end / PICOSECONDS) if end else 0.0
        return cls(link, n_bytes, busy, used, longest, tuple(spans))


def whole_picoseconds(picoseconds: float) -> int:
    """How long something lasts, rounded as in all kernels."""
    return int(whole(picoseconds))


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


def measures_by_rank(**of_rank: NDArray[Any]) -> Measures:
    """One point that has finished: a column of each measure, a row a rank."""
    return Measures(
        outcome=np.array([FINISHED], dtype=np.int32),
        time=of_rank["end"].max(keepdims=True),
        path=None,
        **{name: column[None] for name, column in of_rank.items()},
    )


def stuck_error(
    program: Program, states: Sequence[int], runs: Mapping[int, int], blocked: Sequence[str]
) -> DimsweepError:
    """Why a run could not finish: links that stand still for ever, each with the message that it
    holds, are named in ``blocked``; else see :func:`explain_stuck`."""
    if not blocked:
        return explain_stuck(program, states, runs)
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
