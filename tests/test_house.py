"""The rules of the house: which room may import which, and which imports must wait."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.support.house import (
    ROOT,
    backward,
    circles,
    folder_of,
    imports,
    nodes,
    report,
    rooms,
    sources,
    targets,
)
from tests.support.language import counts

pytestmark = pytest.mark.xdist_group("house")  # which reads each file once
FORBIDDEN = {
    "dimsweep.sweeper",
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
    "dimsweep.engine",
    "google",
    "yaml",
    "pydantic",
    "numpy",
    "numba",
    "llvmlite",  # Numba's own, for instructions that Numba has no word for
    "pint",
    "networkx",
    "simpy",
    "scipy",
    "clarabel",
    "onnx",
    "safetensors",
}


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """What files hold, which Python's collector would go through for other tests."""
    yield
    nodes.cache_clear()


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


def package(module: str) -> str:
    """What a module is of: one of our two rooms, or a package of others."""
    parts = module.split(".")
    return ".".join(parts[: 1 + (parts[0] == "dimsweep")])


def test_the_engine_imports_nothing_of_a_study() -> None:
    """Nor anything that is not known to be free of studies, terminals and pictures."""
    known = ALLOWED | set(sys.stdlib_module_names) | {""}
    assert not known & FORBIDDEN
    strange = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sources("engine")
        for node in imports(file)
        for name in modules(node)
        if package(name) not in known
    ]
    assert not strange


# The engine's doors: they offer what they import of their own packages and what they define.
DOORS = {
    "dimsweep.engine",
    "dimsweep.engine.bound",
    "dimsweep.engine.cluster",
    "dimsweep.engine.formats",
    "dimsweep.engine.formats.astra_sim",
    "dimsweep.engine.formats.chakra",
    "dimsweep.engine.formats.chakra.lint",
    "dimsweep.engine.formats.pytorch",
    "dimsweep.engine.formats.weights",
    "dimsweep.engine.kernels.messages",
    "dimsweep.engine.kernels.reference",
    "dimsweep.engine.kernels.network",
    "dimsweep.engine.kernels.packet",
    "dimsweep.engine.kernels.packet.transports",
    "dimsweep.engine.workload.models",
    "dimsweep.engine.network",
    "dimsweep.engine.extensions.wafer",
    "dimsweep.engine.network.generators",
    "dimsweep.engine.workload.plan",
    "dimsweep.engine.extensions.astra_sim",
    "dimsweep.engine.registry",
    "dimsweep.engine.extensions.ns3_rdma",
    "dimsweep.engine.extensions.uet_htsim",
    "dimsweep.engine.extensions.repurpose",
    "dimsweep.engine.reliability",
    "dimsweep.engine.rules",
    "dimsweep.engine.extensions.synthesis",
    "dimsweep.engine.settings",
    "dimsweep.engine.testing",
    "dimsweep.engine.topology",
    "dimsweep.engine.workload",
}


def taken(file: Path) -> Iterator[tuple[str, str]]:
    """The door and the name of everything that a file imports from the engine."""
    for node in imports(file):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if in_engine(alias.name))
        elif node.module and in_engine(node.module):
            yield from ((node.module, alias.name) for alias in node.names)


@cache
def offered(door: str) -> list[str]:
    """What a door offers: what it lists, or what it imports of its own package and defines."""
    module = importlib.import_module(door)
    if (given := getattr(module, "__all__", None)) is not None:
        return given
    found = ast.parse(Path(module.__file__ or "").read_text()).body
    imported = [
        alias.asname or alias.name
        for node in found
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{door}.")
        for alias in node.names
    ]
    return [*imported, *(name for node in found for name in defined(node) if name[0] != "_")]


def defined(node: ast.stmt) -> list[str]:
    """The names that a statement gives to what is new."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def in_engine(module: str) -> bool:
    return f"{module}.".startswith("dimsweep.engine.")


def test_the_sweeper_uses_only_the_engines_doors() -> None:
    past = [
        f"{file.relative_to(ROOT)}: {module} {name}"
        for file in sources("sweeper")
        for module, name in taken(file)
        if module not in DOORS
        or (name and name not in offered(module) and f"{module}.{name}" not in DOORS)
    ]
    assert not past


@pytest.mark.parametrize("door", sorted(DOORS))
def test_all_that_is_on_offer_exists(door: str) -> None:
    module = importlib.import_module(door)
    assert offered(door)
    assert all(hasattr(module, name) for name in offered(door))


def test_each_name_is_on_offer_once() -> None:
    objects = [
        (name, getattr(importlib.import_module(door), name))
        for door in DOORS
        for name in offered(door)
    ]
    first: dict[int, str] = {}
    for name, thing in objects:
        assert id(thing) not in first or isinstance(thing, int), (name, first[id(thing)])
        first[id(thing)] = name


# --- folders ------------------------------------------------------------------------------------


@cache
def folders(room: str) -> nx.DiGraph:
    """Who imports whom among the packages of a room, nested ones apart from the one around them.

    The room's own ``__init__`` and ``__main__`` are left out: they offer what the packages hold.
    """
    graph = nx.DiGraph()
    for file in sources(room):
        here = file.parent.relative_to(ROOT)
        if file.name in ("__init__.py", "__main__.py") and file.parent == ROOT / room:
            continue
        for node in imports(file):
            for there in filter(None, map(folder_of, targets(node))):
                if there != here:
                    graph.add_edge(str(here), str(there), file=str(file))
    return graph


@pytest.mark.parametrize("room", ["engine", "sweeper"])
def test_no_folders_import_each_other_in_a_circle(room: str) -> None:
    assert circles(folders(room)) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    """A room is a top folder, whatever is nested in it."""
    assert circles(rooms()) == []
    assert backward(rooms()) == []


def test_the_map_of_the_rooms_names_every_room() -> None:
    page = (ROOT / "docs/house.md").read_text(encoding="utf-8")
    folders = {room for room in rooms() if (ROOT / room).is_dir()}
    assert {room for room in folders if f"`{room.split('/')[-1]}`" not in page} == set()


def test_the_house_prints_its_rooms() -> None:
    table = report()
    assert "backward imports, of sweeper by engine: 0" in table
    assert all(f"\n{room} " in table for room in ("engine/network", "sweeper/search"))


def test_formats_know_of_workloads_clusters_and_networks_only() -> None:
    """They are read by extensions and by the sweeper; no format needs a simulator."""
    graph = folders("engine")
    formats = {folder for folder in graph if folder.startswith("engine/formats")}
    known = {"engine", "engine/workload", "engine/cluster", "engine/topology", "engine/network"}
    assert {there for here in formats for there in graph.successors(here)} <= formats | known


def test_a_circle_of_folders_would_be_found() -> None:
    assert folders("engine").has_edge("engine/extensions/astra_sim", "engine/formats/chakra")
    assert folders("sweeper").has_edge("sweeper/run", "sweeper/search")


def importers(of: str) -> set[str]:
    """The files of the engine that import a module, or anything that lies in it."""
    return {
        str(file.relative_to(ROOT / "engine"))
        for file in sources("engine")
        for node in imports(file)
        for module in (modules(node) if isinstance(node, ast.Import) else targets(node))
        if f"{module}.".startswith(f"{of}.")
    }


def test_simpy_is_of_the_readable_kernel_only_which_nothing_else_imports() -> None:
    """Compiled rooms and the one on SimPy share what is sent, and nothing else."""
    assert {Path(file).parent for file in importers("simpy")} == {Path("kernels/reference")}
    assert all("reference" in file for file in importers("dimsweep.engine.kernels.reference"))


def test_the_readable_kernel_shares_only_what_is_sent() -> None:
    """Carriers are known in one file, and the other kernels in none."""
    rooms = {
        room: {file for file in importers(f"dimsweep.engine.kernels.{room}") if "reference" in file}
        for room in ("carriers", "phase", "flow", "packet", "network")
    }
    assert rooms.pop("carriers") == {"kernels/reference/transport.py"}
    assert not any(rooms.values()), rooms


def test_what_kernels_share_knows_no_kernel_that_runs_it() -> None:
    known = {
        room: set(folders("engine").successors(f"engine/kernels/{room}"))
        for room in ("core", "messages")
    }
    assert not known["core"] & {there for there in folders("engine") if "kernels" in there}
    assert not known["messages"] & {"engine/kernels/network", "engine/kernels/reference"}


def test_no_kernel_looks_at_what_its_program_was_lowered_from() -> None:
    """All that it needs is in the program's tables, and in its ``communication``."""
    read = {
        f"{file.relative_to(ROOT)}: .{node.attr}"
        for file in sources("engine/kernels")
        for node in nodes(file)
        if isinstance(node, ast.Attribute) and node.attr in ("cluster", "workload")
    }
    assert not read
    # One file hands both to ``lower``, whose programs it offers.
    assert {file for file in importers("dimsweep.engine.cluster.cluster") if "kernels" in file} == {
        "kernels/messages/program.py"
    }


def test_the_map_of_the_kernels_names_every_room() -> None:
    page = (ROOT / "engine/kernels/README.md").read_text(encoding="utf-8")
    files = [file for file in sources("engine/kernels") if file.parent.name != "transports"]
    rooms = {file.parent.name for file in files} - {"kernels"} | {"transports"}
    parts = {file.stem for file in files} - {"__init__"}
    assert {name for name in rooms | parts if f"`{name}`" not in page} == set()


def test_the_inside_of_ray_and_optuna_is_known_in_one_file_each() -> None:
    found = {
        str(file.relative_to(ROOT))
        for file in sources("sweeper")
        for node in nodes(file)
        for names in [_dotted(node)]
        for tool in ("ray", "optuna")
        if tool in names and any(map(_is_private, names[names.index(tool) :]))
    }
    # That of Optuna looks through its samplers, and names nothing.
    assert found == {"sweeper/run/executor/ray_inside.py"}


def _dotted(node: ast.AST) -> list[str]:
    """The names of an import, or of attributes one after the other."""
    if isinstance(node, ast.ImportFrom):
        return [*(node.module or "").split("."), *(each.name for each in node.names)]
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if names and isinstance(node, ast.Name) else []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


# --- the core and its extensions ----------------------------------------------------------------

# The words of extensions.  Readers in formats are named after the tools whose files they read.
WORDS = re.compile(r"wafer|(?<![a-z])fred(?![a-z])|repurpos|synthesi|astra_?sim|htsim|verify")
LISTED = "sweeper/offers.py"  # which finds the built-in extensions


def core() -> list[Path]:
    """The files of the core: all but the extensions."""
    return [
        file
        for room in ("engine", "sweeper")
        for file in sources(room)
        if "extensions" not in file.relative_to(ROOT).parts
    ]


def test_the_core_imports_no_extension() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {module}"
        for file in core()
        for node in imports(file)
        for module in (modules(node) if isinstance(node, ast.Import) else targets(node))
        if "extensions" in module.split(".")
    }
    assert found == set()
    listing = [file for file in core() if "sweeper.extensions" in file.read_text("utf-8")]
    assert [str(file.relative_to(ROOT)) for file in listing] == [LISTED]


def test_the_core_names_no_extension() -> None:
    """Neither files nor identifiers: what they need of the core is a general concept there."""
    formats = ROOT / "engine/formats"
    files = [file for file in core() if not file.is_relative_to(formats)]
    named = {str(file) for file in files if WORDS.search(str(file.relative_to(ROOT)).lower())}
    for file in files:
        imported = {alias.name for node in imports(file) for alias in node.names}
        for node in nodes(file):
            names = {name for name in identifiers(node) if WORDS.search(name.lower())}
            named |= {f"{file.relative_to(ROOT)}: {name}" for name in names - imported}
    assert sorted(named) == []


def identifiers(node: ast.AST) -> list[str]:
    """The names that a node gives or uses."""
    fields = ("name", "id", "attr", "arg", "asname")
    return [name for key in fields if isinstance(name := getattr(node, key, None), str)]


# --- references ---------------------------------------------------------------------------------

REFERENCE = re.compile(r"(?<![\w./])(?:dimsweep\.)?((?:engine|sweeper)(?:\.\w+)+)")


@pytest.mark.parametrize("top", ["engine", "sweeper", "tests", "benchmarks", "examples"])
def test_docstrings_and_comments_name_modules_that_exist(top: str) -> None:
    """A dotted path leads to a module, or to a name that the last module of the path has."""
    lost = [
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in sources(top)
        for text in prose(file)
        for found in REFERENCE.finditer(text)
        if not is_known(found[1])
    ]
    assert not lost


def prose(file: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a file."""
    for node in nodes(file):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
    lines = file.read_text(encoding="utf-8").splitlines()
    yield from (line.partition("#")[2] for line in lines if "#" in line)


@cache
def is_known(path: str) -> bool:
    """Return whether a dotted path names one of our modules, or something in it."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:n])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return n == len(parts) or parts[n] in names_in(file)
    return False


@cache
def names_in(file: Path) -> set[str]:
    """Return all names that a file defines or imports."""
    found = set[str]()
    for node in nodes(file):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


# --- laws and start-up --------------------------------------------------------------------------


def test_the_laws_are_numbered_and_their_tests_exist() -> None:
    page = (ROOT / "docs/model.md").read_text().split("## Laws")[1].split("\n## ")[0]
    laws = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    assert [int(law[2:].split(".")[0]) for law in laws] == list(range(1, len(laws) + 1))
    for law in laws:
        tests = re.findall(r"`(tests/[\w/.]+)::(\w+)`", law)
        assert tests, law
        for file, name in tests:
            assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"


def test_no_file_postpones_annotations() -> None:
    """One habit: an annotation is evaluated, and what is not there yet stands in quotes."""
    postponing = [
        str(file.relative_to(ROOT))
        for room in ("engine", "sweeper", "tests", "benchmarks")
        for file in sources(room)
        if re.search("^from __future__", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not postponing


# What only some need is imported by whoever needs it.  (Numba itself looks whether SciPy is there.)
LATE = ["clarabel", "google.protobuf", "networkx", "numba.np.arrayobj", "pydantic"]
LATE += ["onnx", "safetensors", "scipy.optimize", "scipy.sparse", "simpy"]


def test_the_engine_starts_without_what_few_need() -> None:
    code = f"import sys, dimsweep.engine; print([name for name in {LATE} if name in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_the_code_is_written_plainly() -> None:
    """`python -m tests.support.language` prints the counts by room; they may only fall."""
    total = sum(counts().values(), Counter[str]())
    limits = {"relative": 0.01 * total["docstrings"], "tell": 60, "phrases": 75, "names": 8}
    assert {name: total[name] for name in limits if total[name] > limits[name]} == {}


def test_the_page_of_interfaces_shows_what_doors_offer() -> None:
    griffe = pytest.importorskip("griffe")  # which reads it for mkdocs
    doors = griffe.load_extensions(str(ROOT / "docs" / "doors.py"))
    found = griffe.load("engine.rules", search_paths=[str(ROOT)], extensions=doors)
    assert set(found.exports) >= set(offered("dimsweep.engine.rules"))


@pytest.mark.parametrize("linked", [True, False])
def test_modules_come_from_the_folders_at_the_top(tmp_path: Path, linked: bool) -> None:
    """Also where a clone has text files instead of links."""
    package = tmp_path / "dimsweep"
    package.mkdir()
    (package / "__init__.py").write_bytes((ROOT / "dimsweep/__init__.py").read_bytes())
    for room in ("engine", "sweeper"):
        (tmp_path / room).symlink_to(ROOT / room)
        if linked:
            (package / room).symlink_to(f"../{room}")
        else:
            (package / room).write_text(f"../{room}")
    code = "import dimsweep.engine, dimsweep.sweeper; print(dimsweep.engine.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(tmp_path / "engine" / "__init__.py")
