"""How the packet kernel is compiled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from engine.kernels.jit import Compiler

_F = TypeVar("_F", bound=Callable[..., Any])


class _NoChecks(Compiler):
    """Divides without a look at zero: no divisor of the kernel can be zero."""

    def compiled(self, function: _F, **options: bool) -> _F:
        return super().compiled(function, error_model="numpy", **options)  # type: ignore[arg-type]


_here = Path(__file__).resolve().parent
_AROUND = ["__init__", "account", "flows", "inputs", "network", "notes", "run"]
_AROUND += ["tables", "ways"]
_sources = [file for file in _here.glob("*.py") if file.stem not in _AROUND]
_packet = _NoChecks([*_sources, _here.parent / "by_reference.py", _here.parent / "jit.py"])
compiled, kernel, inlined = _packet.compiled, _packet.kernel, _packet.inlined
