"""Collective libraries: how one runs a collective over all the dimensions that it crosses.

Where no library is named, each dimension has an algorithm of its own
(:mod:`engine.collective.algorithms`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engine.cluster.cluster import CollectiveModel
from engine.cluster.library import Timings
from engine.collective.library.measured import measured_answer
from engine.collective.library.nccl.gpus import gpu_called
from engine.collective.library.nccl.phases import answer as nccl_answer
from engine.collective.library.nccl.phases import message_shares
from engine.collective.request import Answer, Phases, Request, request_for
from engine.errors import DimsweepError

__all__ = ["Answer", "Library", "Phases", "Request", "library_of", "request_for"]


@dataclass(frozen=True)
class Library:
    """What runs collectives, and messages from point to point.

    ``answer`` says how a collective runs, or raises :class:`DimsweepError`.  ``shares`` are what a
    message gets of a dimension's bandwidth inside a node and between nodes.
    """

    answer: Callable[[Request], Answer]
    shares: tuple[float, float] = (1.0, 1.0)


def library_of(model: CollectiveModel) -> Library | None:
    """What runs the communication of ``model``, if it names a library or brings measurements.

    Raises :class:`DimsweepError` for a kind of GPU of which nothing is known.
    """
    nccl = None
    if model.library is not None:
        gpu = gpu_called(model.library.gpu)
        nccl = Library(partial(nccl_answer, gpu, model=model), message_shares(gpu))
    if model.timings is None:
        return nccl
    measured = partial(_measured_or, nccl, model.timings)
    return Library(measured, nccl.shares) if nccl is not None else Library(measured)


def _measured_or(nccl: Library | None, timings: Timings, request: Request) -> Answer:
    found = measured_answer(timings, request)
    if found is not None:
        return found
    if nccl is None:
        raise _not_measured(timings.source, request)
    return nccl.answer(request)


def _not_measured(source: str, request: Request) -> DimsweepError:
    kind = request.kind
    return DimsweepError(
        f"{source} has no {kind} among {request.ranks} GPUs on {request.nodes} nodes",
        where="collective.measured",
        hint="measure it with nccl-tests, or give collective.library=nccl for what is not there",
    )
