"""Collective libraries: how one runs a collective over all the dimensions that it crosses.

Where no library is named, each dimension has an algorithm of its own
(:mod:`engine.collective.algorithms`).
"""

from __future__ import annotations

from collections.abc import Callable

from engine.cluster.cluster import CollectiveModel
from engine.collective.library.measured import measured_answer
from engine.collective.library.nccl.gpus import gpu_called
from engine.collective.library.nccl.phases import answer
from engine.collective.request import Answer, Phases, Request, request_for
from engine.errors import DimsweepError

__all__ = ["Answer", "Library", "Phases", "Request", "library_of", "request_for"]

Library = Callable[[Request], Answer]


def library_of(model: CollectiveModel) -> Library | None:
    """What runs the collectives of ``model``, if it names a library or brings measurements.

    Raises :class:`DimsweepError` for a kind of GPU of which nothing is known.
    """
    nccl: Library | None = None
    if model.library is not None:
        gpu = gpu_called(model.library.gpu)

        def nccl(request: Request) -> Answer:
            return answer(gpu, request, model.chunks)

    if model.timings is None:
        return nccl
    timings = model.timings

    def measured(request: Request) -> Answer:
        found = measured_answer(timings, request)
        if found is None and nccl is not None:
            return nccl(request)
        if found is None:
            raise _not_measured(timings.source, request)
        return found

    return measured


def _not_measured(source: str, request: Request) -> DimsweepError:
    kind = request.kind
    return DimsweepError(
        f"{source} has no {kind} among {request.ranks} GPUs on {request.nodes} nodes",
        where="collective.measured",
        hint="measure it with nccl-tests, or give collective.library=nccl for what is not there",
    )
