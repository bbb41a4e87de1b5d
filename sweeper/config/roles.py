"""The roles of a study's axes: decisions and scenarios.

A *decision* can be built or run: a network, a chip, a plan.  A *scenario* is a condition for a
design: a model, a batch, a price, a budget.  Designs compete within a scenario, never over
several: the shortest time of three models is not an answer.  Scenarios count equally, unless values
of their axes have weights.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dimsweep.engine import DimsweepError, suggest_names
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.part import naming_key

# Roles by the beginning of a key; the longest match counts. Other keys are decisions.
_DEFAULT_ROLES = {
    "workload": Role.SCENARIO,
    "workload.parallel": Role.DECISION,
    "workload.plan": Role.DECISION,
    "workload.plan.batch": Role.SCENARIO,
    "workload.plan.micro_batches": Role.SCENARIO,
    "workload.plan.task": Role.SCENARIO,
    "cost": Role.SCENARIO,
    "profile": Role.SCENARIO,
    "fidelity": Role.SCENARIO,
    "network.degrade": Role.SCENARIO,  # what breaks
    "space": Role.SCENARIO,  # what may be spent
    # Assumptions on a chip's speed in practice; the choice of the chip is a decision.
    **{
        f"npu.{name}": Role.SCENARIO
        for name in (
            *("efficiency", "memory_efficiency", "matmul_efficiency", "launch", "host"),
            *("measured", "attention_time", "attention_backward", "relative_time", "overlap"),
        )
    },
}


def default_role(axis: str) -> Role:
    """Return the role of a key or config group to which the study gives none."""
    parts = axis.split(".")
    starts = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next(
        (_DEFAULT_ROLES[start] for start in starts if start in _DEFAULT_ROLES), Role.DECISION
    )


def format_value(value: Any) -> str:
    """Format a value of an axis as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {format_value(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value):
        return "; ".join(map(format_value, value))
    if value == []:
        return "none"  # such as what is degraded
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_weights(config: Config, axes: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, float]]:
    """Return the weight of each value of each scenario with weights, by axis, from ``roles``.

    Raises :class:`DimsweepError` for weights of other values, for missing weights, and for weights
    of the workloads of a portfolio, which has separate weights.
    """
    found = {name: own for name, own in config.roles.items() if isinstance(own, Mapping)}
    for name, weights in found.items():
        where = f"roles.{name}"
        if name not in config.grid:
            raise DimsweepError(
                "a portfolio has separate weights",
                where=where,
                hint="give them in portfolio.workloads",
                code="conflict",
            )
        values = [format_value(value) for value in axes[name]]
        for value in weights:
            if value not in values:
                raise DimsweepError(
                    f"the axis has no value {value!r}",
                    where=where,
                    hint=suggest_names(value, values),
                    code="unknown-name",
                )
        if missing := [value for value in values if value not in weights]:
            raise DimsweepError(
                f"no weight is given for {', '.join(missing)}",
                where=where,
                hint="a weight of 0 excludes a value",
                code="missing",
            )
    return found


def is_plan_key(axis: str) -> bool:
    """Return whether a key belongs to the parallel plan."""
    return axis.startswith(("workload.parallel", "workload.plan"))


def resolve_roles(config: Config, axes: Iterable[str]) -> dict[str, Role]:
    """Return the role of each of a study's ``axes``, and of each key that the study searches.

    Raises :class:`DimsweepError` for a role of another key, and for a searched key that is a
    scenario: a search would choose the easiest one.
    """
    given, searched = config.roles, list(config.space.parameters)
    known = dict.fromkeys([*axes, *searched])
    for name in given:
        if name not in known:
            raise DimsweepError(
                f"this study has no axis {name}",
                where=f"roles.{name}",
                hint=suggest_names(name, known) if known else "the study has no grid",
                code="unknown-name",
            )
    roles = {
        name: Role.SCENARIO if isinstance(role, Mapping) else role
        for name in known
        for role in (given.get(name, default_role(name)),)
    }
    for name in searched:
        if roles[name] is Role.SCENARIO:
            with naming_key(f"space.parameters.{name}"):
                config.value(name)  # first refuse an unknown key
            raise DimsweepError(
                f"{name} is a scenario, and a search would choose the easiest one",
                where=f"space.parameters.{name}",
                hint=f"make it an axis of the grid, or declare it a decision: "
                f"roles: {{{name}: decision}}",
                code="conflict",
            )
    return roles
