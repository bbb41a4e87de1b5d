"""Pipeline stages: the division of a model's blocks into stages and chunks."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, InfeasibleError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.models.model import CollectiveStep, LayerBlock, RankModel, Step


@dataclass(frozen=True)
class Stage:
    """Pipeline stage ``number`` of ``n_stages``: the blocks of each chunk, and its messages."""

    number: int
    n_stages: int
    chunks: tuple[tuple[LayerBlock, ...], ...]
    message: float
    message_is_cut: bool
    tied: float
    both_ways: bool = False

    @property
    def places(self) -> int:
        """Number of chunks, over all stages, that a micro-batch passes."""
        return self.n_stages * (1 if self.both_ways else len(self.chunks))

    def place(self, chunk: int) -> int:
        """Return the position (from 0) of ``chunk`` among all chunks that a micro-batch passes."""
        if self.both_ways and chunk:
            return self.mirror
        return self.number if self.both_ways else chunk * self.n_stages + self.number

    def stage_at(self, place: int, chunk: int) -> int:
        """Return the stage at position ``place`` on the route of micro-batches of ``chunk``."""
        return self.n_stages - 1 - place if self.both_ways and chunk else place % self.n_stages

    @property
    def mirror(self) -> int:
        """Number of the stage at the same distance from the other end of the pipeline."""
        return self.n_stages - 1 - self.number

    def shared_among(self, tensor: int) -> int:
        """Return how many of the ``tensor``-parallel ranks send a separate part of a message.

        The ranks of the next stage gather the parts (the scatter-gather optimisation of Narayanan
        et al., SC 2021, section 4.1). Under sequence parallelism each rank holds its own tokens
        only and sends all of them to its partner, so nothing is gathered (Korthikanti et al., 2023,
        section 4.2.2).
        """
        return 1 if self.message_is_cut else tensor

    def gather(self, tensor: int) -> tuple[Step, ...]:
        """Return the all-gather that joins the parts of a received message, if it was cut."""
        parts = self.shared_among(tensor)
        if parts == 1:
            return ()
        return (CollectiveStep(CollectiveKind.ALL_GATHER, self.message / parts, "tensor"),)

    @property
    def parameters(self) -> float:
        """Number of parameters of the stage on one rank, without experts."""
        return sum(block.parameters for chunk in self.chunks for block in chunk)

    @property
    def expert_parameters(self) -> float:
        """Number of parameters of the stage's experts on one rank."""
        return sum(block.expert_parameters for chunk in self.chunks for block in chunk)

    def reached_parameters(self, micro_batches: int) -> float:
        """Return how many expert parameters at most get gradients from ``micro_batches``."""
        return sum(
            block.reached_parameters(micro_batches) for chunk in self.chunks for block in chunk
        )


def divide_stages(
    model: RankModel,
    n_stages: int,
    n_chunks: int,
    layers: Sequence[int] = (),
    *,
    both_ways: bool = False,
) -> list[Stage]:
    """Return the pipeline stages of a model, each with ``n_chunks`` chunks of blocks.

    The layers are divided into n_stages * n_chunks shares. Chunk c of stage i holds share c *
    n_stages + i; with ``both_ways`` chunk 1 holds the share of the stage at the same distance from
    the other end.

    ``layers`` are the numbers of layers of all shares. By default shares are as equal as possible.
    If the layers divide evenly, the blocks before and after the layers are added to the first and
    last share. Otherwise each of these blocks counts as a layer (as in Llama 3 405B's 126 layers,
    or BLOOM's 70 on 12 stages).

    Raises :class:`InfeasibleError` for more shares than layers, and :class:`DimsweepError` for
    ``layers`` with a wrong sum.
    """
    if n_chunks > 1 and n_stages == 1:
        raise InfeasibleError(
            "one stage has nothing to interleave", where="plan.interleave", hint="interleave: 1"
        )
    n = n_stages * n_chunks
    shares = _given_shares(model, n, layers) if layers else _shares(model, n)
    if not all(shares):
        chunks = f" in {n_chunks} chunks each" if n_chunks > 1 else ""
        raise InfeasibleError(
            f"{len(model.layers)} layers are too few for {n_stages} stages{chunks}",
            where="plan.interleave" if n_chunks > 1 else "parallel.pipeline",
            hint="each share needs at least one layer",
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
    """Return the model's blocks in ``n`` nearly equal shares.

    Larger shares come late, where fewer micro-batches are in flight, but not last, where the logits
    are.
    """
    if len(model.layers) % n == 0:
        return _given_shares(model, n, [len(model.layers) // n] * n)
    blocks = (*model.front, *model.layers, *model.back)
    each, more = divmod(len(blocks), n)
    sizes = [each + (n - 1 - more <= i < n - 1) for i in range(n)]
    return _divide_layers(blocks, sizes)


def _given_shares(model: RankModel, n: int, layers: Sequence[int]) -> list[_Share]:
    """Return the model's blocks in ``n`` shares of the given numbers of ``layers``.

    The first share also has the blocks before the layers, the last share the blocks after them.
    """
    if len(layers) != n or sum(layers) != len(model.layers) or min(layers) < 0:
        raise DimsweepError(
            f"{len(layers)} shares of {sum(layers)} layers, but the model has {len(model.layers)} "
            f"layers for {n} shares",
            where="plan.stage_layers",
            hint="give a number for each chunk, in the order in which a micro-batch passes them",
            code="mismatch",
        )
    shares = _divide_layers(model.layers, layers)
    shares[0] = (*model.front, *shares[0])
    shares[-1] = (*shares[-1], *model.back)
    return shares


def _divide_layers(blocks: _Share, sizes: Sequence[int]) -> list[_Share]:
    ends = list(itertools.accumulate(sizes, initial=0))
    return [blocks[a:b] for a, b in itertools.pairwise(ends)]
