"""The registry of commands that plug-ins add."""

import click

from dimsweep.engine.registry import Registry

#: Click commands by the words that call them: "mine" is ``dimsweep mine``, and "trace mine" is
#: ``dimsweep trace mine``.
COMMANDS: Registry[click.Command] = Registry("command")
