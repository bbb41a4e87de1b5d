"""What one NPU must hold in its memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Footprint:
    """Bytes on one rank of pipeline stage ``stage``, at the iteration's peak.

    ``transient`` is what lives only while a block runs: activations computed again, and weights
    that ZeRO-3 has gathered.  ``peak`` says when.  ``remote`` is what it keeps in remote memory.
    """

    stage: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    transient: float
    peak: str
    remote: float = 0.0

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations + self.transient
