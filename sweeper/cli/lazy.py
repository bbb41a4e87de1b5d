"""Commands whose modules are imported only when called, so that help is shown at once."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from dimsweep.sweeper.offers import load_target


class Commands(click.Group):
    """A group that lists its commands in the order in which they were added.

    Commands of installed plug-ins follow (:data:`sweeper.cli.registered.COMMANDS`), by the ``path``
    of this group, such as ``trace``.
    """

    path = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *self._of_plugins()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self._of_plugins().get(cmd_name)

    def add_lazily(self, room: str, *places: str) -> None:
        """Add commands whose modules are in the package ``room``.

        Each of ``places`` is a module: "sql" is ``sql_command`` in sql.py, and "results.diff" is
        ``diff_command`` in results.py.
        """
        for place in places:
            module, _, name = place.rpartition(".")
            function = f"{name.replace('-', '_')}_command"
            self.add_command(Lazy(name, f"{room}.{module or name}:{function}"))

    def _of_plugins(self) -> dict[str, click.Command]:
        """Return the commands that installed plug-ins add to this group, by their names."""
        from dimsweep.sweeper.places import installed_plugins

        if not installed_plugins():
            return {}
        from dimsweep.sweeper.cli.registered import COMMANDS
        from dimsweep.sweeper.plugins import load_plugins

        load_plugins(())
        places = {words: words.rpartition(" ") for words in COMMANDS}
        return {name: COMMANDS[of] for of, (path, _, name) in places.items() if path == self.path}


class Lazy(click.Command):
    """A command ``name`` that is imported from ``target``, "module:object", when it is called.

    ``what`` is the first sentence of its help; unless given, it is read from the source file,
    without importing it.
    """

    def __init__(
        self, name: str, target: str, what: str | None = None, *, hidden: bool = False
    ) -> None:
        super().__init__(name, short_help=what, hidden=hidden)
        self._target = target

    def get_short_help_str(self, limit: int = 45) -> str:
        if self.short_help is None:
            self.short_help = _first_sentence(self._target)
        return self.short_help

    def load(self) -> click.Command:
        """Import the command and return it."""
        command: click.Command = load_target(self._target)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        return self.load().make_context(*args, **kwargs)


def _first_sentence(target: str) -> str:
    """Return the first docstring line of a function "module:function", without importing it."""
    module, _, name = target.partition(":")
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    parsed = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    functions = (node for node in parsed.body if isinstance(node, ast.FunctionDef))
    (command,) = (node for node in functions if node.name == name)
    return (ast.get_docstring(command) or "").partition("\n")[0]
