"""The network kernel: every NPU, every message, every link, compiled.

It does what the message kernel on SimPy (:mod:`engine.kernels.reference`) does, in the same order,
file by file; that one is its witness.
"""

from dimsweep.engine.kernels.network.run import MessageRunner, run_messages
