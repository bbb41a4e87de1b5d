"""What others call a key leads to ours, and each hint is one that works."""

import re

import pytest

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.explain import ALIASES
from tests.support.refused import refused

MODEL = ("workload=mixtral_8x22b", "cluster=dgx_h100", "nodes=16")
VALUES = {
    **{"workload": "llama3_8b", "npu": "h100", "cluster": "dgx_a100", "topology": "dgx_a100"},
    **{"topology.bandwidth": "[450 GB/s, 50 GB/s]", "topology.latency": "[1 us, 1 us]"},
    **{"collective.algorithms": "[auto, auto]", "fidelity": "message"},
    **{"workload.plan.precision": "bf16", "workload.plan.recompute": "full"},
    **{
        "workload.plan.zero": 1,
        "workload.plan.sequence_parallel": "true",
        "workload.model.hidden": 6144,
    },
}


def hint_for(word: str, *words: str) -> str:
    with refused("", None) as caught:
        compose([*words, word])
    return caught.value.hint


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_leads_to_its_key(alias: str) -> None:
    assert hint_for(f"{alias}=1", *MODEL).startswith(f"did you mean {ALIASES[alias]!r}? ")


@pytest.mark.parametrize("key", dict.fromkeys(ALIASES.values()))
def test_the_key_of_an_alias_is_taken(key: str) -> None:
    compose([*MODEL, f"{key}={VALUES.get(key, 8)}"])


@pytest.mark.parametrize("alias", ["tp", "pp", "ep", "cp", "vpp", "seq_len", "dtype", "tp-size"])
def test_no_hint_names_a_key_that_the_workload_does_not_take(alias: str) -> None:
    """The workload without overrides is a list of layers: it has no pipeline and no experts."""
    for key in re.findall(r"'([\w.]+)'", hint_for(f"{alias}=1").partition("known:")[0]):
        compose([f"{key}=1"])


def test_a_number_where_a_list_belongs_is_cured_by_brackets() -> None:
    clos = "network.generator={kind: fat_tree, npus: 16, radix: 8, oversubscription: %s}"
    assert "did you mean [2]?" in hint_for(clos % "2")
    compose([clos % "[2]"])
