"""Keys of a portfolio's workloads, in a study that stands on another workload itself."""

from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose

STUDY = """
defaults:{}
  - override /topology: dgx_h100
  - _self_
portfolio: {{workloads: {{gpt3_13b: 1, llama3_8b: 1}}}}
workload: {{plan: {{batch: 64, micro_batches: null}}}}
"""


def test_they_are_known_once_the_study_stands_on_one_of_them(tmp_path: Path) -> None:
    file = tmp_path / "several.yaml"
    file.write_text(STUDY.format(""))
    advice = "override /workload: gpt3_13b"
    with pytest.raises(DimsweepError, match="unknown key") as told:
        compose([f"study={file}"])
    assert told.value.where.startswith("workload.plan")
    assert advice in told.value.hint
    assert "workload=gpt3_libra" in told.value.hint
    file.write_text(STUDY.format(f"\n  - {advice}"))
    assert compose([f"study={file}"]).config.text["workload"]["plan"]["batch"] == 64
    with pytest.raises(DimsweepError, match="unknown key") as told:
        compose([f"study={file}", "+workload.plan.bach=2"])
    assert advice not in told.value.hint
