"""How this room compiles.

``kernel`` is for what takes tables and allocates nothing: it does without Numba's reference
counting, which would cost more than the simulation.  ``inlined`` is a kernel that runs once an
event; ``compiled`` is for the rest.  Compiled code is cached on disk beside the source (or in the
user's cache folder where that is read-only).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(function: _F) -> _F:
    return njit(cache=True, _nrt=False)(function)


def inlined(function: _F) -> _F:
    return njit(cache=True, _nrt=False, forceinline=True)(function)


def compiled(function: _F) -> _F:
    return njit(cache=True)(function)


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether compiled code of ``function`` lies on disk (it may be of an older source)."""
    dispatcher: Any = function
    name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__qualname__}"
    return any(Path(dispatcher.stats.cache_path).glob(f"{name}-*.nbi"))
