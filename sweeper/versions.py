"""The versions of what dimsweep stands on."""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

ABSENT = "not installed"
_TOOLS = re.compile(r"extra == .(dev|bench|docs)\b")  # of pyproject.toml, which no command imports


def package_version(package: str) -> str:
    """The version of an installed package, or :data:`ABSENT`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ABSENT


def describe_versions() -> str:
    """``dimsweep 0.3.0, Python 3.13.5, ...``: all that dimsweep asks for and that is installed."""
    try:
        lines = requires("dimsweep") or []
    except PackageNotFoundError:  # it runs from its sources
        lines = []
    names = sorted({re.split(r"[^\w.-]", line)[0] for line in lines if not _TOOLS.search(line)})
    found = {name: package_version(name) for name in ["dimsweep", *names]}
    told = [f"{name} {each}" for name, each in found.items() if each != ABSENT]
    return ", ".join([*told[:1], f"Python {platform.python_version()}", *told[1:]])
