"""Plug-ins: Python files and modules of users that register blocks, algorithms, memories.

A plug-in registers objects when it is loaded (:class:`engine.registry.Registry`).  A configuration
names it under ``plugins``; installed packages declare theirs as entry points of the group
``dimsweep.plugins``, and these are always loaded.  A study sends the text of its plug-ins to the
workers, whose machines may lack the files.  Rows of results depend on a digest of the text.
"""

import hashlib
import importlib
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from dimsweep.engine import Code, DimsweepError
from dimsweep.engine.registry import Entry, recording_registrations
from dimsweep.sweeper.places import (
    find_file,
    installed_folder,
    installed_plugins,
    is_file,
    plugin_options_folder,
)

_HINT = "a plug-in is a Python file, such as plugins=[mine.py], or a module that can be imported"


@dataclass(frozen=True)
class Plugin:
    """A plug-in that is not loaded yet: its name, and the text of its modules."""

    name: str  #: name in a configuration
    files: Mapping[str, bytes]  #: files of its package, by path from the folder on ``sys.path``
    path: str | None = None  #: original place of a plug-in that is a file; None for a module

    @cached_property
    def digest(self) -> str:
        """Hash of the text of all of the plug-in's modules."""
        text = repr(sorted(self.files.items())).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    @property
    def module(self) -> str:
        """Name of its main module.

        It has no digest, because caches of compiled code depend on the name.
        """
        stem = Path(self.name).stem
        return self.name if self.path is None else f"dimsweep_plugin_{stem}"

    def has_file(self, file: str) -> bool:
        """Return whether a file is one of the plug-in's modules."""
        own = self.files if self.path is None else [self.path]
        return any(file.endswith(each) for each in own)


def read_plugin(name: str) -> Plugin:
    """Read a plug-in from this machine; raises :class:`DimsweepError` if it is missing."""
    if not is_file(name):
        return _read_module(name)
    path = find_file(name)
    try:
        return Plugin(name, {path.name: path.read_bytes()}, str(path))
    except OSError as error:
        problem = "there is no such file" if not path.exists() else f"{error.strerror}"
        where = f"plugins: {name}"
        raise DimsweepError(problem, where=where, hint=_HINT, code="inaccessible") from error


def _read_module(name: str) -> Plugin:
    package = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        problem, where = "there is no such module", f"plugins: {name}"
        raise DimsweepError(problem, where=where, hint=_HINT, code="inaccessible")
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        return Plugin(name, {origin.name: origin.read_bytes()})
    files, root = sorted(origin.parent.rglob("*.py")), origin.parent.parent
    return Plugin(name, {file.relative_to(root).as_posix(): file.read_bytes() for file in files})


class Importer(MetaPathFinder, InspectLoader):
    """An importer of modules from text in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of module ``name`` if its text is known, or None."""
        if self._file(name) not in self._files:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self._file(name))

    def is_package(self, name: str) -> bool:
        """Return whether the module ``name`` is a package."""
        return f"{name.replace('.', '/')}/__init__.py" in self._files

    def get_source(self, name: str) -> str:
        """Return the text of the module ``name``."""
        return self._files[self._file(name)].decode()

    def get_code(self, name: str) -> Any:
        """Return the compiled code of the module ``name``."""
        return self.source_to_code(self.get_source(name), self._file(name))

    def _file(self, name: str) -> str:
        plain = name.replace(".", "/")
        return f"{plain}/__init__.py" if self.is_package(name) else f"{plain}.py"


@dataclass(frozen=True)
class LoadedPlugin:
    """A loaded plug-in, with the entries that it added to registries."""

    plugin: Plugin
    entries: Sequence[Entry] = field(default=())  #: its entries in registries
    options: Sequence[str] = field(default=())  #: the options that it adds: ``workload=mine``

    def forget(self) -> None:
        """Remove the plug-in's entries from the registries."""
        for registry, name in self.entries:
            if name in registry:
                del registry[name]


_loaded: dict[str, LoadedPlugin] = {}  # by name
_received: dict[str, Plugin] = {}  # plug-ins of another machine, by name


def load_plugins(names: Sequence[str], *, anew: bool = False) -> None:
    """Load the named plug-ins and all installed ones; ``anew``: load changed ones again.

    Raises :class:`DimsweepError` with file and line for a plug-in that is missing, cannot be read
    or run, registers nothing, or takes a registered name.
    """
    for name in (*installed_plugins(), *names):
        if name in _loaded and not (anew and name in names):
            continue
        plugin = _received.get(name) or read_plugin(name)
        if name in _loaded and _loaded[name].plugin.digest == plugin.digest:
            continue
        _loaded[name] = _load(plugin)


def unload_plugins() -> None:
    """Unload all plug-ins and remove their entries from the registries."""
    for each in _loaded.values():
        each.forget()
    _loaded.clear()
    _received.clear()


def loaded_plugins(names: Iterable[str]) -> list[LoadedPlugin]:
    """Return the loaded plug-ins with these names, after the installed ones."""
    return [_loaded[name] for name in dict.fromkeys((*installed_plugins(), *names))]


def plugin_digests(names: Iterable[str]) -> dict[str, str]:
    """Return the digests of loaded plug-ins, by their names in the configuration."""
    return {f"plugins.{each.plugin.name}": each.plugin.digest for each in loaded_plugins(names)}


class PluginShipment:
    """The plug-ins that a worker needs, as pickled data; unpickling it loads them.

    It must be unpickled before any object of the plug-ins' classes.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.plugins = [each.plugin for each in loaded_plugins(names)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, (self.plugins,)


def _receive(plugins: Sequence[Plugin]) -> None:
    _received.update({plugin.name: plugin for plugin in plugins})
    load_plugins([plugin.name for plugin in plugins], anew=True)


def _load(plugin: Plugin) -> LoadedPlugin:
    """Run a plug-in, and replace a loaded plug-in that has the same module."""
    module, known = plugin.module, set(sys.modules)
    options = _list_options(plugin)
    for name, other in list(_loaded.items()):
        if other.plugin.module == module:
            other.forget()
            del _loaded[name]
            _forget_module(module)
    with recording_registrations() as entries:
        try:
            _run(plugin, module)
        except BaseException as error:
            LoadedPlugin(plugin, entries).forget()
            sys.modules.pop(module, None)
            if isinstance(error, Exception):
                raise _explain(error, plugin) from error
            raise
    if not entries and not options and module not in known:
        raise DimsweepError(
            "it registers nothing",
            where=f"plugins: {plugin.path or plugin.name}",
            hint="add a call such as dimsweep.engine.topology.register(MyBlock())",
            code="missing",
        )
    return LoadedPlugin(plugin, tuple(entries), tuple(options))


def _list_options(plugin: Plugin) -> list[str]:
    """Return the options of config groups that a plug-in adds.

    Raises :class:`DimsweepError` for an option that exists already.
    """
    folder = plugin_options_folder(plugin.name)
    if folder is None or folder.resolve() == Path("conf").resolve():
        return []  # options of the current folder may replace others
    options = [file.relative_to(folder) for file in sorted(folder.glob("*/*.yaml"))]
    others = [plugin_options_folder(name) for name in _loaded if name != plugin.name]
    for place in {home for home in (installed_folder("conf"), *others) if home} - {folder}:
        if taken := [option for option in options if (place / option).exists()]:
            raise DimsweepError(
                f"{taken[0].parent} {taken[0].stem!r} exists already, in {place}",
                where=f"plugins: {folder / taken[0]}",
                hint="give it another name",
                code="duplicate",
            )
    return [f"{option.parent}={option.stem}" for option in options]


def _run(plugin: Plugin, module: str) -> None:
    if plugin.path is None:
        _import(plugin, module)
        return
    (text,) = plugin.files.values()
    made = sys.modules[module] = ModuleType(module)
    made.__file__ = plugin.path
    lines = text.decode("utf-8-sig").splitlines(keepends=True)
    # Tracebacks on a machine without the file show its lines, too.
    linecache.cache[plugin.path] = (len(text), None, lines, plugin.path)
    exec(compile(text, plugin.path, "exec"), made.__dict__)


def _import(plugin: Plugin, module: str) -> None:
    """Import a plug-in's module: from its file if that has the same text, else from memory."""
    try:
        same = read_plugin(plugin.name).digest == plugin.digest
    except DimsweepError:
        same = False
    if not same:
        sys.meta_path.insert(0, Importer(plugin.files))
        _forget_module(module)
    importlib.import_module(module)


def _forget_module(module: str) -> None:
    """Remove a module's package from ``sys.modules``, so that it is imported again."""
    package = module.partition(".")[0]
    for each in [each for each in sys.modules if f"{each}.".startswith(f"{package}.")]:
        del sys.modules[each]


def find_plugin_error(error: Exception) -> DimsweepError | None:
    """Return an exception of a loaded plug-in as an error with its file and line; else None."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    for each in _loaded.values():
        if any(map(each.plugin.has_file, files)):
            return _explain(error, each.plugin)
    return None


def _explain(error: Exception, plugin: Plugin) -> DimsweepError:
    """Return an exception as an error with the file and line of the plug-in that raised it."""
    code: Code = "invalid"
    if isinstance(error, SyntaxError):
        where, problem = f"{error.filename}:{error.lineno}", f"it is not Python: {error.msg}"
        code = "bad-syntax"
    else:
        lines = [
            f"{frame.f_code.co_filename}:{line}"
            for frame, line in traceback.walk_tb(error.__traceback__)
            if plugin.has_file(frame.f_code.co_filename)
        ]
        where = lines[-1] if lines else plugin.path or plugin.name
        problem = f"it raises {type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, DimsweepError):
        return error.replace(where=f"plugins: {where}")
    return DimsweepError(problem, where=f"plugins: {where}", code=code)
