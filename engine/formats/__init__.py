"""Files of other tools, read and written."""

from engine.formats.astra1_text import read_layers as read_astra1_layers
from engine.formats.fields import explained
from engine.formats.measured import read_measured

__all__ = [
    "explained",
    "read_astra1_layers",
    "read_measured",
]
