"""Which documents the model's constants were fitted to; every other one is unfitted.

A constant may be fitted to these only, and a document that is added here was looked at.
"""

FITTED: tuple[str, ...] = (
    # conf/npu/a100.yaml: the eight times of `dimsweep verify megatron`, which are in no table.
    # Eager PyTorch's launches and memory passes, and FlashAttention 1 (plans.py); the H100's
    # efficiency in bf16.
    "mosaicml/llm-foundry",
    # The B200's efficiency in bf16, and how long Megatron-LM's host takes to issue a kernel.
    "MooreThreads/SimuMax",
    # The B200's products in fp8, mxfp8 and nvfp4, relative to bf16, and the host's time for kernels
    # of layers with experts; both: the H100's launches.
    "NVIDIA-NeMo/Megatron-Bridge",
    "NVIDIA/NeMo:docs",
)


def is_fitted(origin: str) -> bool:
    """Whether constants were fitted to this document's rows."""
    return any(origin.startswith(document) for document in FITTED)
