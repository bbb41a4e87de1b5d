"""dimsweep show: a whole configuration."""

from collections.abc import Sequence

import click

from sweeper.cli.overrides import overrides


@click.command("show")
@overrides
def command(overrides: Sequence[str]) -> int:
    """Print the whole configuration that overrides make.

    It is what `dimsweep simulate` or `dimsweep sweep` would run, as YAML; every key of it can be
    set with KEY=VALUE.

    \b
    Examples:
      dimsweep show
      dimsweep show study=libra_gpt3_4d search=cmaes
    """
    import yaml

    from sweeper.config.compose import compose

    text = compose(overrides).config.text
    print(yaml.safe_dump(text, sort_keys=False, allow_unicode=True), end="")
    return 0
