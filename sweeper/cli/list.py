"""dimsweep list: the studies, and the options of the configuration groups."""

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem
from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType

from engine import DimsweepError, suggestion
from sweeper.cli.overrides import config_loader


class _Group(click.ParamType[str]):
    """A configuration group."""

    name = "group"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        with config_loader() as loader:
            groups = _groups(loader)
        if value in groups:
            return value
        problem = f"there is no configuration group {value!r}"
        raise DimsweepError(problem, hint=suggestion(value, groups))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        with config_loader() as loader:
            return [CompletionItem(name) for name in _groups(loader) if name.startswith(incomplete)]


@click.command("list")
@click.argument("groups", nargs=-1, type=_Group(), metavar="[GROUP]...")
def command(groups: Sequence[str]) -> int:
    """List the studies and the options of the configuration groups.

    GROUP is study, workload, topology, npu, memory, cost, search and so on; without one, all are
    listed. An option is chosen with GROUP=OPTION, such as workload=gpt3_175b.

    \b
    Examples:
      dimsweep list
      dimsweep list study workload
    """
    with config_loader() as loader:
        for group in groups or _groups(loader):
            options = loader.get_group_options(group, ObjectType.CONFIG)
            print(f"{group}: {'  '.join(name for name in options if name != 'none')}")
    return 0


def _groups(loader: ConfigLoader) -> list[str]:
    return [name for name in loader.get_group_options("", ObjectType.GROUP) if name != "hydra"]
