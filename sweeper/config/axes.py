"""What overrides make of a study's axes: one value takes an axis' place, several make a new one."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.overrides import Word, is_group
from dimsweep.sweeper.config.parts.part import has_order

AXES, SEARCHED = "grid", "space.parameters"  # where keys are that have several values


def take_over(tree: Any, words: Sequence[Word]) -> None:
    """Have an override of one value take the place of the axis that there is for its key before it:
    the axis has that value alone, and the rows say so.

    Raises :class:`DimsweepError` for one of a part of an axis, or around one, over which each cell
    would lay the axis' own value.
    """
    axes, portfolio = tree.get(AXES), tree.get("portfolio")
    axes = axes if isinstance(axes, MutableMapping) else {}
    weights = portfolio.get("workloads") if isinstance(portfolio, Mapping) else None
    grids = [i for i, word in enumerate(words) if word.key == AXES]
    groups = [word.key.partition(".")[0] for word in words]
    for i, word in enumerate(words):
        if grids and i < grids[-1]:  # what is given later counts
            continue
        if word.sweeps or not (word.chooses or word.sets_a_key) or word.parsed.is_delete():
            continue
        if word.key == "workload" and word.chooses and weights and "portfolio" not in groups[i:]:
            hint = "give portfolio.workloads; a study without one is of one workload"
            what = "the workloads are those of the portfolio"
            raise DimsweepError(what, where=word.key, hint=hint)
        value = word.parsed.value()
        if word.key in axes:
            axes[word.key] = [value]
        for axis, own in axes.items() if word.sets_a_key else ():
            # A mapping whose order counts replaces all that its key had, parts that it lacks too.
            whole = has_order(axis) and word.key.startswith(f"{axis}.")
            if whole or _covers(axis, word.key, own) or _covers(word.key, axis, [value]):
                hint = f"{axis}=VALUE takes the place of the axis"
                what = f"each cell of the study's grid sets {axis}, over this"
                raise DimsweepError(what, where=word.key, hint=hint)


def _covers(key: Any, part: Any, values: Any) -> bool:
    """Whether one of the values of a dotted key says what a part of it is."""
    above, rest = f"{key}.", str(part)
    if not rest.startswith(above) or is_group(str(key)) or not isinstance(values, Sequence):
        return False
    for value in values:
        for name in rest.removeprefix(above).split("."):
            if not isinstance(value, Mapping):
                return value is not None
            value = value.get(name)
        if value is not None:
            return True
    return False


def lay(tree: Any, words: Sequence[Word]) -> None:
    """Make overrides of several values what is searched of their keys, where the study searches
    them, or else axes of its grid, in the place of what the study has there."""
    for word in words:
        if not word.sweeps:
            continue
        axes, searched = _mapping(tree, AXES), _mapping(tree, SEARCHED)
        if axes is None or searched is None:
            return  # the schema refuses them
        if (word.spans and not word.chooses) or word.key in searched:
            axes.pop(word.key, None)
            searched[word.key] = word.parameter()
        else:
            axes[word.key] = word.values()


def _mapping(tree: Any, place: str) -> MutableMapping[str, Any] | None:
    """The mapping at a dotted key, made where there is nothing; None where there is another."""
    for name in place.split("."):
        if not isinstance(tree, MutableMapping):
            return None
        if tree.get(name) is None:
            tree[name] = {}
        tree = tree[name]
    return tree if isinstance(tree, MutableMapping) else None
