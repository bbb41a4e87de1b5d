"""Versions of dimsweep, Python and the installed dependencies."""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

ABSENT = "not installed"
_TOOLS = re.compile(r"extra == .(dev|bench|docs)\b")  # of pyproject.toml, which no command imports


def package_version(package: str) -> str:
    """Return the version of an installed package; :data:`ABSENT` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT


def describe_versions() -> str:
    """Return all versions in one line: ``dimsweep 0.3.0, Python 3.13.5, numpy ...``."""
    try:
        lines = requires("dimsweep") or []
    except PackageNotFoundError:  # it runs from its sources
        lines = []
    names = sorted({re.split(r"[^\w.-]", line)[0] for line in lines if not _TOOLS.search(line)})
    found = {name: package_version(name) for name in ["dimsweep", *names]}
    texts = [f"{name} {each}" for name, each in found.items() if each != ABSENT]
    return ", ".join([*texts[:1], f"Python {platform.python_version()}", *texts[1:]])
