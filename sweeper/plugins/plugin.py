"""A plug-in's text: where it is read, and how Python imports it where its files are not."""

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.parts.places import found, is_file

_HINT = "a plug-in is a Python file, such as plugins=[mine.py], or a module that can be imported"


@dataclass(frozen=True)
class Plugin:
    """What a plug-in is made of: its ``name`` as a configuration has it, and the ``files`` of its
    package, by their paths within the folder in which Python would look for it.

    ``path`` is where the file of a plug-in lies, or lay; None for a module.
    """

    name: str
    files: Mapping[str, bytes]
    path: str | None = None

    @cached_property
    def digest(self) -> str:
        """A hash of all its text."""
        text = repr(sorted(self.files.items())).encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    @property
    def module(self) -> str:
        """The name of its module.  It has no digest in it: compiled code is kept by it."""
        stem = Path(self.name).stem
        return self.name if self.path is None else f"dimsweep_plugin_{stem}"

    def wrote(self, file: str) -> bool:
        """Whether code of this file is its own."""
        own = self.files if self.path is None else [self.path]
        return any(file.endswith(each) for each in own)


def read(name: str) -> Plugin:
    """A plug-in as it is on this machine; raises :class:`DimsweepError` if there is none."""
    if not is_file(name):
        return _read_module(name)
    path = found(name)
    try:
        return Plugin(name, {path.name: path.read_bytes()}, str(path))
    except OSError as error:
        what = "there is no such file" if not path.exists() else f"{error.strerror}"
        raise DimsweepError(what, where=f"plugins: {name}", hint=_HINT) from error


def _read_module(name: str) -> Plugin:
    package = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise DimsweepError("there is no such module", where=f"plugins: {name}", hint=_HINT)
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        return Plugin(name, {origin.name: origin.read_bytes()})
    files, root = sorted(origin.parent.rglob("*.py")), origin.parent.parent
    return Plugin(name, {file.relative_to(root).as_posix(): file.read_bytes() for file in files})


class Importer(MetaPathFinder, InspectLoader):
    """Lets Python import modules of which it has the text only."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of a module that is among the files."""
        if self._file(name) not in self._files:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self._file(name))

    def is_package(self, name: str) -> bool:
        """Whether a module has others inside."""
        return f"{name.replace('.', '/')}/__init__.py" in self._files

    def get_source(self, name: str) -> str:
        """The text of a module."""
        return self._files[self._file(name)].decode()

    def get_code(self, name: str) -> Any:
        """A module's text, compiled."""
        return self.source_to_code(self.get_source(name), self._file(name))

    def _file(self, name: str) -> str:
        plain = name.replace(".", "/")
        return f"{plain}/__init__.py" if self.is_package(name) else f"{plain}.py"
