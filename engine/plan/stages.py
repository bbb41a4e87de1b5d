"""The pipeline stages of a network: which blocks each of them runs."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import DimsweepError
from engine.model.block import Block, Network


@dataclass(frozen=True)
class Stage:
    """Stage ``number`` of ``n_stages``: its chunks of blocks.

    ``message`` bytes pass from chunk to chunk; ``message_is_cut``: every tensor-parallel rank has
    another part of them.  ``tied``: parameters shared with the stage at the other end.
    """

    number: int
    n_stages: int
    chunks: tuple[tuple[Block, ...], ...]
    message: float
    message_is_cut: bool
    tied: float

    @property
    def parameters(self) -> float:
        return sum(block.parameters for chunk in self.chunks for block in chunk)

    @property
    def expert_parameters(self) -> float:
        return sum(block.expert_parameters for chunk in self.chunks for block in chunk)


def cut(network: Network, n_stages: int, n_chunks: int) -> list[Stage]:
    """Stages with equal numbers of layers; chunk c of stage i holds the c * n_stages + i-th share.

    Raises :class:`DimsweepError` when the layers do not divide.
    """
    n_layers, n_shares = len(network.layers), n_stages * n_chunks
    if n_chunks > 1 and n_stages == 1:
        raise DimsweepError(
            "one stage has nothing to interleave", where="interleave", hint="interleave: 1"
        )
    if n_layers % n_shares:
        chunks = f" in {n_chunks} chunks each" if n_chunks > 1 else ""
        raise DimsweepError(
            f"{n_layers} layers do not divide by {n_stages} stages{chunks}",
            where="interleave" if n_chunks > 1 else "parallel.pipeline",
            hint=f"degrees that do: {', '.join(str(d) for d in _divisors(n_layers))}",
        )
    each = n_layers // n_shares
    shares = [network.layers[i * each : (i + 1) * each] for i in range(n_shares)]
    shares[0] = (*network.front, *shares[0])
    shares[-1] = (*shares[-1], *network.back)
    message = max(block.output for block in network.layers)
    tied = network.tied if n_stages > 1 else 0.0
    stages = []
    for number in range(n_stages):
        chunks_ = [shares[c * n_stages + number] for c in range(n_chunks)]
        if tied and number == n_stages - 1:
            chunks_[-1] = (*chunks_[-1], Block("tied embedding", parameters=tied))
        stages.append(
            Stage(number, n_stages, tuple(chunks_), message, network.message_is_cut, tied)
        )
    return stages


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]
