"""Readers and writers of other tools' files: traces, networks, workloads, measurements, weights."""

from dimsweep.engine.formats.astra1 import read_layers as read_astra1_layers
from dimsweep.engine.formats.goal import read_goal
from dimsweep.engine.formats.htsim import (
    START_UNITS,
    read_connection_matrix,
    read_htsim_topology,
)
from dimsweep.engine.formats.measurements import (
    TrainingRun,
    is_nccl_tests,
    is_training_log,
    read_measured,
    read_nccl_tests,
    read_training_log,
)
from dimsweep.engine.formats.networks import read_any_network, read_flows
from dimsweep.engine.formats.ns3 import read_ns3_config, read_ns3_flows, read_ns3_topology
from dimsweep.engine.formats.reading import (
    GIVE,
    delimiter_of,
    explain_yaml,
    explained,
    first_line,
    parse_json,
    read_bytes,
    read_json,
    read_table,
    read_text,
    refuse_surprises,
    validated,
)
