"""A disk that may fill up, fall silent or lose what was not synced, under a ledger of a folder."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

Fault = Callable[[str, Path], None]  # is told what is about to be done to which file; may raise


class Disk:
    """Stands between a ledger and the folders in ``root``; use it as a context manager.

    ``steps`` counts what was asked of it to write, by kind: ``open``, ``write``, ``sync``,
    ``rename``, ``remove``, ``make``.  ``fault`` may raise at any of them.  :meth:`crash` leaves
    what a machine may leave that loses its current: of a file's bytes those that were synced, and
    of the names those that were in the folder when it was synced.
    """

    def __init__(self, root: Path, fault: Fault = lambda kind, file: None) -> None:
        self._root, self.fault = root, fault
        self.steps: list[tuple[str, Path]] = []
        self._synced: dict[int, int] = {}  # by inode, bytes
        self._written: set[int] = set()  # inodes
        self._renamed: dict[Path, bytes | None] = {}  # what was there before, until it is synced
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        disk, patch = self, self._patch

        class File(io.FileIO):
            """A file whose writes are steps."""

            def __init__(self, path: Path, mode: str) -> None:
                disk._step("open", path)
                super().__init__(path, mode)
                self._where = path
                inode = os.fstat(self.fileno()).st_ino
                disk._written.add(inode)
                disk._synced.pop(inode, None)  # of a file that is gone

            def write(self, data: Any, /) -> int:
                disk._step("write", self._where)
                return super().write(data)

        opened = Path.open

        def open_(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if disk._is_here(path) and mode in ("wb", "xb"):
                return io.BufferedWriter(File(path, mode[0]))
            return opened(path, mode, *rest, **more)

        patch.setattr(Path, "open", open_)
        patch.setattr("dimsweep.sweeper.ledger.place.io", SimpleNamespace(FileIO=File))
        for name, kind in (("unlink", "remove"), ("rename", "rename"), ("mkdir", "make")):
            patch.setattr(Path, name, self._stepping(getattr(Path, name), kind))
        patch.setattr(os, "replace", self._replacing(os.replace))
        patch.setattr(os, "fsync", self._sync)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._patch.undo()

    def crash(self) -> None:
        """Lose what was not synced."""
        self.fault = lambda kind, file: None
        for file in filter(Path.is_file, self._root.rglob("*")):
            inode = file.stat().st_ino
            if inode in self._written:
                os.truncate(file, min(self._synced.get(inode, 0), file.stat().st_size))
        for file, before in self._renamed.items():
            file.unlink(missing_ok=True)
            if before is not None:
                file.write_bytes(before)  # whole: it is what was there, whatever its inode is now

    def _is_here(self, file: Path) -> bool:
        return Path(file).is_relative_to(self._root)

    def _step(self, kind: str, file: Path) -> None:
        if self._is_here(file):
            self.steps.append((kind, file))
            self.fault(kind, file)

    def _stepping(self, does: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def stepped(path: Path, *rest: Any, **more: Any) -> Any:
            if kind != "make" or not path.exists():
                self._step(kind, path)
            return does(path, *rest, **more)

        return stepped

    def _replacing(self, replace: Callable[..., None]) -> Callable[..., None]:
        def replaced(source: Path, target: Path) -> None:
            self._step("rename", target)
            if self._is_here(target):
                before = target.read_bytes() if target.exists() else None
                self._renamed.setdefault(target, before)
            replace(source, target)

        return replaced

    def _sync(self, descriptor: int) -> None:
        file = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._step("sync", file)
        known = os.fstat(descriptor)
        self._synced[known.st_ino] = known.st_size
        for name in [name for name in self._renamed if name.parent == file]:
            del self._renamed[name]


def failing_at(place: int, number: int) -> Fault:
    """The error ``number`` at the ``place``-th step, and at all after it."""
    left = iter(range(place))

    def fault(kind: str, file: Path) -> None:
        if next(left, None) is None:
            raise OSError(number, os.strerror(number), str(file))

    return fault


@contextmanager
def disk(root: Path, fault: Fault = lambda kind, file: None) -> Iterator[Disk]:
    """A :class:`Disk` of a folder that is made before."""
    root.mkdir(parents=True, exist_ok=True)
    with Disk(root, fault) as found:
        yield found
