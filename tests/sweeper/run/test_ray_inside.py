"""What we know of Ray's inside holds in the version that is installed."""

import subprocess
import sys

import pytest

READ_AGAIN = """
import os, ray
from dimsweep.sweeper.run.executor.ray_inside import reload_environment
timeout, constants = ray._raylet.Config.worker_register_timeout_seconds, ray._private.ray_constants
before = timeout(), constants.ENABLE_RAY_CLUSTER
os.environ["RAY_worker_register_timeout_seconds"] = str(before[0] + 17)
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = str(int(not before[1]))
assert (timeout(), constants.ENABLE_RAY_CLUSTER) == before
reload_environment(ray)
assert (timeout(), constants.ENABLE_RAY_CLUSTER) == (before[0] + 17, not before[1])
"""


@pytest.mark.long
def test_a_ray_that_was_imported_before_reads_its_environment_again() -> None:
    subprocess.run([sys.executable, "-c", READ_AGAIN], check=True)


def test_a_ray_without_these_names_is_left_as_it_is() -> None:
    from dimsweep.sweeper.run.executor.ray_inside import reload_environment

    reload_environment(object())
