"""KEY=VALUE arguments: Hydra overrides of a command, and what a shell completes in them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader

_OVERRIDE = re.compile(r"~[^\s=]+|(~|\+\+?)?[^\s=]+=.*", re.DOTALL)


class Overrides(click.ParamType[str]):
    """A Hydra override: ``KEY=VALUE``, ``+KEY=VALUE``, ``++KEY=VALUE`` or ``~KEY``."""

    name = "override"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if _OVERRIDE.fullmatch(value):
            return value
        from sweeper.config.parts.places import study_names

        meant = f"study={value}" if value in study_names() else "KEY=VALUE"
        raise click.UsageError(f"{value!r} sets no key; did you mean {meant}?", ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Keys, and the options of config groups under the overrides that are typed already."""
        from hydra.plugins.completion_plugin import DefaultCompletionPlugin

        from sweeper.config.compose import ROOT

        class Completion(DefaultCompletionPlugin):
            def matches(self, line: str) -> list[str]:
                return list(self._query(ROOT, line))

        typed = [word for word in ctx.params.get(str(param.name)) or () if " " not in word]
        with config_loader() as loader:
            found = Completion(loader).matches(" ".join([*typed, incomplete]))
        return [CompletionItem(match, goes_on=True) for match in found if "hydra" not in match]


overrides = click.argument("overrides", nargs=-1, type=Overrides(), metavar="[KEY=VALUE]...")


@contextmanager
def config_loader() -> "Iterator[ConfigLoader]":
    """Hydra's loader of our configuration folders."""
    from hydra.core.global_hydra import GlobalHydra

    from sweeper.config.compose import hydra

    with hydra():
        instance = GlobalHydra.instance().hydra
        assert instance is not None
        yield instance.config_loader
