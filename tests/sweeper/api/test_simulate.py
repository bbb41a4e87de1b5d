"""One design from Python: what the command says of it."""

import json
import shlex
from typing import Any

import pytest

import dimsweep
from dimsweep.engine import DimsweepError, Result
from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.compose import compose

SMALL: dict[str, Any] = {
    "workload": "all_reduce",
    "topology.shape": "Ring(4)_Switch(2)",
    "topology.tiers": [],
}
SMALL |= {"workload.layers.0.weight_grad.size": "1 MB"}
SMALL |= {"topology.bandwidth": ["100 GB/s", "50 GB/s"], "topology.latency": "500 ns"}


@pytest.mark.parametrize(
    "fidelity", ["phase", "message", pytest.param("packet", marks=pytest.mark.long)]
)
def test_keys_and_overrides_are_those_of_the_command(
    fidelity: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["topology.shape=Ring(8)", "topology=one_switch", "workload=all_reduce"]
    words += [f"fidelity={fidelity}", "workload.layers.0.weight_grad.size=1 MB"]
    assert main(["simulate", "--json", *words]) == 0
    time = json.loads(capsys.readouterr().out)["time_ps"]
    found = dimsweep.simulate(
        words[0], words[-1], topology="one_switch", workload="all_reduce", fidelity=fidelity
    )
    assert isinstance(found, Result) and found.time_ps == time
    assert dimsweep.simulate(*words).time_ps == time


def test_what_a_newcomer_writes_first_works_or_is_told_in_words_to_paste() -> None:
    with pytest.raises(DimsweepError) as told:
        dimsweep.simulate("topology.shape=Ring(8)", workload="all_reduce")
    cure = shlex.split(str(told.value).partition("such as ")[2])
    alone = dimsweep.simulate("topology.shape=Ring(8)", *cure, workload="all_reduce")
    with pytest.raises(DimsweepError, match=r"such as .topology\.bandwidth="):
        dimsweep.simulate("topology.bandwidth=[1 GB/s,2 GB/s]", workload="all_reduce")
    ring = {"shape": "Ring(8)", "latency": "20 ns", "tiers": ["chiplet"]}
    assert dimsweep.simulate(workload="all_reduce", topology=ring).time_ps == alone.time_ps
    assert repr(alone) == "<15.0327 ms on Ring(8), 8 NPUs>"
    latency = compose(["topology.latency[0]=5 ns"]).config.text["topology"]["latency"]
    assert latency == ["5 ns", "0.5 us", "0.7 us", "1.7 us"]


def test_a_machine_of_so_many_nodes() -> None:
    found = dimsweep.simulate(workload="gpt3_175b", cluster="dgx_h100", nodes=16)
    assert found.program.n_npus == 128 and found.time > 0


def test_it_is_folded_watched_and_recorded_as_the_configuration_says() -> None:
    by_packet = dict(SMALL, fidelity="packet", watch=["NPU 0"])
    watched = dimsweep.simulate(**by_packet, record=True)
    assert watched.traffic and watched.timeline()["traceEvents"]
    again = dimsweep.simulate(**by_packet, fold=False)
    assert again.time_ps == watched.time_ps
    assert dimsweep.simulate(**SMALL, fold=False).time_ps == dimsweep.simulate(**SMALL).time_ps


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"watch": ["NPU 0"]}, "^watch .*fidelity=phase.*fidelity=packet"),
        ({"timeline": "x.json"}, "^timeline .*record=True"),
        ({"picture": "x.svg"}, "^picture "),
        ({"nodes": 4}, "^nodes: .*cluster="),
        ({"workload.sizes": 1}, "sizes"),
    ],
)
def test_a_wrong_key_is_named(keys: dict[str, object], what: str) -> None:
    with pytest.raises(DimsweepError, match=f"(?s){what}"):
        dimsweep.simulate(**{**SMALL, **keys})
