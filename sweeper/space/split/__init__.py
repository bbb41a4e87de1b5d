"""The splits of an NPU's bandwidth over its network dimensions, as a unit cube to search."""

from dimsweep.sweeper.space.split.parts import PartsSpace
from dimsweep.sweeper.space.split.space import SplitSpace
from dimsweep.sweeper.space.split.spending import Spending

AnySplit = SplitSpace | PartsSpace
