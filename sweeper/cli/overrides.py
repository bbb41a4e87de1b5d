"""Arguments that several commands share: overrides KEY=VALUE, and Hydra's own options."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_OVERRIDE = re.compile(r"~[^\s=]+|(~|\+\+?)?[^\s=]+=.*", re.DOTALL)


def is_override(word: str) -> bool:
    """Return whether a word is an override, which sets or removes a key."""
    return _OVERRIDE.fullmatch(word) is not None


class Overrides(click.ParamType[str]):
    """Argument type: a study, or an override in Hydra's grammar.

    Overrides are ``KEY=VALUE``, ``+KEY=VALUE``, ``++KEY=VALUE`` and ``~KEY``.
    """

    name = "override"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from dimsweep.sweeper import places

        # Before a key is looked for: folders of Hydra's have names such as lr=0.1.
        if (not is_override(value) or places.is_path(value)) and (meant := self.meaning(value)):
            return meant
        if is_override(value):
            return value
        if places.is_path(value):
            raise click.UsageError(f"{value}: there is no such file", ctx)
        raise click.UsageError(self.unknown(value), ctx)

    def unknown(self, word: str) -> str:
        """Return the error text for a word that is not an option, file or override."""
        from dimsweep.sweeper.config.explain import suggest_override

        return f"{word!r} is neither a study nor KEY=VALUE; did you mean {suggest_override(word)}?"

    def meaning(self, word: str) -> str | None:
        """Return the override for a word without a key that is a study's name or file.

        It is None otherwise.
        """
        from dimsweep.sweeper.places import find_study

        if not find_study(word):
            return None
        from dimsweep.sweeper.config.overrides import format_choice

        return format_choice("study", word)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return completions of keys, and of options of config groups, after the words so far."""
        from dimsweep.sweeper.config.complete import complete_override

        typed = [word for word in ctx.params.get(str(param.name)) or () if " " not in word]
        return [CompletionItem(word, goes_on=True) for word in complete_override(typed, incomplete)]


overrides = click.argument(
    "overrides", nargs=-1, type=Overrides(), metavar="[STUDY] [KEY=VALUE]..."
)


_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


@dataclass(frozen=True)
class Asked:
    """Hydra's options given to a command: where to search for files, and what to print."""

    multirun: bool
    config_dir: tuple[str, ...]
    cfg: str | None
    package: str | None
    resolve: bool
    info: str | None

    def with_places(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides, with one that adds ``--config-dir`` to the search path."""
        from dimsweep.sweeper.config.overrides import quote

        if not self.config_dir:
            return list(overrides)
        return [f"hydra.searchpath=[{','.join(map(quote, self.config_dir))}]", *overrides]

    def print_configuration(self, overrides: Sequence[str], *, may_sweep: bool) -> bool:
        """Print what Hydra's options ask for; return whether anything was printed."""
        if self.cfg is None and (self.package is not None or self.resolve):
            word = "--resolve" if self.package is None else "--package"
            raise click.UsageError(f"{word} needs --cfg; add --cfg job")
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
        from dimsweep.sweeper.config.compose import compose_hydra_config, compose_keys

        whole: Any = compose_keys(overrides, may_sweep=may_sweep)  # raises errors in our own words
        if self.cfg != "job":
            hydra = compose_hydra_config(overrides)
            whole = hydra if self.cfg == "hydra" else OmegaConf.merge(hydra, whole)
        package = None if self.package == "_global_" else self.package
        try:
            part = whole if package is None else OmegaConf.select(whole, package)
            if part is None:
                raise DimsweepError(
                    "the configuration has no such package", where=str(package), code="unknown-key"
                )
            if not isinstance(part, Container):
                return f"{part}\n"
            text = OmegaConf.to_yaml(part, resolve=self.resolve)
        except OmegaConfBaseException as error:
            raise DimsweepError(
                str(error).partition("\n")[0], where="--cfg", code="invalid"
            ) from error
        return text if package is None else f"# @package {package}\n{text}"


def hydra_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add Hydra's options to a command, which receives them as its argument ``asked``."""
    names = [field.name for field in fields(Asked)]

    @functools.wraps(command)
    def asking(**given: Any) -> int:
        asked = Asked(**{name: given.pop(name) for name in names})
        return command(asked=asked, **given)

    for option in reversed(_OPTIONS):
        asking = option(asking)
    return asking


def _search(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Add folders to the search path while arguments are parsed: they may have a named study."""
    if given:
        from dimsweep.sweeper.places import set_extra_folders

        folders = [Path(folder).expanduser().resolve() for folder in given]
        for folder, name in zip(folders, given, strict=True):
            if not folder.is_dir():
                raise click.UsageError(f"--config-dir: no folder {name}", ctx)
        set_extra_folders(folders)
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
        help="Print the composed configuration, or Hydra's, and do not run.",
    ),
    click.option("--package", "-p", metavar="KEY", help="The part of it that --cfg prints."),
    click.option("--resolve", is_flag=True, help="Have --cfg print what ${...} stands for."),
    click.option(
        *("--info", "-i"),
        is_flag=False,
        flag_value="all",
        type=click.Choice(_INFO),
        help="Print Hydra's sources (all, or the named one), and do not run.",
    ),
)
