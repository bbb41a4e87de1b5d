"""Every door is on the list, and what comes in by it is taken or refused in a sentence."""

import cProfile
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest

from tests.faults.doors.every import DOORS
from tests.faults.doors.known import NO_DOOR, NO_READER
from tests.faults.doors.walk import keys, parameters, readers, remembering
from tests.support.examples import times

pytestmark = pytest.mark.xdist_group("doors")  # the last test looks at what the others went through
_ENTERED: set[CodeType] = set()  # the functions that what is right went through
_TRIED: set[str] = set()


@pytest.fixture(scope="module")
def asked_anew() -> None:
    """What tests before these were told by readers is forgotten, so that they are entered again."""
    for reader in remembering():
        reader.cache_clear()


@contextmanager
def watched() -> Iterator[None]:
    """Within it the functions that are called are noted: here in C, since a function in Python that
    is told of each call takes as long as all else; in other threads, which call few, by one."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        _ENTERED.add(frame.f_code)

    profile = cProfile.Profile(builtins=False)
    threading.setprofile(note)
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        threading.setprofile(None)
        codes = (entry.code for entry in profile.getstats())
        _ENTERED.update(code for code in codes if isinstance(code, CodeType))


@pytest.mark.long
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("name", DOORS)
def test_a_door_takes_what_is_right_and_refuses_the_rest_in_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    door = DOORS[name]
    with watched():
        assert door.try_with(door.files, Path("case")) is None
    _TRIED.add(name)
    for number in range(times(5)):
        door.try_with(door.mutated(number), Path("case"))


def test_each_parameter_and_each_key_leads_to_a_door() -> None:
    """One that is new needs a door, or a line in known.py that says why it has none."""
    led = {each for door in DOORS.values() for each in door.takes}
    there = {*parameters(), *keys()}
    words = {each: each.rpartition(" ")[2] for each in there}
    lost = {each for each, last in words.items() if not {each, last} & (led | NO_DOOR.keys())}
    assert lost == set(), "no door takes these"
    assert led - there - set(words.values()) == set(), "there are no such parameters any more"
    assert NO_DOOR.keys() - there - set(words.values()) == set()


@pytest.mark.long
def test_each_reader_lies_behind_a_door() -> None:
    """So one that is new needs a door, by which what is right gets to it."""
    if DOORS.keys() - _TRIED:
        pytest.skip("not all doors were tried")
    found = set(readers())
    modules = {getattr(module, "__file__", None): name for name, module in sys.modules.items()}
    entered = {
        f"{modules.get(code.co_filename, '').removeprefix('dimsweep.')}.{code.co_qualname}"
        for code in tuple(_ENTERED)  # threads still note theirs
    }
    assert found - entered - NO_READER.keys() == set(), "no door leads to these"
    assert NO_READER.keys() - found == set(), "there are no such functions any more"
