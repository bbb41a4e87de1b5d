"""The command dimsweep simulate: simulate one iteration, and print the account of its time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dimsweep.sweeper.cli.overrides import Asked, hydra_options, overrides

if TYPE_CHECKING:
    from rich.console import Console

    from dimsweep.engine import Result
    from dimsweep.sweeper.config.schema import Config
    from dimsweep.sweeper.simulation.simulate import JobTime

_SIMULATED = {
    "phase": "the phases",
    "message": "every message",
    "flow": "every flow",
    "packet": "every packet",
}


@click.command("simulate")
@overrides
@click.option("--json", "as_json", is_flag=True, help="Print the columns of a row as JSON.")
@click.option("--full", is_flag=True, help="Print every table, not only the account.")
@hydra_options
def simulate_command(overrides: Sequence[str], as_json: bool, full: bool, asked: Asked) -> int:
    """Simulate one training iteration and account for its time.

    The terminal shows the time along the critical path, by computation and dimension, and what it
    costs. --full adds each collective, the classes of ranks, and the time that more bandwidth in
    each dimension would save. Without overrides conf/dimsweep.yaml's defaults are simulated.

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

    if asked.multirun:
        raise click.UsageError("--multirun: `dimsweep sweep` simulates several; here is one")
    overrides = asked.with_places(overrides)
    if not asked.print_configuration(overrides, may_sweep=False):
        simulate(overrides, Console(stderr=as_json), as_json=as_json, full=full)
    return 0


def simulate(
    overrides: Sequence[str], console: "Console", *, as_json: bool = False, full: bool = False
) -> None:
    """Simulate the configuration that ``overrides`` make, print its account and write its files.

    With ``as_json`` the standard output is one JSON object for other programs: the version of the
    model, the columns of a study's rows (docs/results.md) that are known, the critical path and the
    classes of ranks as the terminal shows them, and the evidence for the time.
    """
    import json

    from dimsweep.sweeper.calibrate.evidence import find_evidence
    from dimsweep.sweeper.cli.account import print_jobs, print_result, print_screen
    from dimsweep.sweeper.cli.interruptions import print_interruptions
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.simulation.program import build_program
    from dimsweep.sweeper.simulation.simulate import AloneRunners
    from dimsweep.sweeper.simulation.simulate import simulate as simulated
    from dimsweep.sweeper.study.idle import idle_keys
    from dimsweep.sweeper.study.plugin_checks import plugin_warnings
    from dimsweep.sweeper.study.rules import design_warnings
    from dimsweep.sweeper.terminal import count_lines, print_line, print_warnings, showing_progress

    composed = compose(overrides)
    config = composed.config
    with composed.adding_sources():
        _check_outputs(config)
        program = build_program(config)
        turned = [*composed.overridden, *composed.set_in_study]
        warnings = design_warnings(composed, program, turned, searched=False)
        warnings += idle_keys(composed, program, turned).values()
        with showing_progress("checking plug-ins, once for each text", console):
            warnings += plugin_warnings(config)
        if not (full or as_json):
            warnings = _fit_warnings(warnings, console.width)
        print_warnings(warnings, console)
        with showing_progress(_name_slow_step(config), console):
            result = simulated(config, program, record=config.timeline is not None)
            jobs = AloneRunners.from_config(config).times(result.run.measures.end[0])
    title = f"{config.workload.name} on {result.program.cluster.topology.name}"
    if as_json:
        print(json.dumps(_plain_result(config, result, jobs), indent=1))
    else:
        known = find_evidence(config)
        basis = f" ({known.basis})" if known.band else ""
        sure = f"how sure is the model: {known.expect(result.time)}{basis}"
        price = config.cost.npu_price
        if full:
            print_result(result, title, console, price)
            print_interruptions(result, console)
            print_jobs(jobs, console)
            print_line(sure, console)
        else:
            more = "dimsweep simulate --full adds collectives, classes of ranks and slopes"
            texts = (sure, more, *(f"warning: {text}" for text in warnings))
            used = sum(count_lines(text, console.width) for text in texts)
            print_screen(result, title, console, price, jobs, used)
            print_line(sure, console)
            print_line(more, console, "dim")
    _write_files(result, config, title, console)


_WARNING_LINES = 8


def _fit_warnings(warnings: Sequence[str], width: int) -> list[str]:
    """Return the first warnings, which leave room for the account, and a count of the others."""
    from dimsweep.sweeper.terminal import count_lines, format_count

    found, left = list[str](), _WARNING_LINES
    for text in warnings:
        left -= count_lines(f"warning: {text}", width)
        if left < 0 and found:
            break
        found.append(text)
    others = len(warnings) - len(found)
    return [*found, f"{format_count(others, 'other warning')}: see --full"] if others else found


def _name_slow_step(config: "Config") -> str:
    from dimsweep.engine import is_compiled

    is_there = is_compiled(config.fidelity, config.network.packets.transport)
    first = "" if is_there else "compiling, once for an installation, and "
    return f"{first}simulating {_SIMULATED[config.fidelity]}"


def _plain_result(
    config: "Config", result: "Result", jobs: Mapping[str, "JobTime"]
) -> dict[str, Any]:
    """Return the result as data for JSON."""
    from dimsweep.engine import MODEL_VERSION
    from dimsweep.sweeper.calibrate.evidence import find_evidence
    from dimsweep.sweeper.cli.account import plain
    from dimsweep.sweeper.cli.interruptions import plain as interruptions
    from dimsweep.sweeper.ledger.rows import single_row

    found = {"model": MODEL_VERSION, **single_row(config, result), **plain(result)}
    found |= interruptions(result)
    if jobs:
        found["jobs"] = {
            name: {"ranks": job.ranks, "time_s": job.time, "alone_s": job.alone}
            | {"slowdown": job.slowdown}
            for name, job in jobs.items()
        }
    return {**found, "evidence": find_evidence(config).plain()}


def _write_files(result: "Result", config: "Config", title: str, console: "Console") -> None:
    """Write the timeline and the pictures that the configuration names."""
    from dimsweep.sweeper.output import write_file
    from dimsweep.sweeper.terminal import print_line

    if config.timeline is not None:
        limit = config.timeline_limit
        content, holds = result.timeline_file(None if limit is None else int(limit))
        file = write_file(config.timeline, "the timeline", content)
        print_line(f"timeline: {file} (open it at ui.perfetto.dev), with {holds}", console)
        if not holds.startswith("all"):
            print_line("  timeline_limit=null writes the whole", console)
    if config.picture is None and config.congestion is None:
        return
    from dimsweep.sweeper.draw.canvas import kind_of
    from dimsweep.sweeper.draw.congestion import draw_congestion
    from dimsweep.sweeper.draw.network import draw_network

    for key, draw in (("picture", draw_network), ("congestion", draw_congestion)):
        if (name := getattr(config, key)) is not None:
            content = draw(result, title, kind_of(name, key))
            print_line(f"{key}: {write_file(name, 'the picture', content)}", console)


def _check_outputs(config: "Config") -> None:
    """Raise :class:`DimsweepError` for a picture that this fidelity lacks, or an unknown ending."""
    from dimsweep.sweeper.simulation.simulate import not_known

    known_by = {  # what a key shows, and the fidelities that know it
        "picture": ("single links", ["message", "flow", "packet"]),
        "congestion": ("how long each message takes", ["flow", "packet"]),
    }
    for key, (shown, fidelities) in known_by.items():
        if not (file := getattr(config, key)):
            continue
        from dimsweep.sweeper.draw.canvas import kind_of

        kind_of(file, key)
        if config.fidelity not in fidelities:
            raise not_known(key, config, shown, fidelities)
