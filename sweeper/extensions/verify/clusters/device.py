"""What a device's memory holds beside what PyTorch has reserved of it: CUDA's kernels, and NCCL's
buffers, which `nvidia-smi` counts and PyTorch does not."""

from dimsweep.sweeper.extensions.verify.clusters.measurements import Measurement

# A PyTorch that did nothing yet holds 1,343 MiB (Hugging Face's documentation of transformers,
# "Model training anatomy": the kernels alone).
_KERNELS = 1343 * 2.0**20
# NCCL's buffers of a connection, rounded up to 2 MiB: those that it receives into have 512 KiB for
# LL, 4.7 MiB for LL128 and 4 MiB for Simple (src/init.cc, src/transport/p2p.cc).  On each channel a
# rank has a ring's connection both ways, and a tree's to its parent and to its child.
_CHANNEL = 3 * (10 + 2) * 2.0**20
# Channels inside a node of eight A100 or four H100, and for each port of a node, doubled: those
# that NCCL's logs usually tell of, no line of its source.
_INSIDE, _OF_A_PORT = 24, 2
_PORTS = 4  # of a node of those that are judged: Jean Zay's Omni-Path, Alps's Slingshot


def outside(measured: Measurement, domain: int) -> float:
    """Bytes of a device that PyTorch does not count, under Megatron-DeepSpeed on nodes of
    ``domain`` GPUs.

    Its communicators are those of all ranks (barriers), of a replica (norms), of tensors, of
    replicas and of stages; with stages a second one of tensors, which DeepSpeed has of its own for
    what it hands on in parts (``slice_parallel_group`` of runtime/pipe/topology.py).
    """
    tensor, pipeline = measured.tensor, measured.pipeline
    groups = (
        (measured.gpus, 1),
        (tensor * pipeline, 1),
        (tensor, 1),
        (tensor if pipeline > 1 else 1, 1),
        (measured.data, tensor),
        (pipeline, tensor * measured.data),
    )  # ranks, and how far one is from the next
    return _KERNELS + _CHANNEL * sum(_channels(*group, domain) for group in groups)


def _channels(ranks: int, apart: int, domain: int) -> int:
    if ranks == 1:
        return 0
    return _INSIDE if ranks * apart <= domain else _OF_A_PORT * min(_PORTS, max(1, domain // apart))
