"""The base class of all kinds of workloads, and the number formats that workloads compute in."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError, Fidelity, Program, lower, suggest_names
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.part import Part, default, preserve_errors


class Precision(NamedTuple):
    """A number format, such as bf16.

    A narrow format applies to the factors of linear layers only: weights, activations and messages
    keep ``value`` bytes while training.
    """

    value: float  # bytes of a weight or activation
    gradient: float  # bytes of a gradient, unless the plan sets it
    arithmetic: str  # precision of all other operators
    narrow: str = ""  # precision of linear layers, if narrower
    stored: float = 2.0  # bytes of a weight that is only read (serving)


PRECISIONS = {
    "fp32": Precision(4.0, 4.0, "fp32", stored=4.0),
    # Tensor cores round the factors; everything is as wide as in fp32.
    "tf32": Precision(4.0, 4.0, "tf32", stored=4.0),
    "fp16": Precision(2.0, 2.0, "fp16"),
    "bf16": Precision(2.0, 2.0, "bf16"),
    # Factors quantised to whole numbers (AQT on TPUs).
    "int8": Precision(2.0, 2.0, "bf16", "int8", 1.0),
    "fp8": Precision(2.0, 2.0, "bf16", "fp8", 1.0),
    "fp8_block": Precision(2.0, 2.0, "bf16", "fp8_block", 1.0),
    "mxfp8": Precision(2.0, 2.0, "bf16", "mxfp8", 1.0),
    "nvfp4": Precision(2.0, 2.0, "bf16", "nvfp4", 0.5),
}


@preserve_errors
def _check_axes(parallel: Any, axes: Collection[str] = AXES) -> Any:
    """Return the degrees ``parallel``; raises :class:`DimsweepError` for an unknown axis."""
    if isinstance(parallel, Mapping):
        for axis in parallel:
            if axis not in axes:
                hint = suggest_names(str(axis), axes)
                problem = f"unknown axis {axis!r}"
                raise DimsweepError(problem, where=str(axis), hint=hint, code="unknown-key")
    return parallel


Parallel = dict[str, Any]
ModelParallel = Annotated[Parallel, BeforeValidator(_check_axes)]


@preserve_errors
def _check_name(name: str) -> str:
    if not name.strip():
        hint = "give a text with a letter in it; reports show it"
        raise DimsweepError(f"{name!r} is not a name", hint=hint, code="missing")
    return name


class Workload(Part):
    """Base class of all kinds of workloads.

    A kind is a subclass with its keys, in a separate file, and a line in
    :data:`sweeper.config.workload.KINDS`.
    """

    kind: str
    name: Annotated[str, AfterValidator(_check_name)]
    #: Axes of the parallel plan, the innermost first: a degree, "rest", or a size per dimension.
    parallel: Parallel = default(dict)

    @property
    def arithmetic(self) -> str:
        """Name of the precision that the NPU computes in."""
        return "bf16"

    @property
    def narrow(self) -> str:
        """Name of the narrower precision of linear layers; "" if they have none."""
        return ""

    @abstractmethod
    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        """Return the operator graphs and process groups of all ranks on ``cluster``.

        Raises :class:`DimsweepError` naming the key (``workload.parallel.tensor``).
        """

    def program(
        self, cluster: Cluster, *, fidelity: Fidelity, fold: bool, network: str | None
    ) -> Program:
        """Return the program on ``cluster``, rank by rank unless ``fidelity`` is phase.

        ``network`` names the file of the topology, if there is one.
        """
        if fidelity is not Fidelity.PHASE:
            from dimsweep.engine.kernels.messages import lower_by_rank  # which few need

            return lower_by_rank(self.build(cluster), cluster, fidelity)
        cluster.network.check_phases()
        return lower(self.build(cluster), cluster, fold=fold)
