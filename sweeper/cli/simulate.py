"""dimsweep simulate: one iteration, and the account of its time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sweeper.cli.overrides import overrides

if TYPE_CHECKING:
    from rich.console import Console

    from engine import Result
    from sweeper.config.schema import Config

_SIMULATED = {
    "phase": "the phases",
    "message": "every message",
    "flow": "every flow",
    "packet": "every packet",
}


@click.command("simulate")
@overrides
@click.option("--json", "as_json", is_flag=True, help="Print the columns of a row as JSON.")
def command(overrides: Sequence[str], as_json: bool) -> int:
    """Simulate one training iteration and account for its time.

    The terminal shows what the iteration takes along its critical path: what computes, and each
    collective in each dimension; what each class of ranks does meanwhile; and what more bandwidth
    in each dimension would save. Without overrides conf/dimsweep.yaml's defaults are simulated.

    \b
    Usual keys:
      workload=NAME cluster=NAME nodes=N     what runs, on a machine of that size
      topology=NAME npu=NAME cost=NAME       its parts by themselves; `dimsweep list` shows them
      topology.shape, topology.bandwidth     the network, such as Ring(4)_Switch(8) at 100 GB/s
      workload.parallel.tensor               the degree of an axis of the parallel plan
      collective.chunks, collective.order    how collectives are split and ordered
      fidelity=message                       simulate every message on every link (slower)
      fidelity=flow, fidelity=packet         messages share links; they go packet by packet
      timeline=FILE                          write what happens when, for ui.perfetto.dev;
      timeline_limit=10 MB                   at most so much of it (null: all)
      picture=FILE                           draw the links and their load (fidelity=message)
      congestion=FILE                        draw how long messages take (flow, packet), and
      watch='[NPU 0 -> switch d0 line 0]'    what happens at these links (packet)

    \b
    Examples:
      dimsweep simulate workload=msft1t_libra topology=libra_3d cost=libra_3d
      dimsweep simulate 'topology.bandwidth=[300 GB/s,120 GB/s,60 GB/s,20 GB/s]'
      dimsweep simulate workload=gpt3_175b topology=hgx_h100 collective=nccl npu=h100
      dimsweep simulate --json | jq .time_s
    """
    from rich.console import Console

    simulate(overrides, Console(stderr=as_json), as_json=as_json)
    return 0


def simulate(overrides: Sequence[str], console: "Console", *, as_json: bool = False) -> None:
    """Simulate the configuration that ``overrides`` make, print its account and write its files.

    With ``as_json`` the standard output is one JSON object for other programs: the version of the
    model, the columns of a study's rows (docs/results.md) that are known, the critical path and the
    classes of ranks as the terminal shows them, and the evidence for the time.
    """
    import json

    from engine import MODEL_VERSION, Result, run_one
    from engine.kernels.network import run_messages
    from sweeper.build.evidence import evidence
    from sweeper.build.program import build_program
    from sweeper.cli.account import plain, print_result
    from sweeper.config.compose import compose
    from sweeper.ledger.rows import single_row
    from sweeper.study.rules import design_warnings, idle_keys
    from sweeper.terminal import say, say_warnings, waiting

    composed = compose(overrides)
    config = composed.config
    with composed.blaming():
        by_message = config.by_message
        _check_outputs(config)
        program = build_program(config)
        turned = [*composed.overridden, *composed.set_in_study]
        say_warnings(design_warnings(composed, program, turned, searched=False), console)
        say_warnings(idle_keys(composed, program, turned).values(), console)
        record = config.timeline is not None
        with waiting(f"simulating {_SIMULATED[config.fidelity]}", console):
            if by_message:
                run = run_messages(
                    program, config.fidelity, record=record, watch=config.watch, fold=config.fold
                )
                result = Result(run)
            else:
                result = Result(run_one(program, record=record))
    title = f"{config.workload.name} on {result.program.cluster.topology.name}"
    if as_json:
        told = {"model": MODEL_VERSION, **single_row(config, result), **plain(result)}
        told["evidence"] = evidence(config).plain()
        print(json.dumps(told, indent=1))
    else:
        print_result(result, title, console, config.cost.npu)
        say(f"how sure is the model: {evidence(config)}", console)
    _write_files(result, config, title, console)


def _write_files(result: "Result", config: "Config", title: str, console: "Console") -> None:
    """The timeline and the pictures that the configuration asks for."""
    from sweeper.output import write_file
    from sweeper.terminal import say

    if config.timeline is not None:
        limit = config.timeline_limit
        content, holds = result.timeline_file(None if limit is None else int(limit))
        file = write_file(config.timeline, "the timeline", content)
        say(f"timeline: {file} (open it at ui.perfetto.dev), with {holds}", console)
        if not holds.startswith("all"):
            say("  timeline_limit=null writes the whole", console)
    if config.picture is not None:
        from sweeper.draw.canvas import kind_of
        from sweeper.draw.network import draw_network

        drawn = draw_network(result, title, kind_of(config.picture, "picture"))
        file = write_file(config.picture, "the picture", drawn)
        say(f"picture: {file}", console)
    if config.congestion is not None:
        from sweeper.draw.canvas import kind_of
        from sweeper.draw.congestion import draw_congestion

        content = draw_congestion(result, title, kind_of(config.congestion, "congestion"))
        say(f"congestion: {write_file(config.congestion, 'the picture', content)}", console)


def _check_outputs(config: "Config") -> None:
    """Raise :class:`DimsweepError` for a file or a link that this fidelity knows nothing of, or
    for a name that is no picture's."""
    from engine import DimsweepError

    for key in ("picture", "congestion"):
        if getattr(config, key):
            from sweeper.draw.canvas import kind_of

            kind_of(getattr(config, key), key)

    known_by = {  # what a key shows, and the fidelities that know it
        "picture": ("single links", ("message", "flow", "packet")),
        "congestion": ("how long each message takes", ("flow", "packet")),
        "watch": ("queues, marks and pauses of links", ("packet",)),
    }
    for key, (shown, fidelities) in known_by.items():
        if getattr(config, key) and config.fidelity not in fidelities:
            raise DimsweepError(
                f"it shows {shown}, which fidelity={config.fidelity} does not know",
                where=key,
                hint=f"add fidelity={' or '.join(fidelities)}, or leave {key} out",
            )
