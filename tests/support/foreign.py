"""Traces as other tools write them: ids, names, attributes and dependencies are theirs.

``symbolic`` is like those of ASTRA-sim's symbolic tensor graph: ids by micro-batch and layer,
whatever runs first, so that a forward step has the same neighbours as its backward one and nodes
wait for later ones; receives last.  ``kineto`` is like those that Chakra's converter makes of
PyTorch's: operators of the host one after another, each kernel behind its operator, durations that
were measured on each rank.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dimsweep.engine.formats.chakra import (
    CollectiveType,
    NodeType,
    Trace,
    TraceNode,
    Value,
    write_trace,
)

Keys = Mapping[str, int]


class _Nodes:
    """Nodes by name; what they wait for may come later."""

    def __init__(self) -> None:
        self._nodes: list[tuple[str, NodeType, tuple[str, ...], dict[str, Value], int]] = []

    def add(
        self, name: str, type_: NodeType, after: tuple[str, ...] = (), micros: int = 0,
        **attributes: Value,
    ) -> None:  # fmt: skip
        self._nodes.append((name, type_, after, dict(attributes), micros))

    def write(self, path: Path, spread_ids: int, **metadata: Value) -> None:
        ids = {name: spread_ids * (i + 1) for i, (name, *_) in enumerate(self._nodes)}
        nodes = (
            TraceNode(
                ids[name], name.partition("\0")[0], type_, tuple(ids[each] for each in after),
                duration_micros=micros, attributes=attributes,
            )
            for name, type_, after, attributes, micros in self._nodes
        )  # fmt: skip
        write_trace(path, Trace(tuple(nodes), metadata=metadata))


def write_symbolic(prefix: Path, keys: Keys) -> None:
    """Ranks: data parallel innermost, then tensor, then pipeline."""
    dp, tp, pp = keys["dp"], keys["tp"], keys["pp"]
    groups = {
        **{str(1 + i): [i * dp + j for j in range(dp)] for i in range(tp * pp)},
        **{
            str(1 + tp * pp + p * dp + i): [p * dp * tp + i + dp * j for j in range(tp)]
            for p in range(pp)
            for i in range(dp)
        },
    }
    for rank in range(dp * tp * pp):
        of_rank = {
            "dp": str(1 + rank // dp),
            "tp": str(1 + tp * pp + rank // dp // tp * dp + rank % dp),
        }
        nodes = _Nodes()
        _symbolic(nodes, keys, rank, of_rank)
        nodes.write(Path(f"{prefix}.{rank}.et"), 2, schema="symbolic_tensor_network")
    Path(f"{prefix}.groups.json").write_text(json.dumps(groups))
    Path(f"{prefix}.keys.json").write_text(json.dumps(dict(keys)))


def _symbolic(nodes: _Nodes, keys: Keys, rank: int, groups: Mapping[str, str]) -> None:
    tp, pp, hidden = keys["tp"], keys["pp"], keys["hidden"]
    stage, apart = rank // (keys["dp"] * tp), keys["dp"] * tp
    here = keys["layers"] // pp
    layers = range(stage * here, (stage + 1) * here)
    tokens = keys["sequence"] * keys["batch"] // keys["micro_batches"]

    def comp(name: str, ops: float, size: float, *after: str) -> None:
        nodes.add(name + "_COMP", NodeType.COMP, after, num_ops=int(ops), tensor_size=int(size))

    def coll(name: str, kind: CollectiveType, size: float, group: str, *after: str) -> None:
        if keys[group] > 1:
            nodes.add(
                name, NodeType.COMM_COLL, after, comm_size=int(size), comm_type=int(kind),
                pg_name=groups[group], is_cpu_op=0,
            )  # fmt: skip

    def got(name: str, otherwise: str) -> str:
        """What was gathered, if it had to be."""
        return name if tp > 1 else otherwise

    for m in range(keys["micro_batches"]):
        for layer in layers:
            at, before, behind = (f"mb{m}.transformer.{i}." for i in (layer, layer - 1, layer + 1))
            came = before + "ffn.y@0_COMP" if layer > layers[0] else f"mb{m}.in_emb.y@0_COMP"
            if layer == layers[0] and stage:
                came = f"shadow_mb{m}.transformer.{layer - 1}.y_RECV"
            back = behind + "norm.dx@0_COMP" if layer < layers[-1] else f"mb{m}.loss@0_COMP"
            if layer == layers[-1] and stage < pp - 1:
                back = f"shadow_mb{m}.transformer.{layer + 1}.dx_RECV"
            act = tokens * hidden
            comp(at + "norm.y@0", 5 * act, act / tp, came)
            comp(at + "norm.dx@0", 5 * act, act / tp, at + "mha.dx@0_COMP")
            coll(
                at + "mha.qkv@0_X1COMM",
                CollectiveType.ALL_GATHER,
                act / tp,
                "tp",
                at + "norm.y@0_COMP",
            )
            comp(
                at + "mha.qkv@0", 6 * act * hidden / tp, 3 * act / tp,
                got(at + "mha.qkv@0_X1COMM", at + "norm.y@0_COMP"),
            )  # fmt: skip
            comp(
                at + "mha.dx@0",
                12 * act * hidden / tp,
                act,
                at + "ffn.dx@0_COMP",
                at + "mha.qkv@0_COMP",
            )
            comp(at + "mha.dw@0", 6 * act * hidden / tp, 3 * hidden**2 / tp, at + "ffn.dx@0_COMP")
            comp(at + "ffn.y@0", 16 * act * hidden / tp, act, at + "mha.qkv@0_COMP")
            coll(at + "ffn.dx@0_X1COMM", CollectiveType.ALL_GATHER, act / tp, "tp", back)
            comp(
                at + "ffn.dx@0", 16 * act * hidden / tp, act,
                got(at + "ffn.dx@0_X1COMM", back), at + "ffn.y@0_COMP",
            )  # fmt: skip
        if not stage:
            comp(f"mb{m}.in_emb.y@0", tokens, act)
        if stage == pp - 1:
            comp(
                f"mb{m}.loss@0",
                2 * act * 50257 / tp,
                tokens * 50257 / tp,
                f"mb{m}.transformer.{layers[-1]}.ffn.y@0_COMP",
            )
    for layer in layers:
        size = 12 * hidden**2 / tp
        summed = tuple(
            f"mb{m}.transformer.{layer}.mha.dw@0_COMP" for m in range(keys["micro_batches"])
        )
        comp(f"transformer.{layer}.dw@1", size, size, *summed)
        coll(
            f"transformer.{layer}.w@1_X2COMM",
            CollectiveType.ALL_REDUCE,
            size,
            "dp",
            f"transformer.{layer}.dw@1_COMP",
        )
        came = (
            f"transformer.{layer}.w@1_X2COMM"
            if keys["dp"] > 1
            else f"transformer.{layer}.dw@1_COMP"
        )
        comp(f"transformer.{layer}.w@1", 10 * size, 4 * size, came)
    for m in range(keys["micro_batches"]):
        _messages(nodes, m, rank, apart, layers, stage < pp - 1, bool(stage), tokens * hidden // tp)


def _messages(
    nodes: _Nodes, m: int, rank: int, apart: int, layers: range, next_: bool, previous: bool,
    size: int,
) -> None:  # fmt: skip
    first, last = layers[0], layers[-1]
    if next_:
        nodes.add(
            f"mb{m}.transformer.{last}.ffn.y@0_Y_SEND", NodeType.COMM_SEND,
            (f"mb{m}.transformer.{last}.ffn.y@0_COMP",), comm_size=size, comm_tag=900 + m,
            comm_src=rank, comm_dst=rank + apart, is_cpu_op=0,
        )  # fmt: skip
        nodes.add(
            f"shadow_mb{m}.transformer.{last + 1}.dx_RECV", NodeType.COMM_RECV, (), comm_size=size,
            comm_tag=9000 + m, comm_src=rank + apart, comm_dst=rank, is_cpu_op=0,
        )  # fmt: skip
    if previous:
        nodes.add(
            f"mb{m}.transformer.{first}.norm.dx@0_Y_SEND", NodeType.COMM_SEND,
            (f"mb{m}.transformer.{first}.norm.dx@0_COMP",), comm_size=size, comm_tag=9000 + m,
            comm_src=rank, comm_dst=rank - apart, is_cpu_op=0,
        )  # fmt: skip
        nodes.add(
            f"shadow_mb{m}.transformer.{first - 1}.y_RECV", NodeType.COMM_RECV, (), comm_size=size,
            comm_tag=900 + m, comm_src=rank - apart, comm_dst=rank, is_cpu_op=0,
        )  # fmt: skip


def write_kineto(prefix: Path, keys: Keys, noise: float = 0.02) -> None:
    """Tensor-parallel ranks are neighbours; gradients are summed up after each layer."""
    dp, tp = keys["dp"], keys["tp"]
    groups = {
        **{str(1 + i): [i * tp + j for j in range(tp)] for i in range(dp)},
        **{str(1 + dp + i): [i + tp * j for j in range(dp)] for i in range(tp)},
    }
    for rank in range(dp * tp):
        nodes = _Nodes()
        _Host(nodes, np.random.default_rng(rank), noise).run(
            keys, {"tp": str(1 + rank // tp), "dp": str(1 + dp + rank % tp)}
        )
        nodes.write(
            Path(f"{prefix}.{rank}.et"), 1, schema="1.0.2-chakra.0.0.4", pid=1234, time="today"
        )
    Path(f"{prefix}.groups.json").write_text(json.dumps(groups))
    Path(f"{prefix}.keys.json").write_text(json.dumps(dict(keys)))


class _Host:
    """One thread, as it calls operators and launches kernels."""

    def __init__(self, nodes: _Nodes, rng: np.random.Generator, noise: float) -> None:
        self._nodes, self._rng, self._noise = nodes, rng, noise
        self._n = 0
        self._last = ""  # operator of the host
        self._on_stream: dict[int, str] = {}
        self._of_group: dict[str, str] = {}

    def run(self, keys: Keys, groups: Mapping[str, str]) -> None:
        tokens, hidden, tp = keys["batch"] * keys["sequence"], keys["hidden"], keys["tp"]
        work = tokens * hidden**2 / tp
        gemm, norm = (
            "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn",
            "vectorized_layer_norm_kernel",
        )
        for _ in range(keys["layers"]):
            self.call(
                "aten::layer_norm", (norm, tokens * hidden / 2e6), child="aten::native_layer_norm"
            )
            self.call("aten::linear", (gemm, work / 2e8 + 4), child="aten::addmm")
            self.communicate("c10d::allreduce_", groups["tp"], 2 * tokens * hidden, 20)
            self.call("aten::gelu", ("gelu_kernel", tokens * hidden / 1e6))
        for _ in range(keys["layers"]):
            self.call("GeluBackward0", ("gelu_backward_kernel", tokens * hidden / 1e6))
            self.call("AddmmBackward0", (gemm, work / 1e8 + 8), child="aten::mm")
            self.communicate("c10d::allreduce_", groups["tp"], 2 * tokens * hidden, 20)
            self.call("NativeLayerNormBackward0", (norm, tokens * hidden / 1e6))
            if keys["dp"] > 1:
                self.communicate(
                    "c10d::_reduce_scatter_base_", groups["dp"], 24 * hidden**2 / tp, 24
                )
        self.call("Optimizer.step#AdamW.step", ("multi_tensor_apply_kernel", hidden**2 / tp / 1e4))
        self._add("aten::item", NodeType.COMP, (self._last, *self._on_stream.values()), 3, cpu=True)

    def call(self, name: str, kernel: tuple[str, float], child: str = "") -> None:
        self._operator(name)
        if child:
            self._operator(child)
        self._kernel(*kernel, NodeType.COMP, 7)

    def communicate(self, name: str, group: str, size: float, stream: int) -> None:
        self._operator(name)
        self._operator("record_param_comms")
        scatters = "scatter" in name
        kind = CollectiveType.REDUCE_SCATTER if scatters else CollectiveType.ALL_REDUCE
        kernel = f"ncclDevKernel_{'ReduceScatter' if scatters else 'AllReduce'}_Sum_bf16_RING_LL"
        self._kernel(
            kernel, size / 1e5, NodeType.COMM_COLL, stream,
            comm_type=int(kind), comm_size=int(size), pg_name=group,
        )  # fmt: skip

    def _operator(self, name: str) -> None:
        before = (self._last,) if self._last else ()
        self._last = self._add(name, NodeType.COMP, before, 6, cpu=True, tid=1)

    def _kernel(
        self, name: str, micros: float, type_: NodeType, stream: int, **attributes: Value
    ) -> None:
        before = [self._last]
        if type_ is NodeType.COMM_COLL and stream in self._on_stream:
            before.append(self._on_stream[stream])
        if type_ is NodeType.COMP:  # waits for what the kernels before it gave
            before += [each for s, each in self._on_stream.items() if s in (7, 20)]
        self._on_stream[stream] = self._add(
            name, type_, tuple(before), micros, cpu=False, stream=stream, **attributes
        )

    def _add(
        self, name: str, type_: NodeType, after: tuple[str, ...], micros: float, cpu: bool,
        **attributes: Value,
    ) -> str:  # fmt: skip
        self._n += 1
        unique = f"{name}\0{self._n}"
        seen = round((micros + 3) * float(np.exp(self._noise * self._rng.standard_normal())))
        common: dict[str, Value] = {"rf_id": self._n, "seq_id": -1, "scope": 0, "is_cpu_op": cpu}
        self._nodes.add(unique, type_, after, seen, **common, **attributes)
        return unique
