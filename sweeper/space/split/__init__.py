"""The splits of an NPU's bandwidth over its network dimensions, as a unit cube to search."""

from dimsweep.sweeper.space.split.constraint import Spending
from dimsweep.sweeper.space.split.parts import PartsSpace
from dimsweep.sweeper.space.split.space import SplitSpace

AnySplit = SplitSpace | PartsSpace
