"""The dimensions of a transformer."""

from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError, check_least

_MOST_EXPERTS = 10**6


@dataclass(frozen=True)
class TransformerShape:
    """A stack of ``layers`` blocks of attention and feed-forward network.

    ``kv_heads`` fewer than ``heads`` is grouped-query attention; with ``kv_rank`` attention is
    latent (:mod:`engine.workload.models.latent`), with ``query_rank`` and ``rope``.  ``gated`` is a
    feed-forward network with three matrices (SwiGLU).  ``experts`` take its place, ``top_k`` for
    each token, each with ``expert_ffn`` features inside (``ffn`` unless given), beside
    ``shared_experts`` that all tokens pass; the first ``dense_layers`` have none.  ``clamped``:
    what their activation gets is limited first (GPT-OSS).  ``imbalance`` is how many times the mean
    number of tokens the busiest rank gets, for which all others wait.
    ``flash``: the scores never leave the chip, and a causal mask halves the work; without it all
    scores are computed and stored.  ``window``: so many tokens, itself the last one, are what a
    token sees, but for every ``window_pattern``-th layer, which sees all (0: none does).
    ``vocabulary`` 0: no embedding and no logits; ``patch``: an image transformer's (values in a
    patch), with a head of ``classes``.  ``mtp_layers``: so many tokens after the next one are
    predicted in training, too, each by a layer and logits of its own.
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
    window: int = 0
    window_pattern: int = 0
    experts: int = 0
    top_k: int = 2
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    clamped: bool = False
    imbalance: float = 1.0
    kv_rank: int = 0
    query_rank: int = 0
    rope: int = 0
    patch: int = 0
    classes: int = 0
    mtp_layers: int = 0

    def __post_init__(self) -> None:
        check_least(self, 1, "hidden", "layers", "heads", "sequence", "top_k")
        check_least(
            self, 0, "ffn", "kv_heads", "head_size", "vocabulary", "experts", "patch", "classes",
            "expert_ffn", "shared_experts", "dense_layers", "kv_rank", "query_rank", "rope",
            "mtp_layers", "window", "window_pattern",
        )  # fmt: skip
        check_least(self, 1, "imbalance")
        if self.experts > _MOST_EXPERTS:
            what = f"{self.experts:,} experts; a model has at most {_MOST_EXPERTS:,}"
            raise DimsweepError(what, where="experts")
        if self.kv_rank and not (self.query_rank and self.flash):
            raise DimsweepError(
                "latent attention has latent queries too, and never stores its scores",
                where="kv_rank",
                hint="give query_rank, and flash: true",
            )
        if self.window and (self.kv_rank or not (self.flash and self.causal)):
            raise DimsweepError(
                "only causal attention whose scores never leave the chip skips what is outside",
                where="window",
                hint="give flash: true and causal: true, and no kv_rank; or window: 0",
            )
        if not self.head_size and self.hidden % self.heads:
            raise DimsweepError(
                f"{self.hidden} does not divide by {self.heads} heads", where="heads"
            )
        if self.heads % self.kv:
            raise DimsweepError(
                f"{self.heads} heads cannot share {self.kv} evenly", where="kv_heads"
            )
        if self.clamped and not (self.experts and self.gated):
            raise DimsweepError(
                "only what gated experts' activations get is limited by kernels of its own",
                where="clamped",
                hint="give experts, and gated: true, or clamped: false",
            )
        if self.experts and self.top_k > self.experts:
            raise DimsweepError(f"{self.top_k} of {self.experts} experts", where="top_k")

    def sees_all(self, layer: int) -> bool:
        """Whether attention of that layer, from 0, sees all tokens before it."""
        return not self.window or (
            bool(self.window_pattern) and not (layer + 1) % self.window_pattern
        )

    @property
    def inner(self) -> int:
        """Features between the two matrices of the feed-forward network."""
        return self.ffn or 4 * self.hidden

    @property
    def expert_inner(self) -> int:
        """Features between the two matrices of an expert."""
        return self.expert_ffn or self.inner

    @property
    def kv(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head(self) -> int:
        return self.head_size or self.hidden // self.heads
