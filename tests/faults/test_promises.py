"""Each promise of docs/results.md holds under the faults that would break it."""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.mutants import MUTANTS, ROOT
from tests.faults.promise import Fault, promises
from tests.faults.suite import FAULTS


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.promise}-{fault.name}")
def test_a_promise_holds(fault: Fault, tmp_path: Path) -> None:
    fault.act(tmp_path)


def test_each_promise_has_a_fault_that_would_break_it() -> None:
    assert list(promises()) == list(range(1, len(promises()) + 1))
    assert {fault.promise for fault in FAULTS} == set(promises())


def test_each_promise_can_be_broken_in_three_ways() -> None:
    assert set(Counter(mutant.promise for mutant in MUTANTS).values()) == {3}
    assert {mutant.promise for mutant in MUTANTS} == set(promises())
    texts = [((ROOT / mutant.file).read_text(encoding="utf-8"), mutant) for mutant in MUTANTS]
    assert [mutant.says for text, mutant in texts if text.count(mutant.before) != 1] == []
