"""How functions are compiled, and where the compiled code is kept.

Numba forgets a function's compiled code when the function's own file changes, but a kernel inlines
functions of other files.  So the code is kept in a folder named by a digest of all sources that
enter a room's kernels: whenever one changes, all of that room are compiled anew.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit

_F = TypeVar("_F", bound=Callable[..., Any])
_INTERNAL = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Compiler:
    """Compiles the kernels of one room, which are made of ``sources``.

    ``compiled`` is for what Python calls, and is kept with all that it calls.  ``kernel`` is for
    what only compiled code calls and what allocates nothing: it does without a wrapper for Python
    (which takes as long to compile as the function; a call from Python crashes) and without Numba's
    reference counting, which would cost more than the simulation.
    ``inlined`` is a small kernel that runs several times an event: a large one makes LLVM slow.
    ``checks_divisors``: division by zero raises, as in Python, which takes time.
    """

    def __init__(self, sources: Iterable[Path], *, checks_divisors: bool = True) -> None:
        self._sources = sorted(sources)
        self._options = {} if checks_divisors else {"error_model": "numpy"}

    def compiled(self, function: _F) -> _F:
        before, config.CACHE_DIR = config.CACHE_DIR, str(self._folder)
        try:
            return njit(cache=True, **self._options)(function)
        finally:
            config.CACHE_DIR = before

    def kernel(self, function: _F) -> _F:
        return njit(**_INTERNAL, **self._options)(function)

    def inlined(self, function: _F) -> _F:
        return njit(forceinline=True, **_INTERNAL, **self._options)(function)

    @cached_property
    def _folder(self) -> Path:
        """``$NUMBA_CACHE_DIR``, or a cache folder of the user's, and in it one for the sources."""
        contents = b"".join(source.read_bytes() for source in self._sources)
        digest = hashlib.blake2b(contents, digest_size=8).hexdigest()
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


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether ``function`` needs no compiling: its code lies on disk, or Numba is switched off."""
    if config.DISABLE_JIT:
        return True
    dispatcher: Any = function
    name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__qualname__}"
    return any(Path(dispatcher.stats.cache_path).glob(f"{name}-*.nbi"))
