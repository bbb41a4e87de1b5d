"""How the phase kernel is compiled."""

from pathlib import Path

from engine.compiler import Compiler

_here = Path(__file__).resolve().parent
_engine = _here.parent
_tables = [_engine / "compiler.py", _engine / "lower" / "program.py", _engine / "kinds.py"]
_phase = Compiler([*_here.glob("*.py"), *_here.glob("phase/*.py"), *_tables])
compiled, kernel, inlined = _phase.compiled, _phase.kernel, _phase.inlined
