"""The picture of what a study found: every kind of study, every kind of file."""

import io
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import matplotlib.image
import numpy as np
import pytest

from dimsweep.sweeper.draw.canvas import kind_of, reduced
from dimsweep.sweeper.draw.design import design_of, design_of_answer
from dimsweep.sweeper.draw.found import draw_found
from dimsweep.sweeper.objective import COST, TIME
from dimsweep.sweeper.questions.findings import build_report
from dimsweep.sweeper.report.colours import PALETTE, SERIES
from tests.support.refused import refused
from tests.support.reports import failing, grid, make_rows, make_study, networks, only, search

STUDIES = {
    "one cell": (lambda: make_rows(search(20)), {}),
    "front": (lambda: make_rows(search(20)), {"objective": ("time", "cost")}),
    "grid": (lambda: failing(grid()), {"grid": ["a.total"]}),
    "fronts of a grid": (grid, {"grid": ["a.total"], "objective": ("time", "cost")}),
    "one trial without prices": (lambda: make_rows(search(1), prices=None), {}),
    "a plan": (lambda: make_rows(search(9)), {"parameters": ["collective.chunks"]}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("error")
def test_every_kind_of_study_makes_every_kind_of_picture(name: str) -> None:
    make, options = STUDIES[name]
    rows = make()
    report = build_report(rows, make_study(rows, **options))
    assert draw_found(report, "png").startswith(b"\x89PNG")
    assert draw_found(report, "pdf").startswith(b"%PDF")
    svg = draw_found(report, "svg")
    assert svg == draw_found(report, "svg")  # no time and no random name in it
    texts = " ".join("".join(each.itertext()) for each in ElementTree.fromstring(svg).iter())
    assert "study demo" in texts
    best = report.found[0].best
    for objective in (TIME, COST):
        value = objective.value(best)
        assert np.isnan(value) or objective.show(value) in texts


def test_a_name_says_which_kind_of_picture() -> None:
    assert [kind_of(f"a.b{end}", "x") for end in (".png", ".SVG", ".pdf")] == ["png", "svg", "pdf"]
    for wrong in ("a", "a.jpg", "svg", Path("a.html")):
        with refused("", "unknown-name") as error:
            kind_of(wrong, "--picture")
        assert ".svg" in str(error.value.hint) and error.value.where == "--picture"


@pytest.mark.long
def test_a_reduced_picture_keeps_all_colours_apart() -> None:
    """48 were too few: two of a page's lines had one, and a faint swatch had that of the paper."""
    colours = list(dict.fromkeys([*SERIES, *PALETTE, "#DCDDDF"]))
    wholes = np.array([[int(each[k : k + 2], 16) for k in (1, 3, 5)] for each in colours])
    drawn = np.full((60 * len(colours), 300, 3), 255, np.uint8)
    shades = matplotlib.colormaps["turbo"](np.linspace(0, 1, len(drawn)))[:, None, :3]
    faded = shades + np.linspace(0, 1, 200)[None, :, None] * (1 - shades)
    drawn[:, 100:] = 255 * faded  # as a map of heat, and the edges of letters, have
    for i, whole in enumerate(wholes):
        drawn[60 * i + 27 : 60 * i + 36, 10:60] = whole  # as a line has
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, drawn, format="png")
    image = 255 * matplotlib.image.imread(io.BytesIO(reduced(buffer.getvalue())))[:, :, :3]
    found = image[20::40, 20]
    assert np.abs(found - wholes).max() < 20
    for i, one in enumerate(found):
        assert all(np.abs(one - other).max() > 20 for other in found[:i])


def test_a_design_is_drawn_as_wide_as_its_bandwidths() -> None:
    summary = only(make_rows([[480.0, 120.0, 30.0, 30.0]]))
    design = design_of(summary, summary.best)
    assert design is not None and design.sizes == "4 x 8 x 4 x 32 = 4,096 NPUs"
    widths = [part.width for part in design.parts]
    assert widths[0] > widths[1] > widths[2] == widths[3]
    ring, whole, _, switch = design.parts
    assert (len(ring.links), len(whole.links), len(switch.switches)) == (4, 28, 1)
    assert (switch.size, switch.drawn) == (32, 12) and "12 of 32" in switch.note
    for part in design.parts:
        assert part.npus.min() >= 0 and part.npus.max() <= 1
        assert ElementTree.fromstring(part.svg()).tag == "svg" and part.colour in part.svg()


def test_the_design_of_a_grid_is_that_of_the_decision_that_the_answer_names() -> None:
    report = networks({("small", "a"): 0.1, ("small", "b"): 0.11, ("big", "a"): 9, ("big", "b"): 5})
    design = design_of_answer(report)
    assert design is not None and design.plan == [("network", "b")]
    cell, row = report.chosen[0]
    assert [part.bandwidth for part in design.parts] == list(cell.split(row))
    # The quickest iteration is the small model's on the other network.
    quickest = min(report.found, key=lambda cell: cell.best["time_s"])
    assert quickest.cell.coordinates["network"] == "a"


def test_a_design_for_each_scenario_says_whose_it_is() -> None:
    rows = grid()
    study = make_study(rows, grid=["a.total"]).model_copy(update={"roles": {"a.total": "scenario"}})
    report = build_report(rows, study)
    design = design_of_answer(report)
    assert design is not None and "the first of 4" in design.name
    assert [part.bandwidth for part in design.parts] == list(
        report.found[0].split(report.found[0].best)
    )


def test_what_cannot_be_drawn_is_not() -> None:
    rows = make_rows(search(3))
    assert design_of_answer(build_report(rows, make_study(rows, dims=["0: Blob(4)"] * 4))) is None
