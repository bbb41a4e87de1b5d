"""How the flow kernel is compiled."""

from pathlib import Path

from engine.kernels.jit import Compiler

_here = Path(__file__).resolve().parent
_flow = Compiler([*_here.glob("*.py"), _here.parent / "jit.py"])
compiled, kernel = _flow.compiled, _flow.kernel
