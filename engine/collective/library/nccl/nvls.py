"""NVLS: the bandwidth of the NVLink switch in NCCL, and the loops of a collective.

NCCL searches for as many channels as there are GPUs to pull from the switch, its heads, each at one
of a few speeds (``ncclTopoCompute`` and ``ncclTopoSearchTryNvls`` in graph/search.cc).  The bytes
pass through buffers, one loop after another (``nvlsChunkSize`` in enqueue.cc): a loop is a chunk
for each head and block of threads, and no byte leaves before its loop has passed the stages before.
"""

import math

from dimsweep.engine.collective.library.nccl.gpus import Gpu
from dimsweep.engine.collective.request import Request

_HEADS = 32  # at most: NCCL_MAX_NVLS_ARITY
# Bytes are scattered, reduced and gathered; a loop waits for two of them.  The time of further
# levels of a tree is in NCCL's latency of a hop.
_STAGES = 3
_KIB = 1024
# (KiB of a chunk, minimum number of its loops): on one node, and with trees.
_CHUNKS = ((128, 64), (64, 8), (32, 2), (16, 0))
_TREE_CHUNKS = ((128, 4), (64, 1), (32, 0))
_MANY_NODES, _LARGEST_OF_MANY = 4, 64


def heads(request: Request) -> int:
    """Return the number of heads: GPUs of a node that pull from its NVLink switch."""
    return min(_HEADS, request.ranks_a_node)


def believed(gpu: Gpu, request: Request) -> float:
    """Return the GB/s that NCCL expects of an NVLS all-reduce in a node of usual link speed.

    Trees between nodes may reduce it.
    """
    n, one = request.ranks, request.nodes == 1
    speed = _speed(gpu, request)
    limit = gpu.nvls_tree[0 if request.nodes == 2 else 1]
    most = _raised(gpu, speed) if one else limit
    return heads(request) * min(_pulled(gpu, request), most) * n / (2 * (n - 1))


def waiting(gpu: Gpu, request: Request) -> float:
    """Return the time before the first byte leaves, over the time of all bytes.

    A loop passes a stage at the rate that the switch has for one loop.
    """
    alone = heads(request) * min(_pulled(gpu, request), _raised(gpu, _speed(gpu, request))) / 2
    one = request.nodes == 1
    stages = _STAGES - 1 if one else _STAGES + 1  # up a tree and down again
    slower = 1.0 if one else min(1.0, believed(gpu, request) / alone)
    return stages * slower * min(1.0, _loop(gpu, request) / request.n_bytes)


def levels(request: Request) -> int:
    """Return the number of steps from a tree's root to its leaves, as NCCL counts them."""
    return request.nodes.bit_length() - 1


def _loop(gpu: Gpu, request: Request) -> float:
    one = request.nodes == 1
    each = gpu.nvls_channels[0 if one else 1] * heads(request) * _KIB
    most = _LARGEST_OF_MANY if request.nodes >= _MANY_NODES else math.inf
    return next(
        float(each * size)
        for size, loops in (_CHUNKS if one else _TREE_CHUNKS)
        if size <= most and request.n_bytes >= loops * each * size
    )


def _speed(gpu: Gpu, request: Request) -> float:
    """Return a channel's GB/s; the switch pulls from a head at twice the speed of other GPUs."""
    most = gpu.total / (heads(request) + 1)
    return max((speed for speed in gpu.speeds if speed <= most), default=gpu.speeds[-1])


def _pulled(gpu: Gpu, request: Request) -> float:
    """Return a channel's GB/s, both directions added up, comparable to a ring's bandwidth."""
    n = heads(request)
    return 2 * _speed(gpu, request) * gpu.nvls * (n - 1) / n


def _raised(gpu: Gpu, speed: float) -> float:
    """Return the GB/s that NCCL assumes for the way back; it searches for twice ``speed``."""
    above = [each for each in reversed(gpu.speeds) if each >= speed]
    return next((each for each in above if each >= 2 * speed), above[-1])
