"""The pipeline stages of a model: which blocks each of them runs."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import InfeasibleError
from engine.kinds import CollectiveKind
from engine.model.rank import LayerBlock, RankModel
from engine.model.steps import CollectiveStep, Step


@dataclass(frozen=True)
class Stage:
    """Stage ``number`` of ``n_stages``: its chunks of blocks.

    ``message`` is the bytes that a rank hands from chunk to chunk; ``message_is_cut`` says whether
    each tensor-parallel rank holds another part of the activation.  ``tied`` is the number of
    parameters shared with the stage at the other end.
    """

    number: int
    n_stages: int
    chunks: tuple[tuple[LayerBlock, ...], ...]
    message: float
    message_is_cut: bool
    tied: float

    def shared_among(self, tensor: int) -> int:
        """How many ``tensor``-parallel ranks send a part each of what they all hold.

        The ranks of the next stage gather the parts (the scatter-gather optimisation of Narayanan
        et al., SC 2021, section 4.1).  Under sequence parallelism each rank holds its own tokens
        only, sends all of them to its partner, and nothing is gathered (Korthikanti et al., 2023,
        section 4.2.2).
        """
        return 1 if self.message_is_cut else tensor

    def gather(self, tensor: int) -> tuple[Step, ...]:
        """What follows a message that came in parts."""
        parts = self.shared_among(tensor)
        if parts == 1:
            return ()
        return (CollectiveStep(CollectiveKind.ALL_GATHER, self.message / parts, "tensor"),)

    @property
    def parameters(self) -> float:
        return sum(block.parameters for chunk in self.chunks for block in chunk)

    @property
    def expert_parameters(self) -> float:
        return sum(block.expert_parameters for chunk in self.chunks for block in chunk)


def cut(model: RankModel, n_stages: int, n_chunks: int) -> list[Stage]:
    """Stages with equal numbers of layers; chunk c of stage i holds the c * n_stages + i-th share.

    What stands before and after the layers is added to the first and the last share, or takes the
    place of a layer there where that makes the shares equal (as in Llama 3 405B's 126 layers).
    Raises :class:`InfeasibleError` when the layers do not divide.
    """
    if n_chunks > 1 and n_stages == 1:
        raise InfeasibleError(
            "one stage has nothing to interleave", where="plan.interleave", hint="interleave: 1"
        )
    shares = _shares(model, n_stages * n_chunks)
    if shares is None:
        n, chunks = len(model.layers), f" in {n_chunks} chunks each" if n_chunks > 1 else ""
        raise InfeasibleError(
            f"{n} layers do not divide by {n_stages} stages{chunks}",
            where="plan.interleave" if n_chunks > 1 else "parallel.pipeline",
            hint=f"degrees that do: {', '.join(str(d) for d in _divisors(n))}",
        )
    message = max(block.output for block in model.layers)
    tied = model.tied if n_stages > 1 else 0.0
    if tied:
        shares[-1] = (*shares[-1], LayerBlock("tied embedding", parameters=tied))
    return [
        Stage(
            number,
            n_stages,
            tuple(shares[c * n_stages + number] for c in range(n_chunks)),
            message,
            model.message_is_cut,
            tied,
        )
        for number in range(n_stages)
    ]


def _shares(model: RankModel, n: int) -> list[tuple[LayerBlock, ...]] | None:
    """The blocks in ``n`` shares, or nothing if that cannot be done evenly."""
    if len(model.layers) % n == 0:
        each = len(model.layers) // n
        shares = [model.layers[i * each : (i + 1) * each] for i in range(n)]
        shares[0] = (*model.front, *shares[0])
        shares[-1] = (*shares[-1], *model.back)
        return shares
    blocks = (*model.front, *model.layers, *model.back)
    if len(model.front) == len(model.back) == 1 and len(blocks) % n == 0:
        each = len(blocks) // n
        return [blocks[i * each : (i + 1) * each] for i in range(n)]
    return None


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]
