"""dimsweep show: a whole configuration, or an option of a group; and where its numbers are from."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from dimsweep.sweeper.cli.overrides import Overrides

if TYPE_CHECKING:
    from dimsweep.sweeper.config.sources import Document, Figure


class _Shown(Overrides):
    """An override, a study, or GROUP/NAME."""

    name = "shown"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from dimsweep.sweeper import places

        group, slash, _ = value.partition("/")
        if slash and "=" not in value and group in places.groups() and group != "study":
            return value
        return super().convert(value, param, ctx)


@click.command("show")
@click.argument(
    "shown", nargs=-1, type=_Shown(), metavar="[GROUP/NAME]... | [STUDY] [KEY=VALUE]..."
)
@click.option("--sources", is_flag=True, help="Print where each number is from, and since when.")
def command(shown: Sequence[str], sources: bool) -> int:
    """Print a whole configuration or a preset, or where its numbers are from.

    A configuration is what `dimsweep simulate` or `dimsweep sweep` would run, as YAML; every key
    of it can be set with KEY=VALUE. GROUP/NAME is one preset, or all that a cluster is made of.

    \b
    Examples:
      dimsweep show
      dimsweep show study=libra_gpt3_4d search=cmaes
      dimsweep show npu/h200
      dimsweep show cluster/dgx_h100 --sources
    """
    import yaml

    options = [word for word in shown if "=" not in word and not word.startswith("~")]
    if options and len(options) < len(shown):
        raise click.UsageError("show presets (GROUP/NAME), or what overrides make, not both")
    if options:
        pairs = list(_parts(options))
        text = _presets(pairs) if not sources else None
    else:
        from dimsweep.sweeper.config.compose import compose

        composed = compose(shown, may_sweep=True)
        pairs = list(composed.choices.items())
        text = composed.config.text
    if sources:
        print("\n".join(_told(pairs, text)))
    else:
        print(yaml.safe_dump(text, sort_keys=False, allow_unicode=True), end="")
    return 0


def _parts(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The presets of GROUP/NAME; those that a cluster chooses in its place."""
    from dimsweep.sweeper.config.compose import CLUSTER, parts_of
    from dimsweep.sweeper.config.sources import preset

    for group, _, name in (option.partition("/") for option in options):
        file = preset(group, name)
        yield from parts_of(file).items() if group == CLUSTER else [(group, name)]


def _presets(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    from dimsweep.sweeper.config.sources import values_of

    return {group: values_of(group, name) for group, name in pairs}


def _told(pairs: Sequence[tuple[str, str]], text: Mapping[str, Any] | None) -> Iterator[str]:
    """Each preset's numbers below the documents that they are from.  ``text`` is the configuration
    that they went into, where one was made: of what it says otherwise no document knows."""
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.config.sources import GROUPS, figures_of, numbers

    if not any(group in GROUPS for group, _ in pairs):
        where = ", ".join("/".join(pair) for pair in pairs)
        hint = f"presets of {', '.join(GROUPS)} do, and a cluster of such"
        raise DimsweepError("its numbers do not say where they are from", where=where, hint=hint)
    for group, name in pairs:
        figures = figures_of(group, name) if group in GROUPS else []
        if text is not None and figures:
            now = dict(numbers(text[group]))
            figures = [f if now.get(f.key) == f.value else _set_here(f, now) for f in figures]
        if figures:
            yield f"{group}/{name}"
            yield from _by_document(figures)


def _set_here(figure: "Figure", now: Mapping[str, str]) -> "Figure":
    value = now.get(figure.key, "none")
    return figure._replace(value=value, source=None, note=f"{figure.value} in the preset")


def _by_document(figures: Sequence["Figure"]) -> Iterator[str]:
    known: list[Document | None] = list(dict.fromkeys(f.source for f in figures))
    width = max(len(f.key) for f in figures)
    wide = max(len(f.value) for f in figures)
    figures = sorted(figures, key=lambda f: known.index(f.source))
    for document, those in groupby(figures, key=lambda f: f.source):
        if document is None:
            yield "  no document"
        else:
            yield f"  {document.evidence}, {document.date}: {document.document}"
            read = f"  (read {document.read})" if document.read else ""
            yield from [f"    {document.url}{read}"] if document.url else []
        for f in those:
            yield f"    {f.key:{width}}  {f.value:{wide}}  {f.note}".rstrip()
