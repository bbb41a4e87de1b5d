"""What a pipeline stage does at a time."""

from enum import StrEnum
from typing import NamedTuple


class Part(StrEnum):
    """Of a backward pass: all of it, the gradients of what came in, which the stage before waits
    for, or those of the weights, which nobody waits for."""

    WHOLE = ""
    INPUTS = "inputs"
    WEIGHTS = "weights"


class Action(NamedTuple):
    """A forward or backward pass of one chunk of layers for one micro-batch, or a part of it."""

    backward: bool
    micro_batch: int
    chunk: int
    part: Part = Part.WHOLE

    @property
    def ends(self) -> bool:
        """Whether the backward pass is over, and what it kept is freed."""
        return self.backward and self.part is not Part.INPUTS
