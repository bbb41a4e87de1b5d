"""What a training iteration, or a pass of a served batch, gets done."""

from dataclasses import replace

from dimsweep.engine.workload.graph import Amount, Kernel
from dimsweep.engine.workload.models.model import Model, Shard, Task
from dimsweep.engine.workload.models.transformer import Transformer

_PASSES = 3  # a backward pass has twice the operations of the forward pass


def amount(
    model: Model, batch: int, task: Task = Task.TRAINING, kept: float = 0.0, narrow: str = ""
) -> Amount:
    """The samples, tokens and model FLOPs of ``batch`` samples; a checkpoint has ``kept`` bytes a
    parameter, and linear layers the ``narrow`` precision.

    The FLOPs are those of model FLOPs utilisation (Chowdhery et al., "PaLM", 2022, appendix B),
    with attention as its mask and its kernel have it, and the linear products of all tokens.
    """
    tokens = 0
    if isinstance(model, Transformer):
        tokens = batch * (1 if task is Task.DECODE else model.sequence)
        model = replace(model, imbalance=1.0)
    network = model.for_rank(Shard(batch=1, task=task, narrow=narrow))
    blocks = (*network.front, *network.layers, *network.back)
    kernels = [
        step
        for block in blocks
        for step in block.forward
        if isinstance(step, Kernel) and (step.matmul or step.attention)
    ]
    times = batch * (_PASSES if task is Task.TRAINING else 1)
    flops = times * sum(kernel.flops for kernel in kernels)
    of_narrow = times * sum(kernel.flops for kernel in kernels if kernel.precision)
    parameters = sum(block.parameters + block.expert_parameters for block in blocks)
    return Amount(
        batch, tokens, flops, state=kept * parameters, narrow={narrow: of_narrow} if narrow else {}
    )
