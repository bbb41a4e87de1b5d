"""The house's first rule: the engine knows nothing of studies, and the sweeper only its doors."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "sweeper",
    "hydra",
    "omegaconf",
    "pydantic",
    "ray",
    "optuna",
    "pyarrow",
    "pandas",
    "rich",
    "matplotlib",
    "jinja2",
}
# What the engine may lean on, beside Python itself.
ALLOWED = {
    "engine",
    "google",
    "yaml",
    "numpy",
    "numba",
    "pint",
    "networkx",
    "simpy",
    "scipy",
    "clarabel",
}


def sources(room: str) -> list[Path]:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files, f"no sources in {room}"
    return files


def imports(file: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports, those inside functions as well."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


@pytest.mark.parametrize("file", sources("engine"), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_engine_imports_nothing_of_a_study(file: Path) -> None:
    packages = {name.split(".")[0] for node in imports(file) for name in modules(node)}
    assert not packages & FORBIDDEN
    strange = packages - ALLOWED - set(sys.stdlib_module_names) - {""}
    assert not strange, "not known to be free of studies, terminals and pictures"


# The engine's doors: what is offered to others is in ``__all__`` of these.
DOORS = {
    "engine",
    "engine.bound",
    "engine.cluster",
    "engine.formats",
    "engine.formats.astra_sim",
    "engine.formats.chakra",
    "engine.formats.chakra.lint",
    "engine.formats.pytorch",
    "engine.kernels.message",
    "engine.model",
    "engine.network",
    "engine.plan",
    "engine.replicas.astra_sim",
    "engine.rules",
    "engine.workload",
}


def taken(file: Path) -> Iterator[tuple[str, str]]:
    """The door and the name of everything that a file imports from the engine."""
    for node in imports(file):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if in_engine(alias.name))
        elif node.module and in_engine(node.module):
            yield from ((node.module, alias.name) for alias in node.names)


def in_engine(module: str) -> bool:
    return module.split(".")[0] == "engine"


@pytest.mark.parametrize("file", sources("sweeper"), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_sweeper_uses_only_the_engines_doors(file: Path) -> None:
    for module, name in taken(file):
        assert module in DOORS
        offered = importlib.import_module(module).__all__
        assert not name or name in offered or f"{module}.{name}" in DOORS


@pytest.mark.parametrize("door", sorted(DOORS))
def test_all_that_is_on_offer_exists(door: str) -> None:
    module = importlib.import_module(door)
    assert all(hasattr(module, name) for name in module.__all__)


def test_each_name_is_on_offer_once() -> None:
    offers = {door: importlib.import_module(door).__all__ for door in DOORS}
    objects = [
        (name, getattr(importlib.import_module(door), name))
        for door, names in offers.items()
        for name in names
    ]
    first: dict[int, str] = {}
    for name, thing in objects:
        assert id(thing) not in first or isinstance(thing, int), (name, first[id(thing)])
        first[id(thing)] = name
