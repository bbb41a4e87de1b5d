"""DualPipe: micro-batches enter a pipeline at both ends.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.2.1, in the order of their public code
(``dualpipe.py`` of deepseek-ai/DualPipe).  Stage s of p holds share s of the layers for one half of
the micro-batches and share p - 1 - s for the other half, which comes from the other end: twice the
weights, and the activations of p + 1 passes.  A forward pass of one way goes beside a backward pass
of the other one, and at both ends of an iteration gradients of weights come late, so the bubble is
(p / 2 - 1) (f&b + b - 3 w) in the place of 1F1B's (p - 1) (f + b).
"""

from collections import deque
from collections.abc import Iterator
from itertools import count

from dimsweep.engine.errors import InfeasibleError
from dimsweep.engine.workload.plan.action import Action, Part


def dualpipe(*, stage: int, n_stages: int, n_micro_batches: int) -> Iterator[Action]:
    """What ``stage`` of ``n_stages`` does, in order: chunk 0 is of the micro-batches from the first
    stage, chunk 1 of those from the last.

    Raises :class:`InfeasibleError` for an odd number of stages or micro-batches, or fewer of these
    than two for each stage.
    """
    if n_stages % 2 or n_micro_batches % 2 or n_micro_batches < 2 * n_stages:
        raise InfeasibleError(
            f"micro-batches enter {n_stages} stages from both ends, but there are "
            f"{n_micro_batches}",
            where="plan.schedule",
            hint="an even number of stages, and of micro-batches, of which each stage has two",
        )
    out = min(stage, n_stages - 1 - stage)  # stages between it and the nearer end
    inner = n_stages // 2 - out - 1  # and between it and the middle
    run = _Passes(turned=2 * stage >= n_stages)
    for _ in range(2 * inner):
        yield run.forward(0)
    for _ in range(out + 1):
        yield from (run.forward(0), run.forward(1))
    for _ in range(inner):
        yield run.backward(1, cut=True)
        yield run.late.popleft()
        yield run.forward(1)
    for i in range(n_micro_batches // 2 - n_stages + out + 1):
        if i == 0 and not inner:  # one after the other, which keeps the bubble small
            yield from (run.forward(0), run.backward(1))
        else:
            yield from (run.backward(1), run.forward(0))
        yield from (run.backward(0), run.forward(1))
    for _ in range(inner):
        yield from (run.backward(1), run.backward(0), run.forward(1))
    for i in range(out + 1):
        yield run.backward(1, cut=2 * i > out)
        yield run.backward(0, cut=2 * i >= out)
    for _ in range(inner):
        yield run.late.popleft()
        yield run.backward(0, cut=True)
    yield from run.late


class _Passes:
    """A stage's next passes of either way: 0 begins at the end that is nearer to the stage, and is
    chunk 1 where that is ``turned``; and what came of backward passes that were cut."""

    def __init__(self, *, turned: bool) -> None:
        self._turned = turned
        self._ahead, self._behind = (count(), count()), (count(), count())
        self.late = deque[Action]()

    def forward(self, way: int) -> Action:
        return Action(False, next(self._ahead[way]), way ^ self._turned)

    def backward(self, way: int, *, cut: bool = False) -> Action:
        part = Part.INPUTS if cut else Part.WHOLE
        action = Action(True, next(self._behind[way]), way ^ self._turned, part)
        if cut:
            self.late.append(action._replace(part=Part.WEIGHTS))
        return action
