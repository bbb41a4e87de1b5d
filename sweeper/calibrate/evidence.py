"""Error intervals of simulated times, for the terminal, the HTML page and JSON.

The intervals are computed from measured runs of other clusters, or from the posterior of a
calibrated cluster.  If neither covers a configuration, a reason is given instead.

``dimsweep verify clusters`` simulates the measured runs; its ``--evidence`` writes evidence.csv.
:mod:`bands` has the statistics.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from dimsweep.engine import DimsweepError, Fidelity, units
from dimsweep.engine.formats import GIVE, explained
from dimsweep.engine.workload.models import Transformer
from dimsweep.sweeper.calibrate.bands import SHARES, Band, Bands, KnownErrors, Place
from dimsweep.sweeper.calibrate.posterior import (
    DEGREES,
    Floats,
    Parameter,
    Posterior,
    compute_settings,
    list_parameters,
    slope_step,
)
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.simulation.simulate import simulate

UNCOVERED = "no measured run covers this"
TABLE = Path(__file__).with_name("evidence.csv")
_SAME, _NEAR = 1.05, 1.5  # maximum ratios of equal and of similar rates
_SCALE = 4  # maximum number of GPUs, relative to the largest measured run
# Settings of a GPU that depend on the stack.  A measured run has two values: its stack's, and that
# of the GPU's file.
SOFTWARE = ("memory_efficiency", "attention_time", "launch", "host")
_KINDS = {"dense": "a dense model", "experts": "a model with experts"}
# GPUs with equivalent kernels and links; any other GPU is a separate architecture.
_ARCHITECTURES = {
    "Ampere": ("A100", "A100 40GB", "A800"),
    "Hopper": ("H100", "H200", "H800", "GH200"),
    "Blackwell": ("B200", "B300", "GB200", "GB300"),
}


@dataclass(frozen=True)
class Facts:
    """The properties of a configuration by which comparable measured runs are found."""

    gpu: str
    kind: str  # "dense" or "experts"
    stack: str  # fsdp, deepspeed, megatron, ...
    precision: str
    gpus: int
    #: log2 of tensor, pipeline and expert degrees, micro-batch, width and layers; recomputation.
    plan: tuple[float, ...]
    library: str  # of collectives
    kernels: str
    efficiency: float
    relative_time: float
    memory_bandwidth: float  # bytes/s
    memory_efficiency: tuple[float, ...]
    attention_time: tuple[float, ...]
    launch: tuple[float, ...]  # ps
    host: tuple[float, ...]  # ps
    blocks: str  # building blocks of the network's dimensions
    domain: int  # NPUs of a node
    inside: float  # bytes/s of an NPU in its node
    between: float  # bytes/s of an NPU between nodes; 0 for one node

    @property
    def architecture(self) -> str:
        """Architecture of the GPU; GPUs of one architecture share much of their errors."""
        known = (name for name, gpus in _ARCHITECTURES.items() if self.gpu in gpus)
        return next(known, self.gpu)

    def place(self, source: str = "", *, free: bool = False) -> Place:
        """Return the position of the configuration in the model of errors."""
        return Place(
            self.architecture,
            self.gpu,
            self.kind,
            self.stack,
            self.precision,
            math.log2(self.gpus),
            self.plan,
            source,
            free,
            self.plan[MODEL][0],
        )


@dataclass(frozen=True)
class Run:
    """A measured run and the error of its simulated time."""

    facts: Facts
    source: str  # the document that published it
    fitted: bool  # whether constants were fitted to this document
    error: float  # simulated / measured - 1; of a fitted document, corrected by other documents
    alone: bool = False  # fitted, and no other document corrects it

    @property
    def origin(self) -> str:
        """Name of the source: a repository's documents, and MLPerf's rounds, are one source."""
        return re.sub(r"_v[\d.]+$", "", self.source.partition(":")[0])

    @property
    def place(self) -> Place:
        """Position of the run in the model of errors."""
        return self.facts.place(self.origin, free=self.alone)

    @property
    def logarithm(self) -> float:
        """Logarithm of simulated over measured time."""
        return math.log1p(self.error)


@dataclass(frozen=True)
class Evidence:
    """The error interval of a simulated time, or the reason why it is unknown."""

    band: Band | None = None
    runs: tuple[Run, ...] = ()  # measured runs with the same GPU, kind and precision
    sources: int = 0  # number of sources behind the band
    reason: str = ""  # why the error is unknown
    own: int = 0  # number of measurements of this cluster, if it was calibrated

    @property
    def width(self) -> float:
        """Width of the 90 % interval of the relative error; infinite if the error is unknown."""
        if self.band is None:
            return math.inf
        low, high = self.band.relative_ends(SHARES[-1])
        return high - low

    def measured_within(self, share: float) -> str:
        """Return the interval of measured relative to simulated times, as text: ``-4 to +14%``."""
        low, high = (each * 100 - 100 for each in self._measured(share))
        return f"{low:+.0f} to {high:+.0f}%"

    def expected(self, seconds: float, share: float = SHARES[-1]) -> str:
        """Return the measured times to expect for a simulated one, as text: ``16.1 to 17.6 s``."""
        low, high = (
            units.format_quantity(seconds * each, units.TIME, 3) for each in self._measured(share)
        )
        (number, unit), (_, other) = low.split(" "), high.split(" ")
        return f"{number if unit == other else low} to {high}"

    def _measured(self, share: float) -> tuple[float, float]:
        assert self.band is not None
        low, high = self.band.relative_ends(share)
        return 1 / (1 + high), 1 / (1 + low)

    @property
    def basis(self) -> str:
        """Text on the measurements from which the intervals were computed."""
        if self.own:
            return f"the posterior of {self.own} measurement{'s'[: self.own > 1]} of this cluster"
        rest = f"measured runs of {self.sources} sources, each left out in turn"
        if not self.runs:
            return f"{rest}; none has this GPU, kind of model and precision"
        gpus = [run.facts.gpus for run in self.runs]
        scale = f"{min(gpus):,} to {max(gpus):,}" if min(gpus) < max(gpus) else f"{max(gpus):,}"
        nearest = len({run.origin for run in self.runs})
        return (
            f"{rest}; nearest: {len(self.runs)} runs of {nearest} source{'s'[: nearest > 1]} on "
            f"{scale} {self.runs[0].facts.gpu}"
        )

    def expect(self, seconds: float) -> str:
        """Return a sentence with the measured times to expect for a simulated time."""
        if self.band is None:
            return f"{UNCOVERED}: {self.reason}"
        half, most = (self.expected(seconds, share) for share in SHARES)
        return f"expect {most} in {SHARES[-1]:.0%} of comparable runs, {half} in half"

    def __str__(self) -> str:
        if self.band is None:
            return f"{UNCOVERED}: {self.reason}"
        half, most = map(self.measured_within, SHARES)
        return (
            f"measured times are within {half} of this in half of comparable runs, "
            f"{most} in {SHARES[-1]:.0%} ({self.basis})"
        )

    def plain(self) -> dict[str, Any]:
        """Return the evidence as data for JSON; ``intervals`` is null if there is a ``reason``."""
        return {
            "intervals": self.band and {str(s): list(self.band.relative_ends(s)) for s in SHARES},
            "runs": len(self.runs),
            "fitted": sum(run.fitted for run in self.runs),
            "sources": sorted({run.source for run in self.runs}),
            "own": self.own,
            "reason": self.reason or None,
        }


def find_evidence(config: Config) -> Evidence:
    """Return the error interval of a configuration's simulated time.

    It is computed from the cluster's own measurements if the cluster was calibrated, else from
    published runs of other clusters.
    """
    if config.calibration:
        return _find_calibrated_evidence(config)
    own, reason = _collect_measurable_facts(config)
    if own is None:
        return Evidence(reason=reason)
    runs = load_runs()
    if reason := explain_missing_evidence(own, [run.facts for run in runs]):
        return Evidence(reason=reason)
    alike = tuple(run for run in runs if _is_same_group(own, run.facts))
    return Evidence(load_known_errors().band(own.place()), alike, len({run.origin for run in runs}))


def _find_calibrated_evidence(config: Config) -> Evidence:
    if key := _find_overridden_key(config):
        return Evidence(reason=f"{key} was changed after the calibration")
    if config.other_npus:
        return Evidence(reason=_explain_unmeasured_setting(config))
    if config.fidelity is not Fidelity.PHASE:
        return Evidence(reason=f"calibrated at fidelity=phase; this is fidelity={config.fidelity}")
    return Evidence(_posterior_band(config), own=_read_posterior(config).measured)


def compute_confidence(difference: float, one: Config, other: Config) -> float | None:
    """Return the probability that the configuration that is simulated slower is measured slower.

    The logarithms of the simulated times differ by ``difference``.  The result is None if no
    measured run covers one of the configurations.
    """
    places = list[Place]()
    for config in (one, other):
        own, _ = _collect_measurable_facts(config)
        own_cluster = bool(config.calibration)
        if own is None or not (
            own_cluster or not explain_missing_evidence(own, [run.facts for run in load_runs()])
        ):
            return None
        places.append(own.place("yours" if not places or own.gpu == places[0].gpu else "others"))
    return load_known_errors().bands.compute_confidence(difference, *places)


def compute_confidence_on_measured_network(
    difference: float, one: Config, other: Config
) -> float | None:
    """Return :func:`compute_confidence` as if both ran on the networks of measured machines.

    The result is None for unmeasured NPUs and for workloads other than transformers.
    """
    places = list[Place]()
    for config in (one, other):
        alike = config.with_values({"topology.machines": sorted(config.npu.machines)})
        own, _ = _collect_measurable_facts(alike)
        if own is None:
            return None
        places.append(own.place("yours"))
    return load_known_errors().bands.compute_confidence(difference, *places)


def can_be_judged(own: Facts, runs: Sequence[Facts]) -> bool:
    """Return whether runs of other sources cover the kind and scale of the measured run ``own``."""
    return any(_has_same_kind(own, run) for run in runs) and not _explain_scale(own, runs)


def _collect_measurable_facts(config: Config) -> tuple[Facts | None, str]:
    """Return the facts of a configuration; or None and the reason why no measurement covers it."""
    if reason := _explain_unmeasured_kind(config):
        return None, reason
    machines = _common_machines(config)
    gpu = next((run.facts.gpu for run in load_runs() if run.facts.gpu in machines), None)
    if gpu is None:
        return None, f"no measured run is on {' or '.join(sorted(machines))}"
    if reason := _explain_unmeasured_setting(config):
        return None, reason
    return collect_facts(config, gpu), ""


def explain_missing_evidence(own: Facts, runs: Sequence[Facts]) -> str:
    """Return the reason why ``runs`` do not cover a configuration; "" if they do."""
    for keep, why in _RULES:
        if not any(keep(own, run) for run in runs):
            return why(own, runs)
    return _explain_scale(own, runs) or _explain_software(own, runs)


def collect_facts(config: Config, gpu: str) -> Facts:
    """Return the facts of a transformer's configuration on machines with ``gpu``."""
    workload, npu = config.workload, config.npu
    assert isinstance(workload, Model)
    assert isinstance(workload.model, Transformer)
    topology = config.topology.build()
    dims = [dim for dim in topology.dims if dim.size > 1] or list(topology.dims[:1])
    precision = str(workload.plan.precision)
    return Facts(
        gpu=gpu,
        kind="experts" if workload.model.experts else "dense",
        stack=str(workload.plan.stack),
        precision="bf16" if precision == "fp16" else precision,  # as wide and as fast
        gpus=topology.n_npus,
        plan=_compute_coordinates(workload),
        library=config.collective.library or "",
        kernels=npu.kernels or "",
        efficiency=npu.efficiency,
        relative_time=npu.relative_time.get(precision, 1.0),
        memory_bandwidth=float(npu.memory_bandwidth or 0.0),
        **{name: (float(getattr(npu, name)),) for name in SOFTWARE},
        blocks=" ".join(dict.fromkeys(dim.block.name for dim in dims)),
        domain=dims[0].size,
        inside=float(dims[0].bandwidth),
        between=float(dims[1].bandwidth) if len(dims) > 1 else 0.0,
    )


MODEL = slice(4, 6)  # the coordinates of a plan that hold the model's width and layers


def compute_plan_coordinates(config: Config) -> tuple[float, ...] | None:
    """Return the coordinates of a transformer's plan, or None for another workload.

    Effects in the model of errors fade with the distance of two plans.
    """
    workload = config.workload
    if not isinstance(workload, Model) or not isinstance(workload.model, Transformer):
        return None
    return _compute_coordinates(workload)


def _compute_coordinates(workload: Model) -> tuple[float, ...]:
    plan, shape = workload.plan, workload.model
    degrees = [workload.parallel.get(axis, 1) for axis in ("tensor", "pipeline", "expert")]
    sizes = [
        *(math.prod(d) if isinstance(d, list | tuple) else d for d in degrees),
        *(plan.micro_batch or 1, shape.hidden, shape.layers),
    ]
    again = {"none": 0.0, "selective": 1.0, "full": 2.0}.get(str(plan.recompute), 1.0)
    return (*(math.log2(n) if isinstance(n, int) and n > 0 else 0.0 for n in sizes), again)


def _common_machines(config: Config) -> set[str]:
    return set(config.topology.machines) & set(config.npu.machines)


def _explain_unmeasured_kind(config: Config) -> str:
    """Return the reason why no configuration of this kind was measured; "" if some were."""
    workload, topology, npu = config.workload, config.topology, config.npu
    if not isinstance(workload, Model) or not isinstance(workload.model, Transformer):
        return "measured runs train transformers with a plan; this workload is another kind"
    if workload.plan.task != "training":
        return f"measured runs are training; this task is {workload.plan.task}"
    if not topology.machines:
        return "the network is not one of a known machine (topology.machines is empty)"
    if not npu.machines:
        return "the NPU is not one of a known machine (npu.machines is empty)"
    if not _common_machines(config):
        return (
            f"no machine combines the network of {' or '.join(topology.machines)} with the NPU of "
            + " or ".join(npu.machines)
        )
    return ""


def _explain_unmeasured_setting(config: Config) -> str:
    """Return the setting that differs from all measured machines, as text; "" if none does."""
    npu = config.npu
    if config.other_npus:
        return "no measured run mixes NPUs of several kinds"
    if config.network.degrade:
        return "no measured run has slower or failed parts (network.degrade)"
    if config.fidelity is not Fidelity.PHASE:
        return f"measured runs are compared at fidelity=phase; this is fidelity={config.fidelity}"
    if npu.systolic is not None or npu.measured is not None or npu.matmul_efficiency is not None:
        return "matrix products do not take the times of the GPU's measured kernels"
    if npu.overlap < 1 and not config.calibration:
        return f"npu.overlap is {npu.overlap:g}; measured runs are compared at 1"
    if config.collective.measured is not None:
        return "collectives take given times (collective.measured), not the library's"
    return ""


def _ratio(one: float, other: float) -> float:
    """Return the ratio of the larger number to the smaller one."""
    if one == other:
        return 1.0
    return max(one, other) / min(one, other) if min(one, other) > 0 else float("inf")


def _is_same_group(own: Facts, run: Facts) -> bool:
    return (own.gpu, own.kind, own.precision) == (run.gpu, run.kind, run.precision)


def _has_same_chip(own: Facts, run: Facts) -> bool:
    names = ("efficiency", "memory_bandwidth")
    rates = [_ratio(getattr(own, name), getattr(run, name)) for name in names]
    same = (own.gpu, own.kernels, own.library) == (run.gpu, run.kernels, run.library)
    return same and max(rates) <= _SAME


def _has_same_kind(own: Facts, run: Facts) -> bool:
    return (own.architecture, own.kind) == (run.architecture, run.kind)


def _has_same_precision(own: Facts, run: Facts) -> bool:
    same = (own.architecture, own.precision) == (run.architecture, run.precision)
    return same and _ratio(own.relative_time, run.relative_time) <= _SAME


def _has_similar_links(own: Facts, run: Facts) -> bool:
    if own.architecture != run.architecture or own.blocks != run.blocks:
        return False
    if not own.between:  # one node, or a part of one
        return _ratio(own.inside, run.inside) <= _NEAR and own.domain <= _NEAR * run.domain
    pairs = [(own.inside, run.inside), (own.between, run.between), (own.domain, run.domain)]
    return all(_ratio(ours, theirs) <= _NEAR for ours, theirs in pairs)


def _explain_scale(own: Facts, runs: Sequence[Facts]) -> str:
    most = max(run.gpus for run in runs if run.architecture == own.architecture)
    if own.gpus <= _SCALE * most:
        return ""
    return f"this has {own.gpus:,} GPUs; the largest measured {own.architecture} run has {most:,}"


def _explain_chip(own: Facts, runs: Sequence[Facts]) -> str:
    runs = [run for run in runs if run.gpu == own.gpu]
    if not runs:
        return f"no measured run is on {own.gpu}"
    for name in ("kernels", "library", "efficiency", "memory_bandwidth"):
        ours = getattr(own, name)
        theirs = sorted({getattr(run, name) for run in runs})
        if name == "library" and ours not in theirs:
            return f"measured runs on {own.gpu} use collectives of {theirs[0] or 'no library'}"
        if name == "kernels" and ours not in theirs:
            return f"npu.kernels is {ours or 'null'}; measured {own.gpu} runs use {theirs[0]}"
        numbers = name not in ("kernels", "library")
        if numbers and min(_ratio(ours, each) for each in theirs) > _SAME:
            known = " or ".join(_format_setting(name, each) for each in theirs)
            return (
                f"npu.{name} is {_format_setting(name, ours)}; measured {own.gpu} runs have {known}"
            )
    return f"no measured {own.gpu} run has both this efficiency and this memory bandwidth"


def _explain_kind(own: Facts, runs: Sequence[Facts]) -> str:
    return f"no measured run trains {_KINDS[own.kind]} on {own.architecture}"


def _explain_precision(own: Facts, runs: Sequence[Facts]) -> str:
    return f"no measured run uses {own.precision} of this speed on {own.architecture}"


def _explain_links(own: Facts, runs: Sequence[Facts]) -> str:
    runs = [run for run in runs if run.architecture == own.architecture]
    if own.blocks not in {run.blocks for run in runs}:
        return f"the network's blocks are {own.blocks}; measured networks have {runs[0].blocks}"
    for name, where in (("inside", "inside a node"), ("between", "between nodes")):
        theirs = sorted({getattr(run, name) for run in runs if getattr(run, name)})
        ours = getattr(own, name)
        if ours and (not theirs or min(_ratio(ours, each) for each in theirs) > _NEAR):
            known = " or ".join(map(units.format_bandwidth, theirs)) or "none"
            return f"links {where} have {units.format_bandwidth(ours)}; measured ones have {known}"
    theirs = sorted({run.domain for run in runs})
    return (
        f"this has nodes of {own.domain} GPUs; measured nodes have {' or '.join(map(str, theirs))}"
    )


_Why = Callable[[Facts, Sequence[Facts]], str]
# Different runs may satisfy the rules: a B300 has the links of a B200 and a GB200's precisions.
_RULES: tuple[tuple[Callable[[Facts, Facts], bool], _Why], ...] = (
    (_has_same_chip, _explain_chip),
    (_has_same_kind, _explain_kind),
    (_has_same_precision, _explain_precision),
    (_has_similar_links, _explain_links),
)


def _explain_software(own: Facts, runs: Sequence[Facts]) -> str:
    """Return the software setting that is outside the measured range, as text; "" if none is."""
    runs = [run for run in runs if run.architecture == own.architecture]
    for name in SOFTWARE:
        known = sorted({value for run in runs for value in getattr(run, name)})
        (ours,) = getattr(own, name)
        if not known[0] / _SAME <= ours <= known[-1] * _SAME:
            ends = " to ".join(
                _format_setting(name, each) for each in dict.fromkeys((known[0], known[-1]))
            )
            return f"npu.{name} is {_format_setting(name, ours)}; measured runs have {ends}"
    return ""


def _format_setting(name: str, value: float) -> str:
    if name in ("launch", "host"):
        return units.format_time(int(value))
    return units.format_bandwidth(value) if name == "memory_bandwidth" else f"{value:g}"


@cache
def _read_table() -> tuple[Bands, list[Run]]:
    head, _, rows = TABLE.read_text(encoding="utf-8").partition("\n")
    runs = [
        Run(
            Facts(**{each.name: _parse_field(each.name, row[each.name]) for each in fields(Facts)}),
            row["source"],
            row["fitted"] != "no",
            float(row["error"]),
            row["fitted"] == "alone",
        )
        for row in csv.DictReader(io.StringIO(rows))
    ]
    return Bands.from_json(head.removeprefix("# ")), runs


def load_runs() -> list[Run]:
    """Return all measured runs, in the order of the table."""
    return _read_table()[1]


@cache
def load_known_errors() -> KnownErrors:
    """Return the model of errors, conditioned on the measured runs."""
    bands, runs = _read_table()
    return bands.condition([run.place for run in runs], [run.logarithm for run in runs])


_LISTS = (*SOFTWARE, "plan")


def _parse_field(name: str, text: str) -> Any:
    if name in _LISTS:
        return tuple(map(float, text.split()))
    return Facts.__annotations__[name](text)


def format_table(bands: Bands, runs: Iterable[Run]) -> str:
    """Return the text of evidence.csv: the model of errors and the runs."""
    names = [each.name for each in fields(Facts)]
    lines = [[*names, "source", "fitted", "error"]]
    for run in runs:
        values = [_format_field(getattr(run.facts, name)) for name in names]
        fitted = "alone" if run.alone else "yes" if run.fitted else "no"
        lines.append([*values, run.source, fitted, f"{run.error:.4f}"])
    return f"# {bands.to_json()}\n" + "".join(",".join(line) + "\n" for line in lines)


def _format_field(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_format_field, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


_ROUNDING = 1e-6  # tolerance for covariances that are stored with four digits
# Growth of a deviation with each doubling of GPUs beyond the measured ones, as sources show
# at other scales (the effect of scale in `bands`).
_DOUBLING = 0.02


class _StoredPosterior(BaseModel):
    """A posterior in the file that ``dimsweep calibrate`` writes."""

    parameters: list[str]
    keys: dict[str, str | float | list[str | float]]
    covariance: list[list[Annotated[float, Field(allow_inf_nan=False)]]]
    scale: Annotated[float, Field(gt=0, le=1e3)]
    error: Annotated[float, Field(ge=0, le=1e3)]
    measured: Annotated[int, Field(gt=0)]
    gpus: Annotated[int, Field(gt=0)]

    @model_validator(mode="after")
    def _is_square(self) -> Self:
        sizes = {len(self.covariance), *map(len, self.covariance)}
        if sizes - {len(self.parameters)}:
            n = len(self.parameters)
            raise ValueError(f"covariance has {n} rows of {n} numbers")
        if n_below := int(np.sum(np.linalg.eigvalsh(np.array(self.covariance)) < -_ROUNDING)):
            raise ValueError(f"invalid covariance: {n_below} variances are below zero")
        return self


def serialize_posterior(
    parameters: list[Parameter],
    posterior: Posterior,
    *,
    error: float,
    measured: int,
    gpus: int,
    values: dict[str, Any],
) -> dict[str, Any]:
    """Return the posterior as data for a cluster's file; ``values`` are its calibrated keys."""
    return {
        "parameters": [each.name for each in parameters],
        "keys": {key: list(v) if isinstance(v, list) else v for key, v in values.items()},
        "covariance": [[float(f"{x:.4g}") for x in row] for row in posterior.covariance],
        "scale": round(posterior.scale, 4),
        "error": round(error, 4),
        "measured": measured,
        "gpus": gpus,
    }


def _find_overridden_key(config: Config) -> str:
    """Return the first key that was changed after the calibration; "" if none was."""
    for key, value in _read_posterior(config).keys.items():
        try:
            now = config.value(key)
        except DimsweepError:
            return key
        if now != value and list(np.atleast_1d(now)) != list(np.atleast_1d(value))[: np.size(now)]:
            return str(key)
    return ""


def _posterior_band(config: Config) -> Band:
    """Return the error intervals of a time on a calibrated cluster.

    Their standard deviation combines the uncertainty of the parameters, by the time's slopes, with
    the error of an unmeasured plan, which grows beyond the measured number of GPUs.
    """
    return _cached_band(json.dumps(config.text, default=str))


def _read_posterior(config: Config) -> _StoredPosterior:
    """Read ``config.calibration``.

    Raise an error for one that ``dimsweep calibrate`` cannot write.
    """
    try:
        return _StoredPosterior.model_validate(config.calibration)
    except ValidationError as error:
        fault = explained(error)
        where = f"calibration.{fault.where}".removesuffix(".")
        hint = fault.hint if fault.hint != GIVE else ""
        hint = hint or "`dimsweep calibrate` writes it"
        raise DimsweepError(fault.problem, where=where, hint=hint, code=fault.code) from error


@lru_cache(64)
def _cached_band(text: str) -> Band:
    config = Config.from_plain(json.loads(text))
    stored = _read_posterior(config)
    slopes = compute_slopes(config, stored.parameters, lambda own: math.log(simulate(own).time))
    covariance = np.array(stored.covariance, float)
    beyond = max(0.0, math.log2(config.topology.build().n_npus / max(1, stored.gpus)))
    posterior = Posterior(np.zeros(len(covariance)), covariance, stored.scale, DEGREES)
    error = math.hypot(stored.error, _DOUBLING * beyond / posterior.scale)
    return Band.from_deviation(
        0.0, posterior.deviation(slopes, error), load_known_errors().bands.ends
    )


def compute_slopes(
    config: Config, names: list[str], logarithm: Callable[[Config], float]
) -> Floats:
    """Return the derivatives (P,) of a simulated logarithm by the parameters ``names``.

    Finite differences step downwards, so that shares stay below 1.
    """
    known = {each.name: each for each in list_parameters(config)}
    middle, found = logarithm(config), []
    for name in names:
        if name not in known:
            found.append(0.0)  # of a dimension that this network lacks

            continue
        step = slope_step(name)
        changed = compute_settings(config, [known[name]], np.array([-step]))
        found.append((middle - logarithm(config.with_values(changed))) / step)
    return np.array(found)
