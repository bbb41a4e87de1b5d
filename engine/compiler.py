"""Compilation of functions with Numba, and the folder on disk that caches compiled code.

Numba discards a function's compiled code when its file changes, although a kernel uses functions
from many files and most changes of a file are comments.  Here each function's code is cached in a
folder named by a digest of the function and all that it calls (:mod:`engine.fingerprint`).  The
function is compiled again only when the digest changes, wherever the project is stored.
"""

import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config, njit, typeof
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _Cache,
    _CacheLocator,
)

from dimsweep.engine.fingerprint import fingerprint, fingerprint_of_modules

_F = TypeVar("_F", bound=Callable[..., Any])
_INTERNAL = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# What extends Numba itself: no function names it, but any may be compiled by it.
_EXTENSIONS = ("dimsweep.engine.kernels.core.compiling",)


class Compiler:
    """A set of Numba options, with three ways to compile a function under them.

    ``compiled`` is for functions that Python calls; their code is cached on disk with the code of
    all functions that they call.  ``kernel`` is for functions that only compiled code calls and
    that allocate nothing: it omits the wrapper for Python (which takes as long to compile as the
    function; a call from Python crashes) and Numba's reference counting, which would cost more than
    the simulation.  ``inlined`` is for small kernels that run several times per event; inlining a
    large function makes LLVM slow.  ``checks_divisors``: division by zero raises, as in Python,
    which takes time.
    """

    def __init__(self, *, checks_divisors: bool = True) -> None:
        self._options = {} if checks_divisors else {"error_model": "numpy"}

    def compiled(self, function: _F) -> _F:
        """Compile a function that Python calls; its code is kept on disk."""
        dispatcher = njit(**self._options)(function)
        if not config.DISABLE_JIT:
            dispatcher._cache = _Kept(function)
        return dispatcher

    def kernel(self, function: _F) -> _F:
        """Compile a function that only compiled code calls and that allocates nothing."""
        return njit(**_INTERNAL, **self._options)(function)

    def inlined(self, function: _F) -> _F:
        """Compile a small kernel that is inlined into its callers."""
        return njit(forceinline=True, **_INTERNAL, **self._options)(function)


_plain = Compiler()
compiled, kernel, inlined = _plain.compiled, _plain.kernel, _plain.inlined


class _Folder(_CacheLocator):  # type: ignore[misc]
    """Numba's cache locator for one function: names the folder that holds its compiled code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._folder = _folder_of(fingerprint(function))

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Folder":
        return cls(py_func)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return ""  # the folder's name has the digest

    def get_disambiguator(self) -> str:
        return ""


class _Implementation(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Folder,)


class _Files:
    """A function's compiled code on disk, one file per Numba version, CPU and argument types.

    Numba's own cache has one index file per function.  That index loses entries if two processes
    write to it, and an older version of Numba overwrites it with its own entries.
    """

    def __init__(self, folder: str, base: str) -> None:
        self._folder, self._base = folder, base

    def save(self, key: Any, data: Any) -> None:
        self._index_file(key).save(key, data)

    def load(self, key: Any) -> Any:
        return self._index_file(key).load(key)

    def holds(self, key: Any) -> bool:
        return key in self._index_file(key)._load_index()

    def __iter__(self) -> Iterator[Any]:
        for path in self._indexes():
            yield from IndexDataCacheFile(self._folder, path.stem, "")._load_index()

    def flush(self) -> None:
        for path in self._indexes():
            path.unlink(missing_ok=True)

    def _indexes(self) -> Iterator[Path]:
        return Path(self._folder).glob(f"{glob.escape(self._base)}-*.nbi")

    def _index_file(self, key: Any) -> Any:
        digest = hashlib.blake2b(repr((numba.__version__, key)).encode(), digest_size=8).hexdigest()
        return IndexDataCacheFile(self._folder, f"{self._base}-{digest}", "")


class _FolderCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Files(self._cache_path, self._impl.filename_base)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return Numba's cache key of a signature, without the function's closure variables.

        The folder's digest covers the closure already.  Numba serialises compiled functions in a
        closure differently in each process, so a key with them would never match.
        """
        if self._py_func.__closure__ is not None:
            return sig, codegen.magic_tuple()
        return super()._index_key(sig, codegen)

    def holds(self, arguments: tuple[Any, ...], codegen: Any) -> bool:
        """Return whether code for this CPU is on disk: for these arguments, or for any if empty."""
        if arguments:
            return self._cache_file.holds(self._index_key(tuple(map(typeof, arguments)), codegen))
        machine = codegen.magic_tuple()
        return any(its == machine for _, its, *_ in self._cache_file)


class _Kept(_Cache):  # type: ignore[misc]
    """The cache on disk of one function's compiled code, opened at the function's first call.

    It cannot be opened earlier, because the global names that the function uses may be defined
    later.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _found(self) -> FunctionCache:
        return _FolderCache(self._function)

    @property
    def cache_path(self) -> str:
        return str(self._found.cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        self.__dict__.pop("_found", None)  # what it calls may have been registered since
        try:
            return self._found.load_overload(sig, target_context)
        except ModuleNotFoundError:
            return None  # of functions that were defined elsewhere, such as by exec

    def holds(self, arguments: tuple[Any, ...], codegen: Any) -> bool:
        try:
            return _FolderCache(self._function).holds(arguments, codegen)
        except ModuleNotFoundError:
            return False  # as above

    def save_overload(self, sig: Any, data: Any) -> None:
        self._found.save_overload(sig, data)

    def enable(self) -> None:
        self._found.enable()

    def disable(self) -> None:
        self._found.disable()

    def flush(self) -> None:
        self._found.flush()


@cache
def cache_folder() -> Path:
    """Return the folder for compiled code: the first writable one of three candidates.

    The candidates are ``$NUMBA_CACHE_DIR`` or the user's cache folder, a per-user temporary folder,
    and a new temporary folder for this process.  The content is executed, so a per-user temporary
    folder that another user created or may write to is skipped.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    temporary = Path(tempfile.gettempdir()) / f"dimsweep-{os.getuid()}"
    for base in (Path(config.CACHE_DIR or home / "dimsweep"), temporary):
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue  # a read-only home; the next one
        if os.access(base, os.W_OK) and (base != temporary or _is_our_own(base)):
            return base
    return Path(tempfile.mkdtemp(prefix="dimsweep-"))


def _is_our_own(folder: Path) -> bool:
    """Return whether this user created ``folder`` and no other user may write to it."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _folder_of(digest: str) -> Path:
    return cache_folder() / f"kernels-{fingerprint_of_modules(_EXTENSIONS)}-{digest}"


def is_cached(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a call of ``function`` with these ``arguments`` compiles nothing.

    This is so if code for this machine's CPU and the arguments' types is on disk, or if Numba is
    switched off.  Without arguments, code for any argument types counts.
    """
    if config.DISABLE_JIT:
        return True
    dispatcher: Any = function
    return bool(dispatcher._cache.holds(arguments, dispatcher.targetctx.codegen()))
