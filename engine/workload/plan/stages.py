"""The pipeline stages of a model: which blocks each of them runs."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.models.model import CollectiveStep, LayerBlock, RankModel, Step


@dataclass(frozen=True)
class Stage:
    """Stage ``number`` of ``n_stages``: its chunks of blocks.

    ``message`` is the bytes that a rank hands from chunk to chunk; ``message_is_cut`` says whether
    each tensor-parallel rank holds another part of the activation.  ``tied`` is the number of
    parameters shared with the stage at the other end.  With ``both_ways`` the second chunk is of
    the micro-batches that come from the other end, whose stage has the same two.
    """

    number: int
    n_stages: int
    chunks: tuple[tuple[LayerBlock, ...], ...]
    message: float
    message_is_cut: bool
    tied: float
    both_ways: bool = False

    @property
    def places(self) -> int:
        """How many chunks a micro-batch passes."""
        return self.n_stages * (1 if self.both_ways else len(self.chunks))

    def place(self, chunk: int) -> int:
        """Which one of them a chunk is."""
        if self.both_ways and chunk:
            return self.mirror
        return self.number if self.both_ways else chunk * self.n_stages + self.number

    def at(self, place: int, chunk: int) -> int:
        """The stage that has a place on the way of the micro-batches of ``chunk``."""
        return self.n_stages - 1 - place if self.both_ways and chunk else place % self.n_stages

    @property
    def mirror(self) -> int:
        """The stage as far from the other end."""
        return self.n_stages - 1 - self.number

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

    def reached(self, micro_batches: int) -> float:
        """The values of its experts that so many micro-batches give gradients, at most."""
        return sum(block.reached(micro_batches) for chunk in self.chunks for block in chunk)


def cut(
    model: RankModel,
    n_stages: int,
    n_chunks: int,
    layers: Sequence[int] = (),
    *,
    both_ways: bool = False,
) -> list[Stage]:
    """Stages of layers; chunk c of stage i holds the c * n_stages + i-th share, or with
    ``both_ways`` chunk 1 that of the stage as far from the other end.

    ``layers`` are those of each share.  Unless they are given, shares are as equal as can be: what
    stands before and after the layers is added to the first and the last share where the layers
    divide evenly, and else takes the place of a layer there (as in Llama 3 405B's 126 layers, or
    BLOOM's 70 on 12 stages).  Raises :class:`InfeasibleError` when there are more shares than
    layers, and :class:`DimsweepError` for ``layers`` that do not add up.
    """
    if n_chunks > 1 and n_stages == 1:
        raise InfeasibleError(
            "one stage has nothing to interleave", where="plan.interleave", hint="interleave: 1"
        )
    n = n_stages * n_chunks
    shares = _given(model, n, layers) if layers else _shares(model, n)
    if not all(shares):
        chunks = f" in {n_chunks} chunks each" if n_chunks > 1 else ""
        raise InfeasibleError(
            f"{len(model.layers)} layers are too few for {n_stages} stages{chunks}",
            where="plan.interleave" if n_chunks > 1 else "parallel.pipeline",
            hint="a share holds a layer at least",
        )
    message = max(block.output for block in model.layers)
    tied = model.tied if n_stages > 1 and not both_ways else 0.0
    if tied:
        shares[-1] = (*shares[-1], LayerBlock("tied embedding", parameters=tied))
    return [
        Stage(
            number,
            n_stages,
            (shares[number], shares[-1 - number])
            if both_ways
            else tuple(shares[c * n_stages + number] for c in range(n_chunks)),
            message,
            model.message_is_cut,
            tied,
            both_ways,
        )
        for number in range(n_stages)
    ]


_Share = tuple[LayerBlock, ...]


def _shares(model: RankModel, n: int) -> list[_Share]:
    """The blocks in ``n`` shares; larger ones come late, where fewer micro-batches are in flight,
    but not last, where the logits are."""
    if len(model.layers) % n == 0:
        return _given(model, n, [len(model.layers) // n] * n)
    blocks = (*model.front, *model.layers, *model.back)
    each, more = divmod(len(blocks), n)
    sizes = [each + (n - 1 - more <= i < n - 1) for i in range(n)]
    return _divided(blocks, sizes)


def _given(model: RankModel, n: int, layers: Sequence[int]) -> list[_Share]:
    """Shares of so many layers, with what stands before and after them."""
    if len(layers) != n or sum(layers) != len(model.layers) or min(layers) < 0:
        raise DimsweepError(
            f"{len(layers)} shares of {sum(layers)} layers, but the model has {len(model.layers)} "
            f"layers for {n} shares",
            where="plan.stage_layers",
            hint="a number for each chunk, in the order in which a micro-batch passes them",
        )
    shares = _divided(model.layers, layers)
    shares[0] = (*model.front, *shares[0])
    shares[-1] = (*shares[-1], *model.back)
    return shares


def _divided(blocks: _Share, sizes: Sequence[int]) -> list[_Share]:
    ends = list(itertools.accumulate(sizes, initial=0))
    return [blocks[a:b] for a, b in itertools.pairwise(ends)]
