"""Files of other tools, read and written."""

from dimsweep.engine.formats.astra1_text import read_layers as read_astra1_layers
from dimsweep.engine.formats.content import read_bytes, read_text
from dimsweep.engine.formats.fields import (
    GIVE,
    explain_yaml,
    explained,
    parse_json,
    read_json,
    refuse_surprises,
    validated,
)
from dimsweep.engine.formats.flow_lists import read_flows
from dimsweep.engine.formats.goal import read_goal
from dimsweep.engine.formats.htsim import (
    START_UNITS,
    read_connection_matrix,
    read_htsim_topology,
)
from dimsweep.engine.formats.measured import read_measured
from dimsweep.engine.formats.nccl_tests import is_nccl_tests, read_nccl_tests
from dimsweep.engine.formats.networks import read_any_network
from dimsweep.engine.formats.ns3 import read_ns3_flows, read_ns3_topology
from dimsweep.engine.formats.ns3_config import read_ns3_config
from dimsweep.engine.formats.table import delimiter_of, first_line, read_table
from dimsweep.engine.formats.training_logs import (
    TrainingRun,
    is_training_log,
    read_training_log,
)
