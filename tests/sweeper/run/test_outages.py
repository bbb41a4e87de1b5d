"""What a study says of devices that are down some of the time."""

from pathlib import Path

import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.questions.findings import read_report, tabulate_study
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.refused import refused
from tests.support.studies import planned, run

GENERATOR = "{kind: roft, npus: 16, radix: 8, rails: 4, server: 4, fails: 10, repair: 30 hour}"
SMALL = (
    *("workload=all_reduce", "fidelity=flow", "topology=one_switch", "collective.chunks=1"),
    *("topology.shape=Switch(4)_Switch(4)", "topology.tiers=[]", "network.routing=spray"),
    *("reliability=llama3", "reliability.checkpoint={interval: 60 min, bandwidth: null}"),
)


def small(outages: str, *words: str, generator: str = GENERATOR) -> Config:
    own = (f"network.generator={generator}", f"reliability.outages={outages}")
    return compose([*SMALL, *own, *words]).config


def test_an_outage_is_the_same_network_without_it() -> None:
    config = small("[{switch: {kind: switch}}]")
    result = simulate(config)
    leaf, spine = result.outages
    assert (leaf.what, leaf.count, spine.what, spine.count) == (
        *("rails leaf *", 4),
        *("rails spine *", 2),
    ), "servers' own switches say nothing, and never fail"
    share = 10 * 30 / (365.25 * 24)
    assert leaf.down == pytest.approx(share / (1 + share))
    for outage, names in ((leaf, (1, 3)), (spine, (0, 1))):
        kind = outage.what.removesuffix(" *")
        down = [
            simulate(small("[]", f"network.degrade=[{{switch: {kind} {i}, down: true}}]")).time_ps
            for i in names
        ]
        assert outage.speeds == tuple(result.time_ps / time for time in down)
    assert max(leaf.slowdown, spine.slowdown) > 1.01
    merits = result.merits
    mean = merits["effective_time_s"] * merits["ettr"] / result.time
    assert 1 < mean < max(leaf.slowdown, spine.slowdown)


def test_a_part_of_a_link_or_device_is_down_alone() -> None:
    wide = GENERATOR.replace("server", "planes: 2, server")
    (leaf, _) = simulate(small("[{switch: {kind: switch}, draw: 1}]", generator=wide)).outages
    assert leaf.count == 8
    slower = "network.degrade=[{switch: rails leaf 2, bandwidth: 50 %}]"
    times = [simulate(small("[]", *words, generator=wide)).time_ps for words in ((), (slower,))]
    assert leaf.speeds == (times[0] / times[1],)
    one = '[{link: {named: "NPU 0 <-> rails leaf 0"}, down: 1 %}]'
    (cable,) = simulate(small(one, generator=wide)).outages
    assert (cable.what, cable.count, cable.down) == ("NPU * <-> rails leaf *", 2, 0.01)


def test_what_cannot_be_down_is_a_sentence() -> None:
    with refused("reliability.outages", "unsupported", "fidelity=phase"):
        small("[{switch: leaf *, down: 1 %}]", "fidelity=phase")
    with pytest.raises(DimsweepError, match="has no rate of failures") as told:
        simulate(small("[{switch: NVSwitch *}]"))
    assert told.value.where == "reliability.outages[0].down"
    with pytest.raises(DimsweepError, match="unknown switch 'leaf 9'"):
        simulate(small("[{switch: leaf 9, down: 1 %}]"))
    twice = "[{switch: rails leaf *, down: 1 %}, {switch: rails leaf 2, down: 1 %}]"
    with pytest.raises(DimsweepError, match="'rails leaf 2' is one of outages") as told:
        simulate(small(twice))
    assert told.value.where == "reliability.outages[1]"
    single = "{kind: fat_tree, npus: 16, radix: 16}"
    with pytest.raises(InfeasibleError, match="that interrupts training"):
        simulate(small("[{switch: {kind: switch}, down: 1 %}]", generator=single))
    with refused("reliability.outages[0]", "missing"):
        small("[{down: 1 %}]")
    with refused("reliability.outages[0]", "conflict"):
        small("[{switch: a, link: b, down: 1 %}]")
    with refused("reliability.outages[0].down", "missing"):
        small("[{link: a}]")


def test_a_study_has_them_in_its_rows_and_its_report(tmp_path: Path) -> None:
    words = [f"network.generator={GENERATOR}", "reliability.outages=[{switch: {kind: switch}}]"]
    words += ["objective=effective_time", "name=outages"]
    words += ["grid={network.routing: [spray, ecmp]}"]
    plan = planned([*SMALL, *words], tmp_path)
    run(plan)
    row = load(plan.folder).to_pylist()[0]
    own = simulate(plan.cells[0].config)
    assert dict(row["outage_slowdown"]) == {each.what: each.slowdown for each in own.outages}
    assert row["effective_time_s"] == own.merits["effective_time_s"]
    tables = [
        sheet for sheet in tabulate_study(read_report(plan.folder)) if "is down" in sheet.title
    ]
    told, mean = tables[0].rows[0][-2:]
    assert told.splitlines() == [f"{o.what}: {o.slowdown - 1:+.2%}" for o in own.outages]
    assert mean == f"{row['effective_time_s'] * row['ettr'] / row['time_s'] - 1:+.2%}"
