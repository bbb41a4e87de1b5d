"""dimsweep verify: the verifications of sweeper/verify, a command each."""

import click

from sweeper.cli.lazy import Commands, Lazy
from sweeper.verify import VERIFICATIONS


@click.group("verify", cls=Commands, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Compare published or recorded measurements with dimsweep's times.

    The exit code is 1 if the times are not within the verification's aim.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _name, _what in VERIFICATIONS.items():
    command.add_command(Lazy(_name, _what, "sweeper.verify"))
