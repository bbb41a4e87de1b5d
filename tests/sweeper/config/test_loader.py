"""Configurations are those that Hydra's own loader composes, and those of the files as they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from dimsweep.sweeper.config import loader
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.files import ROOT, hydra_knowing
from dimsweep.sweeper.config.overrides import choice_of, read
from dimsweep.sweeper.config.parts.places import groups
from tests.support.examples import times

OPTIONS = sorted(choice_of(group, name) for group, names in groups().items() for name in names)
OTHERS = [
    *("npu=none", "topology=nonsense", "~cost", "~topology=libra_4d", "~workload.parallel"),
    *("~nothing", "npu@npu.other=h100", "+collective@own=whole", "+topology@npu=flat_1024"),
    "hydra/env=default",
]
CHOSEN = st.lists(st.sampled_from(OPTIONS) | st.sampled_from(OTHERS), max_size=4)


@pytest.mark.long
@settings(max_examples=times(20))
@given(CHOSEN)
def test_options_are_composed_as_hydra_does(chosen: list[str]) -> None:
    assert _composed(chosen, ours=True) == _composed(chosen, ours=False)


STUDIES = {
    "below": "{name: below, note: from below, budget: {trials: 3}}",
    "left": "{defaults: [below, _self_], note: '${name} and left', budget: {trials: 4}}",
    "right": "{defaults: [below, {override /npu: h100}, _self_], name: right}",
    "diamond": "{defaults: [left, right, _self_], collective: {chunks: 7}}",
    "follows": "{defaults: [{'/npu@npu.other': '${npu}'}, _self_]}",
    "wrong": "{collective: [1]}",
}


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES)
def test_studies_are_composed_as_hydra_does(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "studies").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, text in STUDIES.items():
        (tmp_path / "studies" / f"{name}.yaml").write_text(text)
    for chosen in ([f"study={study}"], [f"study={study}", "npu=h200"]):
        assert _composed(chosen, ours=True) == _composed(chosen, ours=False)


def _composed(chosen: list[str], *, ours: bool) -> Any:
    """What is composed of options, Hydra's own configuration included, or what is said of them."""
    with pytest.MonkeyPatch.context() as patch, hydra_knowing(list(map(read, chosen))):
        hydra: Any = GlobalHydra.instance().hydra
        if not ours:
            hydra.config_loader = ConfigLoaderImpl(hydra.config_loader.get_search_path())
            patch.setattr(defaults_list, "_create_interpolation_map", loader._interpolation_map)
        try:
            found = hydra.compose_config(ROOT, chosen, RunMode.RUN, from_shell=False)
        except (HydraException, ValueError) as error:
            return type(error), str(error), str(error.__cause__)
        return json.dumps(OmegaConf.to_container(found, enum_to_str=True), default=str)


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
    before = _composed(["npu=h100"], ours=True)
    compose(["npu=h100"]).config.text["npu"].clear()
    compose(["npu=h100"], {"npu.flops": {"fp16": "1 TFLOP/s"}, "npu.memory": None})
    assert _composed(["npu=h100"], ours=True) == before
