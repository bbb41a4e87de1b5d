"""How far simulated times are from measured ones: what the measured runs that are like a
configuration say of it, or why none of them says anything.

The runs are those that ``dimsweep verify clusters`` simulates; ``--evidence`` writes evidence.csv.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine import Dimension, Fidelity, units
from engine.model import Transformer
from sweeper.config.schema import Config
from sweeper.config.workload.model import Model

TABLE = Path(__file__).with_name("evidence.csv")
LOW, HIGH = 0.1, 0.9  # the points of the signed errors between which the interval lies
LEAST = 5  # runs, below which such points are only guessed
_SAME, _NEAR = 1.05, 1.5  # factors up to which a rate is the measured one, or near it
# What a stack makes of a GPU, with one value for each that is known: a measured run has that of its
# stack and that of the GPU's own file.
SOFTWARE = ("memory_efficiency", "attention_time", "launch", "host")
_KINDS = {"dense": "a dense model", "experts": "a model with experts"}


@dataclass(frozen=True)
class Facts:
    """What of a configuration decides how its time compares to a measured one.

    Rates are relative, in operations, bytes or bytes/s, times in picoseconds.  ``inside`` and
    ``between`` are an NPU's bandwidths in its node (a domain of ``domain`` NPUs) and between nodes,
    0 where there is one node.
    """

    gpu: str
    kind: str
    precision: str
    gpus: int
    kernels: str
    efficiency: float
    relative_time: float
    memory_bandwidth: float
    memory_efficiency: tuple[float, ...]
    attention_time: tuple[float, ...]
    launch: tuple[float, ...]
    host: tuple[float, ...]
    domain: int
    inside: float
    between: float


@dataclass(frozen=True)
class Run:
    """A measured run: its facts, the document that published it, whether constants were fitted to
    that, and our time relative to the measured one, less 1."""

    facts: Facts
    source: str
    fitted: bool
    error: float


@dataclass(frozen=True)
class Evidence:
    """What measured runs say: the ``runs`` that are like a configuration, and the interval of our
    times relative to theirs, less 1, of those that the model was not fitted to; or ``reason``, why
    there is none."""

    runs: tuple[Run, ...] = ()
    reason: str = ""

    @property
    def left_out(self) -> tuple[Run, ...]:
        """The runs that the model was not fitted to, and so can be wrong about."""
        return tuple(run for run in self.runs if not run.fitted)

    @property
    def ends(self) -> tuple[float, float] | None:
        """What a tenth of the errors of the runs left out is below, and what a tenth is above; None
        where there is a reason for having no interval."""
        if self.reason:
            return None
        low, high = np.quantile([run.error for run in self.left_out], [LOW, HIGH])
        return float(low), float(high)

    @property
    def interval(self) -> str:
        """Of our times, relative to measured ones: ``-12 to +4%``; empty where there is none."""
        return (
            "" if self.ends is None else f"{self.ends[0] * 100:+.0f} to {self.ends[1] * 100:+.0f}%"
        )

    @property
    def basis(self) -> str:
        """The runs that the interval rests on, and those that the model was fitted to."""
        alike, fitted = self.left_out, len(self.runs) - len(self.left_out)
        gpus = [run.facts.gpus for run in alike]
        scale = f"{min(gpus):,} to {max(gpus):,}" if min(gpus) < max(gpus) else f"{max(gpus):,}"
        sources = len({run.source for run in alike})
        text = f"{len(alike)} measured runs of {sources} source{'s'[: sources > 1]} on {scale} "
        text += f"{alike[0].facts.gpu}, to none of which the model was fitted"
        return text + (f"; it was fitted to {fitted} more" if fitted else "")

    @property
    def short(self) -> str:
        """The interval, or that there is none, in few words."""
        return self.interval or ("no interval" if self.runs else "no measured run covers this")

    def __str__(self) -> str:
        if self.interval:
            return f"four in five such times were {self.interval} off measured ones ({self.basis})"
        return f"{self.reason}: {self.short}" if self.runs else f"{self.short}: {self.reason}"

    def plain(self) -> dict[str, Any]:
        """All of it as JSON takes it: ``interval`` is a pair, or null for the ``reason``."""
        return {
            "interval": self.ends and list(self.ends),
            "share": HIGH - LOW,
            "runs": len(self.left_out),
            "fitted": len(self.runs) - len(self.left_out),
            "sources": sorted({run.source for run in self.runs}),
            "reason": self.reason or None,
        }


def evidence(config: Config) -> Evidence:
    """The evidence for the time of a configuration: of the runs of the same GPU, kind of model and
    precision, on clusters at least as large, those whose GPU, software and links are like its."""
    if reason := _unlike(config):
        return Evidence(reason=reason)
    runs, machines = known_runs(), _machines(config)
    gpu = next((run.facts.gpu for run in runs if run.facts.gpu in machines), None)
    if gpu is None:
        return Evidence(reason=f"nothing was measured on {' or '.join(sorted(machines))}")
    if reason := _changed(config):
        return Evidence(reason=reason)
    own = facts(config, gpu)
    for keep, why in _RULES:
        kept = [run for run in runs if keep(own, run.facts)]
        if not kept:
            return Evidence(reason=why(own, [run.facts for run in runs]))
        runs = kept
    if reason := _software(own, [run.facts for run in runs]):
        return Evidence(reason=reason)
    return Evidence(tuple(runs), _no_interval(own, runs))


def _no_interval(own: Facts, runs: Sequence[Run]) -> str:
    """Why runs alike give no interval; empty if they do.  Errors of runs that the model was fitted
    to say how well it was fitted, not how well it predicts."""
    left_out = [run for run in runs if not run.fitted]
    fitted = len(runs) - len(left_out)
    text = f"{len(runs)} measured run{'s'[: len(runs) > 1]} like this one"
    if not left_out:
        whole = "all of which" if fitted > 1 else "which"
        return f"{text}, {whole} the model was fitted to"
    if len(left_out) < LEAST:
        told = f", {fitted} of which the model was fitted to" if fitted else ""
        return f"{text}{told}, and an interval takes {LEAST}{' others' if fitted else ''}"
    why = _software(own, [run.facts for run in left_out])
    return (
        f"{text}, and those that the model was not fitted to do not cover it ({why})" if why else ""
    )


def facts(config: Config, gpu: str) -> Facts:
    """The facts of a configuration of a transformer on machines of ``gpu``."""
    workload, npu = config.workload, config.npu
    assert isinstance(workload, Model)
    assert isinstance(workload.model, Transformer)
    topology = config.topology.build()
    dims = [dim for dim in topology.dims if dim.size > 1] or list(topology.dims[:1])
    precision = str(workload.plan.precision)
    return Facts(
        gpu=gpu,
        kind="experts" if workload.model.experts else "dense",
        precision="bf16" if precision == "fp16" else precision,  # as wide and as fast
        gpus=topology.n_npus,
        kernels=npu.kernels or "",
        efficiency=npu.efficiency,
        relative_time=npu.relative_time.get(precision, 1.0),
        memory_bandwidth=float(npu.memory_bandwidth or 0.0),
        **{name: (float(getattr(npu, name)),) for name in SOFTWARE},
        domain=dims[0].size,
        inside=float(dims[0].bandwidth),
        between=float(dims[1].bandwidth) if len(dims) > 1 else 0.0,
    )


def _machines(config: Config) -> set[str]:
    return set(config.topology.machines) & set(config.npu.machines)


def _unlike(config: Config) -> str:
    """Why a configuration is of a kind of which nothing was measured; empty if it is of none."""
    workload, topology, npu = config.workload, config.topology, config.npu
    if not isinstance(workload, Model) or not isinstance(workload.model, Transformer):
        return "only transformers with a plan were measured, no lists of layers and no traces"
    if workload.plan.task != "training":
        return f"training was measured, no {workload.plan.task}"
    if not topology.machines:
        return "the network is that of no machine"
    if not npu.machines:
        return "the NPU is that of no machine"
    if not _machines(config):
        return (
            f"no machine has the network of {' or '.join(topology.machines)} and the NPU of "
            + " or ".join(npu.machines)
        )
    return ""


def _changed(config: Config) -> str:
    """What is not as it was on any machine that was measured; empty if nothing is."""
    npu = config.npu
    if config.fidelity is not Fidelity.PHASE:
        return f"runs are compared by phases, not with fidelity={config.fidelity}"
    if npu.systolic is not None or npu.measured is not None or npu.matmul_efficiency is not None:
        return "the times of its products are not those of the GPU's measured kernels"
    if config.collective.library is None:
        return "measured collectives were NCCL's (collective=nccl)"
    if config.collective.measured is not None:
        return "its collectives have times of their own (collective.measured)"
    dims: Sequence[Dimension] = [d for d in config.topology.build().dims if d.size > 1]
    if len(dims) > 2 or any(dim.block.name != "Switch" for dim in dims):
        return "the network's dimensions are not NVLink and adapters"
    return ""


def _ratio(one: float, other: float) -> float:
    """How many times one is the other, 1 or more."""
    if one == other:
        return 1.0
    return max(one, other) / min(one, other) if min(one, other) > 0 else float("inf")


def _group(own: Facts, run: Facts) -> bool:
    return (own.gpu, own.kind, own.precision) == (run.gpu, run.kind, run.precision)


def _chip(own: Facts, run: Facts) -> bool:
    names = ("efficiency", "relative_time", "memory_bandwidth")
    rates = [_ratio(getattr(own, name), getattr(run, name)) for name in names]
    return own.kernels == run.kernels and max(rates) <= _SAME


def _links(own: Facts, run: Facts) -> bool:
    if not own.between:  # one node, or a part of one
        return _ratio(own.inside, run.inside) <= _NEAR and own.domain <= _NEAR * run.domain
    pairs = [(own.inside, run.inside), (own.between, run.between), (own.domain, run.domain)]
    return all(_ratio(ours, theirs) <= _NEAR for ours, theirs in pairs)


def _scale(own: Facts, run: Facts) -> bool:
    return own.gpus <= run.gpus


def _no_group(own: Facts, runs: Sequence[Facts]) -> str:
    return f"{_KINDS[own.kind]} in {own.precision} was not measured on {own.gpu}"


def _no_chip(own: Facts, runs: Sequence[Facts]) -> str:
    measured = runs[0]
    for name in ("kernels", "efficiency", "relative_time", "memory_bandwidth"):
        ours = getattr(own, name)
        theirs = sorted({getattr(run, name) for run in runs})
        if name == "kernels" and ours not in theirs:
            return f"npu.kernels is {ours or 'null'}, and {measured.gpu} ran those of {theirs[0]}"
        if name != "kernels" and min(_ratio(ours, each) for each in theirs) > _SAME:
            known = " or ".join(_shown(name, each) for each in theirs)
            return f"npu.{name} is {_shown(name, ours)}, and {measured.gpu} had {known}"
    return f"no {measured.gpu} had its efficiency and its memory at once"


def _no_links(own: Facts, runs: Sequence[Facts]) -> str:
    for name, where in (("inside", "inside a node"), ("between", "between nodes")):
        theirs = sorted({getattr(run, name) for run in runs if getattr(run, name)})
        ours = getattr(own, name)
        if ours and (not theirs or min(_ratio(ours, each) for each in theirs) > _NEAR):
            known = " or ".join(map(units.format_bandwidth, theirs)) or "none"
            return f"links of {units.format_bandwidth(ours)} {where}, and {known} were measured"
    theirs = sorted({run.domain for run in runs})
    return f"nodes of {own.domain} GPUs, and {' or '.join(map(str, theirs))} were measured"


def _no_scale(own: Facts, runs: Sequence[Facts]) -> str:
    most = max(run.gpus for run in runs)
    return f"{own.gpus:,} GPUs, and no such run was on more than {most:,} {own.gpu}"


_Why = Callable[[Facts, Sequence[Facts]], str]
_RULES: tuple[tuple[Callable[[Facts, Facts], bool], _Why], ...] = (
    (_group, _no_group),
    (_chip, _no_chip),
    (_links, _no_links),
    (_scale, _no_scale),
)


def _software(own: Facts, runs: Sequence[Facts]) -> str:
    """What a stack makes of the GPU and lies beyond those that were measured."""
    for name in SOFTWARE:
        known = sorted({value for run in runs for value in getattr(run, name)})
        (ours,) = getattr(own, name)
        if not known[0] / _SAME <= ours <= known[-1] * _SAME:
            ends = " to ".join(_shown(name, each) for each in dict.fromkeys((known[0], known[-1])))
            return f"npu.{name} is {_shown(name, ours)}, and what was measured had {ends}"
    return ""


def _shown(name: str, value: float) -> str:
    if name in ("launch", "host"):
        return units.format_time(int(value))
    return units.format_bandwidth(value) if name == "memory_bandwidth" else f"{value:g}"


@cache
def known_runs() -> list[Run]:
    """All runs of the table, in its order."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [
        Run(
            Facts(**{each.name: _read(each.name, row[each.name]) for each in fields(Facts)}),
            row["source"],
            row["fitted"] == "yes",
            float(row["error"]),
        )
        for row in rows
    ]


def _read(name: str, text: str) -> Any:
    if name in SOFTWARE:
        return tuple(map(float, text.split()))
    return Facts.__annotations__[name](text)


def table(runs: Iterable[Run]) -> str:
    """The runs as the text of such a table."""
    names = [each.name for each in fields(Facts)]
    lines = [[*names, "source", "fitted", "error"]]
    for run in runs:
        values = [_written(getattr(run.facts, name)) for name in names]
        lines.append([*values, run.source, "yes" if run.fitted else "no", f"{run.error:.4f}"])
    return "".join(",".join(line) + "\n" for line in lines)


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_written, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)
