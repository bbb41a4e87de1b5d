"""NCCL's algorithms and protocols, and which of them NCCL believes to be the fastest."""

from enum import StrEnum
from typing import NamedTuple


class Algorithm(StrEnum):
    """Who sends to whom."""

    RING = "ring"
    TREE = "tree"  # double binary trees between nodes, a chain inside
    NVLS = "nvls"  # the NVLink switch reduces and multicasts; trees between nodes
    PAT = "pat"  # logarithmic all-gather and reduce-scatter, with one GPU a node
    DIRECT = "direct"  # sends and receives: all-to-all


class Protocol(StrEnum):
    """How a message is handed over."""

    LL = "LL"  # a flag beside every 4 bytes: half of the bandwidth, least latency
    LL128 = "LL128"  # a flag of 8 bytes in every 128
    SIMPLE = "Simple"  # whole pieces, then a flag: all the bandwidth, most latency


class Choice(NamedTuple):
    """What NCCL runs."""

    algorithm: Algorithm
    protocol: Protocol
