"""Commands whose modules are imported when they are called, so that help is shown at once."""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click


class Commands(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Lazy(click.Command):
    """The command ``name``: the object ``command`` in the file of that name in ``room``.

    ``what`` is the first sentence of its help; unless given, it is read from the file, which is not
    imported for that.
    """

    def __init__(
        self, name: str, room: str, what: str | None = None, *, hidden: bool = False
    ) -> None:
        super().__init__(name, short_help=what, hidden=hidden)
        self._module = f"{room}.{name.replace('-', '_')}"

    def get_short_help_str(self, limit: int = 45) -> str:
        if self.short_help is None:
            self.short_help = _first_sentence(self._module)
        return self.short_help

    def load(self) -> click.Command:
        """The command itself."""
        command: click.Command = import_module(self._module).command
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        return self.load().make_context(*args, **kwargs)


def _first_sentence(module: str) -> str:
    """The first line of the docstring of a module's function ``command``."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    parsed = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    functions = (node for node in parsed.body if isinstance(node, ast.FunctionDef))
    (command,) = (node for node in functions if node.name == "command")
    return (ast.get_docstring(command) or "").partition("\n")[0]
