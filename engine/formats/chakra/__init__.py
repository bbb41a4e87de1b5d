"""Chakra execution traces, schema 0.0.4: one rank's computation and communication as a graph."""

from dimsweep.engine.formats.chakra.node import (
    MOST_RANKS,
    Node,
    groups_text,
    read_groups,
    recorded_groups,
)
from dimsweep.engine.formats.chakra.stats import TraceStats, levels, trace_stats
from dimsweep.engine.formats.chakra.trace import (
    CollectiveType,
    NodeType,
    TensorInfo,
    Trace,
    TraceNode,
    Value,
)
from dimsweep.engine.formats.chakra.trace_files import (
    FORMS,
    Scanned,
    read_trace,
    read_traces,
    scan_traces,
    write_trace,
)
from dimsweep.engine.formats.chakra.workload import noted_sizes, read_chakra_workload
from dimsweep.engine.formats.chakra.writer import write_chakra_workload
