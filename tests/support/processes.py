"""Processes of this machine, as Linux tells of them."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LOOPBACK = {"0100007F", f"{'0' * 24}01000000", f"{'0' * 16}FFFF00000100007F"}  # in both versions
_LISTENS = "0A"


def processes(name: str) -> list[int]:
    """Those whose command begins with ``name``."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and (folder / "cmdline").read_text().startswith(name):
                found.append(int(folder.name))
    return found


def parent(pid: int) -> int:
    """The process that started it, 0 if it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def offspring(pid: int) -> list[int]:
    """The processes that it started, and those that these did."""
    parents, found = {each: parent(each) for each in processes("")}, [pid]
    for one in found:
        found += [child for child, its in parents.items() if its == one]
    return found[1:]


def environment(pid: int) -> dict[str, str]:
    """The environment that it was started with; none if it is gone."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        return dict(line.split("=", 1) for line in lines if "=" in line)
    return {}


def listening(pids: Iterable[int]) -> set[str]:
    """The addresses on which processes take connections, as the kernel writes them."""
    sockets = set[str]()
    for pid in pids:
        with suppress(OSError):  # it is gone
            sockets |= {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {
        line[1].partition(":")[0]
        for line in lines
        if line[3] == _LISTENS and f"socket:[{line[9]}]" in sockets
    }
