"""Commands whose modules are imported when they are called, so that help is shown at once."""

from importlib import import_module
from typing import Any

import click


class Commands(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Lazy(click.Command):
    """The command ``name``: the object ``command`` in the file of that name in ``room``.

    ``what`` is the first sentence of its help, which is known without an import.
    """

    def __init__(self, name: str, what: str, room: str, *, hidden: bool = False) -> None:
        super().__init__(name, short_help=what, hidden=hidden)
        self._module = f"{room}.{name.replace('-', '_')}"

    def load(self) -> click.Command:
        """The command itself."""
        command: click.Command = import_module(self._module).command
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        return self.load().make_context(*args, **kwargs)
