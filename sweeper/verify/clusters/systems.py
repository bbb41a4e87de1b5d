"""The machines that were measured: GPU, and the network between GPUs, by the name in the table."""

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


def _hgx(gpu: str, *overrides: str) -> tuple[str, ...]:
    return f"npu={gpu}", f"collective.gpu={gpu}", *overrides


_A100 = _hgx("a100", "topology=hgx_a100")
_H100 = _hgx("h100", "topology=hgx_h100")
_B200 = _hgx("b200", "topology=hgx_b200")
_GB200 = "npu=gb200", "collective.gpu=b200", "topology=hgx_b200"
_FAST = "topology.bandwidth=[900 GB/s,100 GB/s]"  # an 800 Gb/s port a GPU
# The first pattern that the name matches counts.
SYSTEMS = (
    System("A100 40GB", "a100.?40", 8, (*_A100, "npu.memory_bandwidth=1555 GB/s")),
    # Four 100 Gb/s Omni-Path ports a node, 6.25 GB/s a GPU; their own all-reduce log says 5.06,
    # and NCCL's protocols leave 0.92 of a port.
    System("A100", "a100.*jean zay", 8, (*_A100, "topology.bandwidth=[300 GB/s,5.5 GB/s]")),
    System("A100", "a100", 8, _A100),
    System("A800", "a800", 8, (*_A100, "topology.bandwidth=[200 GB/s,25 GB/s]")),
    System("H800", "h800", 8, (*_H100, "topology.bandwidth=[200 GB/s,50 GB/s]")),
    System("H200", "h200", 8, _hgx("h200", "topology=hgx_h100")),
    # Other memory, and 500 W in the place of 700, which sustain as much less.
    System(
        "H100", "h100.*500w", 8, (*_H100, "npu.efficiency=0.65", "npu.memory_bandwidth=2400 GB/s")
    ),
    System("H100", "h100", 8, _H100),
    # B200's chip; no kernels of the others were measured.  In GB300 it gets 1,400 W in the place of
    # the GB200's 1,200, and sustains as much more.
    System("GB300", "gb300", 64, (*_GB200, _FAST, "npu.efficiency=0.99")),
    System("GB200", "gb200", 64, _GB200),
    System("B300", "b300", 8, (*_B200, _FAST)),
    System("B200", "b200", 8, _B200),
)


def system_of(measured: Measurement) -> System:
    """The machine of a row; raises :class:`LeftOut` for one that is not known."""
    for system in SYSTEMS:
        if re.search(system.pattern, measured.gpu.lower()):
            return system
    raise LeftOut(f"the GPU {measured.gpu!r} is not known")
