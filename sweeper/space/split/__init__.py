"""Splits of an NPU's bandwidth over its network dimensions, encoded as points of a unit cube."""

from dimsweep.sweeper.space.split.constraint import Spending
from dimsweep.sweeper.space.split.parts import PartsSpace
from dimsweep.sweeper.space.split.space import SplitSpace

AnySplit = SplitSpace | PartsSpace
