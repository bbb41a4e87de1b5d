"""The readable SimPy model of message fidelity: every NPU, message and link.

Links are SimPy resources, or messages are carried by the flow or the packet kernel.  Newcomers read
it and try ideas in it, and the compiled kernel (:mod:`engine.kernels.network`) is compared with it,
to the picosecond.  Both share :mod:`engine.kernels.messages`.  No compiled kernel imports this
package.
"""

from dimsweep.engine.kernels.reference.kernel import run_on_simpy
