"""Parts of machines that are unlike: one's network, another's chips, a third one's prices."""

from collections.abc import Collection, Iterator

from dimsweep.sweeper.config.compose import CLUSTER, Composed, parts_of
from dimsweep.sweeper.config.options import read_options
from dimsweep.sweeper.places import find_option, groups


def unlike_parts(composed: Composed, *, priced: bool) -> list[str]:
    """Told where no machine has the network, the NPU and the prices of a configuration, by the
    machines that each part's own file names; a part that names none suits any.
    Prices count where the network is ``priced``."""
    config = composed.config
    machines = {
        "topology": config.topology.machines,
        "npu": config.npu.machines,
        "cost": config.cost.machines,
    }
    pairs = [("topology", "npu")]
    if priced:
        pairs.append(("topology", "cost"))
    if priced and config.cost.npu_price:  # a price list of networks says nothing of an NPU
        pairs.append(("npu", "cost"))
    apart = [pair for pair in pairs if _apart(*pair, machines)]
    wrong = [group for group in machines if any(group in pair for pair in apart)]
    if not wrong:
        return []
    named = ", ".join(
        f"{group}={composed.choices.get(group)} of {' or '.join(machines[group])}"
        for group in wrong
    )
    return [f"these parts are of different machines: {named}{_remedy(wrong, machines[wrong[0]])}"]


def _apart(one: str, other: str, machines: dict[str, tuple[str, ...]]) -> bool:
    both = machines[one], machines[other]
    return all(both) and not set(both[0]) & set(both[1])


def _remedy(wrong: list[str], machines: Collection[str]) -> str:
    """What would set the parts alike, for the machine of the first one."""
    for name, parts in _clusters():
        if set(machines) & set(_machines("topology", parts["topology"])):
            others = " ".join(f"{group}={parts[group]}" for group in wrong[1:])
            return f"; cluster={name} sets all parts together, {others} these alone"
    return ""


def _clusters() -> Iterator[tuple[str, dict[str, str]]]:
    for name in groups()[CLUSTER]:
        if parts := parts_of(find_option(CLUSTER, name)):
            yield name, parts


def _machines(group: str, name: str) -> Collection[str]:
    file = find_option(group, name)
    return () if file is None else read_options(file).node.get("machines") or ()
