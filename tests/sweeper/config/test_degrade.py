"""What a configuration says of a network that something became of."""

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import format_yaml
from dimsweep.engine.network import Change, Routing, Selection
from dimsweep.engine.rules import KernelInputs, has_equal_inputs
from dimsweep.engine.units import parse_share
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.roles import default_role, format_value
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.refused import refused

SMALL = [
    *("topology.shape=Switch(4)_Switch(4)", "topology.tiers=[]", "workload.layers=1"),
    *("collective.chunks=2", "topology.latency=500 ns"),
]


def config(degrade: str = "[]", fidelity: str = "message") -> Config:
    return compose([*SMALL, f"fidelity={fidelity}", f"network.degrade={degrade}"]).config


def test_packets_that_are_sprayed_are_routed_so() -> None:
    """The key of packets says it of packets only, beside a routing of all others."""
    words = [*SMALL, "network.packets.spray=true", "network.routing=ecmp"]
    for fidelity, routing in (("packet", Routing.SPRAY), ("flow", Routing.ECMP)):
        own = compose([*words, f"fidelity={fidelity}"]).config
        assert own.network.build(own.topology.build(), own.fidelity).routing is routing


def changes(degrade: str) -> tuple[Change, ...]:
    return build_program(config(degrade)).cluster.network.degrade


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("{switch: leaf 0, down: true}", Change(switch=Selection("leaf 0"), down=True)),
        ("{npu: 7, speed: 90 %}", Change(npu=Selection("NPU 7"), speed=0.9)),
        (
            '{link: {named: "NPU 3 <-> leaf *", draw: 2, seed: 1}, bandwidth: 50%}',
            Change(link=Selection("NPU 3 <-> leaf *", draw=2, seed=1), bandwidth=0.5),
        ),
        (
            "{link: {between: [npu, switch], dim: 1}, bandwidth: 12.5 %}",
            Change(link=Selection(between=("npu", "switch"), dim=1), bandwidth=0.125),  # type: ignore[arg-type]
        ),
    ],
)
def test_changes_are_built_and_written_as_they_were_read(text: str, change: Change) -> None:
    own = config(f"[{text}]")
    assert own.network.build(own.topology.build(), own.fidelity).degrade == (change,)
    assert Config.from_plain(own.plain()) == own


def test_an_empty_list_is_the_same_to_the_bit_and_a_change_is_another_row() -> None:
    plain, whole, half = (
        compose([*SMALL, "fidelity=message"]).config,
        config(),
        config("[{link: {dim: 1}, bandwidth: 50 %}]"),
    )
    ours, same, other = (
        KernelInputs(build_program(each), each.fidelity) for each in (plain, whole, half)
    )
    assert has_equal_inputs(ours, same)
    assert not has_equal_inputs(ours, other)
    assert plain.plain() == whole.plain() != half.plain()


def test_every_fidelity_knows_a_slow_npu() -> None:
    for fidelity in ("phase", "message"):
        times = [
            simulate(config(degrade, fidelity)).time
            for degrade in ("[]", "[{npu: 7, speed: 50 %}]")
        ]
        assert times[1] > 1.5 * times[0]


@pytest.mark.parametrize(
    ("degrade", "where", "named"),
    [
        ("[{swich: leaf 0, down: true}]", "network.degrade[0].swich", "'switch'"),
        (
            "[{switch: {kind: oc}, down: true}]",
            "network.degrade[0].switch.kind",
            "'ocs'",
        ),
        ("[{npu: 7, speed: 0.9}]", "network.degrade[0].speed", "90 %"),
        ("[{npu: 7, speed: 190 %}]", "network.degrade[0].speed", "190 %"),
        ("[{npu: 7}]", "network.degrade[0]", "speed"),
        ("[{npu: 77, speed: 90 %}]", "network.degrade[0].npu.named", "'NPU 7'"),
        ("[{npu: 7, down: true}]", "network.degrade[0].npu", "network.placement"),
        ("[{link: {draw: 0}, down: true}]", "network.degrade[0].link.draw", "0"),
        ("[{switch: switch d*, down: true}]", "network.degrade", ""),
    ],
)
def test_bad_changes_are_refused(degrade: str, where: str, named: str) -> None:
    with pytest.raises(DimsweepError) as raised:
        simulate(config(degrade))
    assert raised.value.where.split(" ")[0] == where
    assert named in str(raised.value)


def test_phases_refuse_links_and_name_who_takes_them() -> None:
    with pytest.raises(DimsweepError, match="fidelity=phase") as raised:
        build_program(config("[{switch: switch d1 line 0, down: true}]", "phase"))
    assert raised.value.where.startswith("network.degrade")


def test_what_breaks_is_a_scenario_and_has_a_name() -> None:
    assert default_role("network.degrade") is Role.SCENARIO
    broken = [{"switch": "leaf 0", "down": True}, {"npu": 7, "speed": "90 %"}]
    assert format_value(broken) == "switch: leaf 0, down: true; npu: 7, speed: 90 %"


@pytest.mark.parametrize("text", ["50", "50 %%", "-5 %", "fifty %", "1e2 %", 0.5, None, "% 5"])
def test_a_share_is_percent(text: object) -> None:
    assert parse_share("12.5 %") == 0.125
    with refused("", "wrong-type", format_yaml(text)):
        parse_share(text)
