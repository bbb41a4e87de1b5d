"""Two kernels of messages, equal in every number or in what they tell instead."""

import re

import numpy as np

from engine import DimsweepError
from engine.kernels.messages import MessageRun


def outcome(run: object, program: object, **options: object) -> MessageRun | str:
    """What a kernel says: a run, or why there is none.  Of several lines of NPUs that share no
    switch, each kernel names the one that it comes to first."""
    try:
        return run(program, **options)
    except DimsweepError as error:
        return re.sub(r"NPUs [\d, ]+ share", "NPUs share", str(error))


def check_equal(one: MessageRun | str, other: MessageRun | str) -> None:
    """Every number of two runs, or what is told instead."""
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    for name in one.measures._fields[:-1]:
        a, b = getattr(one.measures, name), getattr(other.measures, name)
        assert np.array_equal(a, b), name
    for name in ("links", "operators", "phases", "n_messages"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.traffic is None) == (other.traffic is None)
    if one.traffic is not None and other.traffic is not None:
        assert one.traffic.operators == other.traffic.operators
        for a, b in zip(one.traffic[1:3], other.traffic[1:3], strict=True):
            assert np.array_equal(a, b)
