"""FRED: switches of tiny switches that reduce and distribute, and the routes of flows through them.

After Rashidi et al., "FRED: A Wafer-scale Fabric for 3D Parallel DNN Training" (ISCA 2025).
"""

from dimsweep.engine.extensions.fred.flow import Flow, Route, UnroutableError
from dimsweep.engine.extensions.fred.remedy import Remedy, Schedule, in_rounds, schedule
from dimsweep.engine.extensions.fred.switch import FredSwitch
