"""How this room compiles, and where the compiled code is kept.

``kernel`` is for what takes tables and allocates nothing: it does without Numba's reference
counting, which would cost more than the simulation.  ``inlined`` is a kernel that runs once an
event; ``compiled`` is for the rest.

Numba forgets a function's compiled code when the function's own file changes, but a kernel inlines
functions of other files.  So the code is kept in a folder named by a digest of all sources that
enter a kernel: whenever one changes, all are compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F, **options: bool) -> _F:
    before, config.CACHE_DIR = config.CACHE_DIR, str(_folder())
    try:
        return njit(cache=True, **options)(function)
    finally:
        config.CACHE_DIR = before


def kernel(function: _F) -> _F:
    return compiled(function, _nrt=False)


def inlined(function: _F) -> _F:
    return compiled(function, _nrt=False, forceinline=True)


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether compiled code of ``function`` lies on disk."""
    dispatcher: Any = function
    name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__qualname__}"
    return any(Path(dispatcher.stats.cache_path).glob(f"{name}-*.nbi"))


@lru_cache(maxsize=1)
def _folder() -> Path:
    """``$NUMBA_CACHE_DIR``, or a cache folder of the user's, and in it one for these sources."""
    here = Path(__file__).resolve().parent
    sources = [*sorted(here.glob("*.py")), here.parent / "lower" / "program.py"]
    digest = hashlib.blake2b(b"".join(s.read_bytes() for s in sources), digest_size=8).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    temporary = Path(tempfile.gettempdir()) / f"dimsweep-{os.getuid()}"
    for base in (Path(config.CACHE_DIR or cache / "dimsweep"), temporary):
        folder = base / f"kernels-{digest}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # a read-only home; the next one
        if os.access(folder, os.W_OK):
            break
    return folder
