"""The base of all kinds of workloads, and the number formats that they compute in."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator

import dimsweep.engine
from dimsweep.engine import Cluster, DimsweepError, Fidelity, Program, lower, suggest_names
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.part import Part, default, preserve_errors


class Precision(NamedTuple):
    """Bytes of a weight or activation, and of a gradient where the plan does not say;
    ``arithmetic`` is that of all that is no linear layer.  Where linear layers are ``narrow``er,
    their factors alone are: weights, activations and messages stay as wide as ``value`` while
    training, and ``stored`` is what a weight takes that is only read (serving)."""

    value: float
    gradient: float
    arithmetic: str
    narrow: str = ""
    stored: float = 2.0


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
    """``parallel`` if all its axes are known."""
    if isinstance(parallel, Mapping):
        for axis in parallel:
            if axis not in axes:
                hint = suggest_names(str(axis), axes)
                raise DimsweepError(f"{axis!r} is no axis of a plan", where=str(axis), hint=hint)
    return parallel


Parallel = dict[str, Any]
ModelParallel = Annotated[Parallel, BeforeValidator(_check_axes)]


@preserve_errors
def _check_name(name: str) -> str:
    if not name.strip():
        hint = "a text with a letter in it, by which reports call the workload"
        raise DimsweepError(f"{name!r} is no name", hint=hint)
    return name


class Workload(Part):
    """What runs.  ``parallel`` places named axes on the dimensions, the first one innermost: a
    degree, "rest", or a size for each dimension.

    A kind of workload is a subclass with its own keys, in a file of its own, and a line in
    :data:`sweeper.config.workload.KINDS`.
    """

    kind: str
    name: Annotated[str, AfterValidator(_check_name)]
    parallel: Parallel = default(dict)

    @property
    def arithmetic(self) -> str:
        """The precision that the NPU computes in."""
        return "bf16"

    @property
    def narrow(self) -> str:
        """The precision of linear layers, where it is narrower than that."""
        return ""

    @abstractmethod
    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        """The operator graphs and process groups on ``cluster``.

        Raises :class:`DimsweepError` naming the key (``workload.parallel.tensor``).
        """

    def program(
        self, cluster: Cluster, *, fidelity: Fidelity, fold: bool, network: str | None
    ) -> Program:
        """What is simulated on ``cluster``, rank by rank unless ``fidelity`` is phase.

        ``network`` names the file of the topology, if there is one.
        """
        if fidelity is not Fidelity.PHASE:
            from dimsweep.engine.kernels.messages import lower_by_rank  # which few need

            return lower_by_rank(self.build(cluster), cluster, fidelity)
        cluster.network.check_phases()
        return lower(self.build(cluster), cluster, fold=fold)
