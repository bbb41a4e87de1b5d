"""Registries: maps from names to blocks, algorithms, memories, transports and other plug-ins."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from dimsweep.engine.errors import DimsweepError

_T = TypeVar("_T")
#: A registry and a name in it.
Entry = tuple["Registry[Any]", str]
_notes: list[list[Entry]] = []


class Registry(dict[str, _T]):
    """A map from names to plug-ins of one kind: ``REGISTRY[name] = thing`` registers one.

    ``what`` is the noun for the entries in messages.  ``changed`` is called after each change.
    Registering a different thing under a used name raises :class:`DimsweepError`.
    """

    def __init__(self, what: str, entries: Mapping[str, _T] | None = None) -> None:
        super().__init__(entries or {})
        self.what = what
        self.changed: Callable[[], None] = lambda: None

    def __setitem__(self, name: str, thing: _T) -> None:
        if name in self and self[name] is not thing and self[name] != thing:
            raise DimsweepError(
                f"the name {name!r} is taken: there is a {self.what} of that name already",
                hint=f"give it another name; those that are taken: {', '.join(self)}",
            )
        if name not in self:
            for note in _notes:
                note.append((self, name))
        super().__setitem__(name, thing)
        self.changed()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.changed()


@contextmanager
def recording_registrations() -> Iterator[list[Entry]]:
    """Record all registrations in any registry while the context is open."""
    note: list[Entry] = []
    _notes.append(note)
    try:
        yield note
    finally:
        _notes.pop()
