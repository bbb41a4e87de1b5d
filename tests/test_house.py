"""The house's first rule: the engine knows nothing of studies, and the sweeper only its door."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "sweeper",
    "hydra",
    "omegaconf",
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


@pytest.mark.parametrize("file", sources("sweeper"), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_sweeper_uses_only_the_engines_door(file: Path) -> None:
    inner = [name for node in imports(file) for name in modules(node) if name.startswith("engine.")]
    assert not inner


def test_what_the_sweeper_takes_is_on_offer() -> None:
    import engine

    taken = {
        alias.name
        for file in sources("sweeper")
        for node in imports(file)
        if isinstance(node, ast.ImportFrom) and node.module == "engine"
        for alias in node.names
    }
    assert taken <= set(engine.__all__)


def test_all_that_is_on_offer_exists() -> None:
    import engine

    assert all(hasattr(engine, name) for name in engine.__all__)
    assert len(set(engine.__all__)) == len(engine.__all__)
