"""Read tables of plans that others tried on their clusters, each in its source's columns.

A row becomes a :class:`Measurement`, as for the tables of tests/golden/clusters.  Facts that a
table does not print (shapes, vocabularies, the network) are taken from its source, which the README
of tests/golden names.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.extensions.verify.clusters.measurements import (
    GIB,
    LeftOut,
    Measurement,
    open_table,
)

Row = Mapping[str, str]
_DENSE: dict[str, Any] = {"latent": False, "context": 1, "expert": 1, "interleave": 1, "note": ""}


# --- nanotron: the Ultra-Scale Playbook's sweep on AWS p5 ----------------------------------------
# Layers, hidden, heads and intermediate of scripts/scaling_benchmarks.py; 4,096 tokens a sequence.
_LLAMA = {
    "1B": (16, 2048, 32, 8192),
    "3B": (28, 3072, 32, 8192),
    "4B": (30, 3072, 32, 8192),
    "8B": (32, 4096, 32, 14336),
    "70B": (80, 8192, 64, 28672),
    "80B": (80, 8192, 64, 28672),
}


def _parse_nanotron(table: str, row: Row) -> Measurement:
    if row["model"] not in _LLAMA:
        raise LeftOut(f"the shape of its model {row['model']!r} is not known")
    layers, hidden, heads, ffn = _LLAMA[row["model"]]
    batch, sequence = int(row["global_batch"]), 4096
    return Measurement(
        table=table,
        source="huggingface/nanotron@0e0a27ea",
        model=f"Llama {row['model']}",
        shape={
            **{"layers": layers, "hidden": hidden, "heads": heads, "ffn": ffn},
            "kv_heads": int(row["kv_heads"]),
            "vocab": int(row["vocabulary"]),
            "sequence": sequence,
        },
        gpu="H100 (AWS p5)",
        gpus=8 * int(row["nodes"]),
        **_read_degrees(row, "tp", "pp", "dp"),
        micro_batch=int(row["micro_batch"]),
        batch=batch,
        precision="bf16",
        recompute="none",
        sharding=f"zero {row['zero']}",
        seconds=_scale(row["tokens_s"], lambda rate: batch * sequence / rate),
        memory=_scale(row["gpu_memory_gb"], lambda size: size * GIB),
        **_DENSE,
    )


# --- vTrain: GPT on A100, Megatron-DeepSpeed ------------------------------------------------------


def _parse_vtrain(table: str, row: Row) -> Measurement:
    axes = ("tensor parallelism", "pipeline parallelism", "data parallelism")
    return Measurement(
        table=table,
        source="VIA-Research/vTrain@f8dda84",
        model=f"GPT {row['# layers']} x {row['hidden size']}",
        shape={
            "layers": int(row["# layers"]),
            "hidden": int(row["hidden size"]),
            "heads": int(row["attention heads"]),
            "sequence": int(row["sequence length"]),
            **{"ffn": 0, "kv_heads": 0, "vocab": 51200},
        },
        gpu="A100 (vTrain)",
        gpus=int(row["# GPUs"]),
        **_read_degrees(row, *axes),
        micro_batch=int(row["micro batch"]),
        batch=int(row["global batch"]),
        precision="fp16",
        recompute="full",
        sharding="",
        seconds=float(row["iteration time (ms)"]) / 1000,
        **_DENSE,
    )


# --- MLPerf training v6.0: rows whose plan was printed --------------------------------------------
# Layers, hidden, heads, groups of keys and values, intermediate, vocabulary; and its software.
_MLPERF = {
    "deepseekv3": (
        "DeepSeek-V3 671B",
        (61, 7168, 128, 128, 18432, 129280),
        "full-iteration CUDA graphs; HybridEP; 1f1b overlap",
    ),
    "llama31_405b": ("Llama 3.1 405B", (126, 16384, 128, 8, 53248, 128256), ""),
    "llama31_8b": ("Llama 3.1 8B", (32, 4096, 32, 8, 14336, 128256), "full-iteration CUDA graphs"),
}


def _parse_mlperf(table: str, row: Row) -> Measurement:
    known = next(
        (each for name, each in _MLPERF.items() if row["benchmark"].startswith(name)), None
    )
    if known is None:
        raise LeftOut(f"the shape of its model {row['benchmark']!r} is not known")
    plan = {name: row[name] for name in ("tp", "pp", "vp", "ep", "cp")}
    if not all(plan.values()):
        missing = ", ".join(name for name, value in plan.items() if not value)
        raise LeftOut(f"its source does not print {missing}")
    names = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
    gpus, tensor, pipeline = int(row["gpus"]), int(plan["tp"]), int(plan["pp"])
    context, batch = int(plan["cp"]), int(row["global_batch"])
    return Measurement(
        table=table,
        source=f"mlcommons/training_results_v6.0:{row['source_path']}",
        model=known[0],
        shape=dict(zip(names, known[1], strict=True)) | {"sequence": int(row["seq"])},
        latent="deepseek" in row["benchmark"],
        gpu=row["gpu"],
        gpus=gpus,
        tensor=tensor,
        pipeline=pipeline,
        data=gpus // (tensor * pipeline * context),
        context=context,
        expert=int(plan["ep"]),
        interleave=int(plan["vp"]),
        micro_batch=int(row.get("micro_batch") or 1),
        batch=batch,
        precision=row["precision"],
        recompute="none",
        sharding="distributed optimizer",
        note=f"{row['what']}; {known[2]}",
        seconds=float(row["step_s"]),
    )


# --- MLPerf training v2.1 and v4.0: vision and recommendation, in samples a second ----------------
# Models that dimsweep has, and the stack of all of NVIDIA's GPUs that ran them.
_SAMPLED = {
    "resnet": ("ResNet-50", "MXNet"),
    "dlrm": ("DLRM", "HugeCTR"),
    "dlrm_dcnv2": ("DLRM-DCNv2", "Adagrad in HugeCTR"),
}


def _parse_samples(table: str, row: Row) -> Measurement:
    if row["benchmark"] not in _SAMPLED:
        raise LeftOut(f"dimsweep has no model for {row['benchmark']}")
    if "NVIDIA" not in row["accelerator"]:
        raise LeftOut(f"the stack of {row['accelerator']} is not known")
    model, stack = _SAMPLED[row["benchmark"]]
    nodes, node = int(row["nodes"]), int(row["accelerators_per_node"])
    gpus, batch = nodes * node, int(row["global_batch"])
    between = ", HugeCTR" if "HugeCTR" in stack and nodes > 1 else ""
    return Measurement(
        table=table,
        source=f"mlcommons/training_results_{row['round']}:{row['source']}",
        model=model,
        shape={"layers": 1, "sequence": 1},
        gpu=f"{row['accelerator']}{between}",
        gpus=gpus,
        node=node,
        tensor=1,
        pipeline=1,
        data=gpus,
        micro_batch=math.ceil(batch / gpus),
        batch=batch,
        precision="fp16",
        recompute="none",
        sharding="",
        seconds=batch / float(row["throughput_samples_s_median"]),
        **{**_DENSE, "expert": gpus if "DLRM" in model else 1, "note": f"; {stack}"},
    )


# --- TPUs: MaxText recipes --------------------------------------------------------------------
# By name: layers, hidden, heads, groups of keys and values, intermediate and vocabulary
# (src/maxtext/configs/models); tokens of a sequence; and the keys that the table leaves out, from
# the recipes' READMEs and benchmarks/maxtext_{trillium,v5p}_model_configs.py of MaxText@e591f30.
_OF_ATTENTION = "query_proj=offload;key_proj=offload;value_proj=offload"
_TPU: tuple[tuple[str, tuple[int, ...], int, str], ...] = (
    (
        "gpt3-175b.*v5p",
        (96, 12288, 96, 96, 49152, 50304),
        2048,
        "remat_policy=full;ici_tensor_parallelism=8;quantization=int8",
    ),
    ("gpt3-175b", (96, 12288, 96, 96, 49152, 50304), 2048, "remat_policy=full"),
    ("gemma3-12b", (48, 3840, 16, 8, 15360, 262144), 32768, ""),
    ("llama2-70b", (80, 8192, 64, 8, 28672, 32000), 4096, _OF_ATTENTION),
    ("llama3.1-8b", (32, 4096, 32, 8, 14336, 128256), 8192, f"{_OF_ATTENTION};out_proj=offload"),
    ("llama3.1-70b", (80, 8192, 64, 8, 28672, 128256), 8192, _OF_ATTENTION),
    ("llama3.1-405b.*v5p", (126, 16384, 128, 8, 53248, 128256), 8192, "context=offload"),
    ("llama3.1-405b", (126, 16384, 128, 8, 53248, 128256), 8192, ""),
    ("mistral-7b", (32, 4096, 32, 8, 14336, 32000), 8192, f"{_OF_ATTENTION};out_proj=offload"),
    (
        "mixtral-8x7b",
        (32, 4096, 32, 8, 14336, 32000),
        4096,
        f"{_OF_ATTENTION};out_proj=offload;capacity_factor=1.25",
    ),
    (
        "mixtral-8x22b",
        (56, 6144, 48, 8, 16384, 32768),
        4096,
        f"{_OF_ATTENTION};out_proj=offload;capacity_factor=1.25;ici_expert_parallelism=4",
    ),
    (
        "deepseek3-671b",
        (61, 7168, 128, 128, 18432, 129280),
        8192,
        "out_proj=offload;sparse_matmul=True",
    ),
    (
        "llama4-maverick",
        (48, 5120, 40, 8, 16384, 202048),
        8192,
        f"{_OF_ATTENTION};out_proj=offload;sparse_matmul=True",
    ),
    ("llama4-scout", (48, 5120, 40, 8, 8192, 202048), 8192, "sparse_matmul=True"),
    ("qwen3-235b", (94, 4096, 64, 4, 1536, 151936), 4096, "sparse_matmul=True"),
    ("gpt-oss-120b", (36, 2880, 64, 8, 2880, 201088), 8192, "sparse_matmul=True"),
)
_QKV = {"query_proj", "key_proj", "value_proj"}


def _parse_tpu(table: str, row: Row) -> Measurement:
    name = f"{row['model']} {row['tpu']}"
    known = next((each for each in _TPU if re.search(each[0], name.lower())), None)
    if known is None:
        raise LeftOut(f"the shape of its model {row['model']!r} is not known")
    _, shape, sequence, keys = known
    run = dict(
        each.split("=") for each in f"{keys};{row['kv']}".split(";") if each and "-1" not in each
    )
    chips = round(int(row["total_tokens"]) / float(row["tokens_s_chip"]) / float(row["step_s"]))
    if torus := re.search(r"\d+x\d+x\d+", row["variant"]):  # a chip of TPU7x has two devices
        chips = math.prod(map(int, torus[0].split("x")))
    if said := re.match(r"(\d+)k-", row["variant"]):
        sequence = 1024 * int(said[1])
    sequence = int(run.get("max_target_length", sequence))
    tensor = int(run.get("ici_tensor_parallelism", 1))
    expert = int(run.get("ici_expert_parallelism", 1))
    batch, data = int(row["total_tokens"]) // sequence, chips // tensor
    slices = max(1, chips // _POD) if "v6e" in row["tpu"] else 1
    divided = data if "dcn_fsdp_parallelism" in run else data // slices
    names = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
    precision = run.get("quantization", "bf16")
    if "fp8" in row["variant"]:  # Trillium's recipe of that name sets quantization to int8
        precision = "int8" if row["tpu"] == "v6e" else "fp8"
    return Measurement(
        table=table,
        source=f"AI-Hypercomputer/tpu-recipes@c8cfe2f:{row['source']}",
        model=row["model"].removesuffix("-MaxText"),
        shape=dict(zip(names, shape, strict=True)) | {"sequence": sequence},
        gpu=f"TPU {row['tpu']}",
        gpus=chips,
        tensor=tensor,
        pipeline=1,
        data=data,
        micro_batch=max(1, batch // data),
        batch=batch,
        precision=precision,
        recompute=f"remat: {', '.join(_list_modules(run))}",
        sharding=f"FSDP {divided}",
        seconds=float(row["step_s"]),
        **{
            **_DENSE,
            "latent": "deepseek" in name.lower(),
            "expert": expert,
            "note": ", ".join(f"{key} {run[key]}" for key in _NOTED if key in run),
        },
    )


_POD = 256  # chips of the largest slice of v6e
_NOTED = ("capacity_factor", "sparse_matmul")


def _list_modules(run: Mapping[str, str]) -> list[str]:
    """Return the modules that MaxText computes again: all whose result no key of a run keeps."""
    kept = {name for name, where in run.items() if where in ("offload", "device")}
    again = {
        "norm": True,
        "activation": True,
        "expansion": True,
        "projection": "out_proj" not in kept,
        "qkv": not kept >= _QKV,
        "core": "context" not in kept,
    }
    return [name for name, is_again in again.items() if is_again]


def _scale(cell: str, scale: Callable[[float], float]) -> float | None:
    """Return the number in a table cell times ``scale``, or None for a plan that did not run."""
    number = float(cell or "nan")
    return None if math.isnan(number) else scale(number)


def _read_degrees(row: Row, tensor: str, pipeline: str, data: str) -> dict[str, Any]:
    return {"tensor": int(row[tensor]), "pipeline": int(row[pipeline]), "data": int(row[data])}


_FORMATS: tuple[tuple[set[str], Callable[[str, Row], Measurement]], ...] = (
    ({"nodes", "grad_acc", "tokens_s", "gpu_memory_gb", "kv_heads"}, _parse_nanotron),
    ({"# GPUs", "# layers", "iteration time (ms)"}, _parse_vtrain),
    ({"benchmark", "step_s", "plan_source", "source_path"}, _parse_mlperf),
    ({"benchmark", "accelerators_per_node", "throughput_samples_s_median"}, _parse_samples),
    ({"tpu", "step_s", "total_tokens", "kv"}, _parse_tpu),
)


def read_plans(folder: Path) -> dict[Path, list[tuple[int, Measurement | LeftOut]]]:
    """Return the rows of each table of plans in a folder, by file and line.

    Raises :class:`DimsweepError` for a folder without such a table, or an invalid number in one.
    """
    if not folder.is_dir():
        raise DimsweepError("no such folder", where=str(folder), code="inaccessible")
    found = {file: [*_read(file)] for file in sorted(folder.glob("*.csv"))}
    found = {file: rows for file, rows in found.items() if rows}
    if not found:
        raise DimsweepError(
            "no table of plans",
            where=str(folder),
            hint="a CSV file with the columns of one in tests/golden/plans",
            code="missing",
        )
    return found


def _read(file: Path) -> Iterator[tuple[int, Measurement | LeftOut]]:
    with open_table(file) as lines:
        reader = csv.DictReader(lines)
        heads = {*(reader.fieldnames or ())}
        parse = next((parse for columns, parse in _FORMATS if columns <= heads), None)
        for row in reader if parse else ():
            assert parse is not None
            try:
                yield reader.line_num, parse(file.stem, row)
            except LeftOut as why:
                yield reader.line_num, why
            except (ValueError, TypeError, ArithmeticError) as error:
                number = re.search("'.*'", str(error))
                raise DimsweepError(
                    f"invalid number {number[0] if number else error}",
                    where=f"{file}, line {reader.line_num}",
                    code="invalid",
                ) from error
