"""What one NPU must hold in its memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

# Of what PyTorch's cache reserves it has so much idle, in pieces that are too small for the next
# tensor: what eight language models lost on A100s in the mean, up to 33 % (Guo et al., "GMLake",
# ASPLOS 2024).
IDLE = 0.15


@dataclass(frozen=True)
class Footprint:
    """Bytes on one rank of pipeline stage ``stage``, at the iteration's peak.

    ``transient`` is what lives only while a block runs: activations computed again, and weights
    that ZeRO-3 has gathered.  ``peak`` says when.  ``remote`` is what it keeps in remote memory.
    ``buffers`` are those of the training framework that take no room of activations.  ``stages``
    has those of all stages, of which this one is the fullest; none: there is one stage.
    """

    stage: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    transient: float
    peak: str
    remote: float = 0.0
    buffers: float = 0.0
    stages: "tuple[Footprint, ...]" = ()

    @property
    def total(self) -> float:
        kept = self.weights + self.gradients + self.optimizer + self.buffers
        return kept + self.activations + self.transient

    @property
    def reserved(self) -> float:
        """Bytes that PyTorch's cache may reserve to hold them, what it has idle among them."""
        return self.total / (1 - IDLE)


def fullest(stages: Sequence[Footprint]) -> Footprint:
    """The footprint of the fullest of all stages."""
    most = max(stages, key=lambda each: each.total)
    return replace(most, stages=tuple(stages)) if len(stages) > 1 else most
