"""Print the rooms of the house: files, lines, imports, backward imports and circles.

    python -m tests.support.house
    python -m tests.support.house /path/to/another/checkout

A room is a folder of ``engine/`` or ``sweeper/`` with all that is below it, or a module next to
them; each of the ``extensions`` is a room.  ``tests/test_house.py`` checks the same graph.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("engine", "sweeper")
Import = ast.Import | ast.ImportFrom


def sources(room: str, root: Path = ROOT) -> list[Path]:
    """Return the modules of a room, sorted."""
    files = sorted((root / room).rglob("*.py"))
    assert files, f"no sources in {room}"
    return files


@cache
def nodes(file: Path) -> list[ast.AST]:
    """Return all syntax nodes of a file."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def imports(file: Path) -> Iterator[Import]:
    """Yield all imports of a file, inside functions and under ``TYPE_CHECKING`` as well."""
    for node in nodes(file):
        if isinstance(node, Import):
            yield node


def targets(node: Import, root: Path = ROOT) -> list[str]:
    """Return the modules of an import: ``from a.b import c`` means ``a.b`` or ``a.b.c``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    found = [f"{node.module}.{alias.name}" for alias in node.names]
    return found if all(folder_of(module, root) for module in found) else [str(node.module)]


@cache
def folder_of(module: str, root: Path = ROOT) -> Path | None:
    """Return the folder of one of our modules; None for a module of others."""
    path = _path_of(module)
    if (root / path).with_suffix(".py").exists():
        return path.parent
    return path if len(path.parts) > 1 and (root / path / "__init__.py").exists() else None


def room_of(path: Path) -> str:
    """Return the room of a module's path: ``engine/network``, or ``engine/errors``."""
    parts = path.with_suffix("").parts
    return "/".join(parts[: 3 if parts[1:2] == ("extensions",) else 2])


@cache
def rooms(root: Path = ROOT) -> nx.DiGraph:
    """Return the graph of rooms; an edge's ``files`` are the modules that import the other room.

    The doors ``engine/__init__.py`` and ``sweeper/__init__.py`` are left out: they re-export.
    """
    graph = nx.DiGraph()
    for top in TOPS:
        for file in sources(top, root):
            path = file.relative_to(root)
            if path.parent == Path(top) and file.name in ("__init__.py", "__main__.py"):
                continue
            here = room_of(path)
            text = file.read_text(encoding="utf-8")
            graph.add_node(here)
            counts = graph.nodes[here]
            counts["files"] = counts.get("files", 0) + 1
            counts["lines"] = counts.get("lines", 0) + text.count("\n")
            for node in imports(file):
                counts["imports"] = counts.get("imports", 0) + 1
                for module in targets(node, root):
                    if folder_of(module, root) is None:
                        continue
                    there = room_of(_path_of(module))
                    if there != here and there not in TOPS:
                        graph.add_edge(here, there)
                        graph.edges[here, there].setdefault("files", set()).add(str(path))
    return graph


def circles(graph: nx.DiGraph) -> list[list[str]]:
    """Return the groups of rooms that import each other, directly or through others."""
    parts = nx.strongly_connected_components(graph)
    return sorted(sorted(part) for part in parts if len(part) > 1)


def backward(graph: nx.DiGraph) -> list[tuple[str, str]]:
    """Return the pairs of an engine's room and the sweeper's room that it imports."""
    return [(one, other) for one, other in graph.edges if (one[:6], other[:7]) == _BACKWARD]


def report(root: Path = ROOT) -> str:
    """Return the table that this command prints."""
    graph = rooms(root)
    lines = [f"{'room':28}{'files':>7}{'lines':>8}{'imports':>9}  imports rooms"]
    total = dict.fromkeys(("files", "lines", "imports"), 0)
    for room in sorted(graph):
        counts = [graph.nodes[room].get(key, 0) for key in total]
        total = {key: total[key] + n for key, n in zip(total, counts, strict=True)}
        there = ", ".join(sorted(other.removeprefix("engine/") for other in graph.successors(room)))
        lines.append(f"{room:28}{counts[0]:7}{counts[1]:8,}{counts[2]:9,}  {there}")
    lines.append(f"{'in all':28}{total['files']:7}{total['lines']:8,}{total['imports']:9,}")
    lines += ["", f"rooms: {len(graph)}; edges: {graph.number_of_edges()}"]
    lines.append(f"backward imports, of sweeper by engine: {len(backward(graph))}")
    lines.append(f"circles of rooms: {len(circles(graph))}")
    for circle in circles(graph):
        lines.append(f"  {' - '.join(circle)}")
        for one, other, files in graph.subgraph(circle).edges.data("files"):
            lines.append(f"    {one} -> {other}: {', '.join(sorted(files)[:3])}")
    return "\n".join(lines)


_BACKWARD = ("engine", "sweeper")


def _path_of(module: str) -> Path:
    return Path(*module.removeprefix("dimsweep.").split("."))


if __name__ == "__main__":
    print(report(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
