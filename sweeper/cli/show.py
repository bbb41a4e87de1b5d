"""dimsweep show: a whole configuration."""

from __future__ import annotations

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
    from omegaconf import OmegaConf

    from sweeper.config.compose import compose, plain

    print(OmegaConf.to_yaml(OmegaConf.create(plain(compose(overrides).config))), end="")
    return 0
