"""Kinds of workloads: a file each, and a line in :data:`KINDS`."""

from collections.abc import Mapping
from typing import Annotated, Any

from engine import DimsweepError, suggestion
from sweeper.config.parts.part import Parsed
from sweeper.config.workload.astra1_text import Astra1Text
from sweeper.config.workload.astra_sim import AstraSim
from sweeper.config.workload.chakra import ChakraTraces
from sweeper.config.workload.convnet import ConvNet
from sweeper.config.workload.layers import Layers
from sweeper.config.workload.model import Model
from sweeper.config.workload.repurposed import Repurposed
from sweeper.config.workload.transformer import Transformer
from sweeper.config.workload.workload import Workload

__all__ = ["KINDS", "AnyWorkload", "Workload"]

KINDS: dict[str, type[Workload]] = {
    "model": Model,
    "transformer": Transformer,
    "convnet": ConvNet,
    "layers": Layers,
    "astra1_text": Astra1Text,
    "chakra": ChakraTraces,
    "astra_sim": AstraSim,
    "repurposed": Repurposed,
}


def _workload(value: Any) -> Workload:
    if isinstance(value, Workload):
        return value
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        what = f"{kind!r} is no kind of workload" if kind else "a workload without a kind"
        raise DimsweepError(
            what,
            where="kind",
            hint="start its file with defaults: [kind/layers, _self_]; "
            + suggestion(str(kind), KINDS),
        )
    return KINDS[kind].of(value)


AnyWorkload = Annotated[Workload, Parsed(_workload)]
