"""Doors of what users measured on their own cluster, and of the cluster's file that comes of it."""

import functools
import json
from pathlib import Path

import pytest

from dimsweep.sweeper.calibrate.evidence import find_evidence
from dimsweep.sweeper.calibrate.observations import read_observations
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from tests.faults.doors.door import Files, command, door
from tests.support.training_logs import MESHES, megatron, titan

BASE = ("cluster=dgx_h100", "nodes=1", "workload=llama3_8b", "workload.model.layers=1")
RUNS = """\
# three iterations
name,tp,micro_batch,micro_batches,seconds
alone,1,1,2,0.04
cut,8,1,2,0.03
"""
POWER = """\
timestamp, power.draw [W], clocks.sm [MHz], clocks.max.sm [MHz]
t, 80.0 W, 345 MHz, 1980 MHz
t, 690.0 W, 1485 MHz, 1980 MHz
"""
CASES = (
    {"kind": "product", "precision": "bf16", "m": 4096, "n": 4096, "k": 4096, "ms": 0.21},
    {"kind": "product", "precision": "bf16", "m": 1, "n": 1, "k": 1, "error": "no memory"},
    {"kind": "attention", "batch": 1, "heads": 8, "sequence": 1024, "size": 128, "ms": 0.1}
    | {"direction": "backward"},
    {"kind": "elementwise", "op": "add", "tokens": 8192, "hidden": 8192, "ms": 0.16},
    {"kind": "launch", "op": "add", "host_us": 4.0, "end_us": 5.0},
)
_SHAPES = {"shapes": [[512, 256], [256, 1024]], "types": ["Tensor(c10::BFloat16)"] * 2}
_PRODUCT = {"id": 2, "name": "aten::mm", "ctrl_deps": 1, "inputs": {"values": [], **_SHAPES}}
STEP = {
    "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 9.0, "dur": 600.0, "tid": 7}
        | {"args": {"External id": 1}},
        {"ph": "X", "cat": "cpu_op", "name": "ProfilerStep#1", "ts": 1, "dur": 1, "tid": 1}
        | {"args": {"Record function id": 1, "External id": 1}},
    ]
}
TRACE = {
    "schema": "1.1.1-chakra.0.0.4",
    "nodes": [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]"},
        _PRODUCT | {"outputs": {"values": []}, "attrs": [{"name": "rf_id", "value": 1}]},
    ],
}


@functools.cache
def _config() -> Config:
    return compose(BASE).config


def _cases() -> Files:
    lines = "".join(json.dumps(each) + "\n" for each in CASES).encode()
    step, trace = (json.dumps(each).encode() for each in (STEP, TRACE))
    return {"c.jsonl": lines, "s.kineto.json": step, "s.et.json": trace, "p.csv": POWER.encode()}


@door("calibrate ARGUMENTS", good=_cases)
def what_a_gpu_was_measured_to_do() -> None:
    for name in ("c.jsonl", "s.kineto.json", "p.csv"):
        for found in read_observations(Path(name), BASE, _config()):
            if found.kind != "profile":
                found.predict(_config())


def _runs() -> Files:
    rates = "gpus,batch,TFLOP/s/GPU,MFU (%)\n8,16,100,\n8,16,,40\n"
    small = {"world_size": 8, "context_parallel_size": 1, "pipeline_model_parallel_size": 1}
    logs = megatron([90.0, 30.0], num_layers=1, **small), titan(["9", "7,026"], MESHES[0])
    texts = [RUNS, RUNS.replace(",", ";"), rates, *logs]
    return {f"{i}.txt": text.encode("utf-8-sig") for i, text in enumerate(texts)}


@door(good=_runs)
def iterations_to_calibrate_with() -> None:
    for name in map("{}.txt".format, range(5)):
        read_observations(Path(name), BASE, _config())


def _cluster() -> Files:
    Path("runs.csv").write_text(RUNS)
    command("calibrate", "runs.csv", *BASE)
    return {"conf/cluster/mine.yaml": Path("conf/cluster/mine.yaml").read_bytes()}


@door(good=_cluster)
def a_cluster_that_was_calibrated() -> None:
    said = find_evidence(compose(["cluster=mine", *BASE[1:]]).config)
    assert said.reason or said.band.relative_ends(0.9) != pytest.approx(0)
