"""Chakra execution traces, schema 0.0.4: what one rank computes and communicates, as a graph."""

from __future__ import annotations

from engine.formats.chakra import own
from engine.formats.chakra.files import read_trace, read_traces, scan_traces, write_trace
from engine.formats.chakra.trace import (
    CollectiveType,
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    Value,
)

__all__ = [
    "CollectiveType",
    "NodeType",
    "TensorInfo",
    "Trace",
    "TraceNode",
    "Value",
    "own",
    "read_trace",
    "read_traces",
    "scan_traces",
    "write_trace",
]
