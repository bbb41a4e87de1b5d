"""Read measurements to which a cluster is calibrated, each with a function that predicts it."""

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    DimsweepError,
    GraphBuilder,
    Group,
    Result,
    Topology,
    Workload,
    lower,
    run_one,
    units,
)
from dimsweep.engine.cluster import Timing
from dimsweep.engine.formats import (
    delimiter_of,
    first_line,
    is_nccl_tests,
    is_training_log,
    read_nccl_tests,
    read_text,
)
from dimsweep.sweeper.calibrate.bands import EFFECTS, compute_exponents, fade_with_distance
from dimsweep.sweeper.calibrate.evidence import (
    MODEL,
    Run,
    compute_plan_coordinates,
    load_known_errors,
    load_runs,
)
from dimsweep.sweeper.calibrate.iterations import (
    EXAMPLES,
    Iteration,
    has_iterations,
    read_iteration_log,
    read_iteration_table,
    reading_csv,
)
from dimsweep.sweeper.calibrate.kernels import (
    CaseTime,
    Product,
    ProfiledStep,
    read_cases,
    read_products,
    read_profiled,
)
from dimsweep.sweeper.calibrate.posterior import Floats
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.simulation.simulate import simulate

# Deviations of log(measured / simulated) with the right parameters.  Those of collectives and
# single products come from `dimsweep verify nccl` and benchmarks/kernel_times.  A simulated launch
# stands for several kernels; kernels of a profile are classified by their names; a clock is only a
# proxy of a rate.  Deviations of iterations come from the model of errors (`bands`).
DEVIATIONS = {
    "collective": 0.12,
    "product": 0.08,
    "memory": 0.12,
    "launch": 0.7,
    "profile": 0.12,
    "clock": 0.10,
}
_INDEPENDENT = 8  # rows of one kind in a file beyond which further rows add no information

Predict = Callable[[Config], float]


@dataclass(frozen=True)
class Observation:
    """A measured value, and the function that predicts it from a configuration."""

    name: str
    kind: str
    value: float
    predict: Predict
    deviation: float  # of log(value / prediction) with the right parameters
    config: Config | None = None  # of a measured plan
    unit: str = "s"
    place: str = ""  # file and line
    remark: str = ""  # rows of its file that were left out


def read_observations(path: Path, overrides: Sequence[str], base: Config) -> list[Observation]:
    """Read the measurements of a file, or of a folder of ``dimsweep measure``, by their format.

    Raises :class:`DimsweepError` naming a file of unknown format.
    """
    if path.is_dir():
        files = [each for each in sorted(path.rglob("*")) if _is_data(each)]
        if not files:
            hint = "a folder with .csv, .jsonl, .log or .txt files"
            problem = "the folder has no file of measurements"
            raise DimsweepError(problem, where=str(path), hint=hint, code="missing")
        return [found for each in files for found in read_observations(each, overrides, base)]
    if not path.is_file():
        raise DimsweepError("no such file", where=str(path), code="inaccessible")
    if path.suffix == ".jsonl":
        return list(_observe_cases(path))
    text = read_text(path, "file of measurements")
    if is_training_log(text):
        return list(_observe_iterations(read_iteration_log(path, overrides)))
    if is_nccl_tests(text):
        return _observe_collectives(path)
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return list(_observe_profile(path, base))
    columns = {each.lower() for each in _split_cells(first_line(text), delimiter_of(text))}
    if has_iterations(columns):
        return list(_observe_iterations(read_iteration_table(path, overrides)))
    if any(each.startswith("power.draw") for each in columns) or re.search(
        r"(?m)^#\s*Entity", text
    ):
        return list(_observe_power(path))
    if len(columns) > 1 and not {"op", "bytes"} & columns:
        raise DimsweepError(
            f"no column of a measurement: {first_line(text):.80}",
            where=str(path),
            hint=f"{EXAMPLES} for iterations; op, gpus, nodes, bytes and time_us for collectives; "
            "power.draw for nvidia-smi's",
            code="missing",
        )
    return _observe_collectives(path)


def _split_cells(line: str, delimiter: str) -> list[str]:
    try:
        rows = csv.reader([line], delimiter=delimiter, skipinitialspace=True)
        return [cell.strip() for cell in next(rows, [])]
    except csv.Error:
        return []


def _is_data(file: Path) -> bool:
    return file.is_file() and file.suffix in (".csv", ".jsonl", ".log", ".txt")


def _observe_iterations(found: Iterable[Iteration]) -> Iterator[Observation]:
    for each in found:
        spread = compute_iteration_deviation(each.config)
        name = f"iteration, {each.name}"
        yield Observation(
            name,
            "iteration",
            each.seconds,
            _simulate_seconds,
            spread,
            each.config,
            place=each.place,
        )
        if each.profile is not None:
            yield from _observe_profile(each.profile, each.config, each.name)


def _simulate_seconds(config: Config) -> float:
    return simulate(config).time


# --- collectives --------------------------------------------------------------------------------


def _observe_collectives(path: Path) -> list[Observation]:
    found = read_nccl_tests(path)
    timings = found.timings
    remark = f"{path}: left out {found.left_out}" if found.left_out else ""
    counts: dict[bool, int] = {}
    for timing in timings:
        counts[timing.nodes > 1] = counts.get(timing.nodes > 1, 0) + 1
    return [
        Observation(
            f"{timing.kind} of {timing.n_bytes:,} B, {timing.ranks} on {timing.nodes} nodes",
            "collective",
            timing.duration / units.PICOSECONDS,
            _CollectiveTime(timing),
            _divide_deviation("collective", counts[timing.nodes > 1]),
            remark=remark,
        )
        for timing in timings
    ]


def _divide_deviation(kind: str, rows: int) -> float:
    """Return the standard deviation of one of ``rows`` measurements that share their error."""
    return DEVIATIONS[kind] * math.sqrt(max(1.0, rows / _INDEPENDENT))


@dataclass(frozen=True)
class _CollectiveTime:
    """Predicts the seconds of one collective on a cluster's network."""

    timing: Timing

    def __call__(self, config: Config) -> float:
        timing = self.timing
        topology = config.topology.build()
        if len(topology.dims) < (2 if timing.nodes > 1 else 1):
            raise DimsweepError(
                f"a collective on {timing.nodes} nodes, but the cluster has one node",
                hint="give nodes=",
                code="mismatch",
            )
        sizes = (timing.ranks // timing.nodes, timing.nodes)
        used = [d for d, size in enumerate(sizes) if size > 1]
        shape = "_".join(f"{topology.dims[d].block.name}({sizes[d]})" for d in used)
        own = Topology.build(
            shape,
            bandwidth=[float(topology.dims[d].bandwidth) for d in used],
            latency=[int(topology.dims[d].latency) for d in used],
        )
        node_dimensions = 1 if sizes[0] > 1 else 0
        settings = {**config.collective.plain(), "node_dimensions": node_dimensions}
        part = type(config.collective).from_plain(settings)
        cluster = Cluster(own, collectives=part.build(len(used)))
        gathers = timing.kind is CollectiveKind.ALL_GATHER
        held = timing.n_bytes / timing.ranks if gathers else timing.n_bytes
        builder, n = GraphBuilder(), cluster.topology.sizes
        builder.add("collective", Collective(timing.kind, held, "all"))
        whole = Workload((builder.build(),), {"all": Group(n, (1,) * len(n))})
        return Result(run_one(lower(whole, cluster))).time


# --- single kernels -----------------------------------------------------------------------------


def _observe_cases(path: Path) -> Iterator[Observation]:
    cases = list(read_cases(path))
    for case in cases:
        same = sum(each.bound == case.bound for each in cases)
        deviation = _divide_deviation(case.bound, same)
        yield Observation(str(case), case.bound, case.seconds, CaseTime(case), deviation)


# --- profiles and power -------------------------------------------------------------------------


def _observe_profile(path: Path, config: Config, name: str = "") -> Iterator[Observation]:
    profiled = read_profiled(path)
    name = name or path.name
    for part in ("step", "products", "memory"):
        value = getattr(profiled, part)
        if value:
            yield Observation(
                f"profile, {part} of {name}",
                "profile",
                value,
                _ProfiledTime(part, profiled),
                DEVIATIONS["profile"],
                config,
            )
    yield from _observe_products(path)


@dataclass(frozen=True)
class _ProfiledTime:
    """Predicts the seconds of a training step, or of its kernels of one kind."""

    part: str
    profiled: ProfiledStep

    def __call__(self, config: Config) -> float:
        result = simulate(config)
        if self.part == "step":
            return result.time
        path = result.critical_path
        if path is None:
            problem = "a profile can only be compared with fidelity=phase"
            raise DimsweepError(problem, where="fidelity", code="unsupported")
        return max(path["compute" if self.part == "products" else "memory"], 1e-9)


def _observe_products(path: Path) -> Iterator[Observation]:
    """Yield single matrix products, if the step's execution trace is next to the profile."""
    trace = path.with_name(path.name.replace(".kineto", ".et"))
    if trace == path or not trace.is_file():
        return
    found = read_products(path, trace)
    for each in found:
        case = Product(m=each.m, k=each.k, n=each.n, ms=each.seconds * 1e3)
        yield Observation(
            f"{case} of {path.name}",
            case.bound,
            case.seconds,
            CaseTime(case),
            _divide_deviation(case.bound, len(found)),
        )


def _observe_power(path: Path) -> Iterator[Observation]:
    """Yield the clock rate under load from a log of nvidia-smi or DCGM.

    The speed of products follows the clock that the power limit sustains.
    """
    lines = read_text(path, "file of measurements").splitlines()
    with reading_csv(path):
        found: list[dict[str, Any]] = list(_read_monitor(lines)) or list(csv.DictReader(lines))
    rows = [{(k or "").strip(): v for k, v in row.items()} for row in found]
    names = list(rows[0]) if rows else []
    columns = {
        what: next((n for n in names if n.startswith(starts)), "")
        for what, starts in (
            ("now", ("clocks.current.sm", "clocks.sm", "SMCLK")),
            ("most", ("clocks.max.sm", "SMMAX")),
            ("draw", ("power.draw", "POWER")),
        )
    }
    if not (columns["now"] and columns["most"] and columns["draw"]):
        raise DimsweepError(
            "the log lacks the power, the SM clock or its maximum",
            where=str(path),
            hint="nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm,clocks.max.sm --format=csv"
            ", or dcgmi dmon -e 155,100,113",
            code="missing",
        )
    values = [{what: _parse_number(row.get(n)) for what, n in columns.items() if n} for row in rows]
    draws = sorted(value["draw"] for value in values if value.get("draw"))
    busy = [v for v in values if v.get("draw", 0) >= 0.8 * draws[-1]] if draws else []
    shares = [v["now"] / v["most"] for v in busy if 0 < v.get("now", 0) <= v.get("most", 0)]
    if shares:
        yield Observation(
            f"clock while busy ({median(v['draw'] for v in busy):.0f} W)",
            "clock",
            median(shares),
            _read_efficiency,
            DEVIATIONS["clock"],
            unit="of the highest",
        )
    else:
        problem = "no row has both the power and the clocks"
        raise DimsweepError(problem, where=str(path), code="missing")


def _read_monitor(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows printed by `dcgmi dmon`, which repeats its header periodically."""
    names: list[str] = []
    for line in lines:
        words = line.replace("#", " ").split()
        if words[:1] == ["Entity"]:
            names = words[1:]
        elif words[:1] == ["GPU"] and names:
            yield dict(zip(names, words[2:], strict=False))


def _read_efficiency(config: Config) -> float:
    return config.npu.efficiency


def _parse_number(text: Any) -> float:
    found = re.search(r"\d+(?:\.\d+)?", str(text or ""))
    return float(found[0]) if found else 0.0


# Bandwidths between nodes: the error of the worst GPU of `dimsweep verify nccl`.  Latencies of
# cables and switches are rarely published.
_NETWORK, _LATENCY = 0.3, 0.7
# Kernels concurrent with collectives are 18.9 % slower in the mean ("Characterizing
# Compute-Communication Overlap in GPU-Accelerated Distributed Deep Learning", arXiv 2507.03114).
_OVERLAP = -math.log(1 - 0.189)
# Typical shares of an iteration's time in products and in memory-bound kernels.  Either may explain
# the whole difference between two sources.
_PRODUCTS, _MEMORY = 0.6, 0.3
_LEAST = 0.05


def compute_prior_widths(config: Config) -> dict[str, float]:
    """Return the standard deviation of the prior of each parameter's logarithm, by name.

    Compute and memory efficiency may each explain the whole spread among sources.  The deviations
    of memory and launches are at least the spread of these constants among the software stacks of
    dense models (``dimsweep verify clusters``).
    """
    bands = load_known_errors().bands
    of_source = [v for name, v in zip(EFFECTS, bands.variances, strict=True) if name not in _OWN]
    spread = math.sqrt(sum(of_source))
    runs = [run for run in load_runs() if run.facts.kind == "dense"]
    return {
        "compute": spread / _PRODUCTS,
        "memory": max(spread / _MEMORY, _deviation_among_sources(runs, "memory_efficiency")),
        "launch": max(_LEAST, _deviation_among_sources(runs, "launch")),
        "overlap": _OVERLAP,
        "network": _NETWORK,
        "latency": _LATENCY,
    }


_OWN = ("plan", "run")  # effects that differ among the runs of one source


def _deviation_among_sources(runs: list[Run], name: str) -> float:
    """Return the standard deviation among sources of the logarithm of the constant ``name``."""
    sources: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        values = [math.log(value) for value in getattr(run.facts, name) if value]
        sources.setdefault((run.origin, run.facts.gpu), []).extend(values)
    means = [fmean(values) for values in sources.values() if values]
    return pstdev(means) if len(means) > 1 else _LEAST


def compute_iteration_deviation(config: Config) -> float:
    """Return the standard deviation of log(measured / simulated) with the right parameters."""
    return _effect_deviation(config, "run")


def compute_unmeasured_deviation(config: Config) -> float:
    """Return the standard deviation of the error of an unmeasured plan: effects of plan and run."""
    return math.hypot(_effect_deviation(config, "plan"), _effect_deviation(config, "run"))


def compute_shared_errors(configs: Sequence[Config | None]) -> Floats:
    """Return the loadings (N, R) of N measurements on R errors that similar plans share.

    The shared errors have deviation 1.  A measurement that is not of a transformer's plan has none.
    """
    plans = [config and compute_plan_coordinates(config) for config in configs]
    of_plans = [n for n, plan in enumerate(plans) if plan]
    found = np.zeros((len(configs), len(of_plans)))
    if not of_plans:
        return found
    coordinates = np.array([plans[n] for n in of_plans])
    values, axes = np.linalg.eigh(fade_with_distance(coordinates, coordinates))
    found[of_plans] = axes * np.sqrt(np.maximum(values, 0.0))
    sizes = [_effect_deviation(config, "plan") if config else 0.0 for config in configs]
    return found * np.array(sizes)[:, None]


def _effect_deviation(config: Config, effect: str) -> float:
    """Return the standard deviation of an effect; narrow models and experts have larger ones."""
    workload, plan = config.workload, compute_plan_coordinates(config)
    experts = isinstance(workload, Model) and bool(getattr(workload.model, "experts", 0))
    return load_known_errors().bands.effect_deviation(
        effect, compute_exponents(experts, *plan[MODEL][:1] if plan else ())
    )
