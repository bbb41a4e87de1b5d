"""How the packet kernel is compiled."""

from pathlib import Path

from engine.compiler import Compiler

_here = Path(__file__).resolve().parent
_AROUND = ["__init__", "account", "flows", "inputs", "network", "notes", "run"]
_AROUND += ["tables", "ways"]
_sources = [file for file in _here.glob("*.py") if file.stem not in _AROUND]
_shared = [_here.parent / f"{name}.py" for name in ("by_reference", "from_front", "jit")]
# No divisor of the kernel can be zero.
_packet = Compiler([*_sources, *_shared], checks_divisors=False)
compiled, kernel, inlined = _packet.compiled, _packet.kernel, _packet.inlined
