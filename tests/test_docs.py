"""Whatever the pages print can be pasted: their blocks run, page by page, as a reader runs them."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cluster import MEMORIES
from engine.cluster.blocks import BLOCKS
from engine.collective.algorithms import ALGORITHMS
from engine.kernels.packet.transports import TRANSPORTS
from sweeper.cli.main import main
from sweeper.config.workload.model import FAMILIES
from sweeper.search.choose import SAMPLERS
from tests.support.pages import Block, blocks_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
REGISTRIES: list[dict[str, Any]] = [BLOCKS, ALGORITHMS, TRANSPORTS, SAMPLERS, MEMORIES, FAMILIES]
# What is the reader's shell's, and not dimsweep's.
NOT_OURS = {"git", "cd", "eval", "python"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def registries() -> Iterator[None]:
    """What a page registers is forgotten after it."""
    kept = [(registry, dict(registry)) for registry in REGISTRIES]
    yield
    for registry, entries in kept:
        registry.clear()
        registry.update(entries)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, in one empty folder, so that a later block may use what an earlier one wrote."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # pages name recorded cases in there
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks_of(page):
        if not block.skipped:
            run(block, f"{name_of(page)}:{block.line}", names)


def run(block: Block, where: str, names: dict[str, object]) -> None:
    if block.file is not None:
        file = Path(block.file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)
        if block.language == "python":
            # Compiled code is kept for functions of modules that can be imported, as a script's.
            names |= runpy.run_path(str(file), run_name="__main__")
    elif block.language == "python":
        exec(compile(block.text, where, "exec"), names)
    elif block.language == "sh":
        for words in block.commands:
            run_command([*words, *block.overrides], where)
    else:
        assert block.language in ("text", "yaml"), f"{where}: what is {block.language!r}?"


def run_command(words: list[str], where: str) -> None:
    command, *arguments = words
    if command == "make":
        assert set(arguments) <= TARGETS, where
    elif command == "dimsweep":
        assert main(arguments) == 0, f"{where}: {' '.join(words)}"
    else:
        assert command in NOT_OURS, f"{where}: what is {command}?"


def test_a_page_that_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks are really run: these fail."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    for text in (
        "```sh\ndimsweep simulate no_such_key=1\n```\n",
        "```sh\nmake nonsense\n```\n",
        "```sh\nmysterious command\n```\n",
        "```\nwithout a language\n```\n",
        "```python\nassert False\n```\n",
    ):
        page.write_text(text)
        (block,) = blocks_of(page)
        with pytest.raises((AssertionError, SystemExit)):
            run(block, "page", {})


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{name_of(page)}: {target}"


def test_every_file_that_a_page_names_exists() -> None:
    rooms = "engine|sweeper|tests|conf|studies|benchmarks"
    for page in PAGES:
        for file in re.findall(rf"`((?:{rooms})/[\w./-]+)`", page.read_text()):
            assert "NAME" in file or (ROOT / file).exists(), f"{name_of(page)}: {file}"


def test_every_page_is_in_the_sites_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation


def test_the_pictures_in_git_are_small() -> None:
    """A page of docs/studies has one of few colours; the others are two."""
    pictures = [file for file in (ROOT / "docs").rglob("*") if file.suffix in (".png", ".svg")]
    studies = [file for file in pictures if file.parent.name == "studies"]
    assert all(file.stat().st_size <= 80_000 for file in studies)
    others = sum(file.stat().st_size for file in pictures if file not in studies)
    assert others <= 150_000
