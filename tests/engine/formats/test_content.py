"""What is in a file, plain or compressed, takes no more memory than it needs."""

import gzip
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dimsweep.engine.formats.content
from dimsweep.engine import DimsweepError
from dimsweep.engine.formats.content import read_bytes


def test_a_small_compressed_file_takes_little_memory(tmp_path: Path) -> None:
    """It asked for 4 GiB at once, which machines with a limit refuse."""
    (tmp_path / "trace.gz").write_bytes(gzip.compress(b"[]"))
    body = """
        import resource, sys
        from pathlib import Path
        from dimsweep.engine.formats.content import read_bytes

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
    monkeypatch.setattr(dimsweep.engine.formats.content, "_LARGEST", 1_000_000)
    with pytest.raises(DimsweepError, match="the compressed trace inflates to more than"):
        read_bytes(file, "trace")
