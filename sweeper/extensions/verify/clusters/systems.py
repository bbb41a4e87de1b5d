"""The machines that were measured: GPU, and the network between GPUs, by the name in the table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement


@dataclass(frozen=True)
class System:
    """A kind of machine: ``domain`` GPUs share an NVLink switch; ``overrides`` are Hydra's.

    ``tori``: the slices of TPUs by their chips, in the place of domains; the largest may be
    several.
    """

    kind: str
    pattern: str
    domain: int
    overrides: tuple[str, ...]
    tori: Mapping[int, str] | None = None

    @property
    def config(self) -> Config:
        """The configuration of its GPU and network, with any workload."""
        return _composed(self.overrides)

    @property
    def is_measured(self) -> bool:
        """Whether kernels of its chip were measured: else it has its data sheet's peak, and what of
        that one product reaches."""
        return bool(self.config.npu.kernels)

    def shape(self, gpus: int, tensor: int = 1) -> str:
        """Return the network of ``gpus`` of them, in domains that are full.  Of a torus the
        dimension that ``tensor`` ranks fill is first: part of a ring is a line, with half the
        bandwidth."""
        if self.tori is not None:
            return _filled_first(self._slices(gpus), f"Ring({tensor})")
        inside = min(gpus, self.domain)
        if self.domain == _RACK and gpus > _RACK:
            inside = _OF_RACK  # whole powers of two, and eight in reserve
        if gpus % inside:
            raise LeftOut(f"{gpus} GPUs fill no number of nodes of {inside}")
        node = self.config.text["topology"]["shape"].split("(")[0]
        return f"{node}({inside})" + (f"_Switch({gpus // inside})" if gpus > inside else "")

    def _slices(self, gpus: int) -> str:
        assert self.tori is not None
        if gpus in self.tori:
            return self.tori[gpus]
        most = max(self.tori)
        if gpus % most:
            raise LeftOut(f"{gpus} chips fill no number of slices of {most}")
        return f"{self.tori[most]}_Switch({gpus // most})"


def _filled_first(shape: str, ring: str) -> str:
    blocks = shape.split("_")
    if ring in blocks:
        blocks.remove(ring)
        blocks.insert(0, ring)
    return "_".join(blocks)


@cache
def _composed(overrides: tuple[str, ...]) -> Config:
    library = () if any(o.startswith("collective=") for o in overrides) else ("collective=nccl",)
    return compose(["workload=gpt3_175b", *library, "npu.memory=null", *overrides]).config


def _tpu(name: str, *overrides: str) -> tuple[str, ...]:
    return f"npu=tpu_{name}", f"topology=tpu_{name}", "collective=streamed", *overrides


def _hgx(gpu: str, *overrides: str) -> tuple[str, ...]:
    return f"npu={gpu}", f"collective.gpu={gpu}", *overrides


_A100 = _hgx("a100", "topology=hgx_a100")
_H100 = _hgx("h100", "topology=hgx_h100")
_B200 = _hgx("b200", "topology=hgx_b200")
_GB200 = "npu=gb200", "collective.gpu=b200", "topology=hgx_b200"
_RACK, _OF_RACK = 72, 64  # GPUs of an NVL72, and those that jobs of several racks use of each
_TORUS = "topology.latency=[1 us,1 us,1 us]"
_FAST = "topology.bandwidth=[900 GB/s,100 GB/s]"  # an 800 Gb/s port a GPU
# The first pattern that the name matches counts.
SYSTEMS = (
    System("A100 40GB", "a100.?40", 8, (*_A100, "npu.memory_bandwidth=1555 GB/s")),
    # Four 100 Gb/s Omni-Path ports a node, 6.25 GB/s a GPU; their own all-reduce log says 5.06,
    # and NCCL's protocols leave 0.96 of a port.
    System("A100", "a100.*jean zay", 8, (*_A100, "topology.bandwidth=[300 GB/s,5.27 GB/s]")),
    System("A100", "a100", 8, _A100),
    System("A800", "a800", 8, (*_A100, "topology.bandwidth=[200 GB/s,25 GB/s]")),
    System("H800", "h800", 8, (*_H100, "topology.bandwidth=[200 GB/s,50 GB/s]")),
    # Four a node, all joined by NVLink, and Slingshot between nodes.
    System("GH200", "gh200.*alps", 4, ("npu=gh200", "topology=alps", "collective.gpu=h100")),
    System("H200", r"\bh200", 8, _hgx("h200", "topology=hgx_h100")),
    # Other memory, and 500 W in the place of 700, which sustain as much less.
    System(
        "H100", "h100.*500w", 8, (*_H100, "npu.efficiency=0.65", "npu.memory_bandwidth=2400 GB/s")
    ),
    System("H100", "h100", 8, _H100),
    # B200's chip; no kernels of the others were measured.  In GB300 it gets 1,400 W in the place of
    # the GB200's 1,200, and in HGX B300 1,100 in the place of 1,000; it sustains as much more.
    System("GB300", "gb300", _RACK, (*_GB200, _FAST, "npu.efficiency=0.94")),
    System("GB200", "gb200", _RACK, _GB200),
    System("B300", "b300", 8, (*_B200, _FAST, "npu.efficiency=0.74")),
    System("B200", "b200", 8, _B200),
    # Pods of 256, each with 6.4 Tb/s of data center network.
    System(
        "TPU v5e",
        "tpu v5e",
        256,
        _tpu("v5e", "topology.bandwidth=[90 GB/s,90 GB/s,3.125 GB/s]", _TORUS),
        {256: "Ring(16)_Ring(16)"},
    ),
    # Slices as Google Cloud cuts them (xpk, system_characteristics.py).
    System(
        "TPU v5p",
        "tpu v5p",
        64,
        _tpu("v5p", "topology.bandwidth=[180 GB/s,180 GB/s,180 GB/s]", _TORUS),
        {
            64: "Ring(4)_Ring(4)_Ring(4)",
            128: "Ring(8)_Ring(4)_Ring(4)",
            256: "Ring(8)_Ring(8)_Ring(4)",
            512: "Ring(8)_Ring(8)_Ring(8)",
            1024: "Ring(16)_Ring(8)_Ring(8)",
            1536: "Ring(16)_Ring(12)_Ring(8)",
            2048: "Ring(16)_Ring(16)_Ring(8)",
            4096: "Ring(16)_Ring(16)_Ring(16)",
            6144: "Ring(24)_Ring(16)_Ring(16)",
        },
    ),
)


def system_of(measured: Measurement) -> System:
    """The machine of a row; raises :class:`LeftOut` for one that is not known."""
    for system in SYSTEMS:
        if re.search(system.pattern, measured.gpu.lower()):
            return system
    raise LeftOut(f"the GPU {measured.gpu!r} is not known")
