"""Published points beside ours: tolerances, the table, and the command."""

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.extensions.verify import published as studies
from dimsweep.sweeper.extensions.verify.command import verifications
from dimsweep.sweeper.extensions.verify.files import find_published
from dimsweep.sweeper.extensions.verify.points import (
    Findings,
    Shape,
    Tolerance,
    Value,
    build_record,
    create_command,
    run_verification,
    within_amount,
    within_range,
    within_share,
)
from tests.support.refused import refused


@pytest.mark.parametrize(
    ("tolerance", "published", "ours", "holds"),
    [
        (within_share(0.01), 200.0, 202.0, True),
        (within_share(0.01), 200.0, 197.9, False),
        (within_share(0.01), 0.0, 1.0, False),
        (within_amount(0.06), 1.40, 1.46, True),
        (within_amount(0.06), 1.40, 1.33, False),
        (within_range(4.3, 5.0), 4.6, 5.0, True),
        (within_range(4.3, 5.0), 4.6, 4.29, False),
    ],
)
def test_a_tolerance_bounds_both_sides(
    tolerance: Tolerance, published: float, ours: float, holds: bool
) -> None:
    assert tolerance.holds(published, ours) is holds


GOOD = Value("speed-up of D", 1.76, 1.80, within_share(0.1), "a paper, table 3", "x", "a note")
BAD = Value("its mean", 56.3, 58.0, within_amount(1.5), "a paper, table 3", "%")
CLAIM = Shape("fastest", "D is fastest", "D, by 4 %", True, "a paper, section 8")


def run(command: click.Command, *arguments: str) -> int:
    code: int = command.main(arguments, standalone_mode=False)
    return code


def test_the_table_has_every_point_and_the_code_says_whether_all_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(create_command("some", lambda: Findings([GOOD, CLAIM]))) == 0
    good = " ".join(capsys.readouterr().out.split())
    assert "speed-up of D 1.76 x 1.8 x +2.27% ±10% within" in good
    assert "1 of 1 value within" in good and "1 of 1 shape hold" in good
    assert "source: a paper, table 3" in good and "note: a note" in good
    assert run(create_command("some", lambda: Findings([GOOD, BAD]))) == 1
    assert "56.3 % 58 % +1.7 ±1.5 OUTSIDE" in " ".join(capsys.readouterr().out.split())


def test_points_for_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(create_command("some", lambda: Findings([GOOD, BAD, CLAIM])), "--json") == 1
    good, bad, claim = json.loads(capsys.readouterr().out)
    assert (good["published"], good["ours"], good["unit"]) == (1.76, 1.80, "x")
    assert good["verdict"] and good["difference"] == pytest.approx(1.80 / 1.76 - 1)
    assert not bad["verdict"] and bad["difference"] == pytest.approx(1.7)
    assert claim["kind"] == "shape" and claim["difference"] is None
    assert good.keys() == claim.keys()


def test_what_was_not_published_is_not_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    derived, recorded = replace(GOOD, basis="derived"), replace(CLAIM, basis="recorded")
    assert run(create_command("some", lambda: Findings([derived, recorded]))) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "1.76 x (derived)" in told and "D is fastest (recorded)" in told
    assert (build_record(GOOD)["basis"], build_record(derived)["basis"]) == ("published", "derived")


def test_what_nobody_can_judge_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    beside = replace(BAD, tolerance=None)
    assert run(create_command("some", lambda: Findings([GOOD, beside]))) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "56.3 % 58 % +1.7 not judged" in told and "1 of 1 value within" in told
    assert (build_record(beside)["verdict"], build_record(beside)["tolerance"]) == (None, None)


def test_a_picture_is_drawn_where_the_user_says(tmp_path: Path) -> None:
    """Smaller than it was drawn, since pages keep it in git."""

    def draw(kind: str = "png") -> bytes:
        with frame("a claim", 3.0) as figure:
            figure.subplots().plot([1, 2], [2, 1])
            return encoded(figure, kind)

    def told(file: Path) -> int:
        return run_verification("some", lambda: Findings([GOOD], draw), as_json=False, picture=file)

    file = tmp_path / "x.png"
    assert told(file) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert file.stat().st_size < len(draw())
    for kind, start in (("svg", b"<?xml"), ("pdf", b"%PDF")):
        file = tmp_path / f"x.{kind}"
        assert told(file) == 0
        assert file.read_bytes().startswith(start)
    with refused("--picture", "unknown-name", "x.gif"):
        told(tmp_path / "x.gif")


def test_the_list_has_every_verification_with_its_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == [*find_published(), *verifications()]
    assert all(each["what"] and each["source"] for each in listed)
    for words in (["verify"], ["verify", "list"]):
        assert main(words) == 0
        assert "Korthikanti" in capsys.readouterr().out


@pytest.mark.long
def test_all_studies_together_print_and_draw_what_each_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is data, of which the second command simulates nothing."""
    name = "compute_capability"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(studies, "verifications", dict)
    monkeypatch.setattr(studies, "find_published", lambda: {name: find_published()[name]})
    assert main(["verify", "studies", "--json", "--pictures", "."]) == 0
    printed = capsys.readouterr()
    assert "of 1 study, 0 not as published" in printed.err
    assert Path(f"{name}.png").read_bytes().startswith(b"\x89PNG")
    together = json.loads(printed.out)
    assert main(["verify", name, "--json", "executor=inline"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert together == [{"study": name, **point} for point in alone]
