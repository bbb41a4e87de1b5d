"""Compiled code is kept for what a function is made of: nothing else is in its digest."""

import cProfile
import enum
import os
import runpy
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import config
from numba.core.caching import IndexDataCacheFile

from dimsweep.engine import Fidelity, is_compiled
from dimsweep.engine.compiler import Compiler, _Files, cache_folder, is_cached
from dimsweep.engine.fingerprint import fingerprint, fingerprint_of_modules
from tests.support.compiling import KERNELS, all_compiled

_BEFORE = '''
STEP = 1
ALSO = 1
KINDS = np.dtype([("x", "i8")])

@kernel
def inner(x):
    """Adds."""
    return x + STEP

@kernel
def unused(x):
    return x

@compiled
def outer(x, times=2):
    """Calls."""
    return inner(x) * times * Kind.A if x in (1, 2) else np.int64(ALSO)
'''


class _A(enum.IntEnum):
    A = 1


class _B(enum.IntEnum):
    A = 2


def _of(source: str, **names: Any) -> str:
    compiler = Compiler()
    known = {"np": np, "Kind": _A, "kernel": compiler.kernel, "compiled": compiler.compiled}
    known |= names
    exec(source, known)
    return fingerprint(known["outer"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x + STEP", "return x + STEP  # a comment"),
        ("STEP = 1\n", "\n\n\nSTEP = 1\n"),
        ('"""Adds."""', '"""Adds one."""'),
        ('"""Calls."""', '"""Calls the other."""'),
        ("def unused(x):\n    return x", "def unused(x):\n    return 2 * x"),
    ],
)
def test_what_compiled_code_does_not_see_is_no_part_of_it(old: str, new: str) -> None:
    assert old in _BEFORE
    assert _of(_BEFORE.replace(old, new)) == _of(_BEFORE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("STEP = 1\n", "STEP = 2\n"),
        ("STEP = 1\n", "STEP = 1.0\n"),
        ("ALSO = 1\n", "ALSO = 2\n"),
        ("return x + STEP", "return x - STEP"),
        ("return x + STEP", "return x + ALSO"),
        ("times=2", "times=3"),
        ("(1, 2)", "(1, 3)"),
        ("@kernel\ndef inner", "@compiled\ndef inner"),
        ("np.int64(ALSO)", "np.int32(ALSO)"),
    ],
)
def test_what_compiled_code_sees_is_part_of_it(old: str, new: str) -> None:
    assert old in _BEFORE
    assert _of(_BEFORE.replace(old, new)) != _of(_BEFORE)


def test_members_of_an_enumeration_are_part_of_it() -> None:
    assert _of(_BEFORE, Kind=_B) != _of(_BEFORE)


def test_two_values_that_become_alike_are_told_from_two_that_are() -> None:
    source = "a, b, c = {}\n\n@compiled\ndef outer(x):\n    return x + a + b * 2 + c * 3\n"
    values = [(1, 2, 1), (1, 2, 2), (1, 1, 2), (2, 1, 1), (2, 2, 1)]
    assert len({_of(source.format(each)) for each in values}) == len(values)


def test_a_global_of_no_known_meaning_is_refused() -> None:
    with pytest.raises(TypeError, match="not known what"):
        _of("@compiled\ndef outer(x):\n    return thing\n", thing=object())


def test_a_module_is_its_syntax_without_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    sources = ['"""One."""\nx = 1  # one\n', '"""Two."""\n\nx = 1\n', "x = 2\n"]
    for i, source in enumerate(sources):
        (tmp_path / f"fingerprinted_{i}.py").write_text(source)
    one, two, other = (fingerprint_of_modules((f"fingerprinted_{i}",)) for i in range(3))
    assert one == two != other


@pytest.mark.long
def test_code_that_one_process_compiled_another_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the file lies, whatever its comments are, and however strings are hashed."""
    body = """
        import sys
        sys.path.insert(0, {root!r})
        from dimsweep.engine.compiler import compiled, is_cached

        @compiled
        def double(x):  # {comment}
            return 2 * x if "a" in {{"a", "b", "c", "d", "e", "f", "g", "h"}} else x

        print(told := (is_cached(double), double(21), is_cached(double)))
    """
    scripts = []
    for comment in ("here", "there"):
        scripts.append(tmp_path / comment / "script.py")
        scripts[-1].parent.mkdir()
        text = textwrap.dedent(body).format(root=str(Path.cwd()), comment=comment)
        scripts[-1].write_text(text)
    monkeypatch.setattr("dimsweep.engine.compiler.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the script adds to
    assert runpy.run_path(str(scripts[0]), run_name="__main__")["told"] == (False, 42, True)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run = [sys.executable, str(scripts[1])]
    told = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert told.stdout == "(True, 42, True)\n"


def test_code_is_compiled_anew_where_a_module_has_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept names the modules of functions and of named tuples; it would not be found."""
    monkeypatch.setattr("dimsweep.engine.compiler.cache_folder", lambda: tmp_path / "cache")
    told = []
    for inner, state in (("fp_one", "fp_pair"), ("fp_two", "fp_pair"), ("fp_two", "fp_couple")):
        folder = tmp_path / f"{inner}_{state}"
        folder.mkdir()
        (folder / f"{state}.py").write_text(
            "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
        )
        (folder / f"{inner}.py").write_text(
            "from dimsweep.engine.compiler import kernel\n\n"
            "@kernel\ndef twice(x):\n    return 2 * x\n"
        )
        (folder / "script.py").write_text(
            "from dimsweep.engine.compiler import compiled, is_cached\n"
            f"from {inner} import twice\nfrom {state} import Pair\n\n"
            "@compiled\ndef run(pair: Pair) -> int:\n    return twice(pair.a) + pair.b\n\n"
            "told = is_cached(run), run(Pair(20, 2)), is_cached(run)\n"
        )
        with monkeypatch.context() as within:
            within.syspath_prepend(folder)
            names = runpy.run_path(str(folder / "script.py"), run_name="__main__")
        told.append(names["told"])
        for name in (inner, state):
            del sys.modules[name]  # another folder has others of these names
    assert told == [(False, 42, True)] * 3


def test_a_function_that_was_never_called_is_not_cached() -> None:
    @Compiler().compiled
    def never(x: int) -> int:
        return x + 987_654_321

    assert not is_cached(never)


def test_code_for_another_machine_or_of_other_types_is_not_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines that share a home keep their code side by side."""

    @Compiler().compiled
    def half(x: float) -> float:
        return x / 2 + 123

    monkeypatch.setattr("dimsweep.engine.compiler.cache_folder", lambda: tmp_path)
    half(4.0)
    assert is_cached(half) and is_cached(half, 3.0) and not is_cached(half, 3)
    half(4)
    assert is_cached(half, 3.0) and is_cached(half, 3)
    monkeypatch.setattr(config, "CPU_NAME", "generic")
    assert not is_cached(half) and not is_cached(half, 3.0)


def test_a_profiler_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @Compiler().compiled
    def third(x: float) -> float:
        return x / 3

    monkeypatch.setattr("dimsweep.engine.compiler.cache_folder", lambda: tmp_path)
    before = fingerprint(third)
    with cProfile.Profile():
        third(1.0)
    assert fingerprint(third) == before and is_cached(third)


def test_code_that_two_processes_write_at_once_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, others = _Files(str(tmp_path), "f"), _Files(str(tmp_path), "f")
    begun: list[bool] = []
    save = IndexDataCacheFile._save_index

    def saved(self: Any, entries: Any) -> None:
        if not begun:  # another process writes between reading and writing
            begun.append(True)
            others.save("int", "of an int")
        save(self, entries)

    monkeypatch.setattr(IndexDataCacheFile, "_save_index", saved)
    files.save("float", "of a float")
    assert [files.load(each) for each in ("int", "float")] == ["of an int", "of a float"]
    assert sorted(files) == ["float", "int"]
    files.flush()
    assert not [*others] and others.load("int") is None


def test_code_of_two_versions_of_numba_lies_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _Files(str(tmp_path), "f")
    files.save("int", "of this one")
    with monkeypatch.context() as other:
        other.setattr(numba, "__version__", "0.0")
        assert files.load("int") is None and not [*files]
        files.save("int", "of that one")
    assert files.load("int") == "of this one" and [*files] == ["int"]


def test_kernels_that_another_machine_compiled_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for load in KERNELS.values():
        load()
    assert all_compiled()
    monkeypatch.setattr(config, "CPU_NAME", "generic")
    assert not is_compiled() and not is_compiled(Fidelity.PACKET) and not all_compiled()
    assert not is_compiled(Fidelity.PACKET, "nscc")


@pytest.mark.parametrize("mode", [0o777, 0o700])
def test_code_that_others_may_have_written_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Where no home can be written to, in a folder with a name that anybody can guess."""
    folder = tmp_path / f"dimsweep-{os.getuid()}"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    taken = cache_folder.__wrapped__()  # type: ignore[attr-defined]  # it is asked once a process
    assert taken.parent == tmp_path
    assert (taken == folder) == (mode == 0o700)
    assert taken.stat().st_mode & 0o077 == 0
