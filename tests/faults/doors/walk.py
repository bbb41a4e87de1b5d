"""What there is to be entered, found by walking: commands, keys that name files, and readers."""

import ast
import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click

import dimsweep
from dimsweep.sweeper.cli.main import dimsweep as commands
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.workload import KINDS
from dimsweep.sweeper.part import FileName, Part

# Calls by which a function reads a file, or takes apart a text that came from one.
_CALLS = {
    *("open", "read_text", "read_bytes", "Popen"),
    *("loads", "load", "safe_load", "parse", "validate_json", "validate_python", "model_validate"),
    *("DictReader", "reader", "read_csv", "read_table", "read_schema", "ParquetFile"),
    *("open_stream", "ZipFile", "genops", "read_array", "deserialize", "fromstring", "sql"),
    *("compile", "exec", "literal_eval", "parse_graphml", "node_link_graph", "FromString"),
}
_NAMES = ("read", "parse", "scan")  # how the name of what reads may begin


def parameters() -> Iterator[str]:
    """Each parameter of a command that is a text or a file, such as ``trace lint SOURCE``."""
    for path, command in _commands(commands, ()):
        for each in command.params:
            free = not isinstance(each.type, click.Choice | click.IntRange | click.FloatRange)
            number = each.type in (click.INT, click.FLOAT, click.BOOL)
            if free and not number and not getattr(each, "is_flag", False):
                name = each.opts[0] if isinstance(each, click.Option) else str(each.name).upper()
                yield " ".join((*path, name))


def _commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    load = getattr(command, "load", None)
    command = load() if load else command
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*path, name))


def keys() -> set[str]:
    """The keys of a configuration that name files or plug-ins."""
    kinds = (key for kind in KINDS.values() for key in _files(kind, "workload"))
    return {*_files(Config, ""), *kinds, "plugins"}


def _files(part: type[Part], place: str) -> Iterator[str]:
    for name, field in part.model_fields.items():
        at, kinds = f"{place}.{name}".removeprefix("."), get_args(field.annotation)
        marks = [*field.metadata, *(mark for kind in kinds for mark in get_args(kind))]
        if any(isinstance(mark, type(get_args(FileName)[1])) for mark in marks):
            yield at
        for kind in (field.annotation, *kinds):
            if isinstance(kind, type) and issubclass(kind, Part):
                yield from _files(kind, at)


@functools.cache
def readers() -> dict[str, str]:
    """The functions that read, by file and first line: their names, such as
    ``engine.formats.reading.read_bytes``."""
    found = {}
    for module in pkgutil.walk_packages(dimsweep.__path__, "dimsweep."):
        file = importlib.util.find_spec(module.name).origin  # type: ignore[union-attr]
        tree = ast.parse(Path(str(file)).read_text(encoding="utf-8"))
        for name, function in _functions(tree, module.name.removeprefix("dimsweep.")):
            found[name] = f"{file}:{function.lineno}"
    return found


def remembering() -> Iterator[Any]:
    """The readers that keep what they have told, of the modules that are imported."""
    for name in readers():
        module, _, function = f"dimsweep.{name}".rpartition(".")
        reader = getattr(sys.modules.get(module), function, None)
        if hasattr(reader, "cache_clear"):
            yield reader


def _functions(tree: ast.AST, within: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{within}.{node.name}")
        elif isinstance(node, ast.FunctionDef):
            if _reads(node):
                yield f"{within}.{node.name}", node
        elif isinstance(node, ast.If | ast.With | ast.Try):
            yield from _functions(node, within)


def _reads(function: ast.FunctionDef) -> bool:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    names = {
        call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls
    }
    return function.name.lstrip("_").startswith(_NAMES) or bool(names & _CALLS)
