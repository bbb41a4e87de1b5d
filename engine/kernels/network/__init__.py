"""The compiled kernel of messages: every NPU, every message, every link.

It does what the SimPy kernel (:mod:`engine.kernels.reference`) does, in the same order and file by
file, and is compared with it to the picosecond.
"""

from dimsweep.engine.kernels.network.run import MessageRunner, run_messages
