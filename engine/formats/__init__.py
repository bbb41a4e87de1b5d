"""Files of other tools, read and written."""

from engine.formats.astra1_text import read_layers as read_astra1_layers
from engine.formats.fields import GIVE, explain_yaml, explained, refuse_surprises
from engine.formats.measured import read_measured
from engine.formats.nccl_tests import read_nccl_tests

__all__ = [
    "GIVE",
    "explain_yaml",
    "explained",
    "read_astra1_layers",
    "read_measured",
    "read_nccl_tests",
    "refuse_surprises",
]
