"""How the flow kernel is compiled."""

from pathlib import Path

from engine.compiler import Compiler

_here = Path(__file__).resolve().parent
_shared = [_here.parent / "jit.py", _here.parent / "packet" / "following.py"]
_flow = Compiler([*_here.glob("*.py"), *_shared])
compiled, kernel = _flow.compiled, _flow.kernel
