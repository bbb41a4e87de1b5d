"""The machines that were measured: GPU, and the network between GPUs, by the name in the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from sweeper.config.compose import compose
from sweeper.config.schema import Config
from sweeper.verify.clusters.measurements import LeftOut, Measurement


@dataclass(frozen=True)
class System:
    """A kind of machine: ``domain`` GPUs share an NVLink switch; ``overrides`` are Hydra's."""

    kind: str
    pattern: str
    domain: int
    overrides: tuple[str, ...]

    @property
    def config(self) -> Config:
        """The configuration of its GPU and network, with any workload."""
        return _composed(self.overrides)

    def shape(self, gpus: int) -> str:
        """The network of ``gpus`` of them, in domains that are full."""
        inside = min(gpus, self.domain)
        if gpus % inside:
            raise LeftOut(f"{gpus} GPUs fill no number of nodes of {inside}")
        return f"Switch({inside})" + (f"_Switch({gpus // inside})" if gpus > inside else "")


@cache
def _composed(overrides: tuple[str, ...]) -> Config:
    fixed = ("workload=gpt3_175b", "collective=nccl", "npu.memory=null")
    return compose([*fixed, *overrides]).config


def _network(nvlink: str, rail: str) -> tuple[str, ...]:
    return ("topology=dgx_a100", f"topology.bandwidth=[{nvlink},{rail}]")


_A100_40 = ("npu=a100", "npu.memory_bandwidth=1555 GB/s")
# The first pattern that the name matches counts.
SYSTEMS = (
    System("A100 40GB", "a100.?40", 8, (*_A100_40, *_network("210 GB/s", "22.5 GB/s"))),
    # Four 100 Gb/s Omni-Path ports a node; their own all-reduce log says 5.06 GB/s a GPU.
    System("A100", "a100.*jean zay", 8, ("npu=a100", *_network("210 GB/s", "5.06 GB/s"))),
    System("A100", "a100", 8, ("npu=a100", *_network("210 GB/s", "22.5 GB/s"))),
    System("H200", "h200", 8, ("npu=h200", *_network("370 GB/s", "45 GB/s"))),
    System("H100", "h100", 8, ("npu=h100", *_network("370 GB/s", "45 GB/s"))),
    # The same chip as B200's, of which no kernels were measured; twice the network of it for *300.
    System("GB300", "gb300", 64, ("npu=b200", *_network("700 GB/s", "90 GB/s"))),
    System("GB200", "gb200", 64, ("npu=b200", *_network("700 GB/s", "45 GB/s"))),
    System("B300", "b300", 8, ("npu=b200", *_network("700 GB/s", "90 GB/s"))),
    System("B200", "b200", 8, ("npu=b200", *_network("700 GB/s", "45 GB/s"))),
)


def system_of(measured: Measurement) -> System:
    """The machine of a row; raises :class:`LeftOut` for one that is not known."""
    for system in SYSTEMS:
        if re.search(system.pattern, measured.gpu.lower()):
            return system
    raise LeftOut(f"the GPU {measured.gpu!r} is not known")
