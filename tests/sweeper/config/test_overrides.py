"""Overrides: read once, by Hydra's grammar; several values of a key are an axis, or its space."""

from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.sweeper.api.study import Study
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.overrides import MAX_VALUES, read_override
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.part import member_parser
from dimsweep.sweeper.places import set_extra_folders
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.questions.split.grid import MOST_CELLS, Grid
from tests.support.refused import refused

STUDY = ["study=libra_gpt3_4d", "budget.trials=2", "executor=inline"]
SEARCHED = "space.parameters={collective.chunks: {values: [2, 4]}}"


def swept(*overrides: str) -> ComposedConfig:
    return compose([*STUDY, *overrides], may_sweep=True)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("2,4", (2, 4)),
        ("choice(2,4)", (2, 4)),
        ("range(1,4)", (1, 2, 3)),
        ("range(4)", (0, 1, 2, 3)),
        ("range(8,0,-4)", (8, 4)),
        ("range(0.1,0.4,0.1)", (0.1, 0.2, 0.3)),
        ("sort(4,2)", (2, 4)),
        ("str(2,4)", ("2", "4")),
        ("[2,4],[8]", ([2, 4], [8])),
        ("{a: 1},{a: [2,'b c']}", ({"a": 1}, {"a": [2, "b c"]})),
        ("'a,b',\"c\"", ("a,b", "c")),
        ("100 GB/s,1 TB/s", ("100 GB/s", "1 TB/s")),
        ("Ring(4)_Switch(8),Switch(32)", ("Ring(4)_Switch(8)", "Switch(32)")),
        ("choice(Ring(4)_Switch(8),'Switch(32)')", None),  # quoted, if one is: no guess is made
        ("choice('Ring(4)_Switch(8)','Switch(32)')", ("Ring(4)_Switch(8)", "Switch(32)")),
        ("choice(Ring(4),Switch(2))", ("Ring(4)", "Switch(2)")),
    ],
)
def test_several_values_are_an_axis(written: str, values: tuple[Any, ...] | None) -> None:
    if values is None:
        with refused("workload.name", "bad-syntax"):
            read_override(f"workload.name={written}")
        return
    assert swept(f"workload.name={written}").config.grid == {"workload.name": values}


@pytest.mark.parametrize(
    "written",
    ["'range(1,4)'", "'a,b'", '"choice(1,2)"', "Ring(4)_Switch(8)", "sorted(1,2)", "5 µs"],
)
def test_a_text_is_no_sweep(written: str) -> None:
    config = compose([f"workload.name={written}"]).config
    assert config.workload.name == written.strip("'\"")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("choice(2,8)", {"values": [2, 8]}),
        ("2,8", {"values": [2, 8]}),
        ("range(2,9,3)", {"low": 2, "high": 8, "step": 3}),
        ("range(8,0,-3)", {"low": 2, "high": 8, "step": 3}),
        ("tag(log,range(1,65))", {"low": 1, "high": 64, "step": 1, "log": True}),
        ("int(interval(2,8))", {"low": 2, "high": 8}),
        ("tag(int,log,interval(2,8))", {"low": 2, "high": 8, "log": True}),
    ],
)
def test_values_of_a_searched_key_are_its_space(written: str, says: dict[str, Any]) -> None:
    config = swept(SEARCHED, f"collective.chunks={written}").config
    expected = compose([*STUDY, SEARCHED]).config.with_values(
        {"space.parameters": {"collective.chunks": says}}
    )
    assert config.space == expected.space and config.grid == {}
    kinds = {name: type(value) for name, value in says.items()}
    written_out = config.text["space"]["parameters"]["collective.chunks"]
    assert {name: type(written_out[name]) for name in says} == kinds
    assert plan_study(swept(SEARCHED, f"collective.chunks={written}")).study.parameters


@pytest.mark.parametrize(
    ("key", "written", "low", "high"),
    [
        ("npu.efficiency", "interval(0.2,0.8)", 0.2, 0.8),
        ("npu.efficiency", "interval(0,1)", 0.0, 1.0),
        ("topology.latency", "interval(1 us,2 us)", "1 us", "2 us"),
    ],
)
def test_an_interval_is_searched(key: str, written: str, low: Any, high: Any) -> None:
    parameter = swept(f"{key}={written}").config.space.parameters[key]
    assert (parameter.low, parameter.high, parameter.step) == (low, high, None)


def test_an_interval_takes_the_place_of_an_axis() -> None:
    config = swept("grid={topology.latency: [1 us, 2 us]}", "topology.latency=interval(1 us,3 us)")
    assert config.config.grid == {} and [*config.config.space.parameters] == ["topology.latency"]


@pytest.mark.parametrize(
    ("axis", "given", "told"),
    [
        ("collective.chunks: [16, 64]", "collective.chunks=8", {"collective.chunks": "8"}),
        ("workload: [gpt3_13b, gpt3_175b]", "workload=gpt3_libra", {"workload": "gpt3_libra"}),
        ("collective.chunks: [16, 64]", "+collective.chunks=8", {"collective.chunks": "8"}),
        ("topology.bandwidth: [1 GB/s, 2 GB/s]", "topology.bandwidth=5 GB/s",
         {"topology.bandwidth": "5 GB/s"}),
    ],
)  # fmt: skip
def test_a_plain_override_of_an_axis_wins_and_the_cells_say_so(
    axis: str, given: str, told: dict[str, str]
) -> None:
    composed = swept(f"grid={{{axis}}}", given)
    grid = Grid(composed, composed.config.grid, may_prune=False)
    assert [grid.compose(i)[0] for i in range(len(grid))] == [told]
    ((name, value),), cell = told.items(), grid.compose(0)[1]
    chosen = cell.choices if name in cell.choices else {name: cell.config.value(name)}
    assert str(chosen[name]) == value


def test_the_last_word_of_the_command_line_counts() -> None:
    grid = "grid={collective.chunks: [16, 64]}"
    assert swept("collective.chunks=8", grid).config.grid == {"collective.chunks": (16, 64)}


def test_other_parts_of_an_axis_stay_overrides() -> None:
    composed = swept("grid={collective: [{chunks: 2}]}", "collective.order=themis")
    cell = Grid(composed, composed.config.grid, may_prune=False).compose(0)[1]
    assert cell.config.collective.chunks == 2
    assert cell.config.text["collective"]["order"] == "themis"


def test_an_axis_of_plans_replaces_the_preset_s() -> None:
    composed = swept("grid={workload.parallel: [{data: 128, tensor: 32}]}")
    cell = Grid(composed, composed.config.grid, may_prune=False).compose(0)[1]
    assert list(cell.config.workload.parallel.items()) == [("data", 128), ("tensor", 32)]


@pytest.mark.parametrize(
    ("words", "where", "data"),
    [
        (["grid={workload.parallel: [{tensor: 2}]}", "workload.parallel.tensor=8"],
         "workload.parallel.tensor", "sets workload.parallel,"),
        (["grid={workload.parallel: [{tensor: 2}]}", "workload.parallel.data=4"],
         "workload.parallel.data", "sets workload.parallel,"),
        (["grid={workload.parallel.tensor: [2, 4]}", "workload.parallel={tensor: 8}"],
         "workload.parallel", "sets workload.parallel.tensor,"),
        (["portfolio.workloads={msft1t_libra: 1}", "workload=gpt3_libra"],
         "workload", "portfolio.workloads"),
    ],
)  # fmt: skip
def test_a_plain_override_that_an_axis_would_cover_is_refused(
    words: list[str], where: str, data: str
) -> None:
    with refused(where, "conflict", data):
        swept(*words)


def test_a_portfolio_takes_the_place_of_a_workload_before_it() -> None:
    composed = swept("workload=gpt3_libra", "portfolio.workloads={msft1t_libra: 1}")
    assert list(composed.config.portfolio.workloads) == ["msft1t_libra"]


def test_options_of_groups_are_axes_and_the_configuration_has_the_first() -> None:
    composed = swept("workload=gpt3_13b,gpt3_175b", "workload.plan.zero=0,1", "cost=none")
    assert composed.config.grid == {
        "workload": ("gpt3_13b", "gpt3_175b"),
        "workload.plan.zero": (0, 1),
    }
    assert composed.choices["workload"] == "gpt3_13b"
    grid = Grid(composed, composed.config.grid, may_prune=False)
    cells = [grid.compose(i) for i in range(len(grid))]
    assert [(c.choices["workload"], c.config.value("workload.plan.zero")) for _, c in cells] == [
        (name, zero) for name in ("gpt3_13b", "gpt3_175b") for zero in (0, 1)
    ]
    assert all(cell.config.grid == composed.config.grid for _, cell in cells)
    globbed = swept("topology=glob(libra_*)").config.grid
    assert globbed == {"topology": ("libra_3d", "libra_4d")}


def test_sweeps_are_the_study_that_a_file_with_the_grid_is(tmp_path: Path) -> None:
    """The same cells with the same keys of rows, so that one continues the other."""
    ours = swept("collective.chunks=2,4", "collective.order=baseline,themis", "name=x")
    file = tmp_path / "x.yaml"
    file.write_text(
        "defaults: [libra_gpt3_4d, override /executor: inline, _self_]\nbudget: {trials: 2}\n"
        "grid: {collective.chunks: [2, 4], collective.order: [baseline, themis]}\nname: x\n"
    )
    assert plan_study(ours).study.cells == plan_study(compose([f"study={file}"])).study.cells


@pytest.mark.parametrize(
    "override",
    ["workload.parallel.tensor=range(1,4)", "npu.efficiency=interval(0,1)", "npu=a100,h100"],
)
def test_one_simulation_has_one_value(override: str) -> None:
    key, _, value = override.partition("=")
    with refused(key, "unsupported", value, "`dimsweep sweep`"):
        compose([override])


WRONG: list[tuple[str, Code, str]] = [
    ("collective.chunks=range(4,4)", "out-of-range", "range(4,4)"),
    ("collective.chunks=range(4,1)", "out-of-range", "range(4,1)"),
    ("collective.chunks=range(1,9,0)", "out-of-range", "0"),
    ("collective.chunks=range(0.5,inf)", "out-of-range", "inf"),
    ("collective.chunks=range(nan)", "out-of-range", "nan"),
    ("collective.chunks=range(1,1000000001)", "too-many", "1,000,000,000"),
    ("collective.chunks=range(1,b)", "bad-syntax", "stop"),
    ("collective.chunks=range()", "bad-syntax", "missing a required argument"),
    ("collective.chunks=choice()", "bad-syntax", "empty choice"),
    ("collective.chunks=choice(1", "bad-syntax", "choice(1"),
    ("collective.chunks=4,4", "duplicate", "4"),
    ("collective.chunks=shuffle(1,2)", "unsupported", "shuffle"),
    ("collective.chunks=tag(log,range(1,4))", "unknown-name", "'log'"),
    ("collective.chunks=glob(*)", "wrong-type", "choice(a,b)"),
    ("collective.chunks=interval(4,4)", "out-of-range", "interval(4,4)"),
    ("collective.chunks=interval(8,4)", "out-of-range", "interval(8,4)"),
    ("collective.chunks=interval(1,64)", "wrong-type", "1.0"),
    ("collective.order=interval(0,1)", "unknown-name", "baseline, themis"),
    ("workload.name=interval(0,1)", "conflict", "roles: {workload.name: decision}"),
    ("npu.efficiency=interval(0.2,0.8)", "conflict", "roles: {npu.efficiency: decision}"),
    ("topology=interval(0,1)", "wrong-type", "choice(a,b)"),
    ("topology=glob(nonsense*)", "unknown-name", "known: "),
    ("topology=libra_4d,nonsense", "unknown-name", "'nonsense'"),
    ("colective.chunks=1,2", "unknown-key", "did you mean 'collective'"),
    ("collective.chunk=1,2", "unknown-key", "did you mean 'chunks'"),
    ("collective.chunks=1,x", "wrong-type", "'x'"),
    ("executor=inline,local", "unsupported", "grid.executor"),
    ("study=a,b", "conflict", "a and b and libra_gpt3_4d"),
    ("hydra.run.dir=x", "unsupported", "hydra.run.dir"),
    ("hydra/launcher=joblib", "unsupported", "`executor`"),
    ("hydra.searchpath=[/nowhere]", "inaccessible", "/nowhere"),
    ("hydra.searchpath=[5]", "wrong-type", "[5]"),
    ("hydra.searchpath=/a,/b", "wrong-type", "/a,/b"),
    ("hydra.searchpath=[pkg://nowhere]", "inaccessible", "nowhere"),
]


@pytest.mark.parametrize(("override", "code", "data"), WRONG)
def test_wrong_sweeps_are_refused(override: str, code: Code, data: str) -> None:
    with refused("", code, data):
        plan_study(swept(override))
    set_extra_folders(())


def test_a_grid_of_more_cells_than_anybody_simulates_is_refused() -> None:
    axes = [f"collective.chunks=range(1,{MAX_VALUES})", "npu.efficiency=range(1,9999)"]
    with refused("grid", "too-many", "199,940,004"):
        plan_study(swept(*axes, "collective.order=baseline,themis"))
    assert MAX_VALUES <= MOST_CELLS


@pytest.mark.parametrize("other", ["~grid", "grid=null", "~space.parameters", "space=null"])
def test_a_sweep_makes_the_grid_that_there_is_not(other: str) -> None:
    assert swept(other, "collective.chunks=2,4").config.grid == {"collective.chunks": (2, 4)}


@pytest.mark.parametrize("other", ["grid=5", "space=[1]", "space.parameters=[1]"])
def test_a_grid_that_is_none_is_told_beside_a_sweep(other: str) -> None:
    with pytest.raises(DimsweepError):
        swept(other, "collective.chunks=2,4")


def test_deleted_and_added_keys_are_hydras() -> None:
    layers = "+workload.parallel={expert: 1}"
    assert "expert" in compose([layers]).config.workload.parallel
    kept = compose(["workload=gpt3_175b"]).config.workload.parallel
    assert [
        *compose(["workload=gpt3_175b", "~workload.parallel.data"]).config.workload.parallel
    ] == [axis for axis in kept if axis != "data"]


def test_the_number_of_a_member_is_no_name_of_it() -> None:
    with refused("collective.order", "unknown-name", "0", "baseline, themis"):
        compose(["collective.order=0"])
    assert member_parser(Role)(Role.DECISION) is Role.DECISION


values = st.recursive(
    st.integers(-99, 99) | st.booleans() | st.from_regex(r"[a-z]{2,5}", fullmatch=True),
    lambda inner: st.lists(inner, min_size=1, max_size=3),
    max_leaves=5,
)


@given(st.lists(values, min_size=2, max_size=4))
def test_values_are_those_that_hydra_reads(chosen: list[Any]) -> None:
    text = ",".join(_text(each) for each in chosen)
    word = read_override(f"workload.name={text}")
    theirs = OverridesParser.create().parse_override(f"workload.name={text}")
    assert word.values() == list(theirs.sweep_iterator()) == chosen


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-9, 9).filter(bool))
def test_a_range_is_pythons(start: int, stop: int, step: int) -> None:
    word, whole = read_override(f"fold=range({start},{stop},{step})"), range(start, stop, step)
    if not whole:
        with refused("fold", "out-of-range"):
            word.values()
        return
    assert word.values() == list(whole)
    space = word.parameter()
    assert set(range(space["low"], space["high"] + 1, space["step"])) == set(whole)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_what_python_or_a_file_names_is_one_option(tmp_path: Path) -> None:
    for keys in ({"topology": "libra_3d,libra_4d"}, {"grid": {"topology": ["libra_3d,libra_4d"]}}):
        with refused("", "unknown-name", "'libra_3d,libra_4d'"):
            _ = Study({"study": "libra_gpt3_4d", **keys}).plan
    (tmp_path / "its a, b's.yaml").write_text("name: both\n")
    study = Study.load(tmp_path / "its a, b's.yaml", "collective.chunks=2,4")
    assert study.composed.config.name == "both"
    assert study.composed.config.grid == {"collective.chunks": (2, 4)}


def test_errors_of_a_value_say_where_it_came_from() -> None:
    with pytest.raises(DimsweepError) as told:
        plan_study(swept("collective.chunks=1,x"))
    assert told.value.where == "collective.chunks (in the grid)"
    with pytest.raises(DimsweepError) as told:
        plan_study(swept("collective.chunks=4,4"))
    assert told.value.where == "grid.collective.chunks (in the override 'collective.chunks=4,4')"


def test_a_repeated_override_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["workload.name=once_only", "collective.chunks=11"]
    compose(words)
    monkeypatch.setattr(OverridesParser, "parse_override", None)
    assert compose(words).overridden == ["workload.name", "collective.chunks"]
