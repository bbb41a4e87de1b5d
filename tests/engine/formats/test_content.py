"""What is in a file, plain or compressed, takes no more memory than it needs."""

import codecs
import gzip
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dimsweep.engine.formats.reading
from dimsweep.engine.formats.reading import read_bytes, read_table, read_text
from tests.support.refused import refused

TABLE = "kernel,duration\r\nmatmul,12.5 us\r\n"


def test_a_small_compressed_file_takes_little_memory(tmp_path: Path) -> None:
    """It asked for 4 GiB at once, which machines with a limit refuse."""
    (tmp_path / "trace.gz").write_bytes(gzip.compress(b"[]"))
    body = """
        import resource, sys
        from pathlib import Path
        from dimsweep.engine.formats.reading import read_bytes

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
        print(read_bytes(Path(sys.argv[1]), "trace"))
    """
    run = [sys.executable, "-c", textwrap.dedent(body), str(tmp_path / "trace.gz")]
    assert subprocess.run(run, capture_output=True, text=True).stdout == "b'[]'\n"


def test_a_file_inflates_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bomb.et"
    file.write_bytes(gzip.compress(bytes(2_000_000)))
    assert len(read_bytes(file, "trace")) == 2_000_000
    monkeypatch.setattr(dimsweep.engine.formats.reading, "_LARGEST", 1_000_000)
    with refused(str(file), "too-many"):
        read_bytes(file, "trace")


@pytest.mark.parametrize(
    "content",
    [
        TABLE.encode(),
        codecs.BOM_UTF8 + TABLE.encode(),
        TABLE.encode("utf-16"),
        gzip.compress(codecs.BOM_UTF8 + TABLE.encode()),
        b"# measured by hand\r\n" + TABLE.encode(),
        b'"Kernel","DURATION"\n"matmul","12.5 us"\n',
        TABLE.replace(",", ";").encode(),
        TABLE.replace(",", "\t").encode(),
    ],
    ids=["plain", "mark", "UTF-16", "gzip", "comment", "quoted", "semicolons", "tabs"],
)
def test_tables_as_other_tools_write_them(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.csv").write_bytes(content)
    rows = [row for _, row in read_table(tmp_path / "m.csv", ("kernel", "duration"))]
    assert rows == [{"kernel": "matmul", "duration": "12.5 us"}]


def test_what_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"\xff\xfe\x00")  # UTF-16 that is cut off
    with refused("t.txt", "bad-syntax"):
        read_text(tmp_path / "t.txt", "table")
