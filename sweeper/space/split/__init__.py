"""The splits of an NPU's bandwidth over its network dimensions, as a unit cube to search."""

from sweeper.space.split.parts import PartsSpace
from sweeper.space.split.space import SplitSpace
from sweeper.space.split.spending import Spending

AnySplit = SplitSpace | PartsSpace

__all__ = ["AnySplit", "PartsSpace", "Spending", "SplitSpace"]
