"""Whatever a study's file says, composing it ends in a configuration or in one sentence."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.engine.errors import Code
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.simulation.program import build_cluster
from tests.support.examples import times
from tests.support.refused import refused

GOOD = """\
defaults:
  - override /workload: gpt3_libra
  - override /topology: libra_4d
  - override /cost: libra_4d
  - _self_
objective: time
space:
  bandwidth: {total: 500 GB/s, min: 1 GB/s}
grid: {collective.chunks: [2, 4]}
budget: {trials: 5}
"""
JUNK = (
    *("[", "{", ":", "- ", "\n", "null", "1e999", "-1", "[[1]]", "{a: [b]}", "é", "\x1b[31m"),
    *("[bold]", "${a}", "'", "&a", "*a", "!!x", "0 GB/s", "1e-20 GB/s", "nan", "\t"),
)
KEYS = (
    *("workload", "topology", "topology.tiers", "npu.matmul_efficiency", "grid", "space"),
    *("search.options", "workload.kind", "budget.trials", "objective", "cost.tiers"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 5, 10**30, 1e-300, float("inf"), float("nan"), "", "x", "5", "0 GB/s"),
    *("1e-20 GB/s", "1e400 s", "[bold]x", "\x1b[31m", [], [[1]], [[[1], 2], "a"], {}, {"a": [1]}),
    *(
        [None],
        {"kind": "x"},
        {"kind": []},
        {5: 1},
        [{"a": 1}, {"b": [2]}],
        ["1 GB/s"] * 9,
        "ü" * 99,
    ),
)
FUZZED = times(60)  # a composition takes tenths of a second
SETTINGS = GOOD[GOOD.index("objective") :]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "studies").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "studies"


@pytest.mark.parametrize(
    ("defaults", "where", "code", "data"),
    [
        ("defaults: gpt3_libra", ": defaults", "wrong-type", ""),
        ("defaults: {workload: gpt3_libra}", ": defaults", "wrong-type", ""),
        *(
            (f"defaults: [{entry}]", ": defaults", "wrong-type", name)
            for entry, name in (
                ("{override /workload: a, override /topology: b}", "override /workload"),
                ("null", "None"),
                ("[a]", "['a']"),
                ("{override /workload: {a: b}}", "{'a': 'b'}"),
                ("{/: a}", "'/'"),
                ("{5: a}", "5"),
                ("'_self_@x'", "'_self_@x'"),
            )
        ),
        ("defaults: [/study: broken, _self_]", "broken.yaml", "conflict", ""),
        ("x: &a [*a]", "broken.yaml", "too-many", ""),
        ("x: " + "[" * 600 + "]" * 600, "broken.yaml", "too-many", ""),
        ("x: !!python/object:os.system {}", "", None, ""),
        ("? {a: 1}\n: 2", "", None, ""),
        ("x: !!timestamp x", "", None, "tag:yaml.org,2002:timestamp"),
        ("x: {!!str [1]: 1}", "", None, ""),
        ("x: 0x_", "", None, ""),
        ("null: 1", "", None, ""),
        ("hydra: {sweeper: {params: {a: 1}}}", "hydra.sweeper.params", "unsupported", "`grid:"),
        ("hydra: {run: {dir: x}}", "hydra.run.dir", "unsupported", "`results`"),
        ("hydra: 5", "broken.yaml: hydra", "unsupported", ""),
        ("defaults: [{override hydra/launcher: a}]", "hydra/launcher", "unsupported", "`executor`"),
        (
            "defaults: [{override /hydra/sweeper@_global_: x}]",
            *("hydra/sweeper", "unsupported", "`search`"),
        ),
        ("defaults: [{/topology: '${'}]", "", "bad-syntax", ""),
    ],
)
def test_a_broken_study_is_reported_with_its_file(
    defaults: str, where: str, code: Code | None, data: str, here: Path
) -> None:
    (here / "broken.yaml").write_text(f"{defaults}\n{SETTINGS}")
    with refused(where, code, data, "broken"):
        compose(["study=broken"])


@pytest.mark.parametrize("text", ["5", "true", "[a]", "!!set {a}", "# @package ["])
def test_a_file_that_is_no_mapping_is_told(text: str, here: Path) -> None:
    workload = here.parent / "conf" / "workload"
    workload.mkdir(parents=True)
    (workload / "broken.yaml").write_text(text)
    code: Code | None = None if text.startswith(("!", "#")) else "wrong-type"
    with refused("", code, "broken.yaml"):
        compose(["workload=broken"])


@pytest.mark.parametrize("value", ["[true]", "[a,b]", "[[1]]", "{a: 1}", "[{a: b}]", "_self_"])
def test_an_override_that_is_no_option_is_told(value: str, here: Path) -> None:
    with refused("topology", "wrong-type"):
        compose([f"topology={value}"])


@pytest.mark.parametrize("value", ["5", "null", "inf", "1e3", "é", "-4"])
def test_an_option_is_a_name_whatever_it_looks_like(value: str, here: Path) -> None:
    with refused(f"topology={value}", "unknown-name"):
        compose([f"topology={value}"])
    (here / f"{value}.yaml").write_text(GOOD)
    assert compose([f"study={value}"]).study == value


@pytest.mark.parametrize("override", ["=x", "+=x", "~=x", "/=x"])
def test_an_override_without_a_key_is_told(override: str) -> None:
    with pytest.raises(DimsweepError, match=r"has no key|unknown key|Error parsing override"):
        compose([override])


def test_a_byte_that_is_not_utf_8_is_told_with_its_file(here: Path) -> None:
    (here / "broken.yaml").write_bytes(f"{GOOD}name: é\n".encode("latin-1"))
    with refused("broken.yaml", None, "'utf-8' codec"):
        compose(["study=broken"])


def test_what_a_terminal_would_obey_is_refused_and_markup_is_text(here: Path) -> None:
    (here / "good.yaml").write_text(GOOD)
    with refused("workload.name", "bad-syntax"):
        compose(["study=good", "workload.name='a\x1b[31mb'"])
    assert (
        compose(["study=good", "workload.name='[red]a[/b]'"]).config.workload.name == "[red]a[/b]"
    )


def test_another_broken_study_harms_no_one(here: Path) -> None:
    (here / "broken.yaml").write_text("- a list")
    (here / "good.yaml").write_text(GOOD)
    assert compose(["study=good"]).study == "good"


def test_mutated_studies_and_overrides_end_in_a_sentence(here: Path) -> None:
    """Seeded; bytes of a study are flipped, cut out, doubled or exchanged, and keys overridden."""
    draw = random.Random(13)
    for i in range(FUZZED):
        text = bytearray(GOOD.encode())
        overrides = []
        for _ in range(draw.randint(1, 3)):
            at, length = draw.randrange(len(text)), draw.randint(0, 12)
            text[at : at + length] = draw.choice(JUNK).encode(draw.choice(["utf-8", "latin-1"]))
        if draw.random() < 0.3:
            text = bytearray(GOOD.encode())
            overrides = [f"{draw.choice(KEYS)}={draw.choice(JUNK)}"]
        (here / f"s{i % 2}.yaml").write_bytes(text)
        try:
            compose([f"study=s{i % 2}", *overrides])
        except DimsweepError as error:
            assert error.problem.strip(), (bytes(text), overrides)
        except Exception as error:
            raise AssertionError(f"{error!r} of {bytes(text)!r} and {overrides}") from error


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Each place of a tree: what holds it, and its key there."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from _places(node[key])


@pytest.mark.long
def test_mutated_configurations_end_in_a_sentence(here: Path) -> None:
    """Seeded; any values of the resolved configurations of studies are exchanged or left out."""
    draw = random.Random(13)
    words = [
        ["study=libra_gpt3_4d"],
        ["study=gpt3_13b_plans"],
        ["workload=gpt3_175b", "topology=hgx_h100", "search=cmaes"],
        ["study=libra_portfolio"],
    ]
    whole = [compose(each).config.text for each in words]
    for _ in range(times(5000)):
        text = copy.deepcopy(draw.choice(whole))
        for _ in range(draw.randint(1, 2)):
            holder, key = draw.choice(list(_places(text)))
            if draw.random() < 0.2 and isinstance(holder, dict):
                del holder[key]
            else:
                holder[key] = copy.deepcopy(draw.choice(VALUES))
        try:
            build_cluster(Config.from_plain(text))
        except DimsweepError as error:
            assert error.problem.strip(), (holder, key)
        except Exception as error:
            raise AssertionError(f"{error!r} of {key!r} in {holder!r}") from error
