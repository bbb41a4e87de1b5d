"""A trace as Python objects: nodes, what they wait for, their attributes and places in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError

Scalar = bool | int | float | str | bytes
Value = Scalar | tuple[Scalar, ...] | None  # None: named, but left without a value


class NodeType(IntEnum):
    """What a node does; Chakra's names end in ``_NODE``."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CollectiveType(IntEnum):
    """What the attribute ``comm_type`` of a COMM_COLL node means."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class TensorInfo(NamedTuple):
    """The tensors that go into a node, or come out of it, as PyTorch writes them."""

    values: str = ""
    shapes: str = ""
    types: str = ""
    strides: str = ""


_NONE: Mapping[str, str] = {}


class TraceNode(NamedTuple):
    """One node of a trace.

    Nodes with equal attributes share one mapping, those of other ranks too: do not change it.
    ``kinds`` names the schema's field of a value (``uint64_val``, ``float_list``) where it is not
    the one that the value in Python implies; without it a trace could not be written as it was.
    """

    id: int
    name: str
    type: NodeType
    data_dependencies: tuple[int, ...] = ()
    control_dependencies: tuple[int, ...] = ()
    start_micros: int = 0
    duration_micros: int = 0
    attributes: Mapping[str, Value] = _NONE
    kinds: Mapping[str, str] = _NONE
    inputs: TensorInfo | None = None
    outputs: TensorInfo | None = None

    @property
    def dependencies(self) -> tuple[int, ...]:
        """The ids of all nodes this one waits for, each once: first for data, then for control."""
        return tuple(dict.fromkeys(self.data_dependencies + self.control_dependencies))


@dataclass(frozen=True)
class Trace:
    """What one rank does: nodes, in the order of the file."""

    nodes: tuple[TraceNode, ...]
    version: str = "0.0.4"
    metadata: Mapping[str, Value] = field(default_factory=dict)  # attributes of the trace itself
    kinds: Mapping[str, str] = field(default_factory=dict)  # of the metadata


@dataclass
class Places:
    """A file, and the byte or line (``unit``) at which each of its messages starts.

    The first message is the metadata, the others are the nodes.  ``starts`` is empty for a trace
    that is being written.
    """

    path: Path
    unit: str = "byte"
    starts: list[int] = field(default_factory=list)

    def of(self, number: int, node_id: int | None = None, name: str = "") -> str:
        """Node ``number`` (from 1) of the file, as a message names it."""
        where = f"{self.path}: node {number}"
        if node_id is not None:
            where += f" (id {node_id}{f', {name!r}' if name else ''})"
        if number < len(self.starts):
            where += f" at {self.unit} {self.starts[number]}"
        return where

    def name(self, error: DimsweepError, number: int, node_id: int | None = None) -> DimsweepError:
        """``error``, said of node ``number`` (from 1) of the file."""
        return DimsweepError(error.what, where=self.of(number, node_id), hint=error.hint)
