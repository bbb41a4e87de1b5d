"""The kinds of workloads, each in a separate file and listed in :data:`KINDS`."""

from collections.abc import Mapping
from typing import Annotated, Any

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.engine.registry import Registry
from dimsweep.sweeper.config.workload.layers import Astra1Text, ConvNet, Layers, Transformer
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.config.workload.traces import ChakraTraces, Flows, Goal
from dimsweep.sweeper.config.workload.workload import Workload
from dimsweep.sweeper.offers import load_offers
from dimsweep.sweeper.part import ValueParser

__all__ = ["KINDS", "AnyWorkload", "Workload", "parse_workload"]

KINDS: Registry[type[Workload]] = Registry(
    "kind of workload",
    {
        "model": Model,
        "transformer": Transformer,
        "convnet": ConvNet,
        "layers": Layers,
        "astra1_text": Astra1Text,
        "chakra": ChakraTraces,
        "flows": Flows,
        "goal": Goal,
        **load_offers("workload"),
    },
)


def parse_workload(value: Any) -> Workload:
    """Return the workload that a mapping with the key ``kind`` describes."""
    if isinstance(value, Workload):
        return value
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise DimsweepError(
            f"unknown kind of workload {kind!r}" if kind else "the workload has no kind",
            where="kind",
            hint="start its file with defaults: [kind/layers, _self_]; "
            + suggest_names(str(kind), KINDS),
            code="unknown-name" if kind else "missing",
        )
    return KINDS[kind].from_plain(value)


AnyWorkload = Annotated[Workload, ValueParser(parse_workload)]
