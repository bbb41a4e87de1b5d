"""Find the trace files of a job: a file, a folder, or PREFIX.<rank>.et; and PREFIX.keys.json."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import Field, Strict

from dimsweep.engine import DimsweepError, accessing
from dimsweep.engine.formats import read_json, validated
from dimsweep.engine.formats.chakra import MOST_RANKS, read_groups
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.output import write_file

_RANKED = re.compile(r"(?P<prefix>.+)\.(?P<rank>\d+)\.(?P<form>(?:et|json)(?:\.gz)?)")

source = click.argument("source", type=click.Path())
groups_option = click.option(
    "--groups", type=click.Path(), metavar="FILE", help="The communicator groups of the ranks."
)


@dataclass(frozen=True)
class Traces:
    """The trace files of a job: one per rank, from rank 0 on.

    With ``alone`` it is one file, for a single rank or for all ranks.
    """

    name: str
    files: Sequence[Path]
    alone: bool
    groups: Path | None

    def group_ranks(self) -> dict[str, tuple[int, ...]]:
        """Return the ranks of each communicator group, by its name.

        Raises :class:`DimsweepError` for an invalid file of groups.
        """
        return read_groups(self.groups, MOST_RANKS)


def find_traces(source: str, groups: str | None = None) -> Traces:
    """Return the traces that ``source`` names, with the file ``groups`` or ``PREFIX.groups.json``.

    Raises :class:`DimsweepError` if there are none, several jobs, or if a rank's is missing.
    """
    path = Path(source)
    if path.is_file():
        return Traces(path.stem, [path], True, _groups(groups, path.with_suffix("")))
    folder = path if path.is_dir() else path.parent
    jobs = _jobs(folder)
    if not path.is_dir():
        jobs = {key: ranks for key, ranks in jobs.items() if key[0] == path.name}
    if not jobs:
        raise DimsweepError(
            "no trace in this folder" if path.is_dir() else "no such trace",
            where=source,
            hint="a file, a folder with traces, or the PREFIX of PREFIX.<rank>.et",
            code="missing",
        )
    if len(jobs) > 1:
        names = ", ".join(str(folder / f"{prefix}.<rank>.{form}") for prefix, form in jobs)
        raise DimsweepError(
            f"the folder has several jobs: {names}", where=source, hint="name one", code="conflict"
        )
    ((prefix, form), ranks) = next(iter(jobs.items()))
    missing = next((rank for rank in range(max(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise DimsweepError(
            f"the trace of rank {missing} is missing; there are {len(ranks)}, up to rank "
            f"{max(ranks)}",
            where=str(folder / f"{prefix}.{missing}.{form}"),
            code="missing",
        )
    files = [ranks[rank] for rank in range(len(ranks))]
    return Traces(prefix, files, False, _groups(groups, folder / prefix))


def job_names(folder: Path) -> list[str]:
    """Return the prefixes of the jobs in a folder.

    Raises :class:`DimsweepError` if there are none.
    """
    names = list(dict.fromkeys(prefix for prefix, form in _jobs(folder) if form == "et"))
    if not names:
        hint = "a folder with traces, PREFIX.<rank>.et"
        raise DimsweepError("no trace in this folder", where=str(folder), hint=hint, code="missing")
    return names


def _jobs(folder: Path) -> dict[tuple[str, str], dict[int, Path]]:
    """Return the trace files in a folder: by (prefix, format) of the job, and then by rank."""
    jobs: dict[tuple[str, str], dict[int, Path]] = {}
    with accessing(folder, "cannot be read"):
        files = sorted(folder.iterdir())
    for file in files:
        match = _RANKED.fullmatch(file.name)
        if match:
            job = jobs.setdefault((match["prefix"], match["form"]), {})
            job[int(match["rank"])] = file
    return jobs


def _groups(given: str | None, prefix: Path) -> Path | None:
    default = Path(f"{prefix}.groups.json")
    if given is not None:
        return Path(given)
    return default if default.is_file() else None


def write_keys(prefix: str, config: Config, names: Sequence[str]) -> Path:
    """Write values of the configuration's dotted keys ``names`` to PREFIX.keys.json, by last name.

    Raises :class:`DimsweepError` for a missing key, or a value that is not a number.
    """
    keys = {}
    for name in names:
        value = config.value(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise DimsweepError(
                f"{value!r} is not a number; traces are learnt from numbers",
                where=name,
                code="wrong-type",
            )
        keys[name.rpartition(".")[2]] = value
    return write_file(f"{prefix}.keys.json", "the keys", (json.dumps(keys) + "\n").encode())


Keys = dict[str, float]
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
_Keys = Annotated[dict[str, _Number], Field(min_length=1)]
_HINT = 'a JSON file such as {"layers": 24, "tensor": 8}; dimsweep trace write --keys writes it'
_HINT_OF_ALL = 'a JSON file such as {"job1": {"layers": 24, "tensor": 8}, "job2": ...}'


def read_keys(prefix: str) -> Keys:
    """Return the values in PREFIX.keys.json.  Raises :class:`DimsweepError` without the file."""
    return _read_keys(_Keys, Path(f"{prefix}.keys.json"), _HINT)


def read_all_keys(file: Path) -> dict[str, Keys]:
    """Return the keys of several jobs, by job.

    Raises :class:`DimsweepError` for an invalid file.
    """
    return _read_keys(dict[str, _Keys], file, _HINT_OF_ALL)


def _read_keys(kind: Any, file: Path, hint: str) -> Any:
    try:
        return validated(kind, read_json(file, "file of keys"), file)
    except DimsweepError as error:
        raise error.replace(hint=hint) from error.__cause__


def parse_keys(words: Sequence[str]) -> Mapping[str, float]:
    """Return the numbers given as words KEY=VALUE, by key.

    Raises :class:`DimsweepError` for an invalid word or a value that is not a number.
    """
    keys: dict[str, float] = {}
    for word in words:
        name, equals, value = word.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or not math.isfinite(number):
            raise DimsweepError(
                f"{word!r} is not of the form KEY=NUMBER",
                hint="such as layers=48",
                code="bad-syntax",
            )
        if name in keys:
            raise DimsweepError("given twice", where=name, code="duplicate")
        keys[name] = number
    return keys
