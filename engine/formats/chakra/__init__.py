"""Chakra execution traces, schema 0.0.4: what one rank computes and communicates, as a graph."""

from engine.formats.chakra.files import Scanned, read_trace, read_traces, scan_traces, write_trace
from engine.formats.chakra.groups import read_groups
from engine.formats.chakra.node import Node
from engine.formats.chakra.stats import TraceStats, levels, trace_stats
from engine.formats.chakra.trace import (
    CollectiveType,
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    Value,
)
from engine.formats.chakra.workload import noted_sizes, read_chakra_workload
from engine.formats.chakra.writer import write_chakra_workload

__all__ = [
    "CollectiveType",
    "Node",
    "NodeType",
    "Scanned",
    "TensorInfo",
    "Trace",
    "TraceNode",
    "TraceStats",
    "Value",
    "levels",
    "noted_sizes",
    "read_chakra_workload",
    "read_groups",
    "read_trace",
    "read_traces",
    "scan_traces",
    "trace_stats",
    "write_chakra_workload",
    "write_trace",
]
