"""The error a user reads: what, where, and what would be right."""

import pickle

import pytest

from dimsweep.engine import DimsweepError, InfeasibleError, accessing

ERROR = DimsweepError("it is too big", where="size", hint="at most 7")


def test_it_reads_place_problem_advice() -> None:
    assert str(ERROR) == "size: it is too big\n  at most 7"
    assert str(DimsweepError("it is too big")) == "it is too big"


def test_callers_add_the_place_they_know() -> None:
    assert ERROR.with_prefix("topology").where == "topology.size"
    assert DimsweepError("no", where="[2]").with_prefix("bandwidth").where == "bandwidth[2]"
    assert DimsweepError("no").with_prefix("topology").where == "topology"
    assert ERROR.where == "size"  # the original is left alone


def test_a_code_survives_places_and_workers() -> None:
    error = DimsweepError("no", code="mismatch").with_prefix("a").in_place("b.yaml")
    assert pickle.loads(pickle.dumps(error)).code == "mismatch"
    assert error.replace(hint="yes").code == "mismatch"
    assert InfeasibleError("no").with_prefix("a").code == "infeasible"


def test_it_survives_the_way_back_from_a_worker() -> None:
    copy = pickle.loads(pickle.dumps(ERROR))
    assert (copy.problem, copy.where, copy.hint) == (ERROR.problem, ERROR.where, ERROR.hint)
    assert str(copy) == str(ERROR)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (FileNotFoundError(2, "No such file or directory"), "No such file or directory"),
        (OSError("of no number"), "of no number"),
        (ValueError("half a letter"), "half a letter"),
    ],
)
def test_what_the_system_says_of_a_file_is_told_with_its_name(raised: Exception, told: str) -> None:
    with (
        pytest.raises(DimsweepError, match=f"^a.csv: it cannot be read: {told}$"),
        accessing("a.csv", "it cannot be read", ValueError),
    ):
        raise raised
    with pytest.raises(KeyError), accessing("a.csv", "it cannot be read"):
        raise KeyError
