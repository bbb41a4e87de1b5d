"""The examples run: the cells of each notebook, and each script, smaller."""

import ast
import json
import runpy
from pathlib import Path

import pytest

import dimsweep

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SMALL: dict[str, dict[str, object]] = {
    "network_architect": {
        "nodes": 32,  # as many as a leaf switch of a rail has
        "spine_nodes": 16,
        "models": ["gpt3_13b", "mixtral_8x22b"],
    },
    "researcher": {"minimum": "112 GB/s"},
    "ml_engineer": {"trials": 6},
    "one_tor_down": {
        "gpus": 64,
        "batch": 8,
        "interleave": 1,
    },
}
# Keys of their studies: every message of four layers is simulated, and not of 40 and 56.
KEYS: dict[str, dict[str, object]] = {
    "network_architect": {
        "workload.model.layers": 4,
        "workload.plan.interleave": 1,
        "workload.plan.micro_batch": 4,
    },
    "one_tor_down": {
        "workload.model.layers": 2,
        "workload.parallel.pipeline": 1,
    },
}


def shown(names: dict[str, object], cell: str) -> object:
    """What a notebook would show of a cell: the value of its last expression."""
    *before, last = ast.parse(cell).body
    if not isinstance(last, ast.Expr):
        before, last = [*before, last], ast.parse("None").body[0]
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.long
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(file.read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells), "nothing generated in git"
    names: dict[str, object] = {"__name__": file.stem}
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    plots = [one for cell in code if hasattr(one := shown(names, cell), "_repr_html_")]
    assert any("iframe" in plot._repr_html_()[:10] for plot in plots)


def test_there_are_three_notebooks_and_every_script_is_tested() -> None:
    assert len(NOTEBOOKS) == 3
    assert {file.stem for file in (ROOT / "examples").glob("*.py")} == set(SMALL)


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_a_script_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    script.get("COMMON", {}).update(KEYS.get(name, {}))
    found = script["main"](**SMALL[name], executor="inline")
    for study in found if isinstance(found, tuple) else (found,):
        assert isinstance(study, dimsweep.Study)
        assert (tmp_path / study.folder / "report" / "report.html").exists()
