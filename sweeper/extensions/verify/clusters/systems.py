"""The machines and the models of measured iterations, and the memory that a device keeps."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.extensions.verify.clusters.measurements import LeftOut, Measurement


@dataclass(frozen=True)
class System:
    """A kind of node or TPU slice, from which the networks of measured rows are built."""

    kind: str
    pattern: str  # of the GPU's name in a table
    domain: int  # GPUs that share an NVLink switch
    overrides: tuple[str, ...]  # Hydra's
    tori: Mapping[int, str] | None = None  # shapes of TPU slices, by chips

    @property
    def config(self) -> Config:
        """Configuration of its GPU and network, with an arbitrary workload."""
        return _compose_system(self.overrides)

    @property
    def is_measured(self) -> bool:
        """True if kernels of its chip were measured; otherwise the speed is a data sheet's peak."""
        return bool(self.config.npu.kernels)

    def build_shape(self, gpus: int, tensor: int = 1, node: int = 0) -> str:
        """Return the network shape of ``gpus`` GPUs in full scale-up domains, or ``node`` a node.

        The dimension of a torus that ``tensor`` ranks fill is put first: a part of a ring is a
        line, with half the bandwidth.
        """
        if self.tori is not None:
            return _move_first(self._choose_slices(gpus), f"Ring({tensor})")
        inside = min(gpus, node or self.domain)
        if self.domain == _RACK and gpus > _RACK:
            inside = _OF_RACK  # whole powers of two, and eight in reserve
        if gpus % inside:
            raise LeftOut(f"{gpus} GPUs fill no number of nodes of {inside}")
        node = self.config.text["topology"]["shape"].split("(")[0]
        return f"{node}({inside})" + (f"_Switch({gpus // inside})" if gpus > inside else "")

    def _choose_slices(self, gpus: int) -> str:
        assert self.tori is not None
        if gpus in self.tori:
            return self.tori[gpus]
        most = max(self.tori)
        if gpus % most:
            raise LeftOut(f"{gpus} chips fill no number of slices of {most}")
        return f"{self.tori[most]}_Switch({gpus // most})"


def _move_first(shape: str, ring: str) -> str:
    blocks = shape.split("_")
    if ring in blocks:
        blocks.remove(ring)
        blocks.insert(0, ring)
    return "_".join(blocks)


@cache
def _compose_system(overrides: tuple[str, ...]) -> Config:
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
_EFA = "collective.nccl_rails={all_reduce:[[2,0.9],[4,0.4]],all_gather:[[2,0.46],[4,0.3]]}"
_FAST = "topology.bandwidth=[900 GB/s,100 GB/s]"  # an 800 Gb/s port a GPU
# HugeCTR's collectives between nodes: a hierarchical all-to-all and a one-shot all-reduce.
_HUGECTR = "collective=default", "collective.all_to_all=direct"
# Nobody measured kernels of these GPUs.  They have the times of an H100 or A100, scaled by the
# peaks of the data sheets.  NCCL was measured through PCIe on L40S only; it expects 24 GB/s of a
# link of PCIe 4 (twice the PCI_BW of its src/graph/topo.h).
_PCIE = "collective.gpu=l40s"
_L40S = "npu=h100", "npu.efficiency=0.333", "npu.memory_bandwidth=864 GB/s", "topology=hgx_h100"
_H100_PCIE = "npu=h100", "npu.efficiency=0.695", "npu.memory_bandwidth=2039 GB/s"
_A30 = "npu=a100", "npu.efficiency=0.481", "npu.memory_bandwidth=933 GB/s", "topology=hgx_a100"
# The first pattern that the name matches counts.
SYSTEMS = (
    System("H100", "h100.*hugectr", 8, ("npu=h100", "topology=hgx_h100", *_HUGECTR)),
    System("A100", "a100.*hugectr", 8, ("npu=a100", "topology=hgx_a100", *_HUGECTR)),
    System("L40S", "l40s", 8, (*_L40S, _PCIE, "topology.bandwidth=[32 GB/s,25 GB/s]")),
    System("A30", "a30", 8, (*_A30, *_HUGECTR, "topology.bandwidth=[24 GB/s,25 GB/s]")),
    System(
        "H100 PCIe",
        "h100.?pcie",
        8,
        (*_H100_PCIE, "topology=hgx_h100", _PCIE, "topology.bandwidth=[64 GB/s,50 GB/s]"),
    ),
    System("A100 40GB", "a100.{1,6}40", 8, (*_A100, "npu.memory_bandwidth=1555 GB/s")),
    # Four 100 Gb/s Omni-Path ports a node, 6.25 GB/s a GPU; their own all-reduce log says 5.06,
    # and NCCL's protocols leave 0.96 of a port.
    System("A100", "a100.*jean zay", 8, (*_A100, "topology.bandwidth=[300 GB/s,5.27 GB/s]")),
    # Four ports of 200 Gb/s a node.
    System("A100", "a100.*vtrain", 8, (*_A100, "topology.bandwidth=[300 GB/s,12.5 GB/s]")),
    System("A100", "a100", 8, _A100),
    System("A800", "a800", 8, (*_A100, "topology.bandwidth=[200 GB/s,25 GB/s]")),
    System("H800", "h800", 8, (*_H100, "topology.bandwidth=[200 GB/s,50 GB/s]")),
    # Four a node, all joined by NVLink, and Slingshot between nodes.
    System("GH200", "gh200.*alps", 4, ("npu=gh200", "topology=alps", "collective.gpu=h100")),
    System("H200", r"\bh200", 8, _hgx("h200", "topology=hgx_h100")),
    # Other memory, and 500 W instead of 700, which sustain as much less.
    System(
        "H100", "h100.*500w", 8, (*_H100, "npu.efficiency=0.65", "npu.memory_bandwidth=2400 GB/s")
    ),
    # Amazon's EFA, with NCCL 2.18, which has no PAT yet: GB/s on the bus that nanotron's authors
    # measured at 256 MB on 2 and 4 nodes, of eight rails of 50 GB/s.
    System("H100", "h100.*p5", 8, (*_H100, "collective.nccl_algo=^pat", _EFA)),
    System("H100", "h100", 8, _H100),
    # B200's chip; no kernels of the others were measured.  In GB300 it gets 1,400 W instead of
    # the GB200's 1,200, and in HGX B300 1,100 instead of 1,000; it sustains as much more.
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
    # Pods of 256 with 25.6 Tb/s of data center network.  Only a dimension of 16 chips is a ring.
    System(
        "TPU v6e",
        "tpu v6e",
        256,
        _tpu("v6e", "topology.bandwidth=[180 GB/s,180 GB/s,12.5 GB/s]", _TORUS),
        {
            8: "Mesh2D(2,4)",
            16: "Mesh2D(4,4)",
            32: "Mesh2D(4,8)",
            64: "Mesh2D(8,8)",
            128: "Ring(16)_Ring(8)",
            256: "Ring(16)_Ring(16)",
        },
    ),
    System(
        "TPU v7",
        r"tpu (v7|7x|tpu7x|ironwood)",
        64,
        _tpu("v7", _TORUS),
        {
            64: "Ring(4)_Ring(4)_Ring(4)",
            128: "Ring(8)_Ring(4)_Ring(4)",
            256: "Ring(8)_Ring(8)_Ring(4)",
            512: "Ring(8)_Ring(8)_Ring(8)",
        },
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


def find_system(measured: Measurement) -> System:
    """Return the machine of a row; raise :class:`LeftOut` for an unknown one."""
    for system in SYSTEMS:
        if re.search(system.pattern, measured.gpu.lower()):
            return system
    raise LeftOut(f"the GPU {measured.gpu!r} is not known")


_GPT = {"bias": True, "tied": True, "positions": True, "dropout": True, "gated": False}
_LLAMA = {"bias": False, "tied": False, "positions": False, "dropout": False, "gated": True}
_PLAIN = {**_LLAMA, "gated": False}  # squared ReLU, two matrices
_HEADS_OF_128 = {"head_size": 128}

_LATENT = {"head_size": 128, "query_rank": 1536, "kv_rank": 512, "rope": 64}
_DEEPSEEK_2 = _LLAMA | _LATENT | {
    "experts": 160, "top_k": 6, "expert_ffn": 1536, "shared_experts": 2, "dense_layers": 1,
}  # fmt: skip
_DEEPSEEK_3 = _LLAMA | _LATENT | {
    "experts": 256, "top_k": 8, "expert_ffn": 2048, "shared_experts": 1, "dense_layers": 3,
}  # fmt: skip

# MLPerf's reference models.  Criteo's tables as NVIDIA's scripts list them: of one vector a sample
# (training_results_v2.1, NVIDIA/benchmarks/dlrm, dgx_h100.py) and of several
# (NVIDIA-Merlin/HugeCTR@2f28608, samples/dlrm/train.py).
_TABLES = (
    *(39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10),
    *(2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36),
)
_TABLES_OF_DCN = (
    *(40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10),
    *(2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36),
)
_LOOKUPS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
_DLRM = {
    "family": "dlrm",
    "bottom": (13, 512, 256, 128),
    "top": (480, 1024, 1024, 512, 256, 1),
    "tables": 26,
    "rows": _TABLES,
    "width": 128,
    # 0.008 GB with Adagrad's sums (DP_SHARDING_THRESHOLD of config_DGXH200_1x8x6912.sh of v4.0).
    # It makes half of the lookups local, as v2.1's hybrid embedding does: dgx_h100_4x8x2240.py
    # expects 29,120 of a rank's 58,240 to be infrequent.
    "copied_rows": 7812,
    "fused": True,
}
_DCN = _DLRM | {"rows": _TABLES_OF_DCN, "lookups": _LOOKUPS, "cross_layers": 3, "cross_rank": 512}

# By name: the family, for reports, and keys of engine.workload.models.Transformer, or of the class
# of the key `family`; the first match counts.
_MODELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("resnet.?50", "ResNet", {"family": "convnet", "network_name": "resnet50", "fused": True}),
    ("dlrm.?dcn", "DLRM", _DCN),
    ("dlrm", "DLRM", _DLRM),
    # MosaicML's: ALiBi, no biases, one matrix for embedding and logits.
    ("mpt", "MPT", {**_PLAIN, "tied": True}),
    ("qwen3.*30b", "Qwen3 MoE", _LLAMA | _HEADS_OF_128 | {"experts": 128, "top_k": 8, "ffn": 768}),
    (
        "qwen3.*235b",
        "Qwen3 MoE",
        _LLAMA | _HEADS_OF_128 | {"experts": 128, "top_k": 8, "ffn": 1536},
    ),
    (
        "gpt.?oss.*120b",
        "GPT-OSS",
        _LLAMA
        | {"bias": True, "head_size": 64, "experts": 128, "top_k": 4, "clamped": True}
        | {"window": 128, "window_pattern": 2},
    ),
    ("deepseek.?v2", "DeepSeek", _DEEPSEEK_2),
    # A model cut to four layers keeps one dense layer of its three.
    ("deepseek.?v3.*cut", "DeepSeek", _DEEPSEEK_3 | {"dense_layers": 1}),
    ("deepseek.?v?3", "DeepSeek", _DEEPSEEK_3),
    ("kimi.?k2", "Kimi", _DEEPSEEK_3 | {"experts": 384, "dense_layers": 1}),
    ("mixtral", "Mixtral", _LLAMA | {"experts": 8, "top_k": 2}),
    # The cost of Maverick's alternating layers with and without experts depends on no order.
    (
        "llama4.maverick",
        "Llama 4",
        _LLAMA
        | {"experts": 128, "top_k": 1, "shared_experts": 1, "dense_layers": 24}
        | {"expert_ffn": 8192},
    ),
    ("llama4.scout", "Llama 4", _LLAMA | {"experts": 16, "top_k": 1, "shared_experts": 1}),
    (
        "gemma3",
        "Gemma",
        _LLAMA | {"tied": True, "head_size": 256, "window": 1024} | {"window_pattern": 6},
    ),
    # nanotron ties embedding and logits to 4B (scripts/scaling_benchmarks.py), as Llama 3.2 does.
    ("llama [134]b", "Llama", _LLAMA | {"tied": True}),
    ("llama", "Llama", _LLAMA),
    ("qwen|mistral|deepseek|olmo|yi-|granite|phi|internlm|baichuan", "Llama", _LLAMA),
    ("gemma", "Llama", _LLAMA | {"tied": True}),
    ("nemotron.?(4.)?(8|15|22|340)b", "Nemotron", {**_PLAIN, "vocabulary": 256000}),
    ("gpt|^opt", "GPT", _GPT),
    (r"\d+b", "GPT", _GPT),
)
# Habits of a stack's own models, whatever their family's: in Sailor's copy of Megatron-DeepSpeed
# attention drops nothing out, linear layers skip their biases, and logits have a matrix of their
# own (megatron/model/{opt_model,gpt_neo_model}.py).
_OF_STACKS: dict[str, dict[str, Any]] = {
    "ai-hypercomputer/maxtext": _LLAMA | _HEADS_OF_128,
    "maxtext": {"dropout": False},  # dropout_rate of src/MaxText/configs/base.yml
    "eth-easl/sailor": {"tied": False, "dropout": False, "bias": False},
}
# Before 2023 scores were computed and stored; so they are without flash attention.
_STORED_SCORES = (
    "bigscience",
    "images/scaling",
    "2020",
    "2021",
    "2022",
    "eth-easl/sailor",
    "via-research/vtrain",
)


def find_family(measured: Measurement) -> str:
    """Return the family of a row's model, such as llama.

    Raise :class:`LeftOut` for an unknown one.
    """
    return _find_entry(measured)[1]


def build_model(measured: Measurement) -> dict[str, Any]:
    """Return the keys of ``workload.model``; raise :class:`LeftOut` for an unknown model."""
    keys, shape = _find_entry(measured)[2], measured.shape
    if "family" in keys:
        return keys
    if measured.latent and "kv_rank" not in keys:
        raise LeftOut("the ranks of its latent attention (MLA) are not known")
    if measured.expert > 1 and "experts" not in keys:
        raise LeftOut(f"it has {measured.expert} expert-parallel ranks, but no experts are known")
    own = {name: shape[name] for name in ("hidden", "layers", "heads", "kv_heads", "ffn")}
    own |= {"sequence": shape["sequence"], "vocabulary": shape["vocab"] or 51200}
    flash = not any(mark in measured.source for mark in _STORED_SCORES)
    habits = (own for source, own in _OF_STACKS.items() if source in measured.source.lower())
    further: dict[str, Any] = {"mtp_layers": 1} if _predicts_further(measured) else {}
    if capacity := re.search(r"capacity_factor ([\d.]+)", measured.note):
        further["capacity"] = float(capacity[1])
    return {"family": "transformer", "flash": flash, **own, **keys, **further, **next(habits, {})}


def _predicts_further(measured: Measurement) -> bool:
    """Return whether training also predicts a second token (mtp_num_layers of Megatron-Bridge)."""
    name = measured.model.lower()
    bridge = "Megatron-Bridge" in measured.source
    return bridge and bool(re.search("deepseek.?v3", name)) and "w/o mtp" not in name


def add_seconds(measured: Measurement) -> Measurement:
    """Return the row with its FLOP/s converted to seconds.

    FLOPs are counted as in Megatron-LM (Narayanan et al., SC 2021): two per multiply-add, the
    backward pass twice the forward pass, all attention scores, and the logits.  A rate with
    recomputation counts one more forward pass of the layers.
    """
    if measured.rate is None:
        return measured
    keys = build_model(measured)
    hidden, layers, tokens = keys["hidden"], keys["layers"], measured.batch * keys["sequence"]
    size = keys.get("head_size") or hidden // keys["heads"]
    queries, groups = size * keys["heads"], keys["kv_heads"] or keys["heads"]
    attention = 2 * queries * (1 + groups / keys["heads"]) * hidden + 2 * keys["sequence"] * queries
    inner = keys["ffn"] or 4 * hidden
    feed = inner * hidden * (3 if keys["gated"] else 2) * keys.get("top_k", 1)
    logits = hidden * keys["vocabulary"]
    passes = 4 if measured.counts_recomputation else 3
    flops = 2.0 * tokens * (passes * layers * (attention + feed) + 3 * logits)
    return replace(measured, seconds=flops / measured.rate / measured.gpus)


def _find_entry(measured: Measurement) -> tuple[str, str, dict[str, Any]]:
    name = measured.model.lower().replace("_", " ")
    for entry in _MODELS:
        if re.search(entry[0], name):
            return entry
    raise LeftOut(f"the model {measured.model!r} is not known")


# A PyTorch that did nothing yet holds 1,343 MiB (Hugging Face's documentation of transformers,
# "Model training anatomy": the kernels alone).
_KERNELS = 1343 * 2.0**20
# NCCL's buffers of a connection, rounded up to 2 MiB: those that it receives into have 512 KiB for
# LL, 4.7 MiB for LL128 and 4 MiB for Simple (src/init.cc, src/transport/p2p.cc).  On each channel a
# rank has a ring's connection both ways, and a tree's to its parent and to its child.
_CHANNEL = 3 * (10 + 2) * 2.0**20
# Channels inside a node of eight A100 or four H100, and for each port of a node, doubled: those
# that NCCL usually logs, no line of its source.
_INSIDE, _OF_A_PORT = 24, 2
_PORTS = 4  # of a node of those that are judged: Jean Zay's Omni-Path, Alps's Slingshot


def compute_uncounted_memory(measured: Measurement, domain: int) -> float:
    """Return the bytes of a device that PyTorch does not count, with Megatron-DeepSpeed.

    They are the loaded kernels and NCCL's buffers.  There are communicators of all ranks
    (barriers), of a replica (norms), of tensor-parallel ranks, of replicas and of stages.  With
    stages DeepSpeed has a second communicator of tensor-parallel ranks (``slice_parallel_group`` of
    runtime/pipe/topology.py).  Nodes have ``domain`` GPUs.
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
    return _KERNELS + _CHANNEL * sum(_count_channels(*group, domain) for group in groups)


def _count_channels(ranks: int, apart: int, domain: int) -> int:
    if ranks == 1:
        return 0
    return _INSIDE if ranks * apart <= domain else _OF_A_PORT * min(_PORTS, max(1, domain // apart))
