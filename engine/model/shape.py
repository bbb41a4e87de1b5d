"""The dimensions of a transformer."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import DimsweepError, check_least


@dataclass(frozen=True)
class TransformerShape:
    """A stack of ``layers`` blocks of attention and feed-forward network.

    ``kv_heads`` fewer than ``heads`` is grouped-query attention; ``gated`` a feed-forward network
    with three matrices (SwiGLU); ``experts`` of them, ``top_k`` for each token, in the place of
    one.  ``flash``: the scores never leave the chip, and a causal mask halves the work; without
    it all scores are computed and stored.  ``vocabulary`` 0: no embedding and no logits;
    ``patch``: an image transformer's (values in a patch), with a head of ``classes``.
    """

    hidden: int
    layers: int
    heads: int
    sequence: int
    ffn: int = 0
    kv_heads: int = 0
    head_size: int = 0
    vocabulary: int = 0
    gated: bool = False
    bias: bool = True
    dropout: bool = True
    tied: bool = True
    positions: bool = True
    causal: bool = True
    flash: bool = False
    experts: int = 0
    top_k: int = 2
    patch: int = 0
    classes: int = 0

    def __post_init__(self) -> None:
        check_least(self, 1, "hidden", "layers", "heads", "sequence", "top_k")
        check_least(
            self, 0, "ffn", "kv_heads", "head_size", "vocabulary", "experts", "patch", "classes"
        )
        if not self.head_size and self.hidden % self.heads:
            raise DimsweepError(
                f"{self.hidden} does not divide by {self.heads} heads", where="heads"
            )
        if self.heads % self.kv:
            raise DimsweepError(
                f"{self.heads} heads cannot share {self.kv} evenly", where="kv_heads"
            )
        if self.experts and self.top_k > self.experts:
            raise DimsweepError(f"{self.top_k} of {self.experts} experts", where="top_k")

    @property
    def inner(self) -> int:
        """Features between the two matrices of the feed-forward network."""
        return self.ffn or 4 * self.hidden

    @property
    def kv(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        return self.head_size or self.hidden // self.heads
