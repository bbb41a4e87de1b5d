"""Compilation of functions, and the location of compiled code.

Numba discards a function's compiled code when its file changes, although a kernel uses functions
from many files and most changes of a file are comments.  So each function's code is kept in a
folder named by a digest of the function and all that it calls (:mod:`engine.fingerprint`): it is
compiled again only when the digest changes, wherever the project is stored.

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
    """Compiles functions, all with the same options.

    ``compiled`` is for what Python calls, and is kept on disk with all that it calls.  ``kernel``
    is for what only compiled code calls and what allocates nothing: it does without a wrapper for
    Python (which takes as long to compile as the function; a call from Python crashes) and without
    Numba's reference counting, which would cost more than the simulation.
    ``inlined`` is a small kernel that runs several times an event: a large one makes LLVM slow.
    ``checks_divisors``: division by zero raises, as in Python, which takes time.
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
    """The folder of a function's code, as Numba asks for it."""

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
    """A function's code, in separate files for each version of Numba, CPU and types of arguments.

    A single index, as Numba's, loses entries if two processes write, and an older Numba in the same
    home replaces it with its own code alone.
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
        """Return Numba's key without the closure, which is part of the folder's digest.

        Numba writes compiled functions in closures differently in each process.
        """
        if self._py_func.__closure__ is not None:
            return sig, codegen.magic_tuple()
        return super()._index_key(sig, codegen)

    def holds(self, arguments: tuple[Any, ...], codegen: Any) -> bool:
        """Return whether code exists for this CPU, and for these arguments if there are any."""
        if arguments:
            return self._cache_file.holds(self._index_key(tuple(map(typeof, arguments)), codegen))
        machine = codegen.magic_tuple()
        return any(its == machine for _, its, *_ in self._cache_file)


class _Kept(_Cache):  # type: ignore[misc]
    """The code of a function on disk.

    It is looked up at the first call, because names that the function uses may be defined until
    then.
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
    """Return ``$NUMBA_CACHE_DIR``, or a cache folder of the user, or a temporary one.

    The first writable folder is used.  Its content is executed, so a temporary folder that another
    user created or may write to is refused: this process then keeps its code in a new one.
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
    """Return whether nobody else made the folder or may write to it."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _folder_of(digest: str) -> Path:
    return cache_folder() / f"kernels-{fingerprint_of_modules(_EXTENSIONS)}-{digest}"


def is_cached(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether ``function`` needs no compiling for arguments of these types.

    Without arguments, for any types. Its code for this machine's CPU is on disk, or Numba is
    switched off.
    """
    if config.DISABLE_JIT:
        return True
    dispatcher: Any = function
    return bool(dispatcher._cache.holds(arguments, dispatcher.targetctx.codegen()))
