"""Whatever the pages print can be pasted: their blocks run, page by page, as a reader runs them."""

import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dimsweep.engine.registry import recording_registrations
from dimsweep.sweeper.plugins import unload_plugins
from tests.support.pages import PAGES, ROOT, blocks_of, in_folder, name_of, plain, run, with_tables

# Its plug-ins compile kernels that tests/sweeper/plugins needs too: in one process, once.
COMPILED = pytest.param(
    ROOT / "docs" / "extending.md",
    marks=pytest.mark.xdist_group("plug-ins"),
    id="docs/extending.md",
)
PRESETS = {"studies": "studies", "real_clusters": "conf/cluster"}  # pages that list all of a folder


@pytest.fixture
def registries() -> Iterator[None]:
    """What a page registers is forgotten after it, by its plug-ins and by its own blocks.

    What our own modules register as they are first imported stays.
    """
    with recording_registrations() as entries:
        yield
    unload_plugins()
    for registry, name in entries:
        if name in registry and not registry[name].__module__.startswith("dimsweep."):
            del registry[name]


def test_the_tables_of_keys_are_those_of_the_fields() -> None:
    """``python -m tests.support.pages keys`` writes them."""
    for page in PAGES:
        text = page.read_text()
        assert with_tables(text) == text, f"{name_of(page)}: python -m tests.support.pages keys"


@pytest.mark.long
@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    "page", [COMPILED if page == COMPILED.values[0] else page for page in PAGES], ids=name_of
)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """In order, in one empty folder, so that a later block may use what an earlier one wrote; what
    a page prints of commands that are not made small is what they print."""
    names: dict[str, object] = {"__name__": page.stem}
    printed, is_whole = "", False
    with in_folder(tmp_path):
        for block in blocks_of(page):
            if block.is_output:
                if is_whole:
                    assert block.shown(printed) == plain(block.text), (
                        "python -m tests.support.pages"
                    )
            elif not block.skipped:
                printed, is_whole = run(block, page, names), not block.overrides


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
            run(block, page, {})


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


def test_every_study_and_machine_is_told_of() -> None:
    told = {name: (ROOT / "docs/guide" / f"{name}.md").read_text() for name in PRESETS}
    for page, folder in PRESETS.items():
        files = (file.name.split(".") for file in (ROOT / folder).glob("*.yaml"))
        names = {name[0] for name in files if name[1:] == ["yaml"]} - {"none"}
        assert not {name for name in names if f"`{name}`" not in told[page]}


def test_every_page_is_in_the_sites_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation


def test_the_site_prints_no_roles_of_sphinx() -> None:
    hook = runpy.run_path(str(ROOT / "docs/hooks.py"))["on_page_content"]
    assert (
        hook("see :class:<code>~dimsweep.engine.Npu</code>.", page=None)
        == "see <code>dimsweep.<wbr>engine.Npu</code>."
    )


def test_names_break_at_their_marks_and_figures_keep_their_units() -> None:
    hook = runpy.run_path(str(ROOT / "docs/hooks.py"))["on_page_content"]
    cell = '<td><code>cost.tiers 5 B</code> <a href="a_bc">2 %</a> o/rg:dir</td>'
    text = "<p>o/rg 2 % <code>of/it.py</code></p><pre><code>a_bc</code></pre>"
    assert hook(cell) == (
        '<td><code>cost.<wbr>tiers 5 B</code> <a href="a_bc">2&nbsp;%</a> o/<wbr>rg:<wbr>dir</td>'
    )
    assert hook(text) == text.replace("of/", "of/<wbr>")


def test_the_pictures_in_git_are_small() -> None:
    """A page of docs/studies has one of few colours; the others are two."""
    pictures = [file for file in (ROOT / "docs").rglob("*") if file.suffix in (".png", ".svg")]
    studies = [file for file in pictures if file.parent.name == "studies"]
    assert all(file.stat().st_size <= 80_000 for file in studies)
    others = sum(file.stat().st_size for file in pictures if file not in studies)
    assert others <= 150_000


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"]
    assert cited["license"] == project["license"]


def test_the_first_pages_tell_the_same_job() -> None:
    """It is their first file, in no more than ten lines."""
    pages = ("README.md", "docs/index.md", "docs/quickstart.md")
    first = [next(block for block in blocks_of(ROOT / page) if block.file) for page in pages]
    assert {block.file for block in first} == {"my_job.yaml"}
    assert len({block.text for block in first}) == 1
    assert len(first[0].text.splitlines()) <= 10
