"""What an iteration gets done."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Amount:
    """``samples`` (sequences, images ...) of an iteration, its ``tokens`` (0 where samples have
    none), and the ``flops`` of the model for them: those of its matrix products and attention, once
    forward and twice backward, without what is computed again; of these ``narrow`` by precision,
    where linear layers have a narrower one than the rest.  ``accuracy``: the share of samples
    that a trained network tells rightly, where that was looked at.  ``state``: the bytes of a
    checkpoint, where that is known: what all NPUs together cannot compute anew."""

    samples: float
    tokens: float
    flops: float
    accuracy: float | None = None
    state: float = 0.0
    narrow: Mapping[str, float] = field(default_factory=dict)
