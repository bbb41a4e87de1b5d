"""The few parameters that a cluster is calibrated by: factors of keys of its configuration.

Each is the logarithm of a factor, 0 for the preset's own value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dimsweep.engine.topology import parse_shape
from dimsweep.sweeper.config.parts.part import per_dimension
from dimsweep.sweeper.config.schema import Config

Floats = npt.NDArray[np.float64]

#: Of which parameters a prior gives the widths; each dimension has its own bandwidth and latency.
WIDTHS = ("compute", "memory", "launch", "overlap", "network", "latency")
_LEAST_LATENCY = 1e5  # ps: of a preset without one, what its factor is of


@dataclass(frozen=True)
class Parameter:
    """A factor of ``keys``; ``dimension`` of the network's, or None.  ``what`` tells people;
    ``width`` is the deviation of its logarithm before anything was measured."""

    name: str
    what: str
    keys: tuple[str, ...]
    width: float
    dimension: int | None = None

    def most(self, config: Config) -> float:
        """The largest logarithm that the configuration can have: no share is more than 1."""
        if self.name not in ("compute", "memory", "overlap"):
            return math.inf
        return math.log(1 / getattr(config.npu, self.keys[0].removeprefix("npu.")))


def step_of(name: str) -> float:
    """Of a parameter's logarithm, over which a slope is taken: a longer one for the overlap, of
    which the first hundredth costs the latency of what is cut in two, and no further one does."""
    return 0.2 if name == "overlap" else 0.05


def parameters_of(config: Config, widths: Mapping[str, float] | None = None) -> list[Parameter]:
    """Those of a cluster; ``widths`` by the name without the number of a dimension, 1 where only
    the parameters' values matter."""
    widths = dict.fromkeys(WIDTHS, 1.0) if widths is None else widths
    found = [
        Parameter("compute", "compute efficiency", ("npu.efficiency",), widths["compute"]),
        Parameter("memory", "memory efficiency", ("npu.memory_efficiency",), widths["memory"]),
        Parameter("launch", "launch and host", ("npu.launch", "npu.host"), widths["launch"]),
        Parameter("overlap", "overlap of collectives", ("npu.overlap",), widths["overlap"]),
    ]
    for d in range(len(parse_shape(str(config.topology.shape)))):
        found += [
            Parameter(
                f"network_{d}",
                f"bandwidth of dimension {d}",
                ("topology.bandwidth",),
                widths["network"],
                d,
            ),
            Parameter(
                f"latency_{d}",
                f"latency of dimension {d}",
                ("topology.latency",),
                widths["latency"],
                d,
            ),
        ]
    return found


def changes(config: Config, parameters: Sequence[Parameter], at: Floats) -> dict[str, Any]:
    """The values of keys at these logarithms, as a file has them."""
    told: dict[str, Any] = {}
    n = len(parse_shape(str(config.topology.shape)))
    assert config.topology.bandwidth is not None
    assert config.topology.latency is not None
    bandwidth = list(map(float, per_dimension(config.topology.bandwidth, n, "bandwidth")))
    latency = list(map(float, per_dimension(config.topology.latency, n, "latency")))
    for parameter, logarithm in zip(parameters, at, strict=True):
        factor, d = math.exp(logarithm), parameter.dimension
        if d is None:
            for key in parameter.keys:
                value = float(getattr(config.npu, key.removeprefix("npu.")))
                told[key] = _written(key, value * factor)
        elif d >= n:
            continue
        elif parameter.name.startswith("network"):
            bandwidth[d] *= factor
        elif logarithm:
            latency[d] = max(latency[d], _LEAST_LATENCY) * factor
    told["topology.bandwidth"] = [f"{each / 1e9:.9g} GB/s" for each in bandwidth]
    told["topology.latency"] = [f"{ps / 1e3:.6g} ns" for ps in latency]
    return told


def _written(key: str, value: float) -> float | str:
    if key in ("npu.launch", "npu.host"):
        return f"{value / 1e6:.6g} us"
    return min(1.0, round(value, 6))
