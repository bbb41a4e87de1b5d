"""Merged configurations are identical to those that Hydra composes of the same files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.errors import HydraException
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config import composition
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.composition import compose_files, compose_with_hydra, hash_files
from dimsweep.sweeper.config.overrides import format_choice, read_override
from dimsweep.sweeper.places import list_groups
from dimsweep.sweeper.questions.split.grid import Grid
from tests.support.examples import times

OPTIONS = sorted(
    format_choice(group, name) for group, names in list_groups().items() for name in names
)
OTHERS = [
    *("npu=none", "topology=nonsense", "~cost", "~topology=libra_4d", "~workload.parallel"),
    *("~nothing", "npu@npu.other=h100", "+collective@own=whole", "+topology@npu=flat_1024"),
    "hydra/env=default",
]
CHOSEN = st.lists(st.sampled_from(OPTIONS) | st.sampled_from(OTHERS), max_size=4)


@pytest.mark.long
@settings(max_examples=times(20))
@given(st.lists(CHOSEN, min_size=1, max_size=4))
def test_merged_options_are_what_hydra_composes(several: list[list[str]]) -> None:
    """Each list is composed after the ones before it, whose options it may be merged from."""
    for chosen in several:
        assert _merged(chosen) == _whole(chosen)


STUDIES = {
    "below": "{name: below, note: from below, budget: {trials: 3}}",
    "left": "{defaults: [below, _self_], note: '${name} and left', budget: {trials: 4}}",
    "right": "{defaults: [below, {override /npu: h100}, _self_], name: right}",
    "diamond": "{defaults: [left, right, _self_], collective: {chunks: 7}}",
    "follows": "{defaults: [{'/npu@npu.other': '${npu}'}, _self_]}",
    "wrong": "{collective: [1]}",
    "sets": "{npu: {memory: 1 GB}, topology: null, cost: {npu: 3 USD}}",
}
OWN = {
    "npu/elsewhere": "# @package _global_\nnote: from an NPU\n",
    "npu/above": "defaults: [h100, _self_]\nmemory: 3 GB\n",
    "npu/absolute": "defaults: [/cost/none@_global_, _self_]\n",
    "npu/nothing": "null",
    "cost/turns": "# @package _global_\ndefaults: [override /npu: h200]\n",
    "cost/below": "# @package cost.other\nnpu: 1 USD\n",
    "memory/other": "# @package _global_\ncost: {npu: 5 USD}\nnote: from a memory\n",
}
TURNS = [
    *([], ["npu=h200"], ["npu=h100", "cost=none"], ["cost=turns", "topology=libra_3d"]),
    *(["npu=elsewhere", "cost=none", "memory=other"], ["npu=above", "cost=below"], ["cost=turns"]),
    *(["npu=absolute", "cost=dgx_h100"], ["npu=h200", "topology=libra_3d", "cost=libra_3d"]),
    *(["npu=a100", "npu=h100", "cost=none", "profile=libra"], ["cluster=alps", "cost=dgx_h100"]),
    *(["memory=other", "cost=none"], ["npu=nothing", "cost=none"], ["~cost", "npu=above"]),
]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with studies and options, those of options that set keys of other groups."""
    for kind, files in (("studies", STUDIES), ("conf", OWN)):
        for name, text in files.items():
            file = tmp_path / kind / f"{name}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("study", [None, *STUDIES])
def test_options_that_set_keys_elsewhere_are_composed_as_hydra_does(
    study: str | None, there: Path
) -> None:
    named = [f"study={study}"] if study else []
    for turn in TURNS if study in (None, "sets") else TURNS[:3]:
        chosen = [*named, *turn]
        assert _merged(chosen, state=1) == _whole(chosen), chosen


def test_a_choice_by_another_choice_in_defaults_is_followed(there: Path) -> None:
    text = "defaults: [schema, npu: a100, topology: libra_4d, cost: none, study: none, _self_,"
    text += " memory@npu.other: '${npu}']"
    for chip in ("a100", "h100"):
        (there / "conf" / "memory" / f"{chip}.yaml").write_text(f"note: of {chip}")
    (there / "conf" / "dimsweep.yaml").write_text(text)
    for chosen in ([], ["npu=h100"], ["npu=h100", "topology=libra_3d"]):
        assert "of " in str(_merged(chosen, state=2))
        assert _merged(chosen, state=2) == _whole(chosen)


def test_the_cells_of_a_grid_compose_each_option_once(monkeypatch: pytest.MonkeyPatch) -> None:
    composed = []
    monkeypatch.setattr(
        composition,
        "compose_with_hydra",
        lambda chosen: composed.append(1) or compose_with_hydra(chosen),
    )
    composition._compose_options.cache_clear()
    composition._families.clear()
    study = ["npu=a100,h100,h200", "workload=gpt3_libra,llama3_8b", "cost=none,libra_4d"]
    first = compose([*study, "collective.chunks=4,8", "what_if=null"], may_sweep=True)
    grid = Grid(first, first.config.grid, may_prune=True)
    cells = [grid.compose(number) for number in range(len(grid))]
    assert len(cells) == 24 and len(composed) == 1 + 2 + 1 + 1
    for label, cell in cells[::5]:
        words = [f"{key}={value}" for key, value in label.items()]
        alone = compose([*words, "what_if=null"]).config
        assert {**cell.config.text, "grid": {}} == alone.text
        files = [word for word in words if not word.startswith("collective")]
        assert _merged(files) == _whole(files)


def _merged(chosen: list[str], state: int | None = None) -> Any:
    """Return the keys of :func:`compose_files`, or its error."""
    words = list(map(read_override, chosen))
    state = hash_files(words) if state is None else state
    try:
        tree = compose_files(words, state)
    except (HydraException, DimsweepError, ValueError) as error:
        return type(error), str(error), str(error.__cause__)
    return _plain(tree.node(), tree.choices)


def _whole(chosen: list[str]) -> Any:
    """Return the keys of ``hydra.compose`` without any cache of ours, or its error."""
    words = list(map(read_override, chosen))
    try:
        with composition.initialized_hydra(words):
            lines = [word.line for word in words]
            found = hydra.compose(composition.ROOT, lines, return_hydra_config=True)
    except (HydraException, DimsweepError, ValueError) as error:
        return type(error), str(error), str(error.__cause__)
    choices = dict(found.hydra.runtime.choices)
    return _plain(OmegaConf.masked_copy(found, [key for key in found if key != "hydra"]), choices)


def _plain(node: Any, choices: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return all keys in their order, and the options of our groups."""
    ours = {group: name for group, name in choices.items() if not group.startswith("hydra/")}
    return json.dumps(OmegaConf.to_container(node, enum_to_str=True), default=str), ours


def test_a_file_that_changes_is_read_again_however_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf" / "collective").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    option, study = tmp_path / "conf" / "collective" / "mine.yaml", tmp_path / "study.yaml"
    for n in range(2, 9):  # all files as large as each other
        option.write_text(f"chunks: {n}")
        study.write_text(f"budget: {{trials: {n}}}")
        config = compose(["collective=mine", f"study={study}"]).config
        assert (config.collective.chunks, config.budget.trials) == (n, n)


def test_what_a_composition_changes_is_not_kept() -> None:
    before = _merged(["npu=h100"])
    compose(["npu=h100"]).config.text["npu"].clear()
    compose(["npu=h100"], {"npu.flops": {"fp16": "1 TFLOP/s"}, "npu.memory": None})
    assert _merged(["npu=h100"]) == before
