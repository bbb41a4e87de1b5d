"""The first code that runs on a node of a Ray cluster: it installs dimsweep and checks versions.

Ray sends the functions and the class of this file by value, so that a node needs no dimsweep, or
may have another version. Therefore this module imports nothing of dimsweep at the top.
"""

import hashlib
import importlib.util
import io
import os
import platform
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGE, ROOMS = "dimsweep", ("engine", "sweeper")
# Packages that compute a row or carry it to the driver.
PACKAGES = ("numpy", "numba", "scipy", "networkx", "simpy", "pyarrow", "pydantic", "ray")


def sources(root: Path) -> dict[str, bytes]:
    """Return the source files of dimsweep by name; ``root`` is the folder of its package.

    In a checkout the packages are next to that folder; on a node that received them, inside it.
    """
    found = {f"{PACKAGE}/{file.name}": file for file in root.glob("*.py")}
    for room in ROOMS:
        folder = root / room
        if folder.is_symlink() or not folder.is_dir():
            folder = root.parent / room
        for file in folder.rglob("*"):
            if file.suffix in (".py", ".npz"):
                found[f"{PACKAGE}/{room}/{file.relative_to(folder).as_posix()}"] = file
    return {name: found[name].read_bytes() for name in sorted(found)}


def digest(files: Mapping[str, bytes]) -> str:
    """Return a hash of files and their names."""
    content = hashlib.blake2b(digest_size=16)
    for name in sorted(files):
        content.update(f"{name}\0{len(files[name])}\0".encode())
        content.update(files[name])
    return content.hexdigest()


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return files as a ZIP archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def versions() -> dict[str, str]:
    """Return the versions of Python and of packages on which a row may depend."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def unpack(archive: bytes, name: str) -> Path:
    """Unpack an archive on this node, and return the folder; the first caller creates it."""
    home = Path(tempfile.gettempdir()) / f"dimsweep-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():  # code is run from there
        raise PermissionError(f"{home} belongs to another user")
    folder = home / name
    if not folder.is_dir():
        made = Path(tempfile.mkdtemp(dir=home))
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            files.extractall(made)
        try:
            made.rename(folder)
        except OSError:  # another worker was first
            if not folder.is_dir():
                raise
    return folder


def _is_installed(code: str) -> bool:
    """Return whether this node's dimsweep has the source digest ``code``."""
    try:
        found = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        return False
    if found is None or found.origin is None:
        return False
    return digest(sources(Path(found.origin).parent)) == code


class Guest:
    """The actor on a node, which creates the worker once the node has the code.

    ``code`` is the digest of dimsweep's sources (None if the worker runs on the driver's machine),
    and ``archive`` refers to the sources. ``wanted`` has the driver's versions. ``inside`` refers
    to the worker's class and arguments; it is read last, because reading it imports dimsweep.
    """

    def __init__(
        self, code: str | None, archive: list[Any], wanted: dict[str, str], inside: list[Any]
    ) -> None:
        import ray

        if code is not None:
            here = versions()
            other = {name for name, want in wanted.items() if here[name] != want}
            if other:
                name = min(other)
                here_is = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
                raise RuntimeError(
                    f"NODE {here_is} has {name} {here[name]}, and the driver has {wanted[name]}"
                )
            if not _is_installed(code):
                sys.path.insert(0, str(unpack(ray.get(archive[0]), code)))
        _, make, arguments = ray.get(inside[0])  # plug-ins first: reading them loads them
        self._worker = make(*arguments)

    def node_id(self) -> str:
        """Return the ID of the node; the call returns once the worker has been created."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def evaluate(self, job: Any) -> Any:
        return self._worker.evaluate(job)
