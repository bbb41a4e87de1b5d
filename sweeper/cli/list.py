"""dimsweep list: the studies, and the options of the configuration groups."""

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from dimsweep.engine import DimsweepError, suggestion
from dimsweep.sweeper import places


class _Group(click.ParamType[str]):
    """A configuration group."""

    name = "group"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        groups = places.groups()
        if value in groups:
            return value
        problem = f"there is no configuration group {value!r}"
        raise DimsweepError(problem, hint=suggestion(value, groups))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in places.groups() if name.startswith(incomplete)]


@click.command("list")
@click.argument("groups", nargs=-1, type=_Group(), metavar="[GROUP]...")
def command(groups: Sequence[str]) -> int:
    """List the studies and the options of the configuration groups.

    GROUP is study, workload, cluster, topology, npu, memory, cost, search and so on; without one,
    all are listed. An option is chosen with GROUP=OPTION, such as workload=gpt3_175b.

    \b
    Examples:
      dimsweep list
      dimsweep list study workload
    """
    known = places.groups()
    for group in groups or known:
        print(f"{group}: {'  '.join(known[group])}")
        if group == "network":
            from dimsweep.engine.network.generators import GENERATORS

            print(f"network.generator: {'  '.join(GENERATORS)}")
    return 0
