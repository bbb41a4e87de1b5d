"""How many gradients each training framework exchanges at once, and what it keeps for that."""

import math
from enum import StrEnum
from typing import NamedTuple

_PYTORCH = 25e6  # bytes


class Stack(StrEnum):
    """Who trains, and so in which buckets gradients are exchanged and weights are gathered.

    ``ddp``: PyTorch's DistributedDataParallel, 25 MB (its ``bucket_cap_mb``).  ``fsdp``: PyTorch's
    fully sharded data parallelism, a block at once.  ``megatron``: Megatron-Core's distributed
    optimizer (NeMo 2, Megatron-Bridge), max(40,000,000, 1,000,000 a replica) parameters in the
    first chunk of a pipeline's first stage, and one bucket for each other chunk
    (``megatron/core/distributed/distributed_data_parallel.py``; the million a replica since 0.7,
    April 2024).  ``nemo``: NeMo 1 with Apex's distributed Adam, a chunk at once where stages are
    interleaved, else a layer (``configure_optimizers`` of ``megatron_gpt_model.py``).
    ``deepspeed``: 500,000,000 parameters (ZeRO's ``reduce_bucket_size``, and
    ``MEMORY_OPT_ALLREDUCE_SIZE`` of pipelines).
    """

    DDP = "ddp"
    FSDP = "fsdp"
    MEGATRON = "megatron"
    NEMO = "nemo"
    DEEPSPEED = "deepspeed"

    def bucket(self, *, gradient: float, replicas: int, first: bool, chunks: int) -> float:
        """Parameters of a bucket whose gradients have ``gradient`` bytes each; infinite for all of
        a chunk, of which a stage has so many, and 0 for a block at once.

        ``first``: whether it is the first chunk of the first stage.
        """
        if self is Stack.DDP:
            return _PYTORCH / gradient
        if self is Stack.DEEPSPEED:
            return 500e6
        if self is Stack.MEGATRON:
            return max(40e6, 1e6 * replicas) if first else math.inf
        return math.inf if self is Stack.NEMO and chunks > 1 else 0.0

    def flat_buffers(self, held: "Held") -> float:
        """Bytes of buffers that are larger than any block of activations, so that PyTorch's cache
        has no room for them when activations are freed: its segments are never joined
        (``c10/cuda/CUDACachingAllocator.cpp``).

        Only DeepSpeed's are known (v0.6): a bucket of gradients (``ipg_buffer``, or what
        ``allreduce_bucket`` flattens); at the update, with ZeRO, the rank's part of the gradients
        as they are and in fp32 (``step`` of ``zero/stage_1_and_2.py``), without it those of all
        parameters in fp32 twice, one by one and joined (``fp16/fused_optimizer.py``); where sums
        are fp32 and values are not, gradients as they come, and that of the largest layer in fp32
        (``bf16_optimizer.py``).
        """
        if self is not Stack.DEEPSPEED:
            return 0.0
        found = min(500e6, held.parameters) * held.gradient
        if held.value >= 4:
            return found
        if held.gradient > held.value:
            return found + held.value * held.parameters + 4 * held.largest
        if held.is_cut:
            return found + (held.gradient + 4) * held.updated
        return found + 8 * held.parameters


class Held(NamedTuple):
    """Parameters of a rank: all of them, those of its largest block, and those that it updates,
    which are a part of all if the optimizer's state ``is_cut``; bytes of a value and a gradient."""

    parameters: float
    largest: float
    updated: float
    is_cut: bool
    value: float
    gradient: float
