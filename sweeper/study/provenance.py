"""The provenance of rows: the version of the code and its dependencies, and the machine."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import dimsweep
from dimsweep.sweeper.ledger.record import Provenance
from dimsweep.sweeper.versions import package_version

# Packages that may change a row's numbers, or the choice of trials.
_PACKAGES = (
    "clarabel",
    "islpy",
    "llvmlite",
    "numba",
    "numpy",
    "optuna",
    "pyarrow",
    "ray",
    "scipy",
)


@cache
def provenance() -> Provenance:
    """Return the provenance of the rows that this process simulates."""
    return Provenance(
        version=package_version("dimsweep"),
        git=_git(),
        python=platform.python_version(),
        packages={name: package_version(name) for name in _PACKAGES},
        machine=f"{platform.platform()}, {os.cpu_count()} cores",
        date=datetime.now(UTC).date().isoformat(),
    )


def _git() -> str | None:
    """Return the commit of the code, with a plus if files are modified; None without git."""
    here = Path(dimsweep.__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
