"""Degrees that do not fit a cluster: the hint names degrees with which the model runs."""

import re

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program

WORDS = ("workload=gpt3_13b", "cluster=dgx_h100", "workload.plan.batch=504", "npu.memory=null")


@pytest.mark.parametrize(
    ("nodes", "axis", "degree"), [(63, "pipeline", 64), (63, "tensor", 5), (10, "pipeline", 3)]
)
def test_the_degrees_of_a_hint_run(nodes: int, axis: str, degree: int) -> None:
    """40 layers and heads divide by neither 7 nor 9, which 63 nodes would have room for."""

    def build(n: int) -> None:
        build_program(compose([*WORDS, f"nodes={nodes}", f"workload.parallel.{axis}={n}"]).config)

    with pytest.raises(DimsweepError, match=r"does not fit|= .* ranks") as told:
        build(degree)
    for other in re.findall(r"\d+", told.value.hint.partition(" would")[0]):
        build(int(other))


def test_degrees_that_multiply_to_more_than_the_cluster_are_told_as_such() -> None:
    degrees = "workload.parallel={tensor: 8, pipeline: 32, context: 2}"
    with pytest.raises(DimsweepError, match=r"= 512 ranks, but the cluster has 256 NPUs"):
        build_program(compose([*WORDS, "nodes=32", degrees]).config)


@pytest.mark.parametrize(
    "word", ["workload.model.mtp_layers=1000000000", "workload.model.experts=1000000000000"]
)
def test_models_too_large_to_be_built_are_refused(word: str) -> None:
    with pytest.raises(DimsweepError):
        build_program(compose([*WORDS, "nodes=2", word]).config)
