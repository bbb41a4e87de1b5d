"""How the packet kernel is compiled."""

from dimsweep.engine.compiler import Compiler

_packet = Compiler(checks_divisors=False)  # no divisor of the kernel can be zero
compiled, kernel, inlined = _packet.compiled, _packet.kernel, _packet.inlined
