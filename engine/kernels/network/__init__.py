"""The compiled message kernel: every NPU, every message, every link.

It equals the SimPy kernel (:mod:`engine.kernels.reference`) in behaviour, order of events and
division into files, and is compared with it to the picosecond.
"""

from dimsweep.engine.kernels.network.run import MessageRunner, run_messages
