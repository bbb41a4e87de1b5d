"""KEY=VALUE arguments: Hydra overrides of a command, and what a shell completes in them."""

import re

import click
from click.shell_completion import CompletionItem

_OVERRIDE = re.compile(r"~[^\s=]+|(~|\+\+?)?[^\s=]+=.*", re.DOTALL)


def is_override(word: str) -> bool:
    """Whether a word sets a key, or takes one away."""
    return _OVERRIDE.fullmatch(word) is not None


class Overrides(click.ParamType[str]):
    """A Hydra override: ``KEY=VALUE``, ``+KEY=VALUE``, ``++KEY=VALUE`` or ``~KEY``; or a study."""

    name = "override"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from dimsweep.sweeper import places

        # Before a key is looked for: folders of Hydra's have names such as lr=0.1.
        if (not is_override(value) or places.names_file(value)) and (meant := self.meaning(value)):
            return meant
        if is_override(value):
            return value
        if places.names_file(value):
            raise click.UsageError(f"{value}: there is no such file", ctx)
        raise click.UsageError(self.unknown(value), ctx)

    def unknown(self, word: str) -> str:
        """Return what is wrong with a word that means nothing."""
        from dimsweep.sweeper.config.explain import meant_by

        return f"{word!r} is no study and sets no key; did you mean {meant_by(word)}?"

    def meaning(self, word: str) -> str | None:
        """The override that a word without a key stands for: a study, by its name or its file."""
        from dimsweep.sweeper.places import find_study

        if not find_study(word):
            return None
        from dimsweep.sweeper.config.overrides import choice_of

        return choice_of("study", word)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Keys, and the options of config groups under the overrides that are typed already."""
        from dimsweep.sweeper.config.complete import completions

        typed = [word for word in ctx.params.get(str(param.name)) or () if " " not in word]
        return [CompletionItem(word, goes_on=True) for word in completions(typed, incomplete)]


overrides = click.argument(
    "overrides", nargs=-1, type=Overrides(), metavar="[STUDY] [KEY=VALUE]..."
)
