"""ZB-H1, a pipeline schedule whose bubbles are filled with the gradients of weights.

Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), as Megatron-DeepSpeed runs it
(``deepspeed_zbh1_schedule.py``).  A backward pass is cut in two: the gradients of what came in go
to the stage before at once, those of the weights come later, by as many micro-batches as there are
stages before this one.  So every stage keeps the activations of as many micro-batches as there are
stages, as the first one does in 1F1B, and the bubble is (p - 1) (f + b - w) in the place of
(p - 1) (f + b + w).  That the optimizer starts before all stages know whether a gradient overflowed
is not a part of this.
"""

from collections.abc import Iterator

from dimsweep.engine.workload.plan.action import Action, Part


def zb_h1(*, stage: int, n_stages: int, n_micro_batches: int) -> Iterator[Action]:
    """What ``stage`` of ``n_stages`` does, in order."""
    warm_up, back, late = min(n_micro_batches, n_stages - 1 - stage), 0, 0
    for forward in range(n_micro_batches + warm_up):
        if forward < n_micro_batches:
            yield Action(False, forward, 0)
        if forward < warm_up:
            continue
        yield Action(True, back, 0, Part.INPUTS)
        back += 1
        if back > stage:
            yield Action(True, late, 0, Part.WEIGHTS)
            late += 1
    for micro_batch in range(late, n_micro_batches):
        yield Action(True, micro_batch, 0, Part.WEIGHTS)
