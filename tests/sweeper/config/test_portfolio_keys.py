"""Keys of a portfolio's workloads, in a study that stands on another workload itself."""

from pathlib import Path

from dimsweep.sweeper.config.compose import compose
from tests.support.refused import refused

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
    with refused("", "unknown-key", "workload.plan", advice, "workload=gpt3_libra"):
        compose([f"study={file}"])
    file.write_text(STUDY.format(f"\n  - {advice}"))
    assert compose([f"study={file}"]).config.text["workload"]["plan"]["batch"] == 64
    with refused("workload.plan.bach", "unknown-key") as caught:
        compose([f"study={file}", "+workload.plan.bach=2"])
    assert advice not in caught.value.hint
