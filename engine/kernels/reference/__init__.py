"""The readable model of the kernels of messages: every NPU, every message, every link, on SimPy.

Links are SimPy's resources, or messages are carried by the flow or the packet kernel.  It is how a
newcomer reads and tries an idea, and what the compiled kernel is compared with, to the picosecond
(:mod:`engine.kernels.network`).  They share what is sent (:mod:`engine.kernels.messages`), and no
compiled room imports this one, but to run what it cannot yet.
"""

from dimsweep.engine.kernels.reference.kernel import run_on_simpy
