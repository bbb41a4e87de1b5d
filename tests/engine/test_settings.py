"""Words and whole numbers that the engine is given in Python."""

import numpy as np
import pytest

from dimsweep.engine import (
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimensionOrder,
    DimsweepError,
    NetworkModel,
    QueueOrder,
    SubgroupBandwidth,
)
from dimsweep.engine.network.routing import Routing


def test_words_are_members_and_numpys_integers_are_integers() -> None:
    model = CollectiveModel(np.int64(4), "themis", "smallest_first", "full")  # type: ignore[arg-type]
    assert model == CollectiveModel(
        4, DimensionOrder.THEMIS, QueueOrder.SMALLEST_FIRST, SubgroupBandwidth.FULL
    )
    assert model.order is DimensionOrder.THEMIS and type(model.chunks) is int
    assert NetworkModel(routing="ecmp").routing is Routing.ECMP  # type: ignore[arg-type]
    assert NetworkModel().routing is None
    assert Collective("all_to_all", 1e6, "data").kind is CollectiveKind.ALL_TO_ALL  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "key", "value", "told"),
    [
        (CollectiveModel, "order", "theims", "'theims' is no order"),
        (CollectiveModel, "queue", "lifoo", "'lifoo' is no queue"),
        (CollectiveModel, "subgroup_bandwidth", "nonsense", "'nonsense' is no subgroup_bandwidth"),
        (CollectiveModel, "chunks", 1.5, "1.5 is no whole number"),
        (CollectiveModel, "streams", "two", "'two' is no whole number"),
        (CollectiveModel, "order", None, "None is no order"),
        (NetworkModel, "routing", "shortst", "'shortst' is no routing"),
        (NetworkModel, "max_messages", 1e6, "1000000.0 is no whole number"),
    ],
)
def test_what_is_no_member_and_no_integer_is_refused(
    record: type, key: str, value: object, told: str
) -> None:
    with pytest.raises(DimsweepError, match=told) as error:
        record(**{key: value})
    assert error.value.where == key
    if isinstance(value, str) and value not in ("nonsense", "two"):
        assert "did you mean" in error.value.hint


def test_a_collective_of_no_kind_is_refused() -> None:
    with pytest.raises(DimsweepError, match="'allreduce' is no kind") as error:
        Collective("allreduce", 1e6, "data")  # type: ignore[arg-type]
    assert "did you mean 'all_reduce'?" in error.value.hint
