"""Intervals of errors: of made up sources whose effects are known."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dimsweep.sweeper.calibrate.bands import (
    EFFECTS,
    SHARES,
    Bands,
    LeaveSourceOut,
    Place,
    compute_exponents,
)

MIDDLE = Place("Hopper", "H100", "dense", "megatron", "bf16", 6.0, (0.0, 0.0), "a")


def made(rng: np.random.Generator, sources: int, rows: int, skew: bool = False) -> Iterator:
    """Errors of sources that are 6 % apart, with runs that are 3 % apart."""
    for source in range(sources):
        shared = rng.exponential(0.08) - 0.05 if skew else rng.normal(0, 0.06)
        gpu = ("H100", "H200")[source % 2]
        for row in range(rows):
            plan = (float(row % 3), float(row // 3))
            place = replace(MIDDLE, source=f"s{source}", gpu=gpu, plan=plan, gpus=3.0 + row % 5)
            yield place, shared + rng.normal(0, 0.03)


@pytest.fixture(scope="module")
def known() -> tuple[Bands, list[Place], list[float]]:
    places, errors = zip(*made(np.random.default_rng(0), 14, 8), strict=True)
    return Bands.fit(places, errors), list(places), list(errors)


def test_sources_and_runs_are_told_apart(known: tuple) -> None:
    bands, *_ = known
    found = dict(zip(EFFECTS, np.sqrt(bands.variances), strict=True))
    assert found["run"] == pytest.approx(0.03, abs=0.012)
    shared = np.sqrt(sum(bands.variances) - found["run"] ** 2)
    assert 0.04 < shared < 0.12


def test_intervals_hold_for_sources_that_nobody_saw(known: tuple) -> None:
    bands, places, errors = known
    others = bands.condition(places, errors)
    new = list(made(np.random.default_rng(7), 60, 4))
    # Few sources are known, so the intervals hold more of normal errors than they are to.
    for share, (least, most) in zip(SHARES, ((0.45, 0.68), (0.86, 0.97)), strict=True):
        inside = [others.band(replace(p, source="")).contains(np.expm1(e), share) for p, e in new]
        assert least < np.mean(inside) < most


def test_they_are_wider_the_less_is_known(known: tuple) -> None:
    bands, places, errors = known
    others = bands.condition(places, errors)

    def width(**changed: object) -> float:
        low, high = others.band(replace(MIDDLE, source="", **changed)).relative_ends(0.9)
        return high - low

    at = width()
    assert width(gpu="B200", architecture="Blackwell") > at
    assert width(precision="fp8") > at and width(stack="fsdp") > at
    assert at < width(gpus=9.0) < width(gpus=14.0)
    assert width(kind="experts") > 1.3 * at
    assert bands.effect_deviation("run", compute_exponents(True)) > 1.3 * bands.effect_deviation(
        "run", compute_exponents(False)
    )
    half, most = (others.band(MIDDLE).relative_ends(share) for share in SHARES)
    assert most[0] < half[0] < half[1] < most[1]


def test_narrow_models_have_the_wider_intervals_that_their_errors_show() -> None:
    rng, places, errors = np.random.default_rng(5), [], []
    for place, error in made(rng, 16, 10):
        features = float(rng.integers(10, 15))
        places.append(replace(place, width=features))
        errors.append(error * 1.4 ** (12 - features))
    bands = Bands.fit(places, errors)
    assert bands.wider[1] == pytest.approx(1.4, rel=0.15)
    others = bands.condition(places, errors)
    ends = [
        others.band(replace(MIDDLE, source="", width=w)).relative_ends(0.9)
        for w in (10.0, 12.0, 14.0)
    ]
    widths = [high - low for low, high in ends]
    assert widths[0] > 1.5 * widths[1] > 2 * widths[2]
    for narrower, wider in itertools.pairwise(range(10, 15)):
        found = [
            bands.effect_deviation("run", compute_exponents(False, each))
            for each in (narrower, wider)
        ]
        assert found[0] == pytest.approx(bands.wider[1] * found[1])


def test_they_are_as_skewed_as_errors_are() -> None:
    places, errors = zip(*made(np.random.default_rng(3), 40, 3, skew=True), strict=True)
    bands = Bands.fit(places, errors)
    (low, high) = bands.ends[1]
    assert high > -low


def test_rows_that_were_fitted_alone_say_nothing_of_the_mean() -> None:
    places, errors = zip(*made(np.random.default_rng(0), 6, 6), strict=True)
    bands, place = Bands((0.02**2,) * len(EFFECTS)), replace(MIDDLE, source="")
    far = [replace(MIDDLE, source="fitted", plan=(float(i), 0.0)) for i in range(30)]
    means = {
        free: bands.condition(
            [*places, *(replace(p, free=free) for p in far)], [*errors, *[0.3] * len(far)]
        ).predict([place])[0][0]
        for free in (True, False)
    }
    alone = bands.condition(places, errors).predict([place])[0][0]
    assert abs(means[True] - alone) < 0.02 < abs(means[False] - alone)


def test_designs_that_are_alike_share_their_error(known: tuple) -> None:
    bands, *_ = known
    near = replace(MIDDLE, plan=(1.0, 0.0))
    far = replace(MIDDLE, plan=(6.0, 4.0), gpus=11.0)
    other = replace(MIDDLE, source="b", gpu="B200", architecture="Blackwell")
    apart = [bands.deviation_of_difference(MIDDLE, each) for each in (near, far, other)]
    assert apart == sorted(apart)
    assert apart[0] < np.sqrt(2 * bands.compute_variances([MIDDLE])[0])
    sure = [
        bands.compute_confidence(difference, MIDDLE, near) for difference in (0.0, 0.02, 0.1, 0.3)
    ]
    assert sure[0] == pytest.approx(0.5) and sure == sorted(sure) and sure[-1] > 0.95
    assert bands.compute_confidence(-0.1, MIDDLE, near) == bands.compute_confidence(
        0.1, near, MIDDLE
    )


def test_no_source_judges_itself(known: tuple) -> None:
    bands, places, errors = known
    moved = [e + 0.5 if p.source == "s3" else e for p, e in zip(places, errors, strict=True)]
    before = LeaveSourceOut(bands, tuple(places), tuple(errors))
    after = LeaveSourceOut(bands, tuple(places), tuple(moved))
    own = before.groups["s3"][0]
    assert before.band(own) == after.band(own)  # which no score of another source has a part in
    assert Bands.from_json(bands.to_json()) == bands
