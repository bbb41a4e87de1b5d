"""From configuration to workloads of real models under parallel plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, NamedTuple

from engine import Cluster, DimsweepError, Workload, check_memory, suggestion, units
from engine.model import ConvNet, Dlrm, Gnmt, Recompute, Transformer
from engine.plan import (
    DeviceMesh,
    GradientExchange,
    Offload,
    Optimizer,
    ParallelPlan,
    Schedule,
    Serving,
    serving,
    training,
    training_footprint,
)
from sweeper.config.parse import choice, key

Config = Mapping[str, Any]

_FAMILIES: dict[str, type[Any]] = {
    "transformer": Transformer,
    "convnet": ConvNet,
    "dlrm": Dlrm,
    "gnmt": Gnmt,
}


class _Precision(NamedTuple):
    """Bytes of a weight or activation, and of a gradient where the plan does not say."""

    value: float
    gradient: float


PRECISIONS = {
    "fp32": _Precision(4.0, 4.0),
    "fp16": _Precision(2.0, 2.0),
    "bf16": _Precision(2.0, 2.0),
    "fp8": _Precision(1.0, 2.0),
}


def model_workload(workload: Config, cluster: Cluster) -> Workload:
    """The workload of ``workload.model`` under ``workload.parallel`` and ``workload.plan``."""
    with key("workload"):
        mesh = DeviceMesh.place(workload["parallel"], cluster.topology.sizes)
        with key("model"):
            model = build_model(workload["model"])
        with key("plan"):
            plan = {**workload["plan"], "batch": _batch(workload["plan"], mesh)}
        if plan["task"] != "training":
            with key("plan"):
                serve = _serving(plan)
            return serving(model, serve, mesh, workload["name"])
        with key("plan"):
            train = _training(plan)
        train = _offloading(train, plan["offload"], model, mesh, cluster)
        need = training_footprint(model, train, mesh)
    # Before its graph is built, which takes a thousand times as long.
    check_memory(need, cluster)
    with key("workload"):
        return training(model, train, mesh, workload["name"])


def build_model(config: Config) -> Any:
    """The model that ``config`` describes: its family, and that family's fields."""
    values = dict(config)
    family = values.pop("family", None)
    if family not in _FAMILIES:
        raise DimsweepError(
            f"{family!r} is no family of models",
            where="family",
            hint=f"families: {', '.join(_FAMILIES)}",
        )
    known = {f.name: f for f in fields(_FAMILIES[family])}
    for name, value in values.items():
        if name not in known:
            raise DimsweepError(
                "unknown key",
                where=name,
                hint=suggestion(name, known),
            )
        values[name] = _field(name, value, str(known[name].type))
    for name, field_ in known.items():
        if field_.default is MISSING and name not in values:
            raise DimsweepError("this key needs a value", where=name)
    return _FAMILIES[family](**values)


def _field(name: str, value: Any, kind: str) -> Any:
    """``value`` if it is of the field's type: int, bool, str, or a tuple of int."""
    if kind.startswith("tuple"):
        if not isinstance(value, list) or not all(_is_whole(v) for v in value):
            raise DimsweepError(f"{value!r} is no list of whole numbers", where=name)
        return tuple(value)
    right = {"int": _is_whole(value), "bool": isinstance(value, bool)}.get(
        kind, isinstance(value, str)
    )
    if not right:
        what = {"int": "whole number", "bool": "truth value"}.get(kind, "word")
        raise DimsweepError(f"{value!r} is no {what}", where=name)
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _batch(plan: Config, mesh: DeviceMesh) -> int:
    batch, n = plan["batch"], plan["micro_batches"]
    if (batch is None) == (n is None):
        raise DimsweepError(
            "give the batch of all replicas, or the micro-batches of each, not both",
            where="batch",
            hint="set the other one to null",
        )
    if batch is None:
        batch = n * plan["micro_batch"] * mesh.degree("data") * mesh.degree("expert")
    return int(batch)


def precision_of(workload: Config) -> str:
    """The precision that the NPU computes in."""
    if "plan" not in workload:
        return "bf16"
    with key("workload"), key("plan"):
        _precision(workload["plan"])
    return str(workload["plan"]["precision"])


def _offloading(
    plan: ParallelPlan, offload: Any, model: Any, mesh: DeviceMesh, cluster: Cluster
) -> ParallelPlan:
    """What is kept in remote memory: as told, or no more than makes the rest fit."""
    if offload != "auto":
        with key("plan"), key("offload"):
            if not isinstance(offload, list):
                raise DimsweepError(
                    f"{offload!r} is no list", hint=f"auto, or some of [{', '.join(Offload)}]"
                )
            return replace(plan, offload=frozenset(choice(what, Offload) for what in offload))
    capacity = cluster.npu.memory
    if cluster.memory is None or capacity is None:
        return plan
    for n in range(len(Offload) + 1):
        spilled = replace(plan, offload=frozenset(list(Offload)[:n]))
        if training_footprint(model, spilled, mesh).total <= capacity:
            break
    return spilled


def _precision(plan: Config) -> _Precision:
    if plan["precision"] not in PRECISIONS:
        raise DimsweepError(
            f"{plan['precision']!r} is none of {', '.join(PRECISIONS)}", where="precision"
        )
    return PRECISIONS[plan["precision"]]


def _serving(plan: Config) -> Serving:
    if plan["task"] not in ("prefill", "decode"):
        raise DimsweepError(f"{plan['task']!r} is none of training, prefill, decode", where="task")
    return Serving(
        batch=plan["batch"],
        micro_batch=plan["micro_batch"],
        decode=plan["task"] == "decode",
        sequence_parallel=plan["sequence_parallel"],
        value=_precision(plan).value,
    )


def _training(plan: Config) -> ParallelPlan:
    value, gradient = _precision(plan)
    if plan["gradients"] is not None:
        with key("gradients"):
            if plan["gradients"] not in PRECISIONS:
                raise DimsweepError(f"{plan['gradients']!r} is none of {', '.join(PRECISIONS)}")
            gradient = PRECISIONS[plan["gradients"]].value
    with key("schedule"):
        schedule = choice(plan["schedule"], Schedule)
    with key("recompute"):
        recompute = choice(plan["recompute"], Recompute)
    with key("optimizer"):
        optimizer = choice(plan["optimizer"], Optimizer)
    with key("gradient_exchange"):
        exchange = choice(plan["gradient_exchange"], GradientExchange)
    with key("bucket"):
        bucket = units.parse(plan["bucket"], units.BYTES)
    return ParallelPlan(
        batch=plan["batch"],
        micro_batch=plan["micro_batch"],
        schedule=schedule,
        interleave=plan["interleave"],
        sequence_parallel=plan["sequence_parallel"],
        recompute=recompute,
        zero=plan["zero"],
        optimizer=optimizer,
        gradient_exchange=exchange,
        overlap_gradients=plan["overlap_gradients"],
        bucket=bucket,
        value=value,
        gradient_value=gradient,
    )
