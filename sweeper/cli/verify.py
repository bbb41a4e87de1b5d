"""dimsweep verify: the verifications of sweeper/verify, a command each, and their list."""

import click

from sweeper.cli.lazy import Commands, Lazy
from sweeper.verify import VERIFICATIONS

_ROOM = "sweeper.verify"
_STUDIES = Lazy(
    "studies", "Reproduce the published studies of docs/studies, point by point.", _ROOM
)
_LIST = Lazy("list", "List what can be verified.", _ROOM)


@click.group("verify", cls=Commands, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Compare published or recorded measurements with dimsweep's times.

    Without a name the verifications are listed: what each compares, and where that was published.
    One prints every point with its published value, ours, the difference, the tolerance and a
    verdict. The exit code is 1 if something is outside the verification's aim.

    \b
    Examples:
      dimsweep verify
      dimsweep verify list --json
    """
    if context.invoked_subcommand is None:
        context.invoke(_LIST.load())


for _name, _each in VERIFICATIONS.items():
    command.add_command(Lazy(_name, _each.what, _ROOM))
command.add_command(_STUDIES)
command.add_command(_LIST)
