"""How the network kernel is compiled."""

from pathlib import Path

from engine.compiler import Compiler

_here = Path(__file__).resolve().parent
_kernels = _here.parent
_around = (
    "covering",
    "folding",
    "orbits",
    "packets",
    "quotient",
    "run",
    "setup",
    "tables",
    "trains",
    "trees",
)
_network = Compiler(
    [
        *{*_here.glob("*.py")} - {_here / f"{name}.py" for name in _around},
        _kernels / "by_reference.py",
        _kernels / "from_front.py",
        _kernels.parent / "compiler.py",
        _kernels / "carriers" / "fabric.py",
        _kernels / "flow" / "heap.py",
        _kernels / "flow" / "shares.py",
        _kernels / "flow" / "tables.py",
        _kernels / "message" / "precedence.py",
        _kernels / "packet" / "agenda.py",
        _kernels / "packet" / "compile.py",
        _kernels / "packet" / "machine.py",
        _kernels / "phase" / "phase_time.py",
        _kernels / "phase" / "state.py",
        _kernels.parent / "lower" / "program.py",
        _kernels.parent / "kinds.py",
    ]
)
compiled, kernel, inlined = _network.compiled, _network.kernel, _network.inlined
