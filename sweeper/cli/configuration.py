"""The commands list, show and new: look at configurations, or begin one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dimsweep.sweeper.cli.overrides import Overrides

if TYPE_CHECKING:
    from dimsweep.sweeper.config.sources import Document, Figure


class _Shown(Overrides):
    """Argument type: an override, a study, or an option as GROUP/NAME."""

    name = "shown"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from dimsweep.sweeper import places

        group, slash, _ = value.partition("/")
        if slash and "=" not in value and group in places.list_groups() and group != "study":
            return value
        return super().convert(value, param, ctx)


@click.command("show")
@click.argument(
    "shown", nargs=-1, type=_Shown(), metavar="[GROUP/NAME]... | [STUDY] [KEY=VALUE]..."
)
@click.option("--sources", is_flag=True, help="Print where each number is from, and since when.")
def show_command(shown: Sequence[str], sources: bool) -> int:
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
        print("\n".join(_describe_sources(pairs, text)))
    else:
        print(yaml.safe_dump(text, sort_keys=False, allow_unicode=True), end="")
    return 0


def _parts(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of GROUP/NAME words; for a cluster also the options that it chooses."""
    from dimsweep.sweeper.config.compose import CLUSTER, read_cluster_parts
    from dimsweep.sweeper.config.sources import find_preset

    for group, _, name in (option.partition("/") for option in options):
        file = find_preset(group, name)
        yield from read_cluster_parts(file).items() if group == CLUSTER else [(group, name)]


def _presets(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    from dimsweep.sweeper.config.sources import read_values

    return {group: read_values(group, name) for group, name in pairs}


def _describe_sources(
    pairs: Sequence[tuple[str, str]], text: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield texts on the documents from which each option's numbers were taken.

    ``text`` is the composed configuration, if any: values that it overrides are left out.
    """
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.config.sources import GROUPS, read_figures, walk_numbers

    if not any(group in GROUPS for group, _ in pairs):
        where = ", ".join("/".join(pair) for pair in pairs)
        hint = f"presets of {', '.join(GROUPS)} do, and a cluster of such"
        raise DimsweepError(
            "the sources of its numbers are unknown", where=where, hint=hint, code="missing"
        )
    for group, name in pairs:
        figures = read_figures(group, name) if group in GROUPS else []
        if text is not None and figures:
            now = dict(walk_numbers(text[group]))
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


class _Group(click.ParamType[str]):
    """Argument type: the name of a configuration group."""

    name = "group"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from dimsweep.engine import DimsweepError, suggest_names
        from dimsweep.sweeper import places

        groups = places.list_groups()
        if value in groups:
            return value
        problem = f"unknown configuration group {value!r}"
        raise DimsweepError(problem, hint=suggest_names(value, groups), code="unknown-name")

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from dimsweep.sweeper import places

        return [
            CompletionItem(name) for name in places.list_groups() if name.startswith(incomplete)
        ]


@click.command("list")
@click.argument("groups", nargs=-1, type=_Group(), metavar="[GROUP]...")
def list_command(groups: Sequence[str]) -> int:
    """List the studies and the options of the configuration groups.

    GROUP is study, workload, cluster, topology, npu, memory, cost, search and so on; without one,
    all are listed. An option is chosen with GROUP=OPTION, such as workload=gpt3_175b.

    \b
    Examples:
      dimsweep list
      dimsweep list study workload
    """
    from dimsweep.sweeper import places

    known = places.list_groups()
    for group in groups or known:
        print(f"{group}: {'  '.join(known[group])}")
        if group == "network":
            from dimsweep.engine.network.generators import GENERATORS

            print(f"network.generator: {'  '.join(GENERATORS)}")
    return 0


_QUESTIONS = ("network", "split", "shape", "plan", "price")  # files of studies/new


@click.command("new")
@click.argument("name")
@click.option("--question", type=click.Choice(_QUESTIONS), default="split", help="What is asked.")
def new_command(name: str, question: str) -> int:
    """Write a study's file, with comments, from a question.

    The file is studies/NAME.yaml in the current folder; it runs as it is, and its comments say what
    to change. One that is there already is not touched.

    \b
    Questions:
      network   Which network should be built, and which plan should run on it?
      split     How should an NPU's bandwidth be split over the dimensions?
      shape     Which network is best at the same cost?
      plan      Which parallel plan is fastest on a network that is there?
      price     What does speed cost, and what does the next dollar save?

    \b
    Examples:
      dimsweep new my_split
      dimsweep new my_front --question price
    """
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.output import write_file
    from dimsweep.sweeper.places import installed_folder

    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise DimsweepError(
            f"{name!r} cannot name a file", hint="letters, digits, _ and -", code="invalid"
        )
    name = name.removesuffix(".yaml")
    file = Path("studies") / f"{name}.yaml"
    if file.exists():
        raise DimsweepError(
            "a study of this name exists",
            where=str(file),
            hint="choose another name",
            code="conflict",
        )
    text = (installed_folder("studies") / "new" / f"{question}.yaml").read_text(encoding="utf-8")
    file.parent.mkdir(exist_ok=True)
    write_file(file, "the study", text.replace("NAME", name).encode())
    click.echo(f"wrote {file}; dimsweep sweep {name} runs it")
    return 0
