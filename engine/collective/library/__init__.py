"""Collective libraries: algorithms for a collective over all the dimensions that it crosses.

Without a library, each dimension has a separate algorithm
(:mod:`engine.collective.algorithms`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dimsweep.engine.cluster.cluster import CollectiveModel, Timings
from dimsweep.engine.collective.library.measured import is_measured, measured_answer
from dimsweep.engine.collective.library.nccl.gpus import Gpu, Limits, gpu_called
from dimsweep.engine.collective.library.nccl.phases import answer as nccl_answer
from dimsweep.engine.collective.library.nccl.phases import message_shares
from dimsweep.engine.collective.library.nccl.tuning import choices, predictions
from dimsweep.engine.collective.request import Answer, Floats, Longs, Phases, Request, request_for
from dimsweep.engine.errors import DimsweepError

__all__ = ["Answer", "Library", "Phases", "Request", "library_of", "request_for"]


@dataclass(frozen=True)
class Library:
    """A collective library, such as NCCL: it chooses an algorithm for each request by predictions.

    ``predictions`` returns the library's predicted times of its O choices, shape (O, P), at
    bandwidths of shape (P, D) in the request's dimensions. The library takes the first of the
    fastest choices, and no prediction grows with any bandwidth. ``answer`` returns the phases of a
    choice, given its index. Both raise :class:`DimsweepError` for unsupported requests. ``shares``
    are the fractions of the bandwidth that messages get inside a node and between nodes.
    """

    predictions: Callable[[Request, Floats], Floats]
    answer: Callable[[Request, int], Answer]
    shares: tuple[float, float] = (1.0, 1.0)

    def chosen(self, request: Request, bandwidth: Floats) -> Longs:
        """Return the index of the library's choice at each of P bandwidths (P, D); shape (P,)."""
        return self.predictions(request, bandwidth).argmin(axis=0)

    def possible(self, request: Request, low: Floats, high: Floats) -> list[int]:
        """Return the indices of the choices that are possible at bandwidths in a box.

        The box is between ``low`` and ``high``, (D,) each. A choice is excluded if its best
        prediction in the box exceeds another choice's worst prediction.
        """
        worst, best = self.predictions(request, np.array([low, high])).T
        return np.flatnonzero(best <= worst.min()).tolist()


def library_of(model: CollectiveModel) -> Library | None:
    """Return the library that runs the collectives of ``model``.

    None if ``model`` has neither a library nor measurements. Raises :class:`DimsweepError` for an
    unknown kind of GPU.
    """
    nccl = None
    if model.library is not None:
        set_by_user = model.library
        limits = Limits(set_by_user.algo, set_by_user.proto, set_by_user.nvls_enable != 0)
        gpu = replace(gpu_called(set_by_user.gpu), limits=limits, rails=set_by_user.rails)
        nccl = Library(
            partial(predictions, gpu), partial(_by_nccl, gpu, model), message_shares(gpu)
        )
    if model.timings is None:
        return nccl
    return _measured_or(nccl, model.timings)


def _by_nccl(gpu: Gpu, model: CollectiveModel, request: Request, way: int) -> Answer:
    return nccl_answer(gpu, request, model, choices(gpu, request)[way])


def _measured_or(other: Library | None, timings: Timings) -> Library:
    """Return a library with the times of ``timings``; ``other`` runs collectives without them."""

    def elsewhere(request: Request) -> Library:
        if other is None:
            among = f"{request.ranks} GPUs on {request.nodes} nodes"
            raise DimsweepError(
                f"{timings.source} has no measurement of {request.kind} among {among}",
                where="collective.measured",
                hint="measure it with nccl-tests, or set collective.library=nccl, which predicts "
                "collectives without measurements",
                code="missing",
            )
        return other

    def predicted(request: Request, bandwidth: Floats) -> Floats:
        if is_measured(timings, request):
            return np.zeros((1, len(bandwidth)))
        return elsewhere(request).predictions(request, bandwidth)

    def answer(request: Request, way: int) -> Answer:
        found = measured_answer(timings, request)
        return found if found is not None else elsewhere(request).answer(request, way)

    return Library(predicted, answer, other.shares if other is not None else (1.0, 1.0))
