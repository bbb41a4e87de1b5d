"""The command line: dimsweep simulate | sweep | report, with Hydra overrides."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from engine import DimsweepError

_USAGE = """\
dimsweep: how should a training cluster's network be provisioned, and how sure are we?

  dimsweep simulate [KEY=VALUE ...]            simulate one iteration and account for its time
  dimsweep sweep study=NAME [KEY=VALUE ...]    run a study, or go on with it
  dimsweep report study=NAME                   its table, pictures and page again
  dimsweep astra --help                        ASTRA-sim's files and command line, its cycles
  dimsweep verify megatron                     published measurements against our times
  dimsweep trace --help                        Chakra traces: lint, stats, pictures, other forms
  dimsweep list [GROUP]                        studies, and the options of a config group
  dimsweep show [KEY=VALUE ...]                the whole configuration that these overrides make
  dimsweep completion bash|zsh|fish            a completion script for your shell

KEY=VALUE are Hydra overrides; any key of the configuration can be set:
  dimsweep simulate workload=msft1t_libra topology=libra_3d cost=libra_3d
  dimsweep simulate 'topology.bandwidth=[300 GB/s,120 GB/s,60 GB/s,20 GB/s]' timeline=run.json
  dimsweep sweep study=libra_gpt3_4d search=cmaes budget.trials=1000 name=my_cmaes
  dimsweep sweep study=libra_gpt3_4d executor=inline
Quantities need a unit: 200 GB/s (10^9 bytes), 200 GiB/s (2^30), 1.6 Tb/s (bits), 500 ns, 64 MB.
Your own files in ./conf and ./studies are found before the installed ones.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.  A user's error is told without a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Those two explain themselves.
    asks = {"-h", "--help"} & set(words[1:]) and words[0] not in ("astra", "trace")
    if not words or words[0] in ("-h", "--help", "help") or asks:
        print(_USAGE, end="")
        return 0 if words else 2
    try:
        command = _COMMANDS.get(words[0])
        if command is None:
            raise DimsweepError(
                f"unknown command {words[0]!r}", hint=f"commands: {', '.join(_COMMANDS)}"
            )
        return command(words[1:])
    except DimsweepError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {error}", markup=False)
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _simulate(overrides: list[str]) -> int:
    from engine import Result, run_one
    from engine.kernels.message import run_messages
    from sweeper.build.program import build_program, is_by_message
    from sweeper.cli.simulation import print_result, print_warnings
    from sweeper.config.compose import compose, plain
    from sweeper.study.rules import design_warnings

    composed = compose(overrides)
    config = plain(composed.config)
    try:
        by_message = is_by_message(config)
        if config["picture"] is not None and not by_message:
            raise DimsweepError(
                "only single links make a picture", where="picture", hint="fidelity=message"
            )
        run = run_messages if by_message else run_one
        record, program = config["timeline"] is not None, build_program(config)
        warnings = design_warnings(config, program, composed.overridden, searched=False)
        print_warnings(warnings, Console())
        result = Result(run(program, record=record))
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__
    print_result(result, config, Console())
    if config["timeline"] is not None:
        file = _write(config["timeline"], "timeline", json.dumps(result.timeline()).encode())
        print(f"timeline: {file} (open it at ui.perfetto.dev)")
    if config["picture"] is not None:
        from sweeper.draw.network import draw_network

        title = f"{config['workload']['name']} on {result.program.cluster.topology.name}"
        print(f"picture: {_write(config['picture'], 'picture', draw_network(result, title))}")
    return 0


def _write(path: str, what: str, content: bytes) -> Path:
    file = Path(path)
    try:
        file.write_bytes(content)
    except OSError as error:
        raise DimsweepError(
            f"the {what} cannot be written: {error.strerror}", where=str(file)
        ) from error
    return file


def _sweep(overrides: list[str]) -> int:
    from sweeper.cli.study import sweep_study
    from sweeper.config.compose import compose

    return sweep_study(compose(overrides), Console())


def _report(overrides: list[str]) -> int:
    from sweeper.cli.study import report_study
    from sweeper.config.compose import compose, plain
    from sweeper.study.plan import study_name

    composed = compose(overrides)
    report_study(Path(plain(composed.config)["results"]) / study_name(composed), Console())
    return 0


def _list(words: list[str]) -> int:
    from sweeper.cli.completion import group_options

    for group, options in group_options(words).items():
        print(f"{group}: {'  '.join(options)}")
    return 0


def _show(overrides: list[str]) -> int:
    from omegaconf import OmegaConf

    from sweeper.config.compose import compose, plain

    print(OmegaConf.to_yaml(OmegaConf.create(plain(compose(overrides).config))), end="")
    return 0


def _completion(words: list[str]) -> int:
    from sweeper.cli.completion import script

    print(script(words[0] if words else "bash"))
    return 0


def _complete(words: list[str]) -> int:
    from sweeper.cli.completion import complete

    print("\n".join(complete(words, list(_COMMANDS)[:-1])))
    return 0


def _astra(words: list[str]) -> int:
    from sweeper.cli.astra import astra

    return astra(words)


def _verify(words: list[str]) -> int:
    from sweeper.verify import verify

    return verify(words, Console())


def _trace(words: list[str]) -> int:
    from sweeper.cli.trace import trace

    return trace(words)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "simulate": _simulate,
    "sweep": _sweep,
    "report": _report,
    "astra": _astra,
    "verify": _verify,
    "trace": _trace,
    "list": _list,
    "show": _show,
    "completion": _completion,
    "complete-words": _complete,
}
