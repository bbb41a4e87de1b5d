"""Pictures of verifications, of times that are made up."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from sweeper.verify import roce, roce_training, wafer

BEGIN = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", BEGIN)
@pytest.mark.parametrize("draw", [wafer._draw, roce._draw, roce_training._draw])
def test_it_is_of_the_kind_that_is_asked_for(draw: Callable[[Any, str], bytes], kind: str) -> None:
    assert draw(defaultdict(lambda: 1.0), kind).startswith(BEGIN[kind])


@pytest.mark.parametrize("draw", [roce._draw, roce_training._draw])
def test_a_transport_has_one_colour_in_every_picture(draw: Callable[[Any, str], bytes]) -> None:
    drawn = draw(defaultdict(lambda: 1.0), "svg").decode()
    assert all(f"fill: {roce.COLOURS[name].lower()}" in drawn for name in roce.ANSWERS)
