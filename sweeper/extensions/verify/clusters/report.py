"""What `dimsweep verify clusters` prints: rows, groups of rows, and the summary with the aims."""

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console

from dimsweep.sweeper.extensions.verify.clusters.compared import (
    Compared,
    Errors,
    by,
    origin,
    without_own_source,
)
from dimsweep.sweeper.extensions.verify.clusters.measurements import GIB
from dimsweep.sweeper.extensions.verify.points import Tolerance, Value, relative
from dimsweep.sweeper.terminal import plural, say, table

# The aims: of the rows of these GPUs, with one source left out at a time.
AIMED = ("A100", "A100 40GB", "H100", "B200")
MEDIAN_AIM, MEAN_AIM, SOURCE_AIM, RANK_AIM = 0.06, 0.10, 0.15, 0.9
# Of memory: the mean error, and how much less than measured a row may be.  PyTorch's cache holds
# more than what is allocated, which is why what it has reserved has wider aims.
MEMORY_AIMS = {"allocated": (0.03, 0.0), "reserved": (0.08, 0.02)}
_RANKED_ROWS = 8  # a source with fewer has no ranking worth the name
_GROUPS: tuple[tuple[str, Callable[[Compared], str]], ...] = (
    ("GPU", lambda row: row.gpu),
    ("family", lambda row: row.family),
    ("scale", lambda row: row.scale),
    ("kind", lambda row: f"{row.gpu}, {row.kind}, {row.scale}"),
    ("precision", lambda row: row.measured.precision),
    ("source", origin),
)


def print_rows(name: str, rows: Sequence[Compared], console: Console) -> None:
    """Every row of a table: theirs, ours, and the error."""
    columns = ("line", "model", "GPU", "plan", "GPUs", "theirs", "ours", "error")
    lines = []
    for row in rows:
        theirs, ours = (_value(value, row) for value in row.values)
        model = f"{row.measured.model[:28]}{' (fitted)' if row.fitted else ''}"
        plan = f"{row.measured.plan} {row.measured.precision}"
        line = (str(row.line), model, row.gpu, plan, f"{row.measured.gpus:,}")
        lines.append((*line, theirs, ours, f"{row.error:+.1%}"))
    say(f"\n{name}", console, "bold")
    console.print(table(columns, lines, left=4))


def point_of(row: Compared) -> Value:
    """A row as a point; its tolerance is the aim for the mean of rows like it."""
    of = row.measured
    name = f"{of.table} line {row.line}: {of.model}, {of.plan}, {of.gpus:,} {row.gpu}"
    note = "constants were fitted to this source" if row.fitted else ""
    if row.is_time:
        return Value(name, *row.values, relative(MEAN_AIM), of.source, "s", note)
    mean, less = MEMORY_AIMS[_of_memory(row)]
    return Value(name, *row.values, Tolerance("relative", less, mean), of.source, "B", note)


def _of_memory(row: Compared) -> str:
    """What a row prints: the memory that was allocated, or reserved."""
    return "allocated" if row.measured.used is None else "reserved"


def _value(value: float, row: Compared) -> str:
    return f"{value:.4g} s" if row.is_time else f"{value / GIB:.2f} GiB"


def print_groups(rows: Sequence[Compared], console: Console) -> None:
    """Errors of the times by GPU, family, scale and source, fitted rows apart."""
    for fitted in (True, False):
        own = [row for row in rows if row.fitted is fitted]
        if not own:
            continue
        for name, key in _GROUPS:
            groups = {group: Errors.of(some) for group, some in by(key, own).items()}
            kind = "fitted" if fitted else "unfitted"
            _print_errors(f"\n{kind} rows by {name}", groups, console)
    left_out = by(origin, without_own_source(rows))
    title = "leave one source out: no fitted source counts in its own times"
    _print_errors(title, {name: Errors.of(own) for name, own in left_out.items()}, console)


def _print_errors(title: str, groups: Mapping[str, Errors], console: Console) -> None:
    columns = (title.strip(), "rows", "mean", "median", "worst", "bias", "Spearman")
    lines = [
        (
            name,
            str(errors.rows),
            *(f"{x:.1%}" for x in (errors.mean, errors.median, errors.worst)),
            f"{errors.bias:+.1%}",
            f"{errors.rank:.2f}",
        )
        for name, errors in groups.items()
    ]
    say("", console)
    console.print(table(columns, lines))


def print_summary(times: Sequence[Compared], memory: Sequence[Compared], console: Console) -> bool:
    """The last lines: rows, errors, and ranking; returns whether all is within the aims."""
    good = True
    say("\nsummary", console, "bold")
    kinds = {"fitted": True, "unfitted": False}
    for kind, own in {
        **{
            kind: [r for r in times if r.fitted is of and not r.of_peaks]
            for kind, of in kinds.items()
        },
        "by data sheets alone": [row for row in times if row.of_peaks],
    }.items():
        if own:
            say(f"times, {kind}: {_words(Errors.of(own))}", console)
    aimed = without_own_source([row for row in times if row.gpu in AIMED])
    if aimed:
        all_of_them, sources = Errors.of(aimed), by(origin, aimed)
        worst, name = max((Errors.of(own).mean, name) for name, own in sources.items())
        good &= all_of_them.median <= MEDIAN_AIM and all_of_them.mean <= MEAN_AIM
        good &= worst <= SOURCE_AIM
        say(
            f"times, one source left out, {', '.join(AIMED)}: {_words(all_of_them)} "
            f"(aims: median {MEDIAN_AIM:.0%}, mean {MEAN_AIM:.0%})",
            console,
        )
        alone = sum(row.gpu in AIMED for row in times) - len(aimed)
        if alone:
            what = "of the only fitted source of a GPU and kind"
            say(f"not judged: {plural(alone, 'row')} {what}", console)
        say(f"worst source: mean {worst:.1%} of {name} (aim {SOURCE_AIM:.0%})", console)
        good &= _print_ranks(sources, console)
    for what, own in by(_of_memory, memory).items():
        if what == "reserved":
            enough = sum(row.values[0] <= row.ours.reserved for row in own)
            say(
                f"memory: {enough} of {plural(len(own), 'row')} within what may be reserved",
                console,
            )
        errors, low = Errors.of(own), min(row.error for row in own)
        mean, less = MEMORY_AIMS[what]
        good &= errors.mean <= mean and low >= -less
        say(
            f"memory, {what}: {_words(errors)} (aim: mean {mean:.0%}); lowest {low:+.1%} "
            f"(aim: never less than measured{f' by more than {less:.0%}' if less else ''})",
            console,
        )
    return good


def _print_ranks(sources: Mapping[str, Sequence[Compared]], console: Console) -> bool:
    good = True
    for name, own in sources.items():
        if len(own) >= _RANKED_ROWS:
            rank = Errors.of(own).rank
            good &= not rank < RANK_AIM
            say(f"Spearman {rank:.2f} of {len(own)} rows of {name} (aim {RANK_AIM})", console)
    return good


def _words(errors: Errors) -> str:
    return (
        f"{errors.rows} rows, mean error {errors.mean:.1%}, median {errors.median:.1%}, "
        f"worst {errors.worst:.1%}"
    )
