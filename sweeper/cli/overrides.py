"""KEY=VALUE arguments: Hydra overrides of a command, and what a shell completes in them."""

import difflib
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
    """A Hydra override: ``KEY=VALUE``, ``+KEY=VALUE``, ``++KEY=VALUE`` or ``~KEY``; or a study."""

    name = "override"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if _OVERRIDE.fullmatch(value):
            return value
        from sweeper.config.parts import places

        if meant := self.meaning(value):
            return meant
        if places.names_file(value):
            raise click.UsageError(f"{value}: there is no such file", ctx)
        known = {option.split("=")[1]: option for option in reversed(places.options())}
        known |= {name: f"study={name}" for name in places.study_names()}
        close = difflib.get_close_matches(value, known, n=1, cutoff=0.8)
        meant = known[close[0]] if close else "KEY=VALUE"
        raise click.UsageError(f"{value!r} is no study and sets no key; did you mean {meant}?", ctx)

    def meaning(self, word: str) -> str | None:
        """The override that a word without a key stands for: a study, by its name or its file."""
        from sweeper.config.parts.places import find_study

        return f"study={word}" if find_study(word) else None

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


overrides = click.argument(
    "overrides", nargs=-1, type=Overrides(), metavar="[STUDY] [KEY=VALUE]..."
)


@contextmanager
def config_loader() -> "Iterator[ConfigLoader]":
    """Hydra's loader of our configuration folders."""
    from hydra.core.global_hydra import GlobalHydra

    from sweeper.config.compose import hydra

    with hydra():
        instance = GlobalHydra.instance().hydra
        assert instance is not None
        yield instance.config_loader


def quoted(text: str) -> str:
    """As a value of an override, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
