"""A reader that stops, such as head, ends a command quietly."""

import os
import subprocess
import sys

import pytest

from dimsweep.sweeper.cli.main import CLOSED_PIPE


@pytest.mark.parametrize(
    "command",
    [["--help"], ["list", "workload"], pytest.param(["simulate"], marks=pytest.mark.long)],
)
def test_a_closed_pipe_ends_a_command_quietly(command: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dimsweep", *command],
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, b"")
