"""The options of Hydra's own command line that dimsweep's commands take as well."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


@dataclass(frozen=True)
class Asked:
    """What is asked of Hydra: where it is to search, too, and what it is to tell."""

    multirun: bool
    config_dir: tuple[str, ...]
    cfg: str | None
    package: str | None
    resolve: bool
    info: str | None

    def with_places(self, overrides: Sequence[str]) -> list[str]:
        """The overrides, and one that has Hydra search where ``--config-dir`` says."""
        from dimsweep.sweeper.config.overrides import quoted

        if not self.config_dir:
            return list(overrides)
        return [f"hydra.searchpath=[{','.join(map(quoted, self.config_dir))}]", *overrides]

    def tell(self, overrides: Sequence[str], *, may_sweep: bool) -> bool:
        """Print what is asked of the configuration under ``overrides``; whether anything is."""
        if self.cfg is None and (self.package is not None or self.resolve):
            word = "--resolve" if self.package is None else "--package"
            raise click.UsageError(f"{word} says what --cfg prints; add --cfg job")
        if self.cfg is not None and self.info is not None:
            raise click.UsageError("--cfg and --info each print something else; give one")
        if self.cfg is not None:
            print(self._configuration(overrides, may_sweep=may_sweep), end="")
        if self.info is not None:
            from dimsweep.sweeper.config.compose import print_info

            print_info(overrides, self.info)
        return self.cfg is not None or self.info is not None

    def _configuration(self, overrides: Sequence[str], *, may_sweep: bool) -> str:
        from omegaconf import Container, OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        from dimsweep.engine import DimsweepError
        from dimsweep.sweeper.config.compose import compose_hydras, compose_keys

        whole: Any = compose_keys(overrides, may_sweep=may_sweep)  # raises errors in our own words
        if self.cfg != "job":
            hydra = compose_hydras(overrides)
            whole = hydra if self.cfg == "hydra" else OmegaConf.merge(hydra, whole)
        package = None if self.package == "_global_" else self.package
        try:
            part = whole if package is None else OmegaConf.select(whole, package)
            if part is None:
                raise DimsweepError("the configuration has no such package", where=str(package))
            if not isinstance(part, Container):
                return f"{part}\n"
            text = OmegaConf.to_yaml(part, resolve=self.resolve)
        except OmegaConfBaseException as error:
            raise DimsweepError(str(error).partition("\n")[0], where="--cfg") from error
        return text if package is None else f"# @package {package}\n{text}"


def hydra_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command Hydra's options; it is called with what they say as ``asked``."""

    names = [field.name for field in fields(Asked)]

    @functools.wraps(command)
    def asking(**given: Any) -> int:
        asked = Asked(**{name: given.pop(name) for name in names})
        return command(asked=asked, **given)

    for option in reversed(_OPTIONS):
        asking = option(asking)
    return asking


def _search(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """The folders, which are searched from now on: a study's bare name may be one of theirs."""
    if given:
        from dimsweep.sweeper.places import search_also

        folders = [Path(folder).expanduser().resolve() for folder in given]
        for folder, name in zip(folders, given, strict=True):
            if not folder.is_dir():
                raise click.UsageError(f"--config-dir: there is no folder {name}", ctx)
        search_also(folders)
    return given


_OPTIONS = (
    click.option(
        "--multirun", "-m", is_flag=True, help="As Hydra's; `dimsweep sweep` needs no such word."
    ),
    click.option(
        *("--config-dir", "-cd"),
        multiple=True,
        is_eager=True,
        callback=_search,
        metavar="DIR",
        help="Search this folder for options of groups, after ./conf and the installed one.",
    ),
    click.option(
        *("--cfg", "-c"),
        type=click.Choice(["job", "hydra", "all"]),
        help="Print the composed configuration, or Hydra's own, in the place of a run.",
    ),
    click.option("--package", "-p", metavar="KEY", help="The part of it that --cfg prints."),
    click.option("--resolve", is_flag=True, help="Have --cfg print what ${...} stands for."),
    click.option(
        *("--info", "-i"),
        is_flag=False,
        flag_value="all",
        type=click.Choice(_INFO),
        help="Print what Hydra composes from, in the place of a run (all, unless one is named).",
    ),
)
